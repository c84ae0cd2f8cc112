"""When campaigns end: what the simulation of the queue gets of the readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from taskq.db.rows import Row
from taskq.diagnosis.tree_readings import (
    Prospect,
    TreeReadings,
    UsualRun,
    is_enough,
    pace_of,
)
from taskq.model.run_ends import USUAL_SPREAD, SlotKind, WorkLeft, run_ends
from taskq.model.views import Status

#: With fewer slots for each start that waits, starts get fewer tasks; see `shares_of_tail` in SQL.
_TAIL: Final = 2.0


def foreseen(read: TreeReadings, at: float) -> Prospect:
    """Return when campaigns end, at an instant by a monotonic clock; nothing if nothing runs."""
    found = read.prospect
    if found.anew != read.anew:
        found = read.prospect = _simulated(read, at)
    if found.at == at:
        return found
    return replace(
        found, ends={campaign: span.later(at - found.at) for campaign, span in found.ends.items()}
    )


def _simulated(read: TreeReadings, at: float) -> Prospect:
    if not any(row["working"] for row in read.sharing):
        return Prospect(at=at, anew=read.anew)
    own = {status.campaign_id: status for status in read.statuses}
    kinds, caps = _kinds(read), _caps(read.sharing)
    works = _works(read, own, kinds, at)
    ends = run_ends(works, kinds, caps)
    late = {
        campaign: own[campaign].delayed
        for campaign, due_at in read.dues.items()
        if campaign in ends and campaign in own and due_at - at > ends[campaign].s
    }
    if late:  # delayed tasks that are due later keep no slots from others until then
        works = [replace(it, left=it.left - late.get(it.campaign, 0)) for it in works]
        ends = run_ends(works, kinds, caps)
    serving: dict[int, int] = {}
    for number, kind in enumerate(kinds):
        for campaign in kind.campaigns:
            serving[campaign] = serving.get(campaign, 0) | 1 << number
    return Prospect(ends, serving, [kind.slots for kind in kinds], at, read.anew)


def _kinds(read: TreeReadings) -> list[SlotKind]:
    """Return the slots by what they serve.

    Of those that serve campaigns elsewhere too, which the caller may not see, only those count that
    have tasks of the visible campaigns in hand.
    """
    working = {row["campaign_id"]: row["working"] for row in read.sharing}
    slots: dict[frozenset[int], float] = {}
    for row in read.kinds:
        campaigns = frozenset(row["campaigns"])
        known = float(row["slots"])
        if row["is_wider"]:
            known = min(known, sum(working.get(campaign, 0) for campaign in campaigns))
        if campaigns and known:
            slots[campaigns] = slots.get(campaigns, 0.0) + known
    return [SlotKind(number, campaigns) for campaigns, number in slots.items()]


def _caps(sharing: Sequence[Row]) -> dict[str, float]:
    """Return the limits that campaigns share: the named ones, and those of owners."""
    caps = {f"limit {name}": most for row in sharing for name, most in _named(row)}
    caps |= {
        f"owner {row['owner']}": row["owner_most"]
        for row in sharing
        if row["owner_most"] is not None
    }
    return {name: float(most) for name, most in caps.items()}


def _named(row: Row) -> list[tuple[str, int]]:
    return list(zip(row["caps"], row["cap_mosts"], strict=True))


def _works(
    read: TreeReadings, own: Mapping[int, Status], kinds: Sequence[SlotKind], at: float
) -> list[WorkLeft]:
    """Return what is left of each campaign.

    Of one of which no run time is known the usual one of the others is assumed.
    """
    found: list[WorkLeft] = []
    unknown: list[WorkLeft] = []
    for row in read.sharing:
        work = _work(read, row, own.get(row["campaign_id"]), kinds, at)
        (found if work.seen else unknown).append(work)
    if not found:
        return []
    usual = {name: median(getattr(it, name) for it in found) for name in ("task_s", "start_s")}
    return found + [replace(work, **usual) for work in unknown]


def _work(
    read: TreeReadings, row: Row, status: Status | None, kinds: Sequence[SlotKind], at: float
) -> WorkLeft:
    campaign, batch = row["campaign_id"], row["batch"]
    slots = sum(kind.slots for kind in kinds if campaign in kind.campaigns)
    left = row["working"] + (row["waiting"] if row["is_open"] and slots else 0)
    ended, tried = row["ended"], max(row["tried"], row["ended"])
    if status is not None:
        ended = status.done + status.failed
        tried = max(ended, status.done + status.failures + status.losses)
    tries = tried / ended if ended else 1.0
    work = WorkLeft(
        campaign=campaign,
        left=float(left),
        working=float(row["working"]),
        task_s=1.0,
        start_s=1.0,
        weight=row["weight"],
        owner=row["owner"],
        owner_weight=row["owner_weight"],
        together=(batch + 1) / 2,  # on average between a claim and its last report
        most=_most(row, read.kinds) * 2 / (batch + 1),
        caps=(
            *(f"limit {name}" for name, _ in _named(row)),
            *([] if row["owner_most"] is None else [f"owner {row['owner']}"]),
        ),
        retried=1 - 1 / tries,
        pause_s=row["backoff_s"],
    )
    run, base = read.runs.get(campaign), read.bases.get(campaign)
    if run is not None:
        together = min(batch, max(1.0, left / max(_TAIL * slots, 1.0)))
        work = replace(
            work,
            task_s=run.mean_s * tries,
            start_s=run.mean_s * together,
            spread=USUAL_SPREAD if run.spread is None else run.spread / together**0.5,
            seen=run.attempts or 1,
            rested_s=_rested_s(run, at),
        )
    pace = pace_of(base, ended, at)
    if pace is None or not is_enough(pace) or batch > 1 or row["has_below"]:
        return work
    if base is not None and base.working:
        task_s = base.working / pace.per_s
        start_s = task_s / tries if run is None else work.start_s
        seen = max(work.seen, pace.ended or 0)
        work = replace(work, task_s=task_s, start_s=start_s, seen=seen)
    return work


def _rested_s(run: UsualRun, at: float) -> float:
    """Return how long ago the latest task that runs was claimed."""
    return run.youngest_s + max(0.0, at - run.at) if run.youngest_s else 0.0


def _most(row: Row, rows: Sequence[Row]) -> float:
    """Return how many tasks of a campaign may run at a time."""
    most = float("inf") if row["most"] is None else float(row["most"])
    if row["site_most"] is not None:
        sites: dict[str, int] = {}
        for kind in rows:
            if row["campaign_id"] in kind["campaigns"]:
                for site, slots in kind["sites"].items():
                    sites[site] = sites.get(site, 0) + slots
        most = min(most, sum(min(row["site_most"], slots) for slots in sites.values()))
    return most
