"""Cost of `status`, `ls`, `tree` and the choice of a campaign: it grows with what is asked for.

Statistics of campaigns, counters and deltas are out of date most of the time too: plans are looked
at with none, with those of an empty queue and with true ones, next to many other campaigns.
"""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import LiteralString

from taskq import Client
from taskq.db.catalogue import statement
from tests.helpers.plans import ExecutedPlans, watched
from tests.helpers.postgres import Postgres
from tests.helpers.variants import rest_thorough

TABLES = ("campaign", "counter", "subtotal", "delta", "task", "spec", "attempt")
WAYS = {
    "campaign by campaign_path_key",
    "campaign by campaign_pkey",
    "campaign by campaign_closed",
    "campaign by campaign_parent",
    "campaign by campaign_owner",
    "counter by counter_pkey",
    "subtotal by subtotal_pkey",
    "delta by delta_xid",
}

QUESTIONS = {
    "status": "select * from taskq.counts('/a', 0)",
    "ls": "select * from taskq.counts('/a', 1)",
    "tree": "select * from taskq.counts('/a', null)",
    "servable": "select * from taskq.servable('/a', null, '{}', 3)",
}

#: Statements that ask for what is unfinished, or for the sums of a tree.
OF_UNFINISHED = {
    "status": ("select * from taskq.counts('/', 0)", {}),
    "left over": ("select * from taskq.left_over('/', '{}')", {}),
    "servable": ("select * from taskq.servable('/', null, '{}', 3)", {}),
    "claimable": (
        """select * from taskq.claimable('[{"path": "/", "lifetime_s": null, "offers": []}]')""",
        {},
    ),
    "standstill": (statement("standstill"), {"path": "/"}),
    "paces": (statement("paces"), {"path": "/"}),
    "sharing_campaigns": ("select * from taskq.sharing_campaigns('/', 100)", {}),
}

GROW = """
    with top as (
        select * from taskq.campaign where path = %(top)s
    ), new as (
        insert into taskq.campaign (parent_id, path, lineage, handler)
        select t.campaign_id, format('%%s%%s', %(prefix)s::text, n), t.lineage,
               '{"kind": "command", "argv": ["true"]}'
          from top t, generate_series(1, %(count)s) n
     returning campaign_id
    ), counted as (
        insert into taskq.counter (campaign_id, waiting) select campaign_id, %(waiting)s from new
    )
    insert into taskq.delta (campaign_id, working) select campaign_id, 1 from new limit %(moved)s
"""

TRENDS = """
    insert into taskq.trend (
           campaign_id, minute, done, failed, failures, unfinished, working, agents)
    select c.campaign_id, (extract(epoch from clock_timestamp()) / 60)::integer - m,
           9 - m, 0, 0, 9, 1, 1
      from taskq.campaign c, generate_series(1, 5) m
        on conflict do nothing
"""


def grow(
    postgres: Postgres, top: str, prefix: str, count: int, *, waiting: int = 9, moved: int = 50
) -> None:
    """Add campaigns with tasks, some with moves that are not folded."""
    values = {"top": top, "prefix": prefix, "count": count, "waiting": waiting, "moved": moved}
    postgres.execute(GROW, values)
    postgres.execute(
        "update taskq.campaign c set lineage = p.lineage || c.campaign_id from taskq.campaign p"
        " where p.campaign_id = c.parent_id and cardinality(c.lineage) = cardinality(p.lineage)"
    )


@pytest.mark.parametrize("statistics", rest_thorough(["absent", "cached", "true", "empty"], 2))
def test_questions_touch_no_campaign_elsewhere(
    statistics: str, queue: Client, postgres: Postgres
) -> None:
    """Neither those next to it, nor those whose names begin alike; no table is read as a whole."""
    queue.create_campaign("/a")
    queue.create_campaign("/b")
    if statistics == "empty":
        postgres.execute("analyze")
    if statistics == "cached":
        for question in QUESTIONS.values():
            for _ in range(6):
                postgres.execute(question)
    grow(postgres, "/a", "/a/", 200)
    postgres.execute("select taskq.fold('0')")
    grow(postgres, "/b", "/b/", 1_500)
    grow(postgres, "/", "/a-", 1_500)
    if statistics == "true":
        postgres.execute("analyze")

    for name, question in QUESTIONS.items():
        seen = asked(postgres, question)
        assert seen.access_paths <= WAYS, name
        asked_about = [access.rows for access in seen.accesses if access.table != "delta"]
        assert max(asked_about) <= 201, name
        assert sum(access.rows for access in seen.accesses if access.table == "delta") <= 100, name
        # 3,000 campaigns elsewhere would add thousands; reading the catalogues anew, some hundreds.
        assert seen.buffers <= 3_000, name


