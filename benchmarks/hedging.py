"""Simulation of the end of a campaign, with and without hedging: `python -m benchmarks.hedging`.

Agents take tasks until none waits; then some attempts run far beyond the others, since run times
have a heavy tail, or since a host is slow. From then on a keeper looks every four seconds, and lets
idle slots of other hosts make second attempts of those that have run for longer than a multiple of
a quantile of the latest run times, longest first. The first end counts; the other attempt is
stopped by its next heartbeat. All is drawn from the seed.

What a policy gains depends on where the variation comes from: if a task takes as long wherever it
is run, a second attempt is lost work, unless the first one's host is slow.

After J. Dean, L. A. Barroso: The Tail at Scale. Communications of the ACM 56 (2013) 2, 74 to 80.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

#: Seconds between two looks of the keeper, and between two heartbeats of an agent.
LOOK_S: Final = 4.0
HEARTBEAT_S: Final = 30.0
#: So many of the latest run times are learnt from; none are with fewer than the second number.
LEARNT: Final = (400, 20)
MEAN_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Farm:
    """What is run on what. slow: share of the hosts on which all takes `slowdown` times as long.

    times: draws a run time, of one second on average. of_tasks: whether it is the task's own, the
    same in each attempt, or drawn anew for each.
    """

    times: Callable[[random.Random], float]
    of_tasks: bool
    slow: float = 0.0
    slowdown: float = 10.0
    tasks: int = 20_000
    hosts: int = 100
    slots: int = 4


class Policy(NamedTuple):
    """When there is a second attempt: after `factor` times this quantile; of at most this share."""

    quantile: float
    factor: float
    share: float = 0.05

    def __str__(self) -> str:
        return f"{self.factor:g} x p{100 * self.quantile:g}"


class Finish(NamedTuple):
    """How a campaign went. tail_s: from when nothing waited to the last result."""

    tail_s: float
    work_s: float
    second: int


@dataclass(slots=True)
class _Attempt:
    task: int
    host: int
    begun: float
    ends: float


def simulate(farm: Farm, policy: Policy | None, seed: int) -> Finish:
    """Run one campaign; without a policy no task has a second attempt."""
    return _Run(farm, policy, seed).outcome()


class _Run:
    def __init__(self, farm: Farm, policy: Policy | None, seed: int) -> None:
        self._farm, self._policy = farm, policy
        draw = random.Random(seed)  # noqa: S311  # a simulation
        self._hedges = random.Random(seed + 1)  # noqa: S311
        slow = set(draw.sample(range(farm.hosts), round(farm.slow * farm.hosts)))
        self._speed = [farm.slowdown if host in slow else 1.0 for host in range(farm.hosts)]
        self._times = [MEAN_S * farm.times(draw) for _ in range(farm.tasks)]
        self._live: dict[int, list[_Attempt]] = {}
        self._ends: list[tuple[float, int, _Attempt]] = []
        self._learnt: deque[float] = deque(maxlen=LEARNT[0])
        self._idle: list[int] = []
        self._work = 0.0
        self._number = self._second = 0

    def outcome(self) -> Finish:
        farm = self._farm
        waiting = iter(range(farm.tasks))
        for slot in range(farm.hosts * farm.slots):
            self._begin(next(waiting), slot % farm.hosts, 0.0)
        empty = now = look = 0.0
        while self._live:
            if look and look < self._ends[0][0]:
                self._hedge(look)
                look += LOOK_S
                continue
            now, _, attempt = heapq.heappop(self._ends)
            if not self._end(attempt, now):
                continue
            for host in self._freed(attempt, now):
                task = next(waiting, None)
                if task is not None:
                    self._begin(task, host, now)
                    continue
                self._idle.append(host)
                empty = empty or now
                look = look or (now + LOOK_S if self._policy else 0.0)
        return Finish(now - empty, self._work, self._second)

    def _begin(self, task: int, host: int, now: float) -> None:
        again = task in self._live and not self._farm.of_tasks
        time = MEAN_S * self._farm.times(self._hedges) if again else self._times[task]
        attempt = _Attempt(task, host, now, now + time * self._speed[host])
        self._live.setdefault(task, []).append(attempt)
        self._number += 1
        heapq.heappush(self._ends, (attempt.ends, self._number, attempt))

    def _end(self, attempt: _Attempt, now: float) -> bool:
        """Take in an end; return whether it is the task's first."""
        if attempt not in self._live.get(attempt.task, ()):
            return False
        self._learnt.append(now - attempt.begun)
        self._work += now - attempt.begun
        return True

    def _freed(self, attempt: _Attempt, now: float) -> Iterator[int]:
        """Yield the hosts of the slots that are free: of this attempt, and of the one it stops."""
        for running in self._live.pop(attempt.task):
            if running is not attempt:
                stopped = min(running.ends, now + self._hedges.uniform(0, HEARTBEAT_S))
                self._work += stopped - running.begun
            yield running.host

    def _hedge(self, now: float) -> None:
        policy = self._policy
        if policy is None or len(self._learnt) < LEARNT[1]:
            return
        runs = sorted(self._learnt)
        limit = policy.factor * runs[int(policy.quantile * len(runs))]
        late = [
            attempts[0]
            for attempts in self._live.values()
            if len(attempts) == 1 and now - attempts[0].begun > limit
        ]
        for attempt in sorted(late, key=lambda attempt: attempt.begun):
            others = [place for place, host in enumerate(self._idle) if host != attempt.host]
            if not others or self._second >= policy.share * self._farm.tasks:
                return
            self._second += 1
            self._begin(attempt.task, self._idle.pop(self._hedges.choice(others)), now)


