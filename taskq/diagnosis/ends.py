"""How attempts ended, by campaign, host and time: sums that the keeper makes behind the reports.

They cover a week, whatever the number of attempts, and are some seconds old. A sample of the latest
attempts, see `sample`, knows more of each of them, but of a large campaign only the last minutes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final, Literal, TypeAlias

from taskq.db.access import Queries
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.evidence import RunTimeSums
from taskq.diagnosis.onset import Numbers, Onset, Step, Window, onset, step
from taskq.diagnosis.sample import BAD, TELLING, AttemptGroup, Sample, ended_alike, size_of

#: What sums can be kept apart by; by outcome and sort they always are. current: only those of times
#: after the last change of the campaign, and after bans that have ended.
Dimension: TypeAlias = Literal["campaign", "host", "site", "release", "time", "current"]
#: The most sums that are read at once.
MOST_SUMS: Final = 20_000
#: How far back it is looked for a beginning; and how far attempts count for a verdict.
_PAST: Final = timedelta(hours=12)
_LATELY: Final = timedelta(hours=1)
_WINDOW: Final = timedelta(minutes=10)
_LEAST_S: Final = 60.0
#: Attempts on both sides from which on the order of seeding shows something.
_LEAST_APART: Final = 20
#: Tasks on each side of a time whose payloads are compared with those of the other.
NEAR: Final = 24
#: Run times move if they differ by this factor; and not while the first long ones run.
NOTABLE_RUNS: Final = 1.5
_SETTLED: Final = 3


@dataclass(frozen=True, slots=True)
class EndSum:
    """Attempts that ended in one way; see `end_sums` in SQL for the fields.

    What they are not kept apart by is None.
    """

    campaign: str | None
    host: str | None
    site: str | None
    release: str | None
    starts: datetime | None
    outcome: str
    sort: str
    attempts: int
    run_s: float
    core_s: float
    logs: float
    squares: float
    numbers: int
    number_sum: float
    number_squares: float
    first_task: int | None
    last_task: int | None
    first_at: datetime | None
    last_at: datetime | None


def read_ends(
    database: Queries,
    path: str,
    per: Sequence[Dimension],
    since: datetime | None = None,
    places: Sequence[str] | None = None,
) -> list[EndSum]:
    """Read how attempts at and below a path ended; those that used most core-hours come first.

    places: of these hosts, or if `per` has no hosts, of these sites; None means all. Raise
    `NotFound` if there is no such campaign.
    """
    asked = list(places) if places is not None else None
    rows = database.rows(
        "end_sums", path=path, per=list(per), since=since, most=MOST_SUMS, places=asked
    )
    return [EndSum(**row) for row in rows]


@dataclass(frozen=True, slots=True)
class Move:
    """A mean of a campaign that moved: of the logarithms of run times, or of ranked results.

    before, behind: tasks before and after that time, in the order of claims; is_near: whether they
    were claimed next to it, not only within some ten minutes. order: how their payloads differ, in
    words. Empty if unknown.
    """

    campaign: str
    what: Literal["runs", "results"]
    step: Step
    before: Sequence[int] = ()
    behind: Sequence[int] = ()
    is_near: bool = False
    order: str = ""


class PastEnds:
    """What the sums know of a campaign and all below it, read when it is asked for."""

    def __init__(self, database: Queries, path: str) -> None:
        self._database = database
        self._path = path
        self._of_places: dict[PlaceKind, dict[str, list[EndSum]]] = {"host": {}, "site": {}}

    @cached_property
    def until(self) -> datetime:
        """Until when ended attempts are in the sums: usually some seconds ago."""
        found: datetime = self._database.value("usage_until")
        return found

    def onset(self, campaign: str, error_class: str) -> Onset | None:
        """Return since when attempts of a campaign end in a class; None if the sums have none."""
        return onset(windows(self._of_campaigns.get(campaign, ()), error_class))

    def onset_at(self, kind: PlaceKind, name: str, campaign: str, error_class: str) -> Onset | None:
        """Return the same of a host or site."""
        its = [it for it in self._at(kind, name) if it.campaign == campaign]
        return onset(windows(its, error_class))

    def first_at(self, kind: PlaceKind, name: str) -> datetime | None:
        """Return when the first attempt ended at a host or site; None if the sums have none."""
        return min((it.first_at for it in self._at(kind, name) if it.first_at), default=None)

    def slower_since(self, kind: PlaceKind, name: str) -> datetime | None:
        """Return since when attempts take longer at a host or site than they did; else None."""
        its: dict[str | None, list[EndSum]] = defaultdict(list)
        for it in self._at(kind, name):
            if it.outcome == "done":
                its[it.campaign].append(it)
        steps = [
            step(_numbers((it, it.attempts, it.logs, it.squares) for it in some))
            for some in its.values()
        ]
        found = [it.since for it in steps if it and it.after - it.before >= math.log(NOTABLE_RUNS)]
        return min(found, default=None)

    def _at(self, kind: PlaceKind, name: str) -> list[EndSum]:
        if name not in self._of_places[kind]:
            found = self._read([kind, "campaign", "time"], self.until - _PAST, [name])
            self._of_places[kind][name] = found
        return self._of_places[kind][name]

    def unranked_since(self, campaign: str, shapes: Collection[str]) -> datetime | None:
        """Return since when results have these shapes; None if the sums have none."""
        its = [it for it in self._of_campaigns.get(campaign, ()) if it.outcome == "done"]
        found = onset(_windows(its, lambda it: it.sort in shapes))
        return None if found is None else found.since

    def cost(self, campaign: str, error_class: str, since: datetime | None) -> float | None:
        """Return the core-hours that a class costs in an hour, lately; None if they are unknown."""
        begins = self.until - _LATELY
        if since is not None and since > begins:
            begins = since
        lost = [
            it.core_s
            for it in self._of_campaigns.get(campaign, ())
            if it.outcome in BAD
            and it.sort == error_class
            and it.starts is not None
            and it.starts > begins - _WINDOW
        ]
        return sum(lost) / max((self.until - begins).total_seconds(), _LEAST_S) if lost else None

    def with_sums(self, sample: Sample) -> Sample:
        """Return a sample with the sums of the last hour of campaigns of which these have more.

        The sample has all attempts of a young campaign, also those of the last seconds. Where more
        end than it can hold, the sums have more.
        """
        if not sample.size.is_cut:
            return sample
        found: dict[str, list[AttemptGroup]] = defaultdict(list)
        for it in self._read(["campaign", "host", "site", "current"], self.until - _LATELY):
            if it.outcome in TELLING and it.campaign is not None:
                found[it.campaign].append(_group(it))
        known: dict[str, int] = defaultdict(int)
        for group in sample.groups:
            if group.outcome in TELLING and not group.outdated:
                known[group.campaign] += group.attempts
        more = {
            campaign
            for campaign, groups in found.items()
            if sum(group.attempts for group in groups) > known[campaign]
        }
        if not more:
            return sample
        kept = [it for it in sample.groups if it.outdated or it.campaign not in more]
        groups = [*kept, *(it for campaign in sorted(more) for it in found[campaign])]
        size = replace(size_of(groups, sample.size.whole), until=self.until)
        return Sample(groups, size, sample.groups)

    def is_apart(self, campaign: str, error_class: str) -> Literal["before", "after"] | None:
        """Return where the tasks of a class were seeded: before or after all that succeeded."""
        its = self._of_campaigns.get(campaign, ())
        bad = [it for it in its if it.outcome in BAD and it.sort == error_class and it.first_task]
        done = [it for it in its if it.outcome == "done" and it.first_task]
        for some in (bad, done):
            if sum(it.attempts for it in some) < _LEAST_APART:
                return None
        if max(it.last_task or 0 for it in bad) < min(it.first_task or 0 for it in done):
            return "before"
        if min(it.first_task or 0 for it in bad) > max(it.last_task or 0 for it in done):
            return "after"
        return None

    def moves(self) -> list[Move]:
        """Return where run times, or the numbers that rank results, moved at a time."""
        found = []
        for campaign, its in sorted(self._of_campaigns.items()):
            done = [it for it in its if it.outcome == "done" and it.attempts and it.starts]
            runs = _numbers((it, it.attempts, it.logs, it.squares) for it in done)
            longest = max((math.exp(it.mean) for it in runs), default=0.0)
            settled = timedelta(seconds=min(_SETTLED * longest, _PAST.total_seconds()))
            moved = step(runs, settled)
            if moved and abs(moved.after - moved.before) >= math.log(NOTABLE_RUNS):
                found.append(Move(campaign, "runs", moved, *_tasks_near(done, moved.since)))
            results = _numbers(
                (it, it.numbers, it.number_sum, it.number_squares) for it in done if it.numbers
            )
            if moved := step(results, settled):
                found.append(Move(campaign, "results", moved, *_tasks_near(done, moved.since)))
        return found

    def releases(self, campaign: str) -> Sequence[EndSum]:
        """Return how attempts of a campaign ended, by the release of their agents and time."""
        return self._of_releases.get(campaign, ())

    @cached_property
    def _of_campaigns(self) -> Mapping[str, list[EndSum]]:
        found: dict[str, list[EndSum]] = defaultdict(list)
        for it in self._read(["campaign", "time"], self.until - _PAST):
            found[it.campaign or ""].append(it)
        return found

    @cached_property
    def _of_releases(self) -> Mapping[str, list[EndSum]]:
        found: dict[str, list[EndSum]] = defaultdict(list)
        for it in self._read(["campaign", "release", "time"], self.until - _PAST):
            found[it.campaign or ""].append(it)
        return found

    def _read(
        self, per: Sequence[Dimension], since: datetime, places: Sequence[str] | None = None
    ) -> list[EndSum]:
        return read_ends(self._database, self._path, per, since, places)


def windows(sums: Iterable[EndSum], error_class: str) -> list[Window]:
    """Return by time how many attempts ended in a class, of all that succeeded or failed."""
    its = [it for it in sums if it.outcome in TELLING]
    return _windows(its, lambda it: it.outcome in BAD and it.sort == error_class)


def _windows(sums: Iterable[EndSum], is_part: Callable[[EndSum], bool]) -> list[Window]:
    wholes: dict[datetime, int] = defaultdict(int)
    parts: dict[datetime, list[EndSum]] = defaultdict(list)
    for it in sums:
        if it.starts is None:
            continue
        wholes[it.starts] += it.attempts
        if is_part(it):
            parts[it.starts].append(it)
    return [
        Window(
            starts,
            sum(it.attempts for it in parts[starts]),
            whole,
            min((it.first_at for it in parts[starts] if it.first_at), default=None),
            min((it.first_task for it in parts[starts] if it.first_task), default=None),
        )
        for starts, whole in wholes.items()
    ]


def _tasks_near(sums: Sequence[EndSum], since: datetime) -> tuple[Sequence[int], Sequence[int]]:
    """Return tasks that ended in the time before a step, and in the time that begins with it."""
    known = [it for it in sums if it.starts and it.first_task and it.last_task]
    last = max((it.starts for it in known if it.starts and it.starts < since), default=None)
    first = min((it.first_task or 0 for it in known if it.starts == last), default=0)
    end = max((it.last_task or 0 for it in known if it.starts == since), default=0)
    if not first or not end:
        return (), ()
    return range(first, first + NEAR), range(end - NEAR + 1, end + 1)


def _numbers(sums: Iterable[tuple[EndSum, int, float, float]]) -> list[Numbers]:
    """Return numbers by time. sums: with how many, their sum, and that of their squares."""
    found: dict[datetime, RunTimeSums] = defaultdict(RunTimeSums)
    for it, number, total, squares in sums:
        if it.starts is not None:
            found[it.starts] += RunTimeSums(number, total, squares)
    return [
        Numbers(starts, it.number, it.mean, max(it.squares / it.number - it.mean**2, 0.0))
        for starts, it in found.items()
    ]


def _group(it: EndSum) -> AttemptGroup:
    """Return sums as a group of attempts, which says nothing of sessions."""
    error_class = it.sort if it.outcome in BAD else None
    found = ended_alike(it.campaign or "", it.host or "", it.site or "", error_class, it.attempts)
    return replace(found, outcome=it.outcome, run_s=it.run_s, logs=it.logs, squares=it.squares)
