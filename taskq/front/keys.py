"""The names of what is kept in Redis.

All names of one queue carry the same hash tag, the part in braces, so that a Redis Cluster keeps
them on one node and a script may use several of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one queue; name: that of its front.

    state: the epoch, and the low-water mark of each list. wanted: campaigns that were asked for in
    vain. wake: a list with one element when the refiller should look.
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