def lognormal(draw: random.Random) -> float:
    """Return a time of 1 on average, with a logarithm that is spread by 1."""
    return draw.lognormvariate(-0.5, 1.0)


def pareto(draw: random.Random) -> float:
    """Return a time of 1 on average, with a tail of the power 2.5."""
    return draw.paretovariate(2.5) * 1.5 / 2.5


def alike(draw: random.Random) -> float:
    """Return a time of 1 on average, spread by a tenth."""
    return draw.lognormvariate(-0.005, 0.1)


FARMS: Final = {
    "like times, 5 % slow hosts": Farm(alike, of_tasks=True, slow=0.05),
    "lognormal, of the attempt": Farm(lognormal, of_tasks=False),
    "lognormal, of the attempt, 5 % slow": Farm(lognormal, of_tasks=False, slow=0.05),
    "lognormal, of the task": Farm(lognormal, of_tasks=True),
    "lognormal, of the task, 5 % slow": Farm(lognormal, of_tasks=True, slow=0.05),
    "Pareto, of the attempt": Farm(pareto, of_tasks=False),
    "Pareto, of the attempt, 5 % slow": Farm(pareto, of_tasks=False, slow=0.05),
    "Pareto, of the task": Farm(pareto, of_tasks=True),
    "Pareto, of the task, 5 % slow": Farm(pareto, of_tasks=True, slow=0.05),
}
#: Multiples of quantiles. slow_after.sql has twice the ninth decile.
POLICIES: Final = tuple(
    Policy(quantile, factor)
    for quantile, factor in ((0.5, 2), (0.5, 4), (0.9, 2), (0.95, 1), (0.95, 2), (0.99, 1))
)


def main() -> None:
    """Print, for each farm and policy, the tail next to that without, and what it costs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hedging", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--tasks", type=int, default=20_000)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.runs)
    sys.stdout.write(
        f"{'':36}{'after':>9} {'tail':>8} {'share':>6} {'more work':>10} {'second':>7}\n"
    )
    for name, farm in FARMS.items():
        sys.stdout.writelines(_lines(name, replace(farm, tasks=options.tasks), seeds))


def _lines(name: str, farm: Farm, seeds: range) -> Iterator[str]:
    """Yield what came of each policy; all figures are medians, the shares those of pairs."""
    median = statistics.median
    without = [simulate(farm, None, seed) for seed in seeds]
    yield f"{name:36}{'never':>9} {median(run.tail_s for run in without) / 60:6.0f} m\n"
    for policy in POLICIES:
        hedged = [simulate(farm, policy, seed) for seed in seeds]
        pairs = list(zip(hedged, without, strict=True))
        tail_s = median(run.tail_s for run in hedged)
        share = median(run.tail_s / other.tail_s for run, other in pairs)
        work = median(run.work_s / other.work_s - 1 for run, other in pairs)
        second = median(run.second / farm.tasks for run in hedged)
        yield f"{policy!s:>45} {tail_s / 60:6.0f} m {share:6.2f} {work:10.1%} {second:7.1%}\n"


if __name__ == "__main__":
    main()
