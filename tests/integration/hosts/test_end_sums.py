"""How attempts ended, by campaign, host and time: exact sums, and bounded."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from taskq import CampaignSpec, Client, NotFound
from taskq.db.connections import Database
from taskq.diagnosis.ends import EndSum, read_ends
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import Postgres
from tests.helpers.usage import sum_up

#: As `add_end_sums.sql` says.
MOST_SORTS, MOST_ROWS = 24, 5_000
MINUTES = timedelta(minutes=10)
NOON = datetime(2026, 11, 29, 12, tzinfo=timezone.utc)


def kinds(sums: list[EndSum]) -> dict[tuple[str | None, str, str], int]:
    """Return the numbers of attempts by host, outcome and sort."""
    return {(it.host, it.outcome, it.sort): it.attempts for it in sums}


def add(postgres: Postgres, campaign: int, since: datetime, hosts: int, sorts: int) -> None:
    """Add attempts of so many hosts, each with so many classes of error."""
    postgres.execute(
        "select taskq.add_end_sums('10 min', array("
        "    select (%s, '10 min', %s, 'h' || h, '', '', 'failed', 'E' || e, 2, 2000, 2000, 0, 0,"
        "            0, 0, 0, 1, 2, %s, %s)::taskq.end_sum"
        "      from generate_series(1, %s) h, generate_series(1, %s) e))",
        [since, campaign, since, since, hosts, sorts],
    )


def test_ends_are_kept_apart_by_host_class_and_shape_of_result(
    queue: Client, hire: Hire, database: Database, postgres: Postgres
) -> None:
    """A success has the shape of what ranks it, any other end its class of error."""
    spec = CampaignSpec("/c", handler=TRUE, best="lowest result.score")
    queue.create_campaign(spec).seed([{"n": n} for n in range(12)])
    results: list[Any] = [{"score": 2}, {"score": 4.0}, {"score": None}, {"score": "x"}]
    results += [
        {"score": "NaN"},
        {"other": 1},
        None,
        {"score": 1, "x": random.Random(1).randbytes(20_000).hex()},
    ]
    agent, other = hire(host="n1", slots=12), hire(host="n2", slots=12)
    for result, task in zip(results, agent.claim_singly(len(results)), strict=True):
        agent.report(task, DONE, result=result, phases={"run_s": 0})
    for task in other.claim_singly(2):
        other.report(task, FAILED, error_class="Odd")
    (task,) = other.claim_singly(1)
    other.report(task, RELEASED, error_class="gone", refused=True)
    sum_up(postgres)
    found = read_ends(database, "/", ["host"])
    shapes = Counter(["number", "number", "null", "text", "NaN", "missing", "none", "large"])
    assert kinds(found) == {
        **{("n1", "done", shape): number for shape, number in shapes.items()},
        ("n2", "failed", "Odd"): 2,
        ("n2", "refused", "gone"): 1,
    }
    (it,) = [it for it in found if it.sort == "number"]
    assert (it.numbers, it.number_sum, it.number_squares) == (2, 6.0, 20.0)
    assert it.first_task is not None
    assert it.first_task + 1 == it.last_task
    assert list(queue.audit()) == []


def test_campaigns_times_and_releases_are_kept_apart_on_request(
    queue: Client, hire: Hire, database: Database, postgres: Postgres
) -> None:
    """What nobody asks for is None; sums below a path are those of the campaigns there."""
    for path in ("/a", "/a/b", "/c"):
        queue.create_campaign(CampaignSpec(path, handler=TRUE)).seed([{"n": 1}])
        agent = hire(path)
        agent.done(agent.claim()[0])
    sum_up(postgres)
    (both,) = read_ends(database, "/a", [])
    assert (both.attempts, both.campaign, both.host, both.starts) == (2, None, None, None)
    assert {it.campaign for it in read_ends(database, "/", ["campaign"])} == {"/a", "/a/b", "/c"}
    (own,) = read_ends(database, "/c", ["time", "release", "site"])
    assert (own.release, own.site) == ("0", "here")
    assert own.starts is not None
    assert own.first_at is not None
    assert own.starts <= own.first_at < own.starts + MINUTES
    assert read_ends(database, "/c", [], own.first_at + MINUTES) == []
    with pytest.raises(NotFound):
        read_ends(database, "/d", [])


def test_hosts_that_agents_invent_are_bounded(
    queue: Client, database: Database, postgres: Postgres
) -> None:
    """Beyond 5,000 rows in ten minutes they count without a host; nothing is lost."""
    campaign = queue.create_campaign("/c").campaign_id
    for hosts in (3_000, 6_000, 6_000):
        add(postgres, campaign, NOON, hosts, 1)
    found = read_ends(database, "/c", ["host"])
    hosts = {it.host: it.attempts for it in found}
    assert sum(hosts.values()) == 2 * 15_000
    assert len(found) <= MOST_ROWS + 1
    assert hosts["h1"] == 6
    assert hosts[""] >= 4 * (6_000 - MOST_ROWS)


def test_classes_that_programs_invent_are_bounded(
    queue: Client, database: Database, postgres: Postgres
) -> None:
    """Beyond 24 in ten minutes they count as other; those that are known keep their name."""
    campaign = queue.create_campaign("/c").campaign_id
    for sorts in (10, 40, 40):
        add(postgres, campaign, NOON, 1, sorts)
    sorts = {it.sort: it.attempts for it in read_ends(database, "/c", [])}
    assert sum(sorts.values()) == 2 * 90
    assert len(sorts) <= MOST_SORTS
    assert sorts["E1"] == 6
    assert sorts["other"] >= 4 * (40 - MOST_SORTS)


def test_times_of_ten_minutes_become_hours_and_hours_go(
    queue: Client, database: Database, postgres: Postgres
) -> None:
    """After a day, and after a week; the sums of an hour have all of it."""
    campaign = queue.create_campaign("/c").campaign_id
    for number in range(7):
        add(postgres, campaign, NOON + number * MINUTES, 3, 2)
    found = []
    for days in (0, 2, 8):
        postgres.execute("select taskq.thin_end_sums(%s)", [NOON + timedelta(days=days)])
        sums = read_ends(database, "/c", ["time", "host"])
        found.append((len(sums), sum(it.attempts for it in sums)))
    assert found == [(42, 84), (12, 84), (0, 0)]
