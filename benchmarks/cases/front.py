"""Gateways with and without a front, side by side on one queue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.cases.crowds import Crowd
from benchmarks.findings import Finding, Goal
from benchmarks.gateways import RunningGateways, running_gateways, running_keeper
from benchmarks.load.work import LoadWork
from benchmarks.redis import Redis, running_redis
from benchmarks.scale import Scale
from benchmarks.stage import Bench, Stage
from taskq.db.connections import Row
from taskq.planning.trial import CAMPAIGN

WARM_S: Final = 2.0
"""In which the refiller learns what is asked for."""
SLACK_S: Final = 30.0
"""Beyond the deadline of what was leased ahead, until the keeper has found all of it."""
POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Doors:
    """Two gateways of one queue, one of them with a front; the refiller is next to them."""

    redis: Redis
    front: RunningGateways
    plain: RunningGateways


@contextmanager
def doors(bench: Bench, stage: Stage, dsn: str) -> Iterator[Doors]:
    """Start a Redis, a keeper that fills it, and gateways. dsn: by which they reach the queue."""
    stage.database.rows("begin_front", pool_s=bench.scale.pool_s)
    with running_redis() as redis:
        fronted, alone = ("--redis", redis.url), ("--no-keeper",)
        with (
            running_keeper(dsn, bench.folder, fronted),
            running_gateways(dsn, 1, bench.folder, options=(*alone, *fronted)) as front,
            running_gateways(dsn, 1, bench.folder, options=alone) as plain,
        ):
            yield Doors(redis, front, plain)


def crowd_of(stage: Stage, agents: int, scale: Scale, *, windows: int = 1) -> Crowd:
    """Return agents that are watched when the refiller knows what they ask for.

    windows: how many measurements follow each other while they work.
    """
    seconds = windows * scale.seconds
    return Crowd(stage, agents, seconds, warm_s=min(WARM_S, scale.seconds))


def half_saturated(bench: Bench, crowd: Crowd, gateways: RunningGateways, agents: int) -> LoadWork:
    """Return the work of agents that only claim, at a rate that these gateways can serve twice.

    They are due at random and measured from when they were due. What agents can get that ask as
    fast as they can is measured first.
    """
    work = LoadWork(agents, spooled=True)
    # At least one a second: in a short trial on a busy machine none may come.
    most = max(crowd.run(gateways, work).seen.claim_rate, 2.0)
    bench.tell(f"{most:,.0f} claims/s at most without the front")
    return LoadWork(agents, rate=most / 2, random=True, spooled=True)


def table_is_true(bench: Bench, stage: Stage, crowd: Crowd, what: str) -> Finding:
    """Return the finding about tasks whose state differs from the verdicts that the agents got.

    Tasks that were leased ahead and whose entries are lost have until their deadline to come back.
    """
    campaign = stage.client.campaign(CAMPAIGN)
    deadline = time.monotonic() + bench.scale.pool_s + SLACK_S

    def recount() -> Row:
        (table,) = stage.database.rows("benchmarks.sql/recount", campaign=campaign.campaign_id)
        return table

    table = recount()
    while table["working"] and time.monotonic() < deadline:
        time.sleep(POLL_S)
        # What was taken out of a list may be leased ahead once more, after a status without any.
        if not campaign.status().working or time.monotonic() >= deadline:
            table = recount()
    return Finding(
        f"tasks lost or accepted twice, {what}",
        table["working"] + table["failed"] + abs(crowd.acknowledged - table["done"]),
        "",
        goal=Goal(0, "most", timed=False),
        note=f"{table['done']:,} done, {crowd.acknowledged:,} acknowledged, "
        f"{table['working']:,} working",
    )
