"""Hosts and sites of a queue: `Client.fleet`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.bad_tasks import LatestTasks, neighbours_fail
from taskq.diagnosis.bans import Ban, PlaceKind
from taskq.diagnosis.blame import FailureVerdict, blame
from taskq.diagnosis.crowds import is_vague, read_times, with_crowds
from taskq.diagnosis.elsewhere import OtherCampaigns
from taskq.diagnosis.ends import Move, PastEnds
from taskq.diagnosis.idle import IdleHost, TasksInHand, idle_hosts
from taskq.diagnosis.judging import NOTABLE
from taskq.diagnosis.latest_moves import with_latest
from taskq.diagnosis.lost_agents import LosingPlace, losing_places
from taskq.diagnosis.neighbours import unless_as_others
from taskq.diagnosis.odd_readings import OddReader, OddReadings, read_odd_results
from taskq.diagnosis.onset import risen
from taskq.diagnosis.orders import with_orders
from taskq.diagnosis.places import LostHost, Place, Presence, by_trouble, compare_places
from taskq.diagnosis.raised_limits import TaskFates
from taskq.diagnosis.releases import by_release
from taskq.diagnosis.result_shapes import OddShapes
from taskq.diagnosis.sample import MOST, Sample, read_sample
from taskq.diagnosis.sizes import with_sizes
from taskq.model.errors import UsageError
from taskq.model.seed import check_path

MAX_HOSTS: Final = 50_000
MAX_LOST: Final = 1_000
MOST_MESSAGES: Final = 5
"""Failing places whose message is looked up."""
LEAST_SIZED: Final = 16
"""Attempts of a class from which on it is looked whether they fail by the size of tasks."""
MOST_DATED: Final = 3
"""Places at fault whose beginnings are looked up."""
MOST_FAILURES: Final = 1_000
"""Failures of a class among which a host's is searched."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Hosts and sites compared, whose fault failures are, and results that cannot be right."""

    hosts: list[Place]
    sites: list[Place]
    failures: list[FailureVerdict]
    odd: OddReadings
    moves: Sequence[Move] = field(default=(), kw_only=True)
    idle: Sequence[IdleHost] = field(default=(), kw_only=True)
    losing: Sequence[LosingPlace] = field(default=(), kw_only=True)


