"""Comparison of hosts, or of sites: agents, ends of attempts, run times."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from taskq.diagnosis.bans import Ban, PlaceKind, failing_why, for_campaign
from taskq.diagnosis.evidence import LEAST_RUNS, Comparison, RunTimeSums, Slowness
from taskq.diagnosis.judging import (
    NOTABLE,
    Judgement,
    ends,
    failing_elsewhere_too,
    failing_hosts_apart,
    is_failing,
    is_slow,
    is_split,
    namesakes,
    run_times,
    slow_elsewhere_too,
)
from taskq.diagnosis.sample import BAD, AttemptGroup, SampleSize, by_place, size_of
from taskq.diagnosis.usual import UsualEnds, use_of_slots
from taskq.model.seed import is_within
from taskq.model.words import command, instant, percent


@dataclass(frozen=True, slots=True)
class Presence:
    """Agents at work on one host, as one site names it; see `places` in SQL for the fields."""

    host: str
    site: str
    agents: int
    slots: int
    slowed: int
    draining: int
    silent: int
    suspect: str | None
    warnings: list[list[str]]


@dataclass(frozen=True, slots=True)
class LostHost:
    """A host that served within a day, or was refused, and serves no more.

    See `explain_lost` in SQL for the fields.
    """

    host: str
    site: str
    slots: int
    at: datetime
    cause: Literal["ban", "token", "unfit", "refused", "lost", "left"]
    subject: list[str]
    why: str | None
    hosts: int
    all_slots: int

    @property
    def text(self) -> str:
        """Why no agent is at work there, in words."""
        at = instant(self.at)
        if self.cause == "ban":
            return f"{self.subject[0]} {self.subject[1]} is banned: {self.why}"
        if self.cause == "token":
            return f"refused since {at}: token {self.subject[0]} {self.why}"
        if self.cause == "unfit":
            return f"does not get in since {at}; its agents say: {self.why}"
        if self.cause == "refused":
            return f"refused since {at}: {self.why}"
        if self.cause == "lost":
            return f"lost at {at}: no heartbeat came"
        return f"left at {at}: {self.why or 'without a reason'}"


@dataclass(frozen=True, slots=True)
class Place:
    """A host or site, with its agents at work and its attempts in the sample.

    site: of a host; several are joined. slowed, draining, silent: numbers of agents. suspect: why
    the keeper slowed the host. warnings: words of `WARNINGS` from some of its agents. gone: why no
    agent is at work at a host where some were lately; empty if unknown. ban: None if agents may
    come: the ban that holds for the campaign, else one for what mostly fails. bans: all its bans,
    also for campaigns below. attempts: those that succeeded or failed here; bad: those that failed,
    were lost with their agent, or were refused. failing: the share of bad attempts here and
    elsewhere in the same campaigns; None if there are none elsewhere. run_s: the typical run time,
    a geometric mean. slow: how many times as long as elsewhere. use: the share of the slots' time
    in which a payload ran; None if unknown. apart: failing hosts of a site that mostly does not
    fail; failing leaves them out. only: the one campaign that fails there, while others do as well
    as elsewhere; empty if there is none. split: of how many hosts so many fail that none is the
    exception; else 0. work: the place's share of all successful attempts; None if there are none.
    worst: the campaign and class in which most more attempts end here than do
    elsewhere; None if none has a class. since: when that began; None if unknown. message: of the
    latest of these; empty if unknown. sample: its size. wrong: why its results cannot be right;
    empty if they can. fails_at, does_well_at: of a host whose name machines of several sites have,
    these; empty for any other.
    """

    kind: PlaceKind
    name: str
    site: str
    agents: int
    slots: int
    slowed: int
    draining: int
    silent: int
    suspect: str | None
    warnings: Sequence[str]
    gone: str
    ban: Ban | None
    attempts: int
    bad: int
    failing: Comparison | None
    run_s: float | None
    slow: Slowness | None
    use: float | None
    apart: Sequence[str]
    bans: Sequence[Ban]
    work: float | None
    worst: tuple[str, str] | None
    message: str
    sample: SampleSize
    wrong: str = ""
    only: str = ""
    split: int = 0
    since: datetime | None = field(default=None, kw_only=True)
    fails_at: Sequence[str] = field(default=(), kw_only=True)
    does_well_at: Sequence[str] = field(default=(), kw_only=True)

    @property
    def banned(self) -> str | None:
        """Why the place is banned; None if it is not."""
        return None if self.ban is None else self.ban.why

    @property
    def is_failing(self) -> bool:
        """Whether attempts clearly fail more often than elsewhere."""
        return is_failing(self.failing)

    @property
    def is_slow(self) -> bool:
        """Whether attempts clearly take much longer than elsewhere."""
        return is_slow(self.slow)

    @property
    def verdict(self) -> str:
        """What is clearly wrong with it, in words; empty if nothing is."""
        parts = []
        if self.failing is not None and is_failing(self.failing):
            here, elsewhere = self.failing.here, self.failing.elsewhere
            parts.append(
                f"{percent(here.share)} of {here.attempts:,} attempts{self._what} here "
                f"({here.interval}), elsewhere {percent(elsewhere.share)} ({elsewhere.interval})"
            )
        if self.slow is not None and is_slow(self.slow):
            parts.append(
                f"tasks take {self.slow.times:.1f} times as long as elsewhere "
                f"({self.slow.low:.1f} to {self.slow.high:.1f})"
            )
        if self.wrong:
            parts.append(f"results cannot be right: {self.wrong}")
        return "; ".join(parts)

    @property
    def _what(self) -> str:
        """What happens to attempts there more often than elsewhere."""
        if self.failing is None or not self.failing.error_class:
            return " fail"
        return f" of {self.failing.campaign} end with {self.failing.error_class}"

    @property
    def cause(self) -> str:
        """The class and message of most bad attempts, in 80 characters at most."""
        if self.worst is None:  # no class: nobody reported these attempts
            return "agents are lost here"
        return failing_why(self.worst[1], self.message)

    @property
    def remark(self) -> str:
        """What looks worse than elsewhere, but not clearly, in words; empty if nothing does."""
        if self.failing is None or is_failing(self.failing) or self.failing.here.share <= 0:
            return ""
        here, elsewhere = self.failing.here, self.failing.elsewhere
        if here.share < NOTABLE * elsewhere.share or here.share * here.attempts < LEAST_RUNS:
            return ""
        return (
            f"{percent(here.share)} of {here.attempts:,} attempts fail here, which is not clearly "
            f"more than elsewhere: {percent(here.low)} to {percent(here.high)} against "
            f"{percent(elsewhere.low)} to {percent(elsewhere.high)}"
        )

    @property
    def loss(self) -> str:
        """The loss without the place, in words; empty if there is none or it is unknown."""
        if self.work is None or not 0 < self.work < 1:
            return ""
        return (
            f"it does {percent(self.work)} of the work; without it the rest takes "
            f"{1 / (1 - self.work):.2f} times as long"
        )

    @property
    def proposal(self) -> str | None:
        """The command that bans the place, if it is an exception that clearly fails; else None.

        A ban would also take what does well under the same name: then, the one that drains agents.
        """
        return self._ban(self.cause) if self.is_failing and not self.split else None

    @property
    def choice(self) -> str | None:
        """The command that bans a place that is only slow, as a choice; else None."""
        if self.proposal or self.slow is None or not is_slow(self.slow):
            return None
        return self._ban(f"{self.slow.times:.1f} times as slow")

    def _ban(self, why: str) -> str | None:
        if self.does_well_at:
            sites = [word for site in self.fails_at for word in ("--site", site)]
            return command("agent", "drain", "--host", self.name, *sites)
        words = (self.kind, "ban", "--why", why, "--until", "1d", *for_campaign(self.only))
        return None if self.ban else command(*words, names=[self.name])


def compare_places(
    kind: PlaceKind,
    present: Iterable[Presence],
    sample: Sequence[AttemptGroup],
    bans: Iterable[Ban],
    size: SampleSize | None = None,
    *,
    lost: Iterable[LostHost] = (),
    path: str = "/",
    by_session: Sequence[AttemptGroup] | None = None,
) -> list[Place]:
    """Return the named hosts or sites: failing ones first, then slow ones, others, banned ones.

    size: of the sample; None if there are no more attempts than these. lost: hosts without agents.
    path: the campaign that is looked at. by_session: attempts that show how slots were used; None
    means the sample. A site is judged without a few hosts of it that fail, and
    never by one host. What is outdated counts for no verdict.
    """
    there = defaultdict(list)
    for presence in present:
        there[presence.host if kind == "host" else presence.site].append(presence)
    size = size or size_of(sample, 0)
    current = [group for group in sample if not group.outdated]
    sample = [group for group in sample if not (group.outdated and group.outcome in BAD)]
    done = by_place(sample, kind)
    apart: dict[str, list[str]] = {}
    if kind == "site":  # failing hosts that do not count against their site
        apart = failing_hosts_apart(current, Judgement(by_place(current, "host")).failing)
    judged = {
        name: [group for group in groups if group.host not in apart.get(name, ())]
        for name, groups in done.items()
    }
    judgement = Judgement(judged)
    banned = defaultdict(list)
    for ban in bans:
        if ban.kind == kind and (is_within(path, ban.path) or is_within(ban.path, path)):
            banned[ban.name].append(ban)
    gone = {lost_place.host: lost_place for lost_place in lost} if kind == "host" else {}
    uses = done if by_session is None else by_place(by_session, kind)
    successes = _successes(sample)
    usual = UsualEnds(judged, judgement.failing)
    places = []
    for name in sorted({*there, *done, *banned, *gone} - {""}):
        failing, slow = judgement.comparison(name), judgement.slowness(name)
        if kind == "site" and is_failing(failing):
            several = judgement.comparison(name, failing_elsewhere_too(judged[name]))
            failing = failing if is_failing(several) else several
        if kind == "site" and is_slow(slow):
            part = slow_elsewhere_too(judged[name], name, judgement)
            several_slow = judgement.slowness(name, part)
            slow = slow if is_slow(several_slow) else several_slow
        worst = usual.worst(name, done[name])
        if failing is not None and failing.error_class:
            worst = failing.campaign, failing.error_class
        apart_at = namesakes(name, judged.get(name, []), judgement) if kind == "host" else ((), ())
        place = Place(
            kind=kind,
            name=name,
            ban=_ban_of(banned[name], path, worst),
            bans=banned[name],
            gone=gone[name].text if name in gone else "",
            failing=failing,
            slow=slow,
            apart=apart.get(name, []),
            work=_successes(done[name]) / successes if successes else None,
            worst=worst,
            message="",
            sample=size,
            **_presence(kind, there[name], done[name]),
            **_past(done[name]),
            use=use_of_slots(uses[name]),
            fails_at=apart_at[0],
            does_well_at=apart_at[1],
        )
        places.append(place)
    if kind == "host":
        places = _noting_split(places)
    return sorted(places, key=by_trouble)


def by_trouble(place: Place) -> tuple[int, ...]:
    """Return the sort key that puts places first at which most is wrong, banned ones last."""
    return (
        place.ban is not None,
        not place.is_failing,
        not place.wrong,
        not place.is_slow,
        not (place.suspect or place.warnings or place.slowed or place.silent),
        not place.gone,
        -place.slots,
        -place.attempts,
    )


def _noting_split(hosts: list[Place]) -> list[Place]:
    """Return the hosts, noting in the failing ones if these are no exceptions."""
    failing = sum(host.is_failing and host.ban is None for host in hosts)
    judged = sum(host.attempts > 0 for host in hosts)
    if not is_split(failing, judged):
        return hosts
    return [replace(host, split=judged) if host.is_failing else host for host in hosts]


def _ban_of(bans: Sequence[Ban], path: str, worst: tuple[str, str] | None) -> Ban | None:
    """Return the ban that holds for all of a campaign, else for the one below that mostly fails."""
    for campaign in (path, *(worst or ())[:1]):
        for ban in sorted(bans, key=lambda ban: ban.path):
            if is_within(campaign, ban.path):
                return ban
    return None


def _successes(groups: Iterable[AttemptGroup]) -> int:
    return sum(group.attempts for group in groups if group.outcome == "done")


def _presence(
    kind: PlaceKind, there: Sequence[Presence], done: Sequence[AttemptGroup]
) -> dict[str, Any]:
    """Return the fields of a place about its agents now."""
    sites = dict.fromkeys([presence.site for presence in there] + [group.site for group in done])
    return {
        what: sum(getattr(presence, what) for presence in there)
        for what in ("agents", "slots", "slowed", "draining", "silent")
    } | {
        "site": ", ".join(filter(None, sites)) if kind == "host" else "",
        "suspect": next((presence.suspect for presence in there if presence.suspect), None),
        "warnings": sorted(
            {word for presence in there for words in presence.warnings for word in words}
        ),
    }


def _past(done: Sequence[AttemptGroup]) -> dict[str, Any]:
    """Return the fields of a place about its attempts."""
    found, times = ends(done), sum(run_times(done).values(), RunTimeSums())
    return {
        "attempts": sum(whole for _, whole in found.values()),
        "bad": sum(part for part, _ in found.values()),
        "run_s": math.exp(times.mean) if times.number else None,
    }