@pytest.mark.parametrize("statistics", rest_thorough(["absent", "true"], 1))
def test_ended_campaigns_add_nothing_to_what_unfinished_ones_cost(
    statistics: str, queue: Client, postgres: Postgres
) -> None:
    """Of the campaigns that a queue has had in years, nearly all have ended."""
    queue.create_campaign("/a")
    queue.create_campaign("/old")
    grow(postgres, "/a", "/a/", 20)
    postgres.execute(TRENDS)
    if statistics == "true":
        postgres.execute("analyze")
    few = {name: least_asked(postgres, *asking) for name, asking in OF_UNFINISHED.items()}
    grow(postgres, "/old", "/old/", 3_000, waiting=0, moved=0)
    postgres.execute(TRENDS)
    if statistics == "true":
        postgres.execute("analyze")
    for name, asking in OF_UNFINISHED.items():
        seen = least_asked(postgres, *asking)
        assert seen.rows_met <= 1.5 * few[name].rows_met, name
        # The rows decide; a page is met more often than once, and not as often each time.
        assert seen.buffers <= 3 * few[name].buffers, name
        assert seen.access_paths <= few[name].access_paths, name


def test_work_grows_no_faster_than_the_campaigns_asked_about(
    queue: Client, postgres: Postgres
) -> None:
    """Ten times the campaigns and deltas are ten times the rows, in joins too, not a hundred."""
    queue.create_campaign("/a")
    postgres.execute("vacuum analyze taskq.delta")  # it looks as if there were hardly any
    few = rows_met(postgres, "/a/", 50)
    many = rows_met(postgres, "/a/x", 450)
    assert {name: many[name] <= 11 * few[name] for name in few} == dict.fromkeys(few, True)


@pytest.mark.parametrize("statistics", ["absent", "true"])
def test_owners_go_through_the_deltas_once(
    statistics: str, queue: Client, postgres: Postgres
) -> None:
    """However many they are; and find each campaign by its key."""
    queue.create_campaign("/a")
    postgres.execute("select taskq.fold('0')")
    grow(postgres, "/a", "/a/", 200)
    postgres.execute(
        "update taskq.campaign c set owner = right(path, 2), running_quota = 5"
        " where path like '/a/%'"
    )
    if statistics == "true":
        postgres.execute("analyze")
    for question in ("select * from taskq.owners('/')", QUESTIONS["servable"]):
        seen = asked(postgres, question)
        assert seen.access_paths <= WAYS
        assert sum(access.rows for access in seen.accesses if access.table == "delta") <= 50
        # Once to see how many there are, by the index alone.
        assert sum(access.rows for access in seen.accesses if access.table == "campaign") <= 4 * 202


def least_asked(postgres: Postgres, text: LiteralString, values: dict[str, Any]) -> ExecutedPlans:
    """Return what a statement has touched, without what reading the catalogues anew adds."""
    found = []
    for _ in range(4):
        with watched(postgres) as seen:
            assert postgres.execute(text, values).fetchall() != []
        found.append(seen)
    return min(found, key=lambda seen: seen.buffers)


def rows_met(postgres: Postgres, prefix: str, count: int) -> dict[str, float]:
    """Add campaigns; return how many rows the plan of each question meets."""
    grow(postgres, "/a", prefix, count)
    return {name: asked(postgres, question).rows_met for name, question in QUESTIONS.items()}


def asked(postgres: Postgres, question: str) -> ExecutedPlans:
    """Return what a question has touched."""
    postgres.execute(question)  # planning reads the catalogues
    with watched(postgres) as seen:
        assert postgres.execute(question).fetchall() != []
    found = seen.to(*TABLES)
    assert found.accesses
    return found
