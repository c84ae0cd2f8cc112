"""Places whose slots stand idle between tasks, where those of others do not.

Their tasks succeed and take as long as elsewhere, so no verdict on these finds it: what lies
between two tasks takes long, such as answers that come over a slow network, inputs, or the start of
programs from a slow disk. A session is compared with others that were there at the same time: they
had the same tasks to wait for. A slot whose task has not ended yet is not idle, however long that
takes: what sessions have now counts as work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import Final

from taskq.diagnosis.judging import is_split
from taskq.diagnosis.sample import AttemptGroup
from taskq.diagnosis.usual import SlotUse, slot_uses

#: Slots are idle if their use is below this part of what is usual, which must be at least `_USUAL`:
#: where tasks are few for all, hosts differ by chance.
_PART: Final = 0.5
_USUAL: Final = 0.25
#: Attempts of a session, and sessions, from which on they are compared; the most that are.
_LEAST_ATTEMPTS: Final = 12
_LEAST_PEERS: Final = 3
_MOST_JUDGED: Final = 50


@dataclass(frozen=True, slots=True)
class IdleHost:
    """A host with sessions whose slots are mostly idle.

    use, usual: the shares of the slots' time in which payloads ran, there and elsewhere.
    """

    host: str
    site: str
    slots: int
    use: float
    usual: float

    @property
    def lost_slots(self) -> float:
        """How many of its slots do nothing that would work elsewhere."""
        return self.slots * (1 - self.use / self.usual)


@dataclass(frozen=True, slots=True)
class TasksInHand:
    """Tasks that a session has now. claimed_at: of all of them."""

    session_id: int
    claimed_at: datetime
    tasks: int


def idle_hosts(
    groups: Iterable[AttemptGroup], held_by: Callable[[list[int]], Iterable[TasksInHand]]
) -> list[IdleHost]:
    """Return the hosts whose slots are mostly idle, those that lose most first.

    held_by: returns what some sessions have now.
    """
    uses = [it for it in slot_uses(groups) if it.attempts >= _LEAST_ATTEMPTS and it.host]
    low = sorted((it for it in uses if it.use < _PART), key=lambda it: it.use)[:_MOST_JUDGED]
    if not low:
        return []
    held: dict[int, list[TasksInHand]] = defaultdict(list)
    for tasks in held_by([it.session_id for it in low]):
        held[tasks.session_id].append(tasks)
    idle: dict[tuple[str, str], list[tuple[SlotUse, float]]] = defaultdict(list)
    for it in (_with_held(it, held[it.session_id]) for it in low):
        usual = _usual(it, uses)
        if usual >= _USUAL and it.use < _PART * usual:
            idle[it.site, it.host].append((it, usual))
    if is_split(len(idle), len({(it.site, it.host) for it in uses})):
        return []
    found = [_host(*place, some) for place, some in idle.items()]
    return sorted(found, key=lambda it: (-it.lost_slots, it.host))


def _with_held(session: SlotUse, held: Iterable[TasksInHand]) -> SlotUse:
    """Return the use of slots with the tasks that have not ended yet."""
    held_s = 0.0
    for it in held:
        since_s = (session.last - max(it.claimed_at, session.first)).total_seconds()
        held_s += min(it.tasks, session.slots) * max(0.0, since_s)
    return replace(session, payload_s=session.payload_s + held_s)


def _usual(session: SlotUse, uses: Sequence[SlotUse]) -> float:
    """Return the usual use of slots on other hosts meanwhile; 0 if too little is known."""
    peers = [it.use for it in uses if it.host != session.host and it.was_there_with(session)]
    return median(peers) if len(peers) >= _LEAST_PEERS else 0.0


def _host(site: str, host: str, some: Sequence[tuple[SlotUse, float]]) -> IdleHost:
    slots = sum(it.slots for it, _ in some)
    use = sum(it.slots * it.use for it, _ in some) / slots
    usual = sum(it.slots * usual for it, usual in some) / slots
    return IdleHost(host, site, slots, use, usual)


def by_site(hosts: Iterable[IdleHost]) -> Iterator[list[IdleHost]]:
    """Yield the hosts of each site."""
    sites: dict[str, list[IdleHost]] = defaultdict(list)
    for it in hosts:
        sites[it.site].append(it)
    yield from sites.values()
