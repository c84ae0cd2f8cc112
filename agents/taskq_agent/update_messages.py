"""Messages about attempts that run: how far they are, and the end of the output that is followed.

They are parts of heartbeats and their answers, and only of those that need them: agents whose tasks
tell nothing, and whom nobody follows, exchange what they always did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from taskq_agent.protocol import Heartbeat, HeartbeatAnswer, Held

#: Updates that a heartbeat may carry, and those of them with output. Others come with none.
MAX_UPDATES = 500
MAX_OUTPUTS = 16
MAX_NOTE_CHARS = 120


@dataclass(frozen=True)
class Update:
    """What a running attempt tells.

    fraction: the part that is done, 0 to 1; note: for people; None and empty: it does not say.
    output: the last `MAX_TAIL_BYTES` of its output at most, in base64, of `written` bytes in all;
    None: nobody follows it.
    """

    campaign: int
    task: int
    lease: str
    fraction: Optional[float] = None
    note: str = ""
    output: Optional[str] = None
    written: int = 0

    @property
    def held(self) -> Held:
        """The fence of the attempt."""
        return Held(self.campaign, self.task, self.lease)


@dataclass(frozen=True)
class TellingHeartbeat(Heartbeat):
    """A heartbeat of an agent whose attempts tell something: one update each at most."""

    updates: Tuple[Update, ...] = ()


@dataclass(frozen=True)
class FollowingAnswer(HeartbeatAnswer):
    """An answer that asks for output.

    follow: attempts of the session whose output is wanted with the next heartbeats, which shall
    come every few seconds while it is.
    """

    follow: Tuple[Held, ...] = ()
