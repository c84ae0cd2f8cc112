"""When campaigns end that share slots: what the queue would do next, as a flow.

The slots of all agents that are there now go on claiming. A slot that becomes free goes to the
campaign that lacks most of its share, among those that the slot serves (`servable` in SQL); nobody
takes a slot away. So the tasks that campaigns have in hand grow towards equal levels, a level being
the tasks in hand by weight, until the tasks of one run out; then the others get its slots. Tasks
are counted in fractions, so that the cost does not depend on their number; what the last starts of
a campaign take, which decides where few tasks are left, comes from the spread of run times.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from taskq.model.words import duration

#: Looks at one campaign that a simulation makes at most, about: each takes some microseconds.
MOST_LOOKS: Final = 10_000
_MOST_STEPS: Final = 400
_LEAST_STEPS: Final = 24
#: Rounds in which agents of several kinds come to terms at first, and after each step.
_FIRST_ROUNDS: Final = 6
#: Coefficient of variation of run times if unknown; bounds of it.
USUAL_SPREAD: Final = 0.5
_SPREADS: Final = (0.02, 3.0)
#: How far run times of what is to come may differ from those seen, however many were seen.
_DRIFT: Final = 0.1
_MARGIN: Final = 1.96
#: Expected starts that still run at the median of an end, and at its bounds of 95 %.
_AT_MEDIAN: Final = math.log(2)
_AT_LOW: Final = -math.log(0.025)
_AT_HIGH: Final = -math.log(0.975)
#: The largest relative uncertainty of a rate with which a latest end is known.
_KNOWN: Final = 0.9
#: The share of run times below which nobody has seen any that long.
_UNSEEN: Final = 1e-9
_HALVINGS: Final = 24
#: The largest share of retries, and how often the same task is retried at most.
_MOST_RETRIED: Final = 0.95
_ROUNDS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLeft:
    """What is left of a campaign.

    campaign: its id. left: unfinished tasks, as far as they will be claimed; working: of these.
    weight: its share. owner, owner_weight: None if owners do not share first. task_s: how long a
    slot takes for a task, failed attempts included; start_s: for a start; spread: the coefficient
    of variation of that. seen: from how many tasks that is known; 0: it is assumed. together: tasks
    that a slot has in hand. most: slots that may work on it. caps: names of limits that it shares.
    rested_s: how long ago its latest task was claimed, if none waits. retried: the share of
    attempts after which a task is tried again, pause_s later.
    """

    campaign: int
    left: float
    working: float
    task_s: float
    start_s: float
    weight: float = 1.0
    owner: str = ""
    owner_weight: float | None = None
    spread: float = USUAL_SPREAD
    seen: int = 0
    together: float = 1.0
    most: float = math.inf
    caps: tuple[str, ...] = ()
    rested_s: float = 0.0
    retried: float = 0.0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SlotKind:
    """Slots that serve the same campaigns."""

    slots: float
    campaigns: Collection[int]


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds until an end, with a 95 % interval; high_s: None if nobody can know."""

    s: float
    low_s: float
    high_s: float | None

    def at_least(self, other: Span | None) -> Span:
        """Return the later of two ends."""
        if other is None:
            return self
        highs = (self.high_s, other.high_s)
        high_s = None if None in highs else max(filter(None, highs), default=0.0)
        return Span(max(self.s, other.s), max(self.low_s, other.low_s), high_s)

    def __str__(self) -> str:
        """In words, with the uncertainty unless it is small."""
        if self.high_s is not None and self.high_s - self.low_s < 0.1 * self.s:
            return duration(self.s)
        until = "more" if self.high_s is None else duration(self.high_s)
        return f"{duration(self.s)} ({duration(self.low_s)} to {until})"

    def later(self, s: float) -> Span:
        """Return the same end as seen so many seconds later."""
        high_s = None if self.high_s is None else max(0.0, self.high_s - s)
        return Span(max(0.0, self.s - s), max(0.0, self.low_s - s), high_s)


@dataclass(slots=True)
class _Flow:
    """A campaign in the simulation.

    x: its slots, by kind; all_x: together. low, high: bounds of what it can get. emptied_s: when
    its last task is claimed, by last_x slots; over_s: when that has ended.
    """

    work: WorkLeft
    left: float
    pull: float
    x: list[float]
    all_x: float
    low: float = 0.0
    high: float = math.inf
    emptied_s: float | None = None
    last_x: float = 0.0
    over_s: float = math.inf
    kinds: list[int] = field(default_factory=list)

    @property
    def keeps_s(self) -> float:
        """Mean time for which slots are kept from others; the rest of it when nothing waits."""
        if self.emptied_s is None:
            return self.work.start_s
        return self.work.start_s * (1 + min(self.work.spread, 1.0) ** 2) / 2


