"""Which campaigns have room to begin on this node, where their starts need some of it.

A claim leaves out the campaigns that have no room; what comes all the same goes back at once. A
campaign that has waited for long has the next room: others get only what it leaves. So a task that
needs a whole device gets one although small shares are in demand. Campaigns that need nothing which
is counted cost nothing here.
"""

from __future__ import annotations

from typing import Callable, Collection, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from taskq_agent.core.held_tasks import QueuedTask, RunningTask
from taskq_agent.protocol import Answer, CampaignTerms, Held, Request
from taskq_agent.room import Grant, Room
from taskq_agent.slot_shares import (
    MAX_SHARE_DEVICES,
    MAX_SHARES,
    WHOLE,
    DeviceShare,
    NamedShare,
    SlotShare,
)
from taskq_agent.wire import dumps, fitted

#: Seconds after which a campaign without room has the next.
_PATIENCE_S = 30.0
_MOST_KNOWN = 64
#: Shares in a heartbeat: what it says of anything but attempts has a limit, see `beat.sql`.
_MOST_SHARE_BYTES = 8_000

Pair = Tuple[int, int]


class Rationing:
    """Shares out the room of a node. room: None means that nothing is counted.

    size: how many tasks of a campaign begin together.
    """

    def __init__(self, room: Optional[Room], size: Callable[[CampaignTerms], int]) -> None:
        self._room = room
        self._size = size
        self._known: Dict[int, CampaignTerms] = {}
        self._expected: Set[int] = set()
        self._waiting: Dict[int, float] = {}
        self._left_out = self._freed = False
        self._news: List[str] = []

    def counts(self, terms: CampaignTerms) -> bool:
        """Return whether starts of a campaign need room."""
        return self._room is not None and self._room.counts(terms)

    def settle(self, idle: Collection[int]) -> None:
        """Take back what slots have that are idle now."""
        if self._room is not None:
            for slot in self._room.slots():
                if slot in idle and self._room.give_back(slot):
                    self._freed = True

    def has_freed(self) -> bool:
        """Return whether a campaign that had no room may have some since the last call."""
        freed, self._freed = self._freed, False
        return freed and (self._left_out or bool(self._waiting))

    def next(self, queue: Iterable[QueuedTask]) -> Optional[QueuedTask]:
        """Return the first task that has room to begin."""
        full: Set[int] = set()
        for queued in queue:
            if queued.task.campaign not in full:
                if self.starts(queued.campaign, 1):
                    return queued
                full.add(queued.task.campaign)
        return None

    def starts(self, terms: CampaignTerms, most: int) -> int:
        """Return how many starts of a campaign, `most` at most, fit next to what runs."""
        if self._room is None or not self._room.counts(terms):
            return most
        return _starts(self._room.copy(), terms, most)

    def begin(self, slot: int, terms: CampaignTerms) -> Optional[Grant]:
        """Give a slot what a start of a campaign needs, for which there is room."""
        if self._room is None or not self._room.counts(terms):
            return None
        self._waiting.pop(terms.campaign, None)
        return self._room.take(slot, terms)

    def shares(self, running: Mapping[int, RunningTask]) -> Tuple[SlotShare, ...]:
        """Return what slots have of the node, for heartbeats: as many as these have room for."""
        granted = {} if self._room is None else self._room.granted()
        found: List[SlotShare] = []
        room = _MOST_SHARE_BYTES
        for slot, grant in sorted(granted.items()):
            if slot in running and (grant.devices or grant.amounts):
                share = _share(slot, running[slot].held, grant)
                room -= len(dumps(share).encode())
                if room < 0 or len(found) == MAX_SHARES:
                    break
                found.append(share)
        return tuple(found)

    def intake(self, queue: Iterable[QueuedTask], now: float) -> Intake:
        """Return what decides which tasks of an answer have room."""
        intake = Intake(self._room, self._size, self._first_in_turn(now))
        for queued in queue:
            intake.takes(queued.campaign)
        return intake

    def refused(self, terms: CampaignTerms, why: str, now: float) -> None:
        """Note that a task of a campaign has no room, and why."""
        room = self._room
        if room is None or terms.campaign in self._waiting:
            return
        if _starts(room.empty(), terms, 1):
            self._waiting[terms.campaign] = now
            self._news.append(f"{terms.path} waits for room here: {why}")
        else:
            self._waiting[terms.campaign] = float("inf")
            self._news.append(f"{terms.path} never has room here: {room.empty().lacks(terms)}")

    def news(self) -> List[str]:
        """Return what people should read about campaigns without room, once."""
        news, self._news = self._news, []
        return news

    def without(self, queue: Iterable[QueuedTask], now: float) -> Tuple[Pair, ...]:
        """Return the (campaign, revision) pairs without room, which a claim leaves out."""
        if not self._known:
            self._left_out = False
            return ()
        intake = self.intake(queue, now)
        found = tuple(
            (terms.campaign, terms.revision)
            for terms in self._known.values()
            if not intake.has_place(terms)
        )
        self._left_out = bool(found)
        return found

    def most(self, queue: Iterable[QueuedTask], want: int, now: float) -> int:
        """Return how many of so many tasks to claim: no more than surely have room.

        That counts for campaigns whose tasks the last claims have brought.
        """
        if not self._expected or want <= 1:
            return want
        intake = self.intake(queue, now)
        rooms = [intake.room(self._known[campaign], want) for campaign in self._expected]
        return min([want, *filter(None, rooms)])

    def claimed(self, answer: Answer, claim: Request) -> None:
        """Learn from the answer to a claim which campaigns have tasks that need room."""
        if self._room is None:
            return
        brought = {task.campaign for task in answer.tasks}
        is_scarce = len(answer.tasks) < claim.want
        for campaign, terms in [*self._known.items()]:
            asked = (campaign, terms.revision) not in claim.without
            if asked and campaign not in brought:
                self._expected.discard(campaign)
                if is_scarce:
                    self._forget(campaign)
        for terms in answer.campaigns:
            if self._room.counts(terms) and terms.campaign in brought:
                self._known.pop(terms.campaign, None)
                self._known[terms.campaign] = terms
                self._expected.add(terms.campaign)
        while len(self._known) > _MOST_KNOWN:
            self._forget(next(iter(self._known)))

    def _forget(self, campaign: int) -> None:
        self._known.pop(campaign, None)
        self._waiting.pop(campaign, None)
        self._expected.discard(campaign)

    def _first_in_turn(self, now: float) -> Optional[CampaignTerms]:
        """Return the campaign that has the next room, if one has waited for long."""
        for campaign, since in self._waiting.items():
            if now - since >= _PATIENCE_S and campaign in self._known:
                return self._known[campaign]
        return None


