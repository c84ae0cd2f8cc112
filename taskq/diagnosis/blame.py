"""Whose fault failures are: of the tasks, hosts, a site, the campaign, or nobody."""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

from taskq.diagnosis.bans import Ban, PlaceKind, failing_why, for_campaign
from taskq.diagnosis.evidence import RunTimeSums, Share, share
from taskq.diagnosis.judging import (
    Judgement,
    failing_elsewhere_too,
    failing_hosts_apart,
    is_failing,
    is_split,
    split_words,
)
from taskq.diagnosis.sample import BAD, TELLING, AttemptGroup, SampleSize, by_place, size_of
from taskq.model.seed import is_within
from taskq.model.settings import size_text
from taskq.model.words import command, counted, duration, percent
from taskq_agent.errors import FailForGood
from taskq_agent.protocol import OUT_OF_MEMORY, OUTPUT_TOO_LARGE, TIME_LIMIT
from taskq_agent.transport import MAX_BLOB_BYTES
from taskq_agent.units import MAX_BYTES

Side: TypeAlias = Literal["task", "node", "site", "campaign", "chance", "unclear"]

FAULTS: Final[dict[Side, str]] = {
    "task": "the tasks' fault",
    "node": "the hosts' fault",
    "site": "the site's fault",
    "campaign": "the campaign's fault",
    "chance": "chance",
    "unclear": "unclear",
}
_GIVEN_UP: Final = frozenset({FailForGood.__name__, f"exit-{os.EX_DATAERR}"})
"""Classes with which a handler says that no further attempt can help."""
_YEAR_S: Final = 31_536_000.0
_HALF: Final = 0.5
#: A larger share of tasks that fail again may be all of them.
_SURE: Final = 0.9
#: Successes from whose times a limit is estimated, and by what it becomes larger at least, at most.
_LEAST_ENDED: Final = 20
_LEAST_RAISED: Final = 1.25
_MOST_RAISED: Final = 10.0
#: Of so many tasks one may fail for good by chance.
_FEW: Final = 1_000
_MOST_ATTEMPTS: Final = 20
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class TaskFates:
    """How tasks with failures of a class went on; see `failing_tasks` in SQL for the fields."""

    campaign: str
    error_class: str
    attempts: int
    tasks: int
    again: int
    then_done: int
    memory: Sequence[int] | None = None
    time_limit_s: float | None = None
    max_attempts: int | None = None
    output_bytes: int | None = None
    memory_learns: bool = False
    last_tries: int = 0
    last_done: int = 0


@dataclass(frozen=True, slots=True)
class FailureVerdict:
    """A campaign's attempts that failed with one class, in a sample of the latest, and whose fault.

    share: of all attempts in the sample. hosts, sites: numbers of those with such attempts. tasks:
    number of their tasks; again: tasks that failed so on several hosts; then_done: tasks that were
    then done on another. side: the likely fault: of the tasks, nodes, a site, the campaign; chance
    means that a task which has failed fails no more often than others, unclear that the sample is
    not enough. why: the evidence, in words. places: the hosts or sites at fault; bans: their bans.
    message: of the latest such attempt, at a host at fault if there is one; empty if it is unknown
    or adds nothing. sample: its size. raised: the option, with its value, that raises the limit
    that attempts exceeded, or allows as many attempts as chance needs; empty if none. only: whether
    other campaigns work at these places.
    """

    campaign: str
    error_class: str
    attempts: int
    share: Share
    hosts: int
    sites: int
    tasks: int
    again: int
    then_done: int
    side: Side
    why: str
    places: Sequence[str]
    bans: Sequence[Ban]
    message: str
    sample: SampleSize
    raised: Sequence[str] = ()
    only: bool = False

    @property
    def place_kind(self) -> PlaceKind | None:
        """Whether hosts or sites are at fault; None if neither are."""
        return "host" if self.side == "node" else "site" if self.side == "site" else None

    @property
    def says_all(self) -> bool:
        """Whether no message adds to it: a limit was exceeded, or nothing is known."""
        return self.side == "unclear" or (self.side == "campaign" and bool(self.raised))

    @property
    def fault(self) -> str:
        """Whose fault it is, in words."""
        return FAULTS[self.side]

    @property
    def proposal(self) -> str | None:
        """The command that is likely next: a ban, a list of the tasks, or a higher limit."""
        if self.place_kind is not None:
            banned = {ban.name for ban in self.bans}
            names = [name for name in self.places if name not in banned]
            why = failing_why(self.error_class, self.message)
            words: tuple[str, ...] = (self.place_kind, "ban", "--why", why, "--until", "1d")
            words += for_campaign(self.campaign if self.only else "")
            return command(*words, names=names) if names else None
        if self.raised:
            return command("campaign", "change", self.campaign, *self.raised)
        if self.side == "task" and self.error_class:
            where = f"class = {json.dumps(self.error_class)}"
            return command("tasks", "--where", where, names=[self.campaign])
        return None

    @property
    def remedy(self) -> str | None:
        """The command that retries the tasks after a repair; None if they need no repair."""
        if self.side not in {"task", "campaign"} or not self.error_class:
            return None
        return command("retry", "--error-class", self.error_class, names=[self.campaign])