def run_ends(
    works: Iterable[WorkLeft], kinds: Sequence[SlotKind], caps: Mapping[str, float] | None = None
) -> dict[int, Span]:
    """Return when campaigns end, by id, with the agents that are there; not those that never do.

    caps: how many slots campaigns have together that share a limit, by its name.
    """
    flows = _flows(works, kinds)
    slots = _slots(flows, kinds)
    _share(flows, slots, caps or {}, rounds=_FIRST_ROUNDS)
    active, now_s = [*flows], 0.0
    steps = max(_LEAST_STEPS, min(_MOST_STEPS, MOST_LOOKS // max(1, len(flows) * len(kinds))))
    growth = 8.0 / steps
    for _ in range(_MOST_STEPS):
        step_s = _step_s(active, now_s, growth)
        if step_s is None:
            break
        for flow in active:
            _advance(flow, now_s, step_s)
        now_s += step_s
        active = [flow for flow in active if now_s < flow.over_s]
        _share(active, slots, caps or {}, rounds=1)
    return {
        flow.work.campaign: _end(flow, flow.emptied_s)
        for flow in flows
        if flow.emptied_s is not None
    }


def _flows(works: Iterable[WorkLeft], kinds: Sequence[SlotKind]) -> list[_Flow]:
    """Return the flows, each with the slots that have its tasks in hand now."""
    flows = []
    for work in works:
        if work.left <= 0:
            continue
        serving = [number for number, kind in enumerate(kinds) if work.campaign in kind.campaigns]
        all_slots = sum(kinds[number].slots for number in serving)
        held = work.working / work.together
        x = [0.0] * len(kinds)
        for number in serving:
            x[number] = held * kinds[number].slots / all_slots if all_slots else 0.0
        flow = _Flow(work, max(work.left, work.working), work.weight / work.together, x, held)
        flow.kinds = serving
        if work.left <= work.working:
            flow.emptied_s, flow.last_x = 0.0, held
            flow.over_s = _last_s(flow, _AT_MEDIAN)
        flows.append(flow)
    return flows


def _slots(flows: Sequence[_Flow], kinds: Sequence[SlotKind]) -> list[float]:
    """Return the slots of each kind; more, if more tasks are in hand, since agents claim ahead."""
    held = [sum(flow.x[number] for flow in flows) for number in range(len(kinds))]
    return [max(kind.slots, taken) for kind, taken in zip(kinds, held, strict=True)]


def _share(
    flows: Sequence[_Flow], slots: Sequence[float], caps: Mapping[str, float], rounds: int
) -> None:
    """Give each kind's free slots to the campaigns that lack most of their shares."""
    _weigh_owners(flows)
    for flow in flows:
        flow.low = flow.all_x
        flow.high = flow.low
        if flow.emptied_s is None:
            flow.high = max(flow.low, min(flow.left, flow.work.most))
    for name, most in caps.items():
        sharing = [flow for flow in flows if name in flow.work.caps and flow.emptied_s is None]
        ranges = [(flow.pull, flow.low, flow.high) for flow in sharing]
        for flow, high in zip(sharing, _levelled(ranges, most), strict=True):
            flow.high = max(flow.low, high)
    kept = [list(flow.x) for flow in flows]
    for _ in range(rounds if len(slots) > 1 else 1):
        for number, free in enumerate(slots):
            whole = free
            places = [place for place, flow in enumerate(flows) if number in flow.kinds]
            ranges = []
            for place in places:
                flow = flows[place]
                others = flow.all_x - flow.x[number]
                low = kept[place][number]
                ranges.append((flow.pull, low + others, max(low + others, flow.high)))
                whole += others
            for place, level in zip(places, _levelled(ranges, whole), strict=True):
                flow = flows[place]
                flow.x[number] += level - flow.all_x
                flow.all_x = level


def _weigh_owners(flows: Sequence[_Flow]) -> None:
    """Divide the weights of owners, if they share first, between their campaigns with tasks."""
    sums: dict[str, float] = {}
    for flow in flows:
        if flow.work.owner_weight is not None and flow.emptied_s is None:
            sums[flow.work.owner] = sums.get(flow.work.owner, 0.0) + flow.work.weight
    for flow in flows:
        work = flow.work
        if work.owner_weight is not None and flow.emptied_s is None:
            flow.pull = work.owner_weight * work.weight / sums[work.owner] / work.together


def _levelled(ranges: Sequence[tuple[float, float, float]], whole: float) -> list[float]:
    """Divide a whole in proportion of pulls, each part within bounds: (pull, low, high)."""
    free = whole - sum(low for _, low, _ in ranges)
    if free <= 0:
        return [low for _, low, _ in ranges]
    turns: list[tuple[float, float]] = []
    for pull, low, high in ranges:
        if high > low:
            turns.append((low / pull, pull))
            if high < math.inf:
                turns.append((high / pull, -pull))
    turns.sort()
    level, slope = 0.0, 0.0
    for at, change in turns:
        gain = slope * (at - level)
        if gain >= free:
            break
        free -= gain
        level, slope = at, slope + change
    if slope > 0:
        level += free / slope
    return [min(max(pull * level, low), high) for pull, low, high in ranges]


def _step_s(active: Sequence[_Flow], now_s: float, growth: float) -> float | None:
    """Return until when nothing changes much; None if nothing more happens."""
    next_s, moving_s = math.inf, math.inf
    for flow in active:
        if flow.emptied_s is None:
            if flow.all_x > 0:
                more = max(0.0, flow.left - flow.all_x)
                next_s = min(next_s, more * flow.work.task_s / flow.all_x)
        else:
            next_s = min(next_s, flow.over_s - now_s)
        if flow.all_x > 0:
            moving_s = min(moving_s, flow.keeps_s)
    if next_s == math.inf:
        return None
    finest_s = max(growth * now_s, 0.02 * moving_s)
    return max(min(next_s, max(0.25 * moving_s, 4 * growth * now_s)), finest_s, 1e-6)


def _advance(flow: _Flow, now_s: float, step_s: float) -> None:
    """Let a campaign's slots work for some time; afterwards they are free as tasks end."""
    if flow.emptied_s is None and flow.all_x > 0:
        done = flow.all_x * step_s / flow.work.task_s
        more = flow.left - flow.all_x
        if done >= more - 1e-9:
            flow.emptied_s = now_s + step_s * max(more - 0.5, 0.0) / done
            flow.last_x = flow.all_x
            flow.over_s = flow.emptied_s + _last_s(flow, _AT_MEDIAN)
        flow.left = max(flow.left - done, flow.all_x)
    keeps = math.exp(-step_s / max(flow.keeps_s, 1e-9))
    flow.x = [held * keeps for held in flow.x]
    flow.all_x = sum(flow.x)


def _end(flow: _Flow, emptied_s: float) -> Span:
    """Return the end of a campaign from when nothing waits any more."""
    work = flow.work
    again_s = _again_s(flow)
    s = flow.over_s + again_s
    if not work.seen:
        return Span(s, s / 4, None)
    drawn = _spread(work) ** 2 * (1 / work.seen + 1 / work.left)
    apart = _MARGIN * math.sqrt(drawn + (_DRIFT / _MARGIN) ** 2)
    low_s = (emptied_s + _last_s(flow, _AT_LOW)) / (1 + apart)
    high_s = None
    if apart < _KNOWN:
        high_s = (emptied_s + _last_s(flow, _AT_HIGH)) / (1 - apart)
        high_s = max(s, high_s + again_s + work.retried * (work.start_s + work.pause_s))
    return Span(s, min(low_s, s), high_s)


def _spread(work: WorkLeft) -> float:
    return min(max(work.spread, _SPREADS[0]), _SPREADS[1])


def _last_s(flow: _Flow, running: float) -> float:
    """Return after how long the last starts have ended: so many still run then, on average.

    They began one after the other, the last when nothing waited any more, or `rested_s` ago if
    nothing waits now. How many of those before it still run is Poisson's.
    """
    work, spread = flow.work, _spread(flow.work)
    rested_s = work.rested_s if work.left <= work.working else 0.0
    older = max(flow.last_x, 1.0) - 1
    whole_s, alive = _beyond(work.start_s, spread, rested_s)
    if alive <= _UNSEEN:  # longer than anybody has seen
        return rested_s / 2

    def still(s: float) -> float:
        beyond_s, goes_on = _beyond(work.start_s, spread, rested_s + s)
        gone = max(1 - goes_on / alive, 1e-12)
        return older * beyond_s / whole_s - math.log(gone)

    low_s, high_s = 0.0, work.start_s
    while still(high_s) > running and high_s < 1e3 * work.start_s:
        low_s, high_s = high_s, 2 * high_s
    for _ in range(_HALVINGS):
        middle = (low_s + high_s) / 2
        low_s, high_s = (middle, high_s) if still(middle) > running else (low_s, middle)
    return high_s


def _beyond(mean_s: float, spread: float, s: float) -> tuple[float, float]:
    """Return by how much run times exceed a time on average, and how many do; log-normal ones."""
    if s <= 0:
        return mean_s - s, 1.0
    wide = math.sqrt(math.log1p(spread * spread))
    above = (math.log(mean_s / s) + wide * wide / 2) / wide
    alive = _normal(above - wide)
    return mean_s * _normal(above) - s * alive, alive


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _again_s(flow: _Flow) -> float:
    """Return how much longer the last tasks take since some of them are tried again."""
    work = flow.work
    if work.retried <= 0:
        return 0.0
    last = min(max(flow.last_x, 1.0) * (1 + work.pause_s / work.start_s), max(work.left, 1.0))
    share = failing = min(work.retried, _MOST_RETRIED)
    rounds = 0.0
    for _ in range(_ROUNDS):
        rounds += 1 - (1 - failing) ** last
        failing *= share
    return rounds * (work.start_s + work.pause_s)
