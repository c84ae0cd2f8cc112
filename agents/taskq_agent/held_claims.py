"""What heartbeats and their answers say of claims of tasks that begin together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Optional, Tuple

from taskq_agent.ids import Count, Id, LeaseId
from taskq_agent.wire import Most

#: Most claims in a heartbeat: an agent claims no more before some have ended.
MAX_HELD_CLAIMS = 500
#: Most begun tasks of a claim that a heartbeat names, and of all its claims that an agent names.
MAX_BEGUN = 1_000


@dataclass(frozen=True)
class HeldClaim:
    """What the agent holds of the tasks of a campaign that a claim of this session got.

    tasks: how many have not ended. begun: those of them that have begun, as their program says;
    None: it does not say, or they are too many to name.
    """

    campaign: Id
    lease: LeaseId
    tasks: Count
    begun: Optional[Annotated[Tuple[Id, ...], Most(MAX_BEGUN)]] = None


@dataclass(frozen=True)
class LeftOfClaim:
    """The tasks of a claim that a session still has: the agent stops all others."""

    campaign: Id
    lease: LeaseId
    tasks: Tuple[Id, ...] = ()