def blame(
    groups: Sequence[AttemptGroup],
    fates: Iterable[TaskFates],
    limit: int,
    bans: Iterable[Ban] = (),
    size: SampleSize | None = None,
) -> list[FailureVerdict]:
    """Return a verdict for each campaign and class, most attempts first, `limit` at most.

    size: of the sample; None if there are no more attempts than these.
    """
    by_campaign = defaultdict(list)
    known, size = list(bans), size or size_of(groups, 0)
    for group in groups:
        if group.outcome in TELLING:
            by_campaign[group.campaign].append(group)
    most = sorted(fates, key=lambda fate: (-fate.attempts, fate.campaign, fate.error_class))
    return [_verdict(fate, by_campaign[fate.campaign], known, size) for fate in most[:limit]]


def _verdict(
    fates: TaskFates, groups: Sequence[AttemptGroup], bans: Sequence[Ban], size: SampleSize
) -> FailureVerdict:
    # Only this class counts as bad: another fault of a host is not evidence.
    judged = [
        group
        if group.outcome not in BAD or (group.error_class or "") == fates.error_class
        else replace(group, outcome="done")
        for group in groups
    ]
    before = [group for group in judged if group.outdated]
    judged = [group for group in judged if not group.outdated]
    here = [group for group in judged if group.outcome in BAD]
    whole = _all(judged)
    side, why, places = _side(judged, fates)
    was = share(_bad(before), _all(before))
    if side == "campaign" and was.high < share(_bad(here), whole).low:
        why += "; before the campaign or its inputs were last changed, or it was resumed, "
        why += f"{percent(was.share)} of {counted(was.attempts, 'attempt')} did"
    limit_s = _enough_s(groups, fates)
    raised = _raised(fates, limit_s) if side == "campaign" else ()
    if side == "campaign" and limit_s is not None:
        why += "; the new one follows from the times of those that ended: how long the others would"
        why += " have taken is unknown"
    if side == "chance" and (enough := _enough(fates, share(_bad(here), whole).share)):
        why += f"; with {enough} attempts, one task in {_FEW:,} fails for good: of "
        why += f"{counted(fates.last_tries, 'last attempt')}, {fates.last_done:,} succeeded"
        raised = "--max-attempts", str(enough)
    kind = "host" if side == "node" else side
    return FailureVerdict(
        campaign=fates.campaign,
        error_class=fates.error_class,
        attempts=fates.attempts,
        share=share(fates.attempts, whole),
        hosts=len({group.host for group in here}),
        sites=len({group.site for group in here}),
        tasks=fates.tasks,
        again=fates.again,
        then_done=fates.then_done,
        side=side,
        why=why,
        places=places,
        bans=[
            ban
            for ban in bans
            if ban.kind == kind and ban.name in places and is_within(fates.campaign, ban.path)
        ],
        message="",
        sample=size,
        raised=raised,
    )