class Intake:
    """Tries in a copy of the room which tasks could begin next to what runs and waits.

    first: the campaign that has the next room.
    """

    def __init__(
        self,
        room: Optional[Room],
        size: Callable[[CampaignTerms], int],
        first: Optional[CampaignTerms],
    ) -> None:
        self._room = None if room is None else room.copy()
        self._size = size
        self._first = first
        self._open: Dict[Pair, int] = {}

    def takes(self, terms: CampaignTerms) -> bool:
        """Return whether a further task of a campaign has room, and count it if it has."""
        if self._room is None or not self._room.counts(terms):
            return True
        pair = terms.campaign, terms.revision
        if not self._open.get(pair):
            if not self.has_room(terms):
                return False
            self._room.place(terms)
            if self._first is not None and self._first.campaign == terms.campaign:
                self._first = None
            self._open[pair] = self._size(terms)
        self._open[pair] -= 1
        return True

    def has_place(self, terms: CampaignTerms) -> bool:
        """Return whether a further task of a campaign has room, also in a start that waits."""
        return self._places(terms) > 0 or self.has_room(terms)

    def has_room(self, terms: CampaignTerms) -> bool:
        """Return whether a further start of a campaign has room."""
        return self._room is None or _starts(self._room_for(terms, self._room), terms, 1) > 0

    def lacks(self, terms: CampaignTerms) -> str:
        """Return what has no room for a further start of a campaign, for people."""
        return "" if self._room is None else self._room_for(terms, self._room).lacks(terms)

    def room(self, terms: CampaignTerms, most: int) -> int:
        """Return how many further tasks of a campaign have room, about `most` at most."""
        if self._room is None:
            return most
        size = self._size(terms)
        starts = _starts(self._room_for(terms, self._room), terms, -(-most // size))
        return self._places(terms) + size * starts

    def _places(self, terms: CampaignTerms) -> int:
        """Return how many tasks a start that waits can still get."""
        return self._open.get((terms.campaign, terms.revision), 0)

    def _room_for(self, terms: CampaignTerms, room: Room) -> Room:
        """Return a copy of the room, without what another campaign is to have."""
        copied = room.copy()
        if self._first is not None and self._first.campaign != terms.campaign:
            copied.place(self._first, force=True)
        return copied


def _starts(room: Room, terms: CampaignTerms, most: int) -> int:
    """Return how many starts of a campaign, `most` at most, fit into a room, which they fill."""
    fit = 0
    while fit < most and room.place(terms) is not None:
        fit += 1
    return fit


def _share(slot: int, held: Held, grant: Grant) -> SlotShare:
    devices = (
        fitted(DeviceShare(name, min(parts, WHOLE)))
        for name, parts in grant.devices[:MAX_SHARE_DEVICES]
    )
    amounts = (NamedShare(name, amount) for name, amount in grant.amounts.items())
    return SlotShare(slot, held.campaign, held.task, tuple(devices), tuple(amounts))
