"""Rows and pages that an exchange touches, with few tasks and with many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from benchmarks.findings import Finding, Goal, Ratio
from benchmarks.load import clients
from benchmarks.load.clients import RESULT, Load
from benchmarks.stage import Bench, Stage
from taskq.db.connections import Database, Row, Statements
from taskq.model.errors import Unavailable
from taskq.planning.trial import CAMPAIGN
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import DONE, Report, Request

EXCHANGES: Final = 50
MANY: Final = 100
"""Times the few."""

OF_TASKS: Final = ("task", "span", "bundle", "spec", "attempt")
GONE_S: Final = 10.0
LIFE: Final = Load(1, 1, 100, CAMPAIGN)


@dataclass(frozen=True, slots=True)
class _Touched:
    """Per exchange that reports one task and claims the next.

    rewritten: rows of tasks; moved: of spans; recorded: attempts; counted: deltas. Of the tables of
    tasks, spans, bundles, specs and attempts: scans: how often one was read as a whole; reached:
    rows that were looked up; pages.
    """

    rewritten: float
    moved: float
    recorded: float
    counted: float
    scans: float
    reached: float
    pages: float


def rows(bench: Bench) -> Iterator[Finding]:
    """Count the rows and pages that an exchange touches, next to few tasks and 100 times as many.

    Rows do not depend on the machine, so these goals hold on a busy one as well. Where still fewer
    wait, spans are so short that each exchange may begin another one.
    """
    few = max(bench.scale.few, 1_000)
    many = few * MANY
    base = _measured(bench, lambda _: None, few)
    yield from _exactly(base)
    backlog = _measured(bench, lambda _: None, many)
    yield from _no_more(backlog, f"{many:,} tasks waiting", base, f"{few:,} waiting")

    def live(stage: Stage) -> None:
        stage.seed(many)
        stage.finish(LIFE, many)

    yield from _no_more(_measured(bench, live, few), f"{many:,} tasks finished", base, "none")


def _exactly(base: _Touched) -> Iterator[Finding]:
    for what, figure, bound in (
        ("rows of tasks written by an exchange (a report, a claim)", base.rewritten, 2),
        # The span moves on; one that has come to its end is removed later.
        ("rows of spans written by it", base.moved, 1.5),
        ("attempts written by it", base.recorded, 1),
        # One exchange in 1,024 folds, which writes one more.
        ("rows of counts written by it", base.counted, 1.1),
        ("tables read as a whole by it", base.scans, 0),
    ):
        yield Finding(what, figure, "", goal=Goal(bound, "most", timed=False))


def _no_more(large: _Touched, standing: str, base: _Touched, compared: str) -> Iterator[Finding]:
    for what, figure, limit, bound in (
        ("rows looked up", large.reached, base.reached, 1.05),
        # Indexes on more tasks are deeper.
        ("pages touched", large.pages, base.pages, 1.5),
    ):
        share = figure / limit
        yield Finding(
            f"{what} by an exchange, {standing}",
            figure,
            "",
            compared,
            limit,
            Ratio(share, share, share),
            Goal(bound, "most", timed=False),
        )


def _measured(bench: Bench, prepare: Callable[[Stage], None], waiting: int) -> _Touched:
    with bench.server.scratch() as database:
        with closing(Database(database.dsn).open()) as door:
            stage = Stage(door, bench.tell)
            prepare(stage)
            stage.top_up(waiting + EXCHANGES + 1)
            stage.settle()
        with closing(database.dedicated_connection()) as line, line.connected() as statements:
            before = _so_far(statements)
            _exchange(Database(database.dsn))
            after = _so_far(statements)

    def of(column: str, *tables: str) -> float:
        return (
            float(sum(after[table][column] - before[table][column] for table in tables)) / EXCHANGES
        )

    return _Touched(
        rewritten=of("updated", "task") + of("inserted", "task") + of("deleted", "task"),
        moved=of("updated", "span") + of("deleted", "span"),
        recorded=of("inserted", "attempt"),
        # The first claim is an exchange without a report, and the last report one without a claim.
        counted=of("inserted", "delta") * EXCHANGES / (EXCHANGES + 1),
        scans=of("scans", *OF_TASKS),
        reached=of("reached", *OF_TASKS),
        pages=of("pages", *OF_TASKS),
    )


def _exchange(database: Database) -> None:
    """Claim a task, report it and claim the next, and so on; report the last."""
    with clients.session(database, CAMPAIGN) as (transport, session):
        lease_ids = LeaseIds()
        answer = transport.exchange(Request(session, want=1, lease=lease_ids()))
        for left in reversed(range(EXCHANGES)):
            (task,) = answer.tasks
            report = Report(task.campaign, task.task, task.lease, DONE, result=RESULT)
            answer = transport.exchange(
                Request(session, reports=(report,), want=min(left, 1), lease=lease_ids())
            )


def _so_far(statements: Statements) -> dict[str, Row]:
    """Return what has happened to each table, once all who did it have gone.

    Each process of the server tells what it has done when it ends, at the latest.
    """
    deadline = time.monotonic() + GONE_S
    while statements.value("benchmarks.sql/others"):
        if time.monotonic() > deadline:
            raise Unavailable("somebody else is connected to the scratch database")
        time.sleep(0.01)
    return {row["name"]: row for row in statements.rows("benchmarks.sql/touched")}
