"""What of a node is free for further starts: parts of devices, and amounts of named resources.

Each start takes what its campaign needs, all of it or nothing, and nothing is given out twice. A
device is counted in parts, so that sums are exact. Memory is not counted here: only the slot learns
how much an attempt may occupy, see `limits.MemoryRoom`.
"""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple, Optional, Tuple

from taskq_agent.protocol import CampaignTerms
from taskq_agent.resources import Resources
from taskq_agent.slot_shares import WHOLE


class Grant(NamedTuple):
    """What a start has of its node.

    devices: names, each with the parts of it. gpu_memory: bytes that the start may occupy on each
    device; None if unknown. amounts: of named resources.
    """

    devices: Tuple[Tuple[str, int], ...] = ()
    gpu_memory: Optional[int] = None
    amounts: Mapping[str, int] = {}

    @property
    def names(self) -> Tuple[str, ...]:
        """The names of the devices."""
        return tuple(name for name, _ in self.devices)


class Room:
    """Free parts of a node's devices and named resources, and what each slot has of them.

    A node without devices has none to share out: campaigns that need some get none there.
    """

    def __init__(self, node: Resources) -> None:
        self._node = node
        self._parts = dict.fromkeys(node.gpus, WHOLE)
        self._amounts = dict(node.named)
        self._taken: Dict[int, Grant] = {}
        self._last: Dict[int, Tuple[str, ...]] = {}

    def copy(self) -> Room:
        """Return a room to try what would fit; of the slots it knows nothing."""
        copied = Room(self._node)
        copied._parts, copied._amounts = dict(self._parts), dict(self._amounts)
        return copied

    def empty(self) -> Room:
        """Return the room of a node where nothing runs."""
        return Room(self._node)

    def counts(self, terms: CampaignTerms) -> bool:
        """Return whether starts of a campaign need something that is counted here."""
        return bool(terms.named_resources) or (terms.gpus is not None and bool(self._parts))

    def take(self, slot: int, terms: CampaignTerms) -> Optional[Grant]:
        """Give a slot what a start of a campaign needs, if there is room.

        The slot gets the devices that it had before if they are free, so that its child can stay.
        """
        grant = self.place(terms, self._last.get(slot, ()))
        if grant is not None:
            self._taken[slot], self._last[slot] = grant, grant.names
        return grant

    def place(
        self, terms: CampaignTerms, likely: Tuple[str, ...] = (), *, force: bool = False
    ) -> Optional[Grant]:
        """Take what a start of a campaign needs; None if there is no room.

        Of devices: those that are `likely`, then those with most free parts. force: take it even
        if it is not free, in order to keep others from it.
        """
        devices = self._devices_for(terms, likely, force=force)
        amounts = terms.named_resources
        if devices is None or not (force or self._has(amounts)):
            return None
        for name, parts in devices:
            self._parts[name] -= parts
        for name, amount in amounts.items():
            self._amounts[name] = self._amounts.get(name, 0) - amount
        sizes = [self._node.gpu_memory.get(name, 0) * parts // WHOLE for name, parts in devices]
        return Grant(devices, min(sizes, default=0) or None, amounts)

    def give_back(self, slot: int) -> bool:
        """Free what a slot has; return whether it had anything."""
        grant = self._taken.pop(slot, None)
        if grant is None:
            return False
        for name, parts in grant.devices:
            self._parts[name] += parts
        for name, amount in grant.amounts.items():
            self._amounts[name] += amount
        return bool(grant.devices or grant.amounts)

    def slots(self) -> Tuple[int, ...]:
        """Return the slots that have something."""
        return tuple(self._taken)

    def granted(self) -> Mapping[int, Grant]:
        """Return what each slot has."""
        return self._taken

    def lacks(self, terms: CampaignTerms) -> str:
        """Return what has no room for a start of a campaign, for people."""
        lacking = [
            f"{max(0, self._amounts.get(name, 0)):,} of {self._node.named.get(name, 0):,} {name} "
            f"{'is' if self._node.named.get(name) == 1 else 'are'} free, and it needs {amount:,}"
            for name, amount in terms.named_resources.items()
            if self._amounts.get(name, 0) < amount
        ]
        if self._devices_for(terms, ()) is None:
            size = "" if terms.gpu_memory is None else f" with {terms.gpu_memory:,} bytes"
            many = len(self._node.gpus)
            text = f"no device has room for {terms.gpus:g}{size}, of {many}"
            if terms.gpus is not None and terms.gpus > 1:
                free = sum(parts == WHOLE for parts in self._parts.values())
                text = f"{free} of {many} devices are free, and it needs {terms.gpus:g}{size}"
            lacking.append(text)
        return "; ".join(lacking)

    def _has(self, amounts: Mapping[str, int]) -> bool:
        return all(self._amounts.get(name, 0) >= amount for name, amount in amounts.items())

    def _devices_for(
        self, terms: CampaignTerms, likely: Tuple[str, ...], *, force: bool = False
    ) -> Optional[Tuple[Tuple[str, int], ...]]:
        """Return the devices for a start, with the parts of each; None if they are not free."""
        if terms.gpus is None or not self._parts:
            return ()
        wanted = max(1, int(terms.gpus))
        needed = {name: self._parts_of(name, terms) for name in self._parts}
        fitting = [
            name for name, free in self._parts.items() if needed[name] <= (WHOLE if force else free)
        ]
        if len(fitting) < wanted:
            return None
        order = [*self._parts]
        fitting.sort(key=lambda name: (name not in likely, -self._parts[name], order.index(name)))
        return tuple((name, needed[name]) for name in fitting[:wanted])

    def _parts_of(self, name: str, terms: CampaignTerms) -> int:
        """Return how many parts of a device a start needs, for its share or for its memory."""
        share = min(terms.gpus or 1, 1)
        parts = max(1, round(share * WHOLE))
        size = self._node.gpu_memory.get(name)
        if terms.gpu_memory is not None and size:
            parts = max(parts, -(-WHOLE * terms.gpu_memory // size))
        return parts
