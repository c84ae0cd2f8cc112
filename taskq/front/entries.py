"""Entries: the elements of the lists, and the check that one is genuine.

An entry is 32 hex digits and a JSON array, as PostgreSQL wrote it (lease_ahead.sql).
The digits are the first half of an HMAC-SHA256 over the array. The second half gives the lease id,
which is not in Redis. So anybody who can write there can repeat, move and drop entries, but not
forge one; anybody who can read there learns no lease.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple, cast

import msgspec

from taskq.db.connections import Row
from taskq_agent.protocol import Task

#: Seconds after which a task leased ahead waits again if no agent names it: the default until
#: PostgreSQL's own value is known.
POOL_S: Final = 120.0
_TAG: Final = 32


@dataclass(frozen=True, slots=True)
class Keys:
    """The Redis keys of one queue; name: its front's.

    state: a hash with the epoch and the low-water mark of each list. wanted: a set of the campaigns
    whose lists were found empty. wake: a list with one element when the refiller should look.
    """

    name: str
    state: bytes = field(init=False)
    wanted: bytes = field(init=False)
    wake: bytes = field(init=False)
    _tasks: bytes = field(init=False)

    def __post_init__(self) -> None:
        prefix = f"taskq:{{{self.name}}}:".encode()
        for what in ("state", "wanted", "wake"):
            object.__setattr__(self, what, prefix + what.encode())
        object.__setattr__(self, "_tasks", prefix + b"tasks:%d")

    def tasks(self, campaign: int) -> bytes:
        """Return the key of a campaign's list of entries."""
        return self._tasks % campaign


class _Body(msgspec.Struct, array_like=True, gc=False):
    campaign: int
    revision: int
    task: int
    attempt: int
    leased_ms: int
    key: str
    payload: msgspec.Raw


_keys: Final = cache(Keys)
_decode: Final = msgspec.json.Decoder(_Body).decode


@dataclass(frozen=True, slots=True)
class FrontState:
    """The state of the front in PostgreSQL.

    epoch: 0 as long as there is no front. pool_s: seconds for which a task stays leased to the
    pool. offset_ms: PostgreSQL's clock minus the local monotonic clock.
    """

    name: str
    epoch: int
    secret: bytes = field(repr=False)
    pool_s: float
    offset_ms: float

    @classmethod
    def from_row(cls, row: Row, asked_at: float) -> FrontState:
        """Make a state from a row of the statement `front_state` or `begin_front`.

        asked_at: monotonic seconds when the statement was sent. PostgreSQL reads its clock later
        than that, so the offset never underestimates its time, and no entry seems younger than it
        is.
        """
        offset_ms = row["now_ms"] - asked_at * 1000
        return cls(row["name"], row["epoch"], bytes(row["secret"]), row["pool_s"], offset_ms)

    @property
    def keys(self) -> Keys:
        """The keys in Redis."""
        return _keys(self.name)

    def until(self, leased_ms: int) -> float:
        """Return until when an entry may be handed out, in seconds of the local monotonic clock.

        That is half of the pool's time; in the other half the agent's first heartbeat must reach
        PostgreSQL.
        """
        return (leased_ms - self.offset_ms) / 1000 + self.pool_s / 2


class Entry(NamedTuple):
    """A genuine entry. raw: as it was popped. until: when it is too old, in monotonic seconds."""

    task: Task
    raw: bytes
    until: float


def open_entry(raw: bytes, state: FrontState) -> Entry | None:
    """Verify and decode an entry of this epoch, of any age; None if it is not genuine.

    The payload stays JSON text (`msgspec.Raw`), which msgspec writes unchanged; decode it with
    `msgspec.json.decode` where an object is needed.
    """
    body = raw[_TAG:]
    digest = hmac.digest(state.secret, body, "sha256").hex()
    if not hmac.compare_digest(digest[:_TAG].encode(), raw[:_TAG]):
        return None
    try:
        read = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # the secret has leaked, or PostgreSQL writes what this release cannot read
    time = f"{read.leased_ms:012x}"
    lease = f"{time[:8]}-{time[8:]}-8{digest[32:35]}-8{digest[35:38]}-{digest[38:50]}"  # version 8
    payload = cast("Mapping[str, Any]", read.payload)
    task = Task(read.campaign, read.revision, read.task, read.key, read.attempt, lease, payload)
    return Entry(task, raw, state.until(read.leased_ms))
