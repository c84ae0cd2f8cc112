"""Messages about single tasks that an agent holds: checkpoints, progress, followed output.

Updates are parts of heartbeats and their answers, and only of those that need them: agents without
updates and followers exchange plain heartbeats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Optional, Tuple

from taskq_agent.ids import Id, LeaseId
from taskq_agent.protocol import MAX_TAIL_BYTES, Heartbeat, HeartbeatAnswer, Held
from taskq_agent.transport import MAX_BLOB_BYTES
from taskq_agent.wire import Base64, Between, Most, Words

#: Most updates of a heartbeat, and most of them with output; the others come without output.
MAX_UPDATES = 500
MAX_OUTPUTS = 16
MAX_NOTE_CHARS = 120

_MAYBE_DIGEST = re.compile("([0-9a-f]{64})?")


@dataclass(frozen=True)
class Update:
    """Progress and output of a running attempt.

    fraction: the finished part, 0 to 1; None if unknown. note: for people; may be empty.
    output: the last `MAX_TAIL_BYTES` of its output at most, in base64, of `written` bytes in all;
    None if nobody follows it.
    """

    campaign: Id
    task: Id
    lease: LeaseId
    fraction: Optional[Annotated[float, Between(0, 1)]] = None
    note: Annotated[str, Words(MAX_NOTE_CHARS)] = ""
    output: Optional[Annotated[str, Base64(MAX_TAIL_BYTES)]] = None
    written: Id = 0

    @property
    def held(self) -> Held:
        """The fence of the attempt."""
        return Held(self.campaign, self.task, self.lease)


@dataclass
class UpdatingHeartbeat(Heartbeat):
    """A heartbeat with updates of attempts, at most one of each."""

    updates: Annotated[Tuple[Update, ...], Most(MAX_UPDATES)] = ()


@dataclass(frozen=True)
class FollowingAnswer(HeartbeatAnswer):
    """An answer that asks for output.

    follow: attempts of the session whose output the next heartbeats carry. While there are
    some, heartbeats come every few seconds.
    """

    follow: Tuple[Held, ...] = ()


@dataclass(frozen=True)
class CheckpointRequest:
    """Asks for the checkpoint of a task that the session holds, or saves one, or output files.

    digest, size: of the blob to be stored; empty and 0 to ask.
    """

    campaign: Id
    task: Id
    lease: LeaseId
    digest: Annotated[str, _MAYBE_DIGEST, Most(64)] = ""
    size: Annotated[int, range(MAX_BLOB_BYTES + 1)] = 0


@dataclass(frozen=True)
class CheckpointAnswer:
    """The checkpoint of a task; digest empty and size 0 if there is none.

    held: whether the lease is valid; if not, nothing was saved. memory_failures: how often the
    task has run out of memory.
    """

    held: bool
    digest: str = ""
    size: int = 0
    memory_failures: int = 0
