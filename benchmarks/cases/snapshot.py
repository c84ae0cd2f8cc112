"""One-row exchanges while another connection holds a snapshot."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from benchmarks.cases.claims import MAX_ONE_S
from benchmarks.findings import Finding, Goal, not_measured
from benchmarks.load.clients import BATCHED, Clients
from benchmarks.meter import held_snapshot
from benchmarks.stage import Bench, Stage
from benchmarks.turns import ratio

PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class _Course:
    """Exchanges a second, and pages touched by each, in the first and the last part of a run."""

    first_rate: float
    last_rate: float
    first_pages: float
    last_pages: float

    @property
    def kept(self) -> float:
        return self.last_rate / self.first_rate


def held(bench: Bench) -> Iterator[Finding]:
    """Exchange for 60 s under a held snapshot, and without: the last quarter over the first."""
    scale = bench.scale
    pairs = []
    with bench.stage() as stage, stage.kept():
        for number in range(scale.pairs):
            bench.tell(f"pair {number + 1} of {scale.pairs}")
            free = _run(stage, scale.held_s, held=False)
            pairs.append((_run(stage, scale.held_s, held=True), free))
    yield Finding(
        f"last over first quarter of {scale.held_s:g} s under a held snapshot",
        statistics.median(held.kept for held, _ in pairs),
        "",
        "the same without it",
        statistics.median(free.kept for _, free in pairs),
        ratio([held.kept / free.kept for held, free in pairs]),
        Goal(0.95),
    )
    touched = "pages touched by an exchange in the last quarter under it"
    if not all(held.first_pages for held, _ in pairs):
        yield not_measured(touched, "the server gave no figure in so short a time")
        return
    yield Finding(
        touched,
        statistics.median(held.last_pages for held, _ in pairs),
        "pages",
        "in the first quarter",
        statistics.median(held.first_pages for held, _ in pairs),
        ratio([held.last_pages / held.first_pages for held, _ in pairs]),
        Goal(1.2, "most"),
    )


def _run(stage: Stage, seconds: float, *, held: bool) -> _Course:
    stage.top_up(round(MAX_ONE_S / 2 * seconds))
    stage.settle()
    part = seconds / PARTS
    with (
        held_snapshot(stage.database) if held else nullcontext(),
        Clients(stage.database, BATCHED) as clients,
    ):
        first_rate, first_pages = _part(stage, clients, part)
        time.sleep((PARTS - 2) * part)
        last_rate, last_pages = _part(stage, clients, part)
    return _Course(first_rate, last_rate, first_pages, last_pages)


def _part(stage: Stage, clients: Clients, seconds: float) -> tuple[float, float]:
    before, pages = clients.completed(), stage.database.value("benchmarks.sql/pages")
    rate = clients.rate(seconds)
    touched = stage.database.value("benchmarks.sql/pages") - pages
    return rate, touched / (clients.completed() - before)
