"""The claim rule of the queue, task by task: what the simulation of flows is compared with."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev

from taskq.model.run_ends import SlotKind, WorkLeft

#: Attempts after which a run time is known.
_KNOWN = 3


@dataclass(frozen=True)
class Demand:
    """A campaign: its tasks, how long each runs, its weight, which share is tried again."""

    tasks: int
    length: Callable[[random.Random], float]
    weight: float = 1.0
    retried: float = 0.0
    most: float = float("inf")


@dataclass
class Look:
    """What is known at an instant: unfinished tasks, those at work, how many attempts have ended.

    begun: when the latest attempt of each campaign began.
    """

    at: float
    left: dict[int, int]
    working: dict[int, int]
    ended: dict[int, int]
    begun: dict[int, float]


@dataclass
class Farm:
    """Campaigns and the slots of agents, each with the campaigns that it serves."""

    demands: Mapping[int, Demand]
    kinds: Sequence[SlotKind]
    draw: random.Random
    ends: dict[int, float] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    lengths: dict[int, list[float]] = field(default_factory=dict)

    def run(self) -> None:
        """Run all tasks as `servable` in SQL would hand them out."""
        waiting = {number: demand.tasks for number, demand in self.demands.items()}
        working = dict.fromkeys(waiting, 0)
        self.lengths = {number: [] for number in waiting}
        begun = dict.fromkeys(waiting, 0.0)
        runs: list[tuple[float, int, int, int, float]] = []
        idle = [kind for kind, it in enumerate(self.kinds) for _ in range(round(it.slots))]
        turn, now = 0, 0.0
        while True:
            still = []
            for kind in idle:
                chosen = self._chosen(self.kinds[kind].campaigns, waiting, working)
                if chosen is None:
                    still.append(kind)
                    continue
                waiting[chosen] -= 1
                working[chosen] += 1
                begun[chosen] = now
                turn += 1
                length = self.demands[chosen].length(self.draw)
                heapq.heappush(runs, (now + length, turn, kind, chosen, length))
            idle = still
            left = {number: tasks + working[number] for number, tasks in waiting.items()}
            ended = {number: len(lengths) for number, lengths in self.lengths.items()}
            self.looks.append(Look(now, left, dict(working), ended, dict(begun)))
            if not runs:
                return
            now, _, kind, done, length = heapq.heappop(runs)
            working[done] -= 1
            self.lengths[done].append(length)
            waiting[done] += self.draw.random() < self.demands[done].retried
            if not waiting[done] and not working[done]:
                self.ends[done] = now
            idle.append(kind)

    def _chosen(
        self, served: Collection[int], waiting: Mapping[int, int], working: Mapping[int, int]
    ) -> int | None:
        """Draw a campaign by what each lacks of its share."""
        stood = [
            number
            for number, tasks in waiting.items()
            if tasks and number in served and working[number] < self.demands[number].most
        ]
        if not stood:
            return None
        weights = sum(self.demands[number].weight for number in stood)
        running = sum(working[number] for number in stood)
        shares = [self.demands[number].weight / weights for number in stood]
        desires = [
            max(share * (running + 1) - working[number], 0.01 * share)
            for number, share in zip(stood, shares, strict=True)
        ]
        return self.draw.choices(stood, desires)[0]

    def look(self, at: float) -> Look:
        """Return what is known at an instant."""
        return [look for look in self.looks if look.at <= at][-1]


def works(farm: Farm, look: Look) -> list[WorkLeft]:
    """Return what the queue would learn from a look."""
    seen = {number: farm.lengths[number][:ended] for number, ended in look.ended.items()}
    usual = mean(s for lengths in seen.values() for s in lengths)
    found = []
    for number, left in look.left.items():
        lengths, demand = seen[number], farm.demands[number]
        known = len(lengths) >= _KNOWN
        start_s = mean(lengths) if known else usual
        found.append(
            WorkLeft(
                campaign=number,
                left=left,
                working=look.working[number],
                task_s=start_s / (1 - demand.retried),
                start_s=start_s,
                spread=stdev(lengths) / start_s if known else 0.5,
                seen=len(lengths) if known else 0,
                weight=demand.weight,
                most=demand.most,
                rested_s=look.at - look.begun[number],
                retried=demand.retried,
            )
        )
    return found