def _side(groups: Sequence[AttemptGroup], fates: TaskFates) -> tuple[Side, str, Sequence[str]]:
    hosts, sites = by_place(groups, "host"), by_place(groups, "site")
    all_bad = _bad(groups)
    judged = Judgement(hosts)
    bad_hosts = sorted(judged.failing - {""}, key=lambda name: (-_bad(hosts[name]), name))
    # A site is at fault if several hosts fail even without its few bad ones.
    apart = failing_hosts_apart(groups, judged.failing)
    of_sites = {
        name: [group for group in some if group.host not in apart.get(name, ())]
        for name, some in sites.items()
    }
    judged_sites = Judgement(of_sites)
    bad_sites = [
        name
        for name in sorted(judged_sites.failing - {""}, key=lambda name: (-_bad(sites[name]), name))
        if is_failing(judged_sites.comparison(name, failing_elsewhere_too(of_sites[name])))
    ]
    if sum(_bad(sites[name]) for name in bad_sites) > _HALF * all_bad:
        return "site", _evidence("at", bad_sites, judged_sites), bad_sites
    if sum(_bad(hosts[name]) for name in bad_hosts) > _HALF * all_bad:
        return _of_hosts(bad_hosts, hosts, judged, fates)
    return _known(fates) or _of_tasks(hosts, judged, fates)


def _of_hosts(
    bad: Sequence[str],
    hosts: Mapping[str, Sequence[AttemptGroup]],
    judged: Judgement,
    fates: TaskFates,
) -> tuple[Side, str, Sequence[str]]:
    """Return the verdict where most failures are those of hosts that clearly fail more."""
    evidence = _evidence("on", bad, judged)
    some_end = any(group.outcome == "done" for name in bad for group in hosts[name])
    if fates.error_class == TIME_LIMIT and some_end and (known := _known(fates)):
        return known[0], f"{known[1]}; {evidence}", []  # these hosts are slow
    if is_split(len(bad), len(hosts)):
        return "unclear", f"{evidence}; {split_words(len(hosts))}", []
    return "node", evidence, bad


def _of_tasks(
    hosts: Mapping[str, Sequence[AttemptGroup]], judged: Judgement, fates: TaskFates
) -> tuple[Side, str, Sequence[str]]:
    """Return the verdict where no place is at fault."""
    tried = fates.again + fates.then_done
    again = share(fates.again, tried)
    rest = [group for name, some in hosts.items() if name not in judged.failing for group in some]
    everywhere = share(_bad(rest), _all(rest))
    # Bad tasks fail again; by chance, they fail again as often as any task fails.
    passes = again.high - again.low <= _HALF and (
        again.high < _HALF or (again.high < _SURE and again.share <= everywhere.high)
    )
    many = counted(len(hosts), "host")
    if everywhere.low > _HALF and len(hosts) > 1:
        text = f"{percent(everywhere.share)} of all attempts on {many} fail this way"
        text += f" ({everywhere.interval})"
        return "campaign", text, []
    ends = f"{fates.again:,} of {counted(tried, 'task')} tried on a second host failed again"
    if passes:
        return "chance", f"{ends} ({again.interval})", []
    if tried and again.low > _HALF:
        return "task", f"{ends} ({again.interval})", []
    if len(hosts) == 1:
        return "unclear", "only one host has attempts: no other shows whether the host fails", []
    if not tried:
        return (
            "unclear",
            f"none of {many} stands out, and no task was tried on a second",
            [],
        )
    return "unclear", f"none of {many} stands out; {ends}: too few to tell", []


def _known(fates: TaskFates) -> tuple[Side, str, Sequence[str]] | None:
    """Return the verdict that a class alone gives; None if it takes statistics."""
    if fates.error_class in _GIVEN_UP:
        return "task", "the program gave the tasks up: no further attempt can help", []
    if fates.error_class == OUT_OF_MEMORY and fates.memory_learns and fates.memory:
        text = f"{counted(fates.attempts, 'attempt')} took more memory than most; the campaign "
        text += f"learns it, and gives {', then '.join(map(size_text, fates.memory))}"
        return "unclear", text, []
    if not _raised(fates, None):
        return None
    if fates.error_class == OUT_OF_MEMORY:
        limit = f"took more memory than it allows, now {size_text((fates.memory or [0])[-1])}"
    elif fates.error_class == OUTPUT_TOO_LARGE:
        limit = f"left more output than it keeps, now {size_text(fates.output_bytes or 0)}"
    else:
        limit = f"took longer than its time limit, now {duration(fates.time_limit_s or 0.0)}"
    return "campaign", f"{counted(fates.attempts, 'attempt')} {limit}", []


