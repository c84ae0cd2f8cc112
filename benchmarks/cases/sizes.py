"""One-row exchanges next to many tasks or campaigns, against the same next to few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from benchmarks.findings import Finding, Goal
from benchmarks.load import clients
from benchmarks.load.clients import Load
from benchmarks.stage import APART, Bench, Stage
from benchmarks.turns import compare
from taskq.planning.trial import CAMPAIGN

LIFE: Final = Load(2, 1, 500, CAMPAIGN)
AT_LEAST: Final = Goal(0.9)
TRIAL_TASKS: Final = 10_000
TRIAL_S: Final = 0.25
SPARE: Final = 2.0
"""Times as many tasks are kept waiting as a short trial would use up in a measurement."""

Fill: TypeAlias = Callable[[Stage, int], None]


def backlog(bench: Bench) -> Iterator[Finding]:
    """Exchange one by one with 10,000,000 tasks waiting, and with 10,000."""
    many, few = bench.scale.tasks, bench.scale.few

    def fill(waiting: int) -> Fill:
        return lambda stage, need: stage.top_up(waiting + need)

    yield from _against(bench, f"{many:,} tasks waiting", fill(many), f"{few:,} waiting", fill(few))


def history(bench: Bench) -> Iterator[Finding]:
    """Exchange one by one with 10,000,000 finished tasks in the table, and with none.

    They are seeded, claimed and reported as any other, in batches of 500 by 2 processes.
    """
    many = bench.scale.tasks

    def live(stage: Stage, need: int) -> None:
        # Once only: what the measurements finish themselves is little next to it.
        if stage.client.campaign(CAMPAIGN).status().done == 0:
            stage.seed(many)
            stage.finish(LIFE, many)
        stage.top_up(need)

    yield from _against(bench, f"{many:,} finished tasks", live, "an empty table", Stage.top_up)


def campaigns(bench: Bench) -> Iterator[Finding]:
    """Exchange one by one for a subtree of 1,000 open campaigns, and of one."""
    count = bench.scale.campaigns
    paths = [f"{CAMPAIGN}/c{number:04}" for number in range(count)]

    def spread(stage: Stage, need: int) -> None:
        known = {
            child.path: child.waiting for child in stage.client.campaign(CAMPAIGN).child_statuses()
        }
        # A client stays with a campaign for a second, and some meet in one: each campaign holds
        # what two of them take in that time, so that claims are measured, not empty campaigns.
        a_second = need / (SPARE * bench.scale.seconds)
        share = round(max(2 * need / count, 2 * a_second / APART.total))
        for path in paths:
            if path not in known:
                stage.add(path)
            if known.get(path, 0) < 3 * share // 4:
                stage.seed(share - known.get(path, 0), path)

    def only(stage: Stage, need: int) -> None:
        path = f"{CAMPAIGN}/only"
        if not stage.client.campaign(CAMPAIGN).children():
            stage.add(path)
        stage.top_up(need, path)

    yield from _against(bench, f"{count:,} open campaigns served", spread, "one campaign", only)


def _against(bench: Bench, what: str, fill: Fill, other: str, fill_few: Fill) -> Iterator[Finding]:
    """Compare two databases, each filled anew before each measurement."""
    seconds = bench.scale.seconds
    with bench.stage() as large, bench.stage() as small:
        fill_few(small, TRIAL_TASKS)
        need = round(SPARE * seconds * clients.rate(small.database, APART, TRIAL_S))
        fill(large, need)
        fill_few(small, need)
        large.settle()
        small.settle()

        def measured(stage: Stage, fill: Fill) -> float:
            fill(stage, need)
            return clients.rate(stage.database, APART, seconds)

        with large.kept(), small.kept():
            compared = compare(
                lambda: measured(large, fill), lambda: measured(small, fill_few), bench.scale.rounds
            )
    yield compared.finding(what, "tasks/s", other, AT_LEAST)