class Fleet:
    """Hosts and sites with their agents. Every call reads the database; no caching."""

    def __init__(self, database: Queries, read_odd: OddReader = read_odd_results) -> None:
        self._database = database
        self._read_odd = read_odd

    def ban(
        self,
        kind: PlaceKind,
        name: str,
        *,
        why: str,
        until: datetime | timedelta | None = None,
        campaign: str = "/",
    ) -> int:
        """Ban a host or site; return how many agents there get an order that they did not have.

        The answer to their next heartbeat orders them to drain, with the reason: they claim no
        more, finish the tasks they hold, and leave. An agent that starts there is refused with the
        reason until the ban ends. The ban replaces an earlier one for the same campaign.

        campaign: only this campaign and all below it: agents that serve more leave it out and work
        on for others, those that serve nothing else drain. A host or site can be banned for 16
        campaigns.

        name: as agents name it. An agent may give another name; to keep out an agent for certain,
        revoke its token. until: an aware instant, or a duration; None means until it is lifted.
        """
        lifetime_s = None
        if isinstance(until, timedelta):
            lifetime_s = until.total_seconds()
        elif until is not None:
            if until.tzinfo is None:
                raise UsageError(
                    "the end of a ban needs a time zone, such as datetime.now(timezone.utc)"
                )
            lifetime_s = (until - datetime.now(until.tzinfo)).total_seconds()
        if lifetime_s is not None and lifetime_s < 1:
            raise UsageError("the end of a ban must be in the future")
        values = {"name": name, "why": why.strip(), "lifetime_s": lifetime_s}
        path = check_path(campaign)
        return int(self._database.value("ban", kind=kind, path=path, **values))

    def unban(self, kind: PlaceKind, name: str, *, campaign: str | None = None) -> bool:
        """Lift the bans of a place; return whether there was one. Agents that drain still leave.

        campaign: only the ban for this campaign; "/" is the one for all. None lifts all its bans.
        """
        path = None if campaign is None else check_path(campaign)
        return bool(self._database.value("unban", kind=kind, name=name, path=path))

    def bans(self) -> list[Ban]:
        """Return the bans that have not ended, latest first."""
        return [Ban(**row) for row in self._database.rows("bans")]

    def hosts(self, path: str = "/") -> list[Place]:
        """Compare the hosts whose agents serve a campaign, above or below it.

        Their attempts come from a sample of the latest at and below the path, at most 10,000. Hosts
        that clearly fail more than others come first, then those whose results cannot be right,
        slow ones, those whose agents warn, are slowed or silent, and those that are gone; banned
        ones last; most slots first. Raise `NotFound` if there is no such campaign.
        """
        present, past = self._presence(path), PastEnds(self._database, check_path(path))
        sample = past.with_sums(read_sample(self._database, path))
        odd = self._read_odd(self._database, path)
        lost = self._lost(path)
        latest = LatestTasks(self._database, path)
        return self._compared(
            "host", present, sample, self.bans(), past, latest=latest, path=path, odd=odd, lost=lost
        )

    def sites(self, path: str = "/") -> list[Place]:
        """Compare the sites whose agents serve a campaign, as `hosts` does."""
        present, past = self._presence(path), PastEnds(self._database, check_path(path))
        sample = past.with_sums(read_sample(self._database, path))
        odd = self._read_odd(self._database, path)
        latest = LatestTasks(self._database, path)
        return self._compared(
            "site", present, sample, self.bans(), past, latest=latest, path=path, odd=odd
        )

    def failures(self, path: str = "/", *, limit: int = 20) -> list[FailureVerdict]:
        """Judge whose fault failures at and below a path are, by campaign and class.

        Takes the same sample as `hosts`; most attempts first, `limit` classes at most. Raise
        `NotFound` if there is no such campaign.
        """
        past = PastEnds(self._database, check_path(path))
        sample = past.with_sums(read_sample(self._database, path))
        return self._judged(
            path, limit, sample, self.bans(), past, latest=LatestTasks(self._database, path)
        )

    def findings(self, path: str, *, limit: int, ended: int) -> Findings:
        """Return the results of `hosts`, `sites` and `failures` from one set of readings.

        ended: how many attempts there succeeded, failed or were lost.
        """
        past, present = PastEnds(self._database, path), self._presence(path)
        sample = past.with_sums(read_sample(self._database, path, ended))
        bans, odd = self.bans(), self._read_odd(self._database, path)
        latest = LatestTasks(self._database, path)
        failures = self._judged(path, limit, sample, bans, past, latest=latest)
        by_session = sample.groups if sample.by_session is None else sample.by_session
        by_size = {(it.campaign, it.error_class): it.cleared for it in failures if it.cleared}
        hosts = self._compared(
            "host", present, sample, bans, past, latest=latest, path=path, odd=odd
        )
        sites = self._compared(
            "site", present, sample, bans, past, latest=latest, path=path, odd=odd
        )
        return Findings(
            hosts=[_without_sizes(it, by_size) for it in hosts],
            sites=[_without_sizes(it, by_size) for it in sites],
            failures=failures,
            odd=replace(odd, shapes=[_dated_shapes(it, past) for it in odd.shapes]),
            moves=with_orders(self._database, with_latest(past.moves(), odd.moves)),
            idle=idle_hosts(by_session, lambda sessions: self._held(path, sessions)),
            losing=losing_places(by_session),
        )

    def _held(self, path: str, sessions: list[int]) -> list[TasksInHand]:
        rows = self._database.rows("held_since", path=path, sessions=sessions)
        return [TasksInHand(**row) for row in rows]

    def _presence(self, path: str) -> list[Presence]:
        rows = self._database.rows("places", path=check_path(path), limit=MAX_HOSTS)
        return [Presence(**row) for row in rows]

    def _lost(self, path: str) -> list[LostHost]:
        rows = self._database.rows("explain_lost", path=path, limit=MAX_LOST)
        return [LostHost(**row) for row in rows]

    def _judged(
        self,
        path: str,
        limit: int,
        sample: Sample,
        bans: Sequence[Ban],
        past: PastEnds,
        *,
        latest: LatestTasks,
    ) -> list[FailureVerdict]:
        others = OtherCampaigns(self._database, path, sample)
        rows = self._database.rows("failing_tasks", path=path, most=MOST)
        fates = [TaskFates(**row) for row in rows]
        found = blame(sample.groups, fates, limit, bans, sample.size)
        verdicts = [_dated(verdict, past, len(found)) for verdict in found]
        if any(verdict.attempts >= LEAST_SIZED for verdict in verdicts[:MOST_MESSAGES]):
            first = verdicts[:MOST_MESSAGES]
            sites = {group.host: group.site for group in sample.groups}
            first = [*with_sizes(first, latest.sizes, sites, bans)]
            if any(it.attempts >= LEAST_SIZED and is_vague(it) for it in first):
                first = [*with_crowds(first, read_times(self._database, path))]
            verdicts[: len(first)] = first
        for number, verdict in enumerate(verdicts[:MOST_MESSAGES]):
            if verdict.says_all:
                continue
            kind, only = verdict.place_kind, False
            if kind is not None:
                fails_in = {
                    others.fails_only_in(kind, name, verdict.since) for name in verdict.places
                }
                only = fails_in == {verdict.campaign}
            host = verdict.places[0] if verdict.side == "node" else None
            message = self._message(verdict.campaign, host, verdict.error_class)
            verdicts[number] = replace(verdict, message=message, only=only)
        return verdicts

    def _compared(
        self,
        kind: PlaceKind,
        present: Sequence[Presence],
        sample: Sample,
        bans: Iterable[Ban],
        past: PastEnds,
        *,
        latest: LatestTasks,
        path: str,
        odd: OddReadings,
        lost: Iterable[LostHost] = (),
    ) -> list[Place]:
        places = compare_places(
            kind,
            present,
            sample.groups,
            bans,
            sample.size,
            lost=lost,
            path=path,
            by_session=sample.by_session,
        )
        wrong = {
            name: f"{result.evidence} ({result.campaign})"
            for result in odd.places
            if not result.in_part
            for name in (result.hosts if kind == "host" else [result.name])
            if kind in {"host", result.kind}
        }
        others = OtherCampaigns(self._database, path, sample)
        near_by = odd.near_by.get(kind, {})
        places = [
            replace(unless_as_others(place, near_by), wrong=wrong.get(place.name, ""))
            for place in places
        ]
        accused = {place.name for place in places if place.is_failing}
        in_sites = {group.host: group.site for group in sample.groups}
        for number, place in enumerate(places):
            if place.is_failing and neighbours_fail(
                place, latest.sizes, in_sites, accused - {place.name}
            ):
                places[number] = replace(place, failing=None)
        places.sort(key=by_trouble)
        for number, place in enumerate(places[:MOST_MESSAGES]):
            if place.is_failing and place.worst is not None:
                campaign, error_class = place.worst
                host = place.name if kind == "host" else _worst_host(sample, place)
                message = self._message(campaign, host, error_class)
                begun = past.onset_at(kind, place.name, campaign, error_class)
                places[number] = replace(
                    place, message=message, since=None if begun is None else begun.since
                )
        places = [
            replace(it, only=others.fails_only_in(kind, it.name, it.since)) if it.is_failing else it
            for it in places
        ]
        slow = [number for number, place in enumerate(places) if place.is_slow and not place.since]
        for number in slow[:MOST_DATED]:
            since = self._slow_since(path, kind, places[number].name, past)
            places[number] = replace(places[number], since=since)
        return places

    def _slow_since(self, path: str, kind: PlaceKind, name: str, past: PastEnds) -> datetime | None:
        """Return since when attempts take long at a slow place; None if nothing is known of it.

        If their times have not risen there, as far as is known, it is since the first of them.
        """
        rows = self._database.rows("place_runs", path=path, kind=kind, name=name, most=MOST)
        runs = [
            sorted(zip(row["began_at"], map(math.log, row["run_s"]), strict=True)) for row in rows
        ]
        rises = [found for its in runs if (found := risen(its, math.log(NOTABLE)))]
        if rises or (found := past.slower_since(kind, name)):
            return min(rises, default=found)
        begins = [its[0][0] for its in runs if its]
        if (first := past.first_at(kind, name)) is not None:
            begins.append(first)
        return min(begins, default=None)

    def _message(self, campaign: str, host: str | None, error_class: str) -> str:
        """Return the last message of the latest failure of a class, on a host or on any.

        Empty if it is unknown.
        """
        found = self._database.row(
            "latest_failure",
            path=campaign,
            host=host,
            error_class=error_class,
            most=MOST_FAILURES,
        )
        return "" if found is None else found["line"] or found["error"] or ""


