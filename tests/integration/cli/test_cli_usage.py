"""Core-hours, from the command line and over a gateway."""

from __future__ import annotations

import pytest

from taskq import CampaignSpec, Client
from taskq_agent.protocol import DONE, FAILED
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
from tests.helpers.usage import sum_up


@pytest.fixture
def used(queue: Client, hire: Hire, postgres: Postgres) -> None:
    """Give two campaigns whose attempts ran for hours at two sites."""
    for path, site, hours in (("/a/b", "north", 3), ("/z", "south", 1000)):
        queue.create_campaign(CampaignSpec(path, handler=TRUE)).seed([{"n": 1}, {"n": 2}])
        agent = hire(path, site=site, offers=["cores=2"])
        done, failed = agent.claim_singly(2)
        postgres.execute("update taskq.task set claimed_at = claimed_at - interval '90 d'")
        agent.report(done, DONE, phases={"run_s": hours * 3600})
        agent.report(failed, FAILED, error_class="Odd", phases={"run_s": 1800})
    queue.owners.give("/z", "ada")
    sum_up(postgres)


@pytest.mark.usefixtures("used")
def test_usage_is_a_table_or_records(dsn: str) -> None:
    """A line for each value that is asked for; what was not is not there."""
    taskq = CommandLine(dsn)
    lines = taskq.out("usage", "--per", "owner").splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["OWNER", "ATTEMPTS", "CORE-HOURS", "DONE", "FAILED"],
        ["ada", "2", "2,001", "2,000", "1.00"],
        ["taskq", "2", "7.00", "6.00", "1.00"],
    ]
    assert lines[3].strip().startswith("Attempts that ended until 20")
    by_end = taskq.json("usage", "/a", "--per", "site", "--per", "end", "--since", "1d")
    assert [(row["site"], row["end"], row["core_s"]) for row in by_end] == [
        ("north", "done", 21_600.0),
        ("north", "failed", 3_600.0),
    ]
    assert not {"owner", "campaign", "starts"} & {*by_end[0]}
    code, said = taskq.refused("usage", "--per", "day", "--per", "month")
    assert code == 2
    assert "not both" in said
