"""Counters compared with a recount, in one snapshot, while tasks move."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.findings import Finding, Goal
from benchmarks.load import clients
from benchmarks.load.clients import Clients, Load
from benchmarks.stage import Bench, Stage
from taskq.db.connections import Database
from taskq.model.errors import TaskqError
from taskq.planning.trial import CAMPAIGN, sample_seeds
from taskq_agent.protocol import DONE, FAILED, RELEASED

LOAD: Final = Load(2, 4, 3, CAMPAIGN, (DONE, DONE, FAILED, DONE, RELEASED, DONE, DONE))
WAITING: Final = 2_000
CANCELLED: Final = 20
LEAST_S: Final = 1.0
"""Long enough for some late commits."""

LATE_S: Final = 0.2
LATE_TASKS: Final = 5


def exact(bench: Bench) -> Iterator[Finding]:
    """Recount tasks that are done, failed, released, cancelled and seeded meanwhile.

    One more client leaves each of its exchanges uncommitted for a while.
    """
    checks = differing = 0
    with bench.stage() as stage, stage.kept():
        campaign = stage.client.campaign(CAMPAIGN)
        stage.seed(WAITING)
        with Clients(stage.database, LOAD) as clients, _commits_late(stage.database):
            end = time.monotonic() + max(LEAST_S, bench.scale.seconds * bench.scale.rounds)
            while time.monotonic() < end:
                # Far more often than a keeper does: what commits late must not fall between.
                rest = "0" if checks % 2 else "20 s"  # into the counters, and into sums
                stage.database.execute("benchmarks.sql/fold", rest=rest)
                differing += not _agree(stage, campaign.campaign_id)
                checks += 1
                if campaign.status().waiting < WAITING:
                    more = list(sample_seeds(WAITING))
                    campaign.seed(more)
                    campaign.cancel(str(task.key) for task in more[:CANCELLED])
                clients.check()
    yield Finding(
        "snapshots in which the counts differ from a recount",
        differing,
        "",
        goal=Goal(0, "most", timed=False),
        note=f"of {checks:,}",
    )


def _agree(stage: Stage, campaign: int) -> bool:
    with stage.database.transaction() as statements:
        statements.execute("benchmarks.sql/repeatable_read")
        (counted,) = statements.rows("counts", path=CAMPAIGN, depth=0)
        (found,) = statements.rows("benchmarks.sql/recount", campaign=campaign)
    return all(counted[name] == number for name, number in found.items())


@contextmanager
def _commits_late(database: Database) -> Iterator[None]:
    """Let somebody claim and complete during the block who takes long to commit."""
    stop = threading.Event()
    trouble: list[TaskqError] = []

    def dawdle() -> None:
        try:
            with clients.session(database, CAMPAIGN) as (_, session):
                while not stop.is_set():
                    lease = str(uuid.uuid4())
                    with database.transaction() as statements:
                        tasks = statements.rows(
                            "benchmarks.sql/claim",
                            path=CAMPAIGN,
                            session=session,
                            lease=lease,
                            want=LATE_TASKS,
                        )
                        stop.wait(LATE_S)
                    with database.transaction() as statements:
                        for task in tasks:
                            statements.value(
                                "benchmarks.sql/complete",
                                path=CAMPAIGN,
                                task=task["task_id"],
                                lease=lease,
                            )
                        stop.wait(LATE_S)
        except TaskqError as error:
            trouble.append(error)

    thread = threading.Thread(target=dawdle)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    for error in trouble:
        raise error
