"""Reports on attempts of several campaigns, in one statement."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from taskq import Campaign, Client, RetryPolicy
from taskq.db.catalogue import statement
from taskq.db.connections import Database
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, assert_counts_are_true
from tests.helpers.scripted_agent import ScriptedAgent, report_of

MADE_UP = 10**12


def settle(
    connection: psycopg.Connection[DictRow], campaigns: list[int], reports: list[dict[str, Any]]
) -> list[str]:
    """Report; return the verdicts."""
    values = {"campaigns": campaigns, "reports": json.dumps(reports)}
    row = connection.execute(statement("settle_many"), values).fetchone()
    assert row is not None
    return list(row["acks"])


@pytest.fixture
def connection(dsn: str) -> Any:
    """Give a connection of its own."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as connection:
        yield connection


def made_up(count: int, session: int) -> list[dict[str, Any]]:
    """Return reports on attempts that never were."""
    return [
        {"task": n, "lease": str(uuid.uuid4()), "outcome": "done", "session": session}
        for n in range(count)
    ]


def test_campaigns_that_are_none_cost_a_look_up_each(
    campaign: Campaign, hire: Hire, connection: psycopg.Connection[DictRow]
) -> None:
    """No exchange is done for any of them, nor for one in which only others have tasks."""
    campaign.seed({"n": n} for n in range(3))
    owner, stranger = hire(), hire()
    (task,) = owner.claim(1)
    reports = made_up(50, stranger.session)
    reports.append(report_of(task, "done") | {"session": stranger.session})
    campaigns = [*range(MADE_UP, MADE_UP + 50), campaign.campaign_id]
    for _ in range(2):  # planning reads the catalogues
        assert settle(connection, campaigns, reports) == ["unknown"] * 51
    with watched(connection) as seen:
        assert settle(connection, campaigns, reports) == ["unknown"] * 51
    assert seen.to("task").access_paths == {"task by task_pkey"}
    assert not seen.to("campaign").access_paths
    assert owner.done(task) == "accepted"


def test_each_report_gets_the_verdict_that_it_gets_alone(
    queue: Client,
    campaign: Campaign,
    hire: Hire,
    database: Database,
    postgres: Postgres,
    connection: psycopg.Connection[DictRow],
) -> None:
    """In the order of the reports, whatever that of their campaigns."""
    other = servable(queue, "/other")
    for served in (campaign, other):
        served.seed({"n": n} for n in range(3))
    here, there = hire(), ScriptedAgent(database, "/other")
    mine, theirs = here.claim(2), there.claim(2)
    there.close()
    reports = [
        report_of(theirs[0], "done"),
        report_of(mine[0], "failed", error_class="Boom"),
        report_of(mine[1], "done"),
        report_of(theirs[0], "failed"),
        report_of(theirs[1], "released", started=False),
        report_of(mine[1], "done"),
    ]
    campaigns = [
        served.campaign_id for served in (other, campaign, campaign, other, other, campaign)
    ]
    verdicts = ["accepted", "accepted", "accepted", "superseded", "accepted", "duplicate"]
    assert settle(connection, campaigns, reports) == verdicts
    again = ["duplicate", "duplicate", "duplicate", "superseded", "superseded", "duplicate"]
    assert settle(connection, campaigns, reports) == again
    assert (campaign.status().done, other.status().done, other.status().waiting) == (1, 1, 2)
    assert_counts_are_true(postgres)


def test_failures_and_refusals_of_several_campaigns_count_as_those_of_one(
    queue: Client, campaign: Campaign, postgres: Postgres, hire: Hire
) -> None:
    """First failures, hosts to be avoided and refusals are noted as by an exchange."""
    campaigns = [campaign, *(queue.create_campaign(f"/c{number}") for number in (1, 2))]
    together, alone = [], []
    for served in campaigns:
        served.change(replace(served.spec(), retry=RetryPolicy(max_attempts=2, backoff_s=0)))
        served.seed({"n": n} for n in range(4))
        agent = hire(served.path, host="bad")
        outcomes = ("failed", "failed", "released", "done")
        reports = [
            report_of(task, outcome, error_class="Boom")
            | ({"refused": True} if outcome == "released" else {})
            for task, outcome in zip(agent.claim(4), outcomes, strict=True)
        ]
        if served is campaigns[0]:
            assert agent.exchange(reports)["acks"] == ["accepted"] * 4
            alone = noted(postgres, served)
        else:
            together += [(served.campaign_id, report) for report in reports]
    acks = settle(postgres, [number for number, _ in together], [report for _, report in together])
    assert acks == ["accepted"] * 8
    for served in campaigns[1:]:
        assert noted(postgres, served) == alone
    assert [row["first_failures"] for row in alone[:1]] == [2]
    assert [row.get("avoided") for row in alone[1:]] == [1, 1, None, None]
    assert_counts_are_true(postgres)


def noted(postgres: Postgres, campaign: Campaign) -> list[dict[str, Any]]:
    """Return what the queue has noted of a campaign's failures, refusals and tasks."""
    counts = postgres.execute(
        "select sum(n.first_failures) as first_failures, sum(n.failures) as failures,"
        " (select array_agg(r.times) from taskq.refusal r where r.campaign_id = %(campaign)s)"
        " as refused from (select first_failures, failures from taskq.counter"
        " where campaign_id = %(campaign)s union all select first_failures, failures"
        " from taskq.delta where campaign_id = %(campaign)s) n",
        {"campaign": campaign.campaign_id},
    )
    tasks = postgres.execute(
        "select t.status, t.attempt, cardinality(t.avoids) as avoided, t.failures"
        " from taskq.state t where t.campaign_id = %s order by t.task_id",
        [campaign.campaign_id],
    )
    return [*counts.fetchall(), *tasks.fetchall()]


@pytest.mark.parametrize("campaigns", [[1], [1, None], [1, 2, 3]])
def test_each_report_needs_its_campaign(
    campaigns: list[Any], connection: psycopg.Connection[DictRow]
) -> None:
    """Nothing is guessed."""
    with pytest.raises(psycopg.Error) as raised:
        settle(connection, campaigns, made_up(2, 1))
    assert raised.value.sqlstate == "TQ400"