def _enough_s(groups: Iterable[AttemptGroup], fates: TaskFates) -> float | None:
    """Return the time within which nearly all attempts would end, by those that do; else None.

    What a limit cut is longer than the limit, nobody knows by how much. So the logarithms of the
    times are taken for a normal distribution that the limit has truncated: its parameters follow
    from the share that was cut and the mean of the others.
    """
    limit_s = fates.time_limit_s
    if fates.error_class != TIME_LIMIT or not limit_s:
        return None
    ended = [group.times for group in groups if group.outcome == "done" and not group.outdated]
    times = sum(ended, RunTimeSums())
    whole = times.number + fates.attempts
    if times.number < _LEAST_ENDED or 2 * times.number < whole:
        return None
    normal = NormalDist()
    place = normal.inv_cdf(times.number / whole)
    spread = max(0.0, math.log(limit_s) - times.mean) / (
        place + normal.pdf(place) * whole / times.number
    )
    log_s = math.log(limit_s) + spread * (normal.inv_cdf(1 - 1 / _FEW) - place)
    return min(max(math.exp(log_s), _LEAST_RAISED * limit_s), _MOST_RAISED * limit_s)


def _raised(fates: TaskFates, limit_s: float | None) -> Sequence[str]:
    """Return the option that raises the limit that attempts exceeded; empty if there is none.

    limit_s: the time that is enough; None if unknown, which doubles the limit.
    """
    if fates.error_class == OUT_OF_MEMORY and fates.memory:
        sizes = [*fates.memory[:-1], min(2 * fates.memory[-1], MAX_BYTES)]
        return "--memory", ",".join(map(size_text, sizes))
    if fates.error_class == OUTPUT_TOO_LARGE and fates.output_bytes:
        return "--output-bytes", size_text(min(2 * fates.output_bytes, MAX_BLOB_BYTES))
    if fates.error_class == TIME_LIMIT and fates.time_limit_s is not None:
        found_s = 2 * fates.time_limit_s if limit_s is None else math.ceil(limit_s)
        return "--time-limit", f"{min(found_s, _YEAR_S):.10g}s"
    return ()


def _enough(fates: TaskFates, bad: float) -> int | None:
    """Return the attempts after which few tasks have failed by chance; else None.

    Also none if they are allowed, or if the last attempts that were made do not show that one more
    helps: tasks that come so far may be others than those that fail once.
    """
    last = share(fates.last_tries - fates.last_done, fates.last_tries)
    bad = max(bad, last.share)
    if not 0 < bad < 1 or last.high >= _SURE:
        return None
    enough = min(math.ceil(math.log(1 / _FEW) / math.log(bad)), _MOST_ATTEMPTS)
    return enough if enough > (fates.max_attempts or enough) else None


def _bad(groups: Iterable[AttemptGroup]) -> int:
    return sum(group.attempts for group in groups if group.outcome in BAD)


def _all(groups: Iterable[AttemptGroup]) -> int:
    return sum(group.attempts for group in groups)


def _evidence(where: str, names: Sequence[str], judged: Judgement) -> str:
    """Return how often the worst places fail, and how often the others."""
    parts = []
    for name in names[:_SHOWN]:
        found = judged.comparison(name)
        if found is not None:
            here = found.here
            parts.append(
                f"{percent(here.share)} of {here.attempts:,} attempts {where} {name} "
                f"({here.interval})"
            )
    more = f" and {where} {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    found = judged.comparison(names[0])
    elsewhere = ""
    if found is not None:
        others = found.elsewhere
        elsewhere = f", elsewhere {percent(others.share)} ({others.interval})"
    return f"{', '.join(parts)}{more} fail this way{elsewhere}"