def _without_sizes(place: Place, by_size: Mapping[tuple[str, str], Sequence[str]]) -> Place:
    """Return a place; without the verdict that more fails, if that is due to its tasks' sizes."""
    cleared = place.worst is not None and place.name in by_size.get(place.worst, ())
    return replace(place, failing=None) if cleared else place


def _dated_shapes(found: OddShapes, past: PastEnds) -> OddShapes:
    """Return results that cannot be ranked with since when there are some, as the sums know it."""
    since = past.unranked_since(found.campaign, found.shapes) if found.shapes else None
    its = [it for it in (since, found.since) if it]
    return replace(found, since=min(its, default=None))


def _dated(verdict: FailureVerdict, past: PastEnds, looks: int) -> FailureVerdict:
    """Return a verdict with since when it is so, and what that costs."""
    campaign, error_class, kind = verdict.campaign, verdict.error_class, verdict.place_kind
    if kind is None:
        begun = past.onset(campaign, error_class)
    else:
        its = [
            past.onset_at(kind, name, campaign, error_class) for name in verdict.places[:MOST_DATED]
        ]
        begun = min((it for it in its if it), key=lambda it: it.since, default=None)
    since = None if begun is None else begun.since
    why = verdict.why
    if verdict.attempts >= LEAST_SIZED and (
        release := by_release(past.releases(campaign), error_class, looks)
    ):
        why += f"; {release}"
    if kind is None and (where := past.is_apart(campaign, error_class)):
        why += f"; these tasks were seeded {where} all that succeeded: it may be these tasks, or "
        why += "the time when they ran"
    return replace(
        verdict,
        why=why,
        since=since,
        first_task=None if begun is None else begun.first_task,
        is_new=None if begun is None else begun.is_new,
        cost=past.cost(campaign, error_class, since),
    )


def _worst_host(sample: Sample, site: Place) -> str:
    """Return the host of a site with most attempts of its worst class."""
    found = Counter[str]()
    for group in sample.groups:
        if group.site == site.name and (group.campaign, group.error_class) == site.worst:
            found[group.host] += group.attempts
    return found.most_common(1)[0][0]
