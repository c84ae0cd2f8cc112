"""Whose fault failures are: of the tasks, hosts, a site, the campaign, or nobody."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from taskq.diagnosis.bans import Ban, PlaceKind, failing_why, for_campaign
from taskq.diagnosis.evidence import Share, share
from taskq.diagnosis.failing_places import AtFault, hosts_at_fault, sites_at_fault
from taskq.diagnosis.judging import (
    Judgement,
    is_split,
    namesakes,
    split_words,
)
from taskq.diagnosis.raised_limits import (
    FEW,
    SURE,
    TaskFates,
    enough_attempts,
    enough_s,
    raised_by,
)
from taskq.diagnosis.sample import (
    BAD,
    TELLING,
    AttemptGroup,
    SampleSize,
    bad_attempts,
    by_place,
    size_of,
)
from taskq.model.seed import is_within
from taskq.model.settings import size_text
from taskq.model.words import command, counted, duration, percent
from taskq_agent.errors import FailForGood
from taskq_agent.protocol import OUT_OF_MEMORY, OUTPUT_TOO_LARGE, TIME_LIMIT

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
AT_ONCE: Final = "--max-running"
"""The option that lets fewer tasks of a campaign run at once, where too many of them fail."""
_HALF: Final = 0.5


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
    that attempts exceeded, allows as many attempts as chance needs, or lets fewer tasks run at
    once; empty if none. only: whether
    other campaigns work at these places. since: when attempts began to fail so, at these places if
    there are some; first_task: the least id of the tasks that did then; is_new: whether none, or
    far fewer, failed so before. cost: the core-hours that it costs in an hour. All None if the sums
    of ended attempts do not have it yet. cleared: hosts or sites that fail more since they got more
    of the tasks that fail anywhere. shared: those of the hosts whose
    name a machine of another site has, too, which does well.
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
    since: datetime | None = field(default=None, kw_only=True)
    first_task: int | None = field(default=None, kw_only=True)
    is_new: bool | None = field(default=None, kw_only=True)
    cost: float | None = field(default=None, kw_only=True)
    cleared: Sequence[str] = field(default=(), kw_only=True)
    shared: Sequence[str] = field(default=(), kw_only=True)

    @property
    def place_kind(self) -> PlaceKind | None:
        """Whether hosts or sites are at fault; None if neither are."""
        return "host" if self.side == "node" else "site" if self.side == "site" else None

    @property
    def says_all(self) -> bool:
        """Whether no message adds to it: a limit was exceeded."""
        return self.side == "campaign" and bool(self.raised) and AT_ONCE not in self.raised

    @property
    def fault(self) -> str:
        """Whose fault it is, in words."""
        return FAULTS[self.side]

    @property
    def proposal(self) -> str | None:
        """The command that is likely next: a ban, a list of the tasks, or a higher limit."""
        if self.place_kind is not None:
            kept = {*self.shared, *(ban.name for ban in self.bans)}
            names = [name for name in self.places if name not in kept]
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
    most = sorted(
        _of_all(groups, fates), key=lambda it: (-it.attempts, it.campaign, it.error_class)
    )
    looks = len(most)
    return [_verdict(fate, by_campaign[fate.campaign], known, size, looks) for fate in most[:limit]]


def _of_all(groups: Iterable[AttemptGroup], fates: Iterable[TaskFates]) -> Iterator[TaskFates]:
    """Yield the fates of all classes: of those that only sums have, nothing is known of tasks."""
    known = {(fate.campaign, fate.error_class): fate for fate in fates}
    attempts: Counter[tuple[str, str]] = Counter()
    for group in groups:
        if group.outcome in BAD and not group.outdated:
            attempts[group.campaign, group.error_class or ""] += group.attempts
    for (campaign, error_class), number in attempts.items():
        fate = known.get((campaign, error_class))
        fate = fate or TaskFates(campaign, error_class, number, number, 0, 0)
        yield replace(fate, attempts=number)


def _verdict(
    fates: TaskFates,
    groups: Sequence[AttemptGroup],
    bans: Sequence[Ban],
    size: SampleSize,
    looks: int,
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
    side, why, places = _side(judged, fates, looks)
    was = share(bad_attempts(before), _all(before))
    if side == "campaign" and was.high < share(bad_attempts(here), whole).low:
        why += "; before the campaign or its inputs were last changed, or it was resumed, "
        why += f"{percent(was.share)} of {counted(was.attempts, 'attempt')} did"
    limit_s = enough_s(groups, fates)
    raised = raised_by(fates, limit_s) if side == "campaign" else ()
    if side == "campaign" and limit_s is not None:
        why += "; the new one follows from the times of those that ended: how long the others would"
        why += " have taken is unknown"
    if side == "chance" and (
        enough := enough_attempts(fates, share(bad_attempts(here), whole).share)
    ):
        why += f"; with {enough} attempts, one task in {FEW:,} fails for good: of "
        why += f"{counted(fates.last_tries, 'last attempt')}, {fates.last_done:,} succeeded"
        raised = "--max-attempts", str(enough)
    return FailureVerdict(
        campaign=fates.campaign,
        error_class=fates.error_class,
        attempts=bad_attempts(here),
        share=share(bad_attempts(here), whole),
        hosts=len({group.host for group in here}),
        sites=len({group.site for group in here}),
        tasks=fates.tasks,
        again=fates.again,
        then_done=fates.then_done,
        side=side,
        why=why,
        places=places,
        bans=bans_of(fates.campaign, side, places, bans),
        message="",
        sample=size,
        raised=raised,
        shared=_shared(judged, places, looks) if side == "node" else (),
    )


def bans_of(campaign: str, side: Side, places: Sequence[str], bans: Iterable[Ban]) -> Sequence[Ban]:
    """Return the bans of places at fault, for a campaign."""
    kind = "host" if side == "node" else side
    return [
        ban
        for ban in bans
        if ban.kind == kind and ban.name in places and is_within(campaign, ban.path)
    ]


def _shared(groups: Sequence[AttemptGroup], names: Sequence[str], looks: int) -> list[str]:
    """Return those hosts at fault whose name a machine of another site has that does well."""
    hosts = by_place(groups, "host")
    several = [name for name in names if len({group.site for group in hosts[name]}) > 1]
    judged = Judgement(hosts, looks) if several else None
    return [name for name in several if judged and namesakes(name, hosts[name], judged)[1]]


def _side(
    groups: Sequence[AttemptGroup], fates: TaskFates, looks: int
) -> tuple[Side, str, Sequence[str]]:
    hosts = by_place(groups, "host")
    judged = Judgement(hosts, looks)
    if (found := sites_at_fault(groups, judged, looks)) is not None:
        return "site", found.text, found.names
    if (found := hosts_at_fault(groups, judged)) is not None:
        return _of_hosts(found, hosts, fates)
    return _known(fates) or _of_tasks(hosts, judged, fates)


def _of_hosts(
    found: AtFault, hosts: Mapping[str, Sequence[AttemptGroup]], fates: TaskFates
) -> tuple[Side, str, Sequence[str]]:
    """Return the verdict where most failures are those of hosts that clearly fail more."""
    some_end = any(group.outcome == "done" for name in found.names for group in hosts[name])
    if fates.error_class == TIME_LIMIT and some_end and (known := _known(fates)):
        return known[0], f"{known[1]}; {found.text}", []  # these hosts are slow
    if is_split(len(found.names), len(hosts)):
        return "unclear", f"{found.text}; {split_words(len(hosts))}", []
    return "node", found.text, found.names


def _of_tasks(
    hosts: Mapping[str, Sequence[AttemptGroup]], judged: Judgement, fates: TaskFates
) -> tuple[Side, str, Sequence[str]]:
    """Return the verdict where no place is at fault."""
    tried = fates.again + fates.then_done
    again = share(fates.again, tried)
    rest = [group for name, some in hosts.items() if name not in judged.failing for group in some]
    everywhere = share(bad_attempts(rest), _all(rest))
    # Bad tasks fail again; by chance, they fail again as often as any task fails.
    passes = again.high - again.low <= _HALF and (
        again.high < _HALF or (again.high < SURE and again.share <= everywhere.high)
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
    if not raised_by(fates, None):
        return None
    if fates.error_class == OUT_OF_MEMORY:
        limit = f"took more memory than it allows, now {size_text((fates.memory or [0])[-1])}"
    elif fates.error_class == OUTPUT_TOO_LARGE:
        limit = f"left more output than it keeps, now {size_text(fates.output_bytes or 0)}"
    else:
        limit = f"took longer than its time limit, now {duration(fates.time_limit_s or 0.0)}"
    return "campaign", f"{counted(fates.attempts, 'attempt')} {limit}", []


def _all(groups: Iterable[AttemptGroup]) -> int:
    return sum(group.attempts for group in groups)
