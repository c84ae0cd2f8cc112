"""Agents of a gateway next to a hostile client that has a token."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from benchmarks.cases.claims import needs
from benchmarks.findings import Finding, Goal
from benchmarks.gateways import RunningGateways, running_gateways
from benchmarks.load import sessions
from benchmarks.load.agent_load import AgentLoad, Seen
from benchmarks.load.work import Credentials, LoadWork
from benchmarks.stage import Bench, Stage
from benchmarks.turns import ratio
from taskq.planning.trial import CAMPAIGN

WARM_S: Final = 0.3
MS: Final = 1e3


def together(bench: Bench) -> Iterator[Finding]:
    """Let agents work at an even rate, next to one hostile client after another, and without."""
    # Here, since it needs the extra `gateway`, which other cases do without.
    from benchmarks.hostile_tokens import of_tokens  # noqa: PLC0415
    from benchmarks.load.hostile import ATTACKS, MANY, Hostile  # noqa: PLC0415

    scale = bench.scale
    work = LoadWork(scale.healthy_agents, rate=scale.healthy_a_second)
    need, _ = needs(round(2 * scale.healthy_a_second), scale.seconds + 2 * WARM_S)
    with (
        bench.stage() as stage,
        running_gateways(stage.database.dsn, 1, bench.folder, options=["--pages"]) as gateways,
    ):
        healthy = sessions.opened(stage.database, CAMPAIGN, work.agents)
        attacks = {
            what: (
                attack,
                sessions.opened(stage.database, CAMPAIGN, attack.sessions * attack.times),
            )
            for what, attack in list(ATTACKS.items())[: scale.hostile]
        }
        attacks |= dict(list(of_tokens(stage).items())[: scale.hostile])
        for what, (attack, strangers) in attacks.items():
            pairs: list[tuple[Seen, Seen]] = []
            for _ in range(scale.rounds):
                stage.top_up(need + 4 * MANY)
                stage.settle()
                alone = _seen(scale.seconds, gateways, work, healthy)
                stage.top_up(need + 4 * MANY)
                hostile = Hostile(gateways.addresses[0], attack, strangers)
                pairs.append((alone, _seen(scale.seconds, gateways, work, healthy, hostile)))
            yield from _findings(what, work, pairs)
        yield _lost(stage)


def _seen(
    seconds: float,
    gateways: RunningGateways,
    work: LoadWork,
    healthy: tuple[Credentials, ...],
    hostile: AbstractContextManager[object] | None = None,
) -> Seen:
    """Return what the healthy agents have seen."""
    with AgentLoad(work, gateways.addresses, healthy) as load:
        load.warm(WARM_S)
        with hostile or nullcontext():
            load.warm(WARM_S)
            seen = load.watch(seconds)
        load.deliver()
    return seen


def _findings(what: str, work: LoadWork, pairs: list[tuple[Seen, Seen]]) -> Iterator[Finding]:
    rates = [(together.rate, alone.rate) for alone, together in pairs]
    p99s = [(MS * together.p99_s, MS * alone.p99_s) for alone, together in pairs]
    who = f"{work.agents} agents next to {what}"
    for figures, name, unit, goal in (
        (rates, who, "tasks/s", Goal(0.9)),
        (p99s, f"{who}: 99 of 100 within", "ms", Goal(2.0, "most")),
    ):
        yield Finding(
            name,
            statistics.median(own for own, _ in figures),
            unit,
            "without it",
            statistics.median(bound for _, bound in figures),
            ratio([own / bound for own, bound in figures]),
            goal,
        )
    empty = sum(together.totals.empty for _, together in pairs)
    yield Finding(f"{who}: claims without a task", empty, "", goal=Goal(0, "most", timed=False))


def _lost(stage: Stage) -> Finding:
    """Return the finding about tasks that were lost or changed by the attacks."""
    counts = stage.client.campaign(CAMPAIGN).status()
    return Finding(
        "tasks that failed or were given up next to them",
        counts.failed + counts.cancelled,
        "",
        goal=Goal(0, "most", timed=False),
    )
