"""What heartbeats say of the devices and named resources that slots have of their node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Tuple

from taskq_agent.ids import Count, Id
from taskq_agent.named_resources import MAX_RESOURCES
from taskq_agent.wire import Most, Words

#: A share is counted in parts of a device, so that sums are exact.
WHOLE = 1_000
#: Slots whose shares a heartbeat names, and devices of each.
MAX_SHARES = 64
MAX_SHARE_DEVICES = 16
MAX_DEVICE_CHARS = 80

_Name = Annotated[str, Words(MAX_DEVICE_CHARS)]


@dataclass(frozen=True)
class DeviceShare:
    """A device, or a part of one, in thousandths."""

    name: _Name
    parts: Annotated[int, range(WHOLE + 1)] = WHOLE


@dataclass(frozen=True)
class NamedShare:
    """An amount of a named resource."""

    name: _Name
    amount: Id


@dataclass(frozen=True)
class SlotShare:
    """What a slot has of its node.

    task: the one that runs there, or the first of those that began together.
    """

    slot: Count
    campaign: Id
    task: Id
    devices: Annotated[Tuple[DeviceShare, ...], Most(MAX_SHARE_DEVICES)] = ()
    resources: Annotated[Tuple[NamedShare, ...], Most(MAX_RESOURCES)] = ()
