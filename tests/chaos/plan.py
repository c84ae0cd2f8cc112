"""Plan of faults and their times, drawn from a seed, so that a run can be made again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

KINDS = (
    "kill-agent",
    "stop-agent",
    "kill-gateway",
    "stop-gateway",
    "kill-feeder",
    "stop-feeder",
    "kill-keeper",
    "stop-keeper",
    "kill-redis",
    "stop-redis",
    "terminate-backend",
    "restart-postgresql",
    "cut",
    "half-open",
    "full-spool",
    "jump-clock",
)
#: Those of a farm whose agents are a pilot's jobs.
PILOT_KINDS = (
    "kill-loop",
    "stop-loop",
    "kill-job",
    "stop-job",
    "cancel-job",
    "kill-gateway",
    "stop-gateway",
    "kill-keeper",
    "terminate-backend",
    "restart-postgresql",
)
#: How long each kind of fault lasts, from and to, in seconds. Some agents sleep beyond their lease.
_LASTS_S = {
    "kill-agent": (0.1, 0.5),
    "stop-agent": (0.3, 4.5),
    "kill-loop": (0.1, 0.5),
    "stop-loop": (0.3, 4.5),
    "kill-job": (0.0, 0.0),
    "stop-job": (0.3, 4.5),
    "cancel-job": (1.0, 4.0),
    "kill-gateway": (0.1, 0.5),
    "stop-gateway": (0.3, 2.0),
    "kill-feeder": (0.1, 0.5),
    "stop-feeder": (0.3, 3.0),
    "kill-keeper": (0.1, 0.5),
    "stop-keeper": (0.3, 3.0),
    "kill-redis": (0.1, 1.0),
    "stop-redis": (0.3, 2.0),
    "terminate-backend": (0.0, 0.0),
    "restart-postgresql": (0.0, 0.3),
    "cut": (0.02, 0.3),
    "half-open": (0.5, 3.0),
    "full-spool": (0.5, 3.0),
    "jump-clock": (1.0, 5.0),
}
#: What costs little is done more often.
_OFTEN = (
    *("terminate-backend", "cut", "half-open", "stop-agent", "full-spool", "jump-clock"),
    *("kill-loop", "kill-job", "cancel-job"),
)
_EARLY = 0.5
_JUMP_S = 7200.0


@dataclass(frozen=True)
class Fault:
    """One fault. at: seconds after the beginning.

    which: from 0 to 1, chooses among the targets. jump_s: how far a clock is set.
    """

    at: float
    kind: str
    which: float
    lasts_s: float
    jump_s: float


def plan(seed: int, seconds: float, count: int, among: Sequence[str] = KINDS) -> list[Fault]:
    """Return so many faults within a time, in order; the same for the same arguments.

    In each round all kinds come up, some of them twice. The keeper is struck early only: it takes
    another its term of ten seconds to take over, and that is what a run would end with.
    """
    draw = random.Random(seed)
    kinds: list[str] = []
    while len(kinds) < count:
        deck = [*among, *(kind for kind in _OFTEN if kind in among)]
        draw.shuffle(deck)
        kinds += deck
    kinds = kinds[:count]
    early = [kind for kind in kinds if kind.endswith("-keeper")]
    rest = [kind for kind in kinds if not kind.endswith("-keeper")]
    for kind in early:
        rest.insert(draw.randrange(max(1, round(count * _EARLY))), kind)
    step_s = seconds / count
    return [
        Fault(
            at=step_s * (number + draw.random()),
            kind=kind,
            which=draw.random(),
            lasts_s=draw.uniform(*_LASTS_S[kind]),
            jump_s=draw.uniform(-_JUMP_S, _JUMP_S),
        )
        for number, kind in enumerate(rest)
    ]
