"""Cost of statements about one campaign: it does not depend on the size of the others.

A campaign that was seeded since the last ANALYZE has, for the planner, one task. So each statement
that names a campaign is looked at next to a larger one that statistics know, when they do not know
this one, and with statistics that are true, of an empty queue, or missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Client
from taskq.db.catalogue import all_statements, statement
from tests.fixtures.queues import Hire
from tests.helpers.campaign_statements import PAGE, Case, Scene
from tests.helpers.plans import ExecutedPlans, watched
from tests.helpers.postgres import Postgres
from tests.helpers.variants import rest_thorough

#: What tells a statement of which campaigns it is.
NAMING = {
    "campaign",
    "campaigns",
    "path",
    "paths",
    "scope",
    "servings",
    "beats",
    "updates",
    "hellos",
}
TABLES = ("task", "spec", "attempt", "session")


def shipped() -> set[str]:
    """Return the names of the statements that name a campaign."""
    known = all_statements().values()
    return {query.name for query in known if not NAMING.isdisjoint(query.parameters)}


@pytest.fixture
def scene(queue: Client, postgres: Postgres) -> Scene:
    """Give the scene without tasks yet."""
    return Scene(queue, postgres)


@pytest.fixture
def connection(dsn: str) -> Iterator[Postgres]:
    """Give a connection that prepares each statement at its first time."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as opened:
        opened.prepare_threshold = 0
        yield opened


def test_each_statement_that_names_a_campaign_has_a_case(
    queue: Client, postgres: Postgres, hire: Hire
) -> None:
    """Anyone who adds one says here what it may cost."""
    scene = Scene(queue, postgres)
    scene.fill("none")
    assert scene.cases(hire("/new").session).keys() == shipped()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("statistics", "plans"),
    rest_thorough(
        [
            *((name, "auto") for name in ("without it", "of small ones", "true", "empty", "none")),
            *((name, "force_generic_plan") for name in ("without it", "of small ones")),
        ],
        2,
    ),
)
def test_statement_about_a_campaign_reads_no_other(
    statistics: str, plans: str, scene: Scene, connection: Postgres, hire: Hire
) -> None:
    """By key only, and in steps that are bounded by what it is about, joins included.

    without it     analysed when the campaign was not there yet: the ordinary case
    of small ones  analysed when there were only campaigns of one task each
    auto           PostgreSQL may plan for these values; else it plans once for all
    """
    scene.fill(statistics)
    connection.execute(f"set plan_cache_mode = {plans}".encode())
    wrong: list[object] = []
    for name, cases in scene.cases(hire("/new").session).items():
        for case in cases:
            seen = asked(connection, name, case)
            ways = {way for way in seen.access_paths if way.endswith(" by None") or " and " in way}
            widest = seen.widest
            if ways - {"session by None"} or (widest is not None and widest.rows > case.rows):
                wrong.append((name, ways, widest and (widest.table, widest.index, widest.rows)))
            # A join of two that is not by key meets their product.
            if seen.rows_met > 40 * case.rows + 3_000:
                wrong.append((name, seen.rows_met))
    assert wrong == [], "\n".join(map(str, wrong))


def test_sample_is_looked_up_once(scene: Scene, connection: Postgres) -> None:
    """Results come with their attempts; hosts are looked up of tasks that failed only."""
    scene.fill("true")
    rows = Counter[tuple[str, str]]()
    for name in ("latest_results", "failing_tasks"):
        for access in asked(connection, name, Case(PAGE, {"path": "/new", "most": PAGE})).accesses:
            rows[name, access.table] += int(access.rows)
    assert rows["latest_results", "attempt"] == rows["failing_tasks", "attempt"] == PAGE
    assert rows["failing_tasks", "session"] <= PAGE // 3 + 1


def asked(connection: Postgres, name: str, case: Case) -> ExecutedPlans:
    """Return what a statement has touched; whatever it does is undone."""
    for _ in range(2):  # planning reads the catalogues
        run(connection, name, case)
    with watched(connection) as seen:
        run(connection, name, case)
    return seen.to(*TABLES)


def run(connection: Postgres, name: str, case: Case) -> None:
    """Run a statement after those that it needs."""
    try:
        with connection.transaction(force_rollback=True):
            for before, values in case.after:
                connection.execute(statement(before), values)
            connection.execute(statement(name), case.values).fetchall()
    except psycopg.Error as error:
        # One of ours: no such token, no such blob.
        if not (error.sqlstate or "").startswith("TQ"):
            raise AssertionError(f"{name}: {error}") from error
