"""Entries in a gateway's memory: those popped ahead of claims, and those of recent answers.

Without the buffer each claim would wait for a pop, and a pop costs the gateway as much as several
claims. It holds what is claimed here in some hundredths of a second. When claims stop, the rest is
given back soon: other gateways may need it, and a pause or a higher priority must not wait for it.

Entries are verified one by one as they are handed out. To verify all entries of a pop at once would
block the event loop for a millisecond.

Pure: times are monotonic seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from taskq.front.entries import Entry
from taskq_agent.protocol import MAX_CLAIM, Task

#: A buffer holds what is claimed in this many seconds ...
AHEAD_S: Final = 0.04
#: ... at most this many entries; it is given back after this many seconds without a claim.
MOST: Final = 512
KEEP_S: Final = 0.25
#: Seconds over which the rate of claims is measured.
_LEARN_S: Final = 0.1


#: Returns the entry in some bytes if it is genuine, of this campaign, and not too old at this time.
Open: TypeAlias = Callable[[bytes, int, float], "Entry | None"]


Callback: TypeAlias = Callable[[list[Task]], None]

MOST_SESSIONS: Final = 50_000
MOST_BYTES: Final = 64 << 20


class Claim:
    """A claim that waits. callbacks: for the claim and its repetitions."""

    __slots__ = ("callbacks", "lease", "session", "want")

    def __init__(self, session: int, lease: str, want: int, callback: Callback) -> None:
        self.session = session
        self.lease = lease
        self.want = want
        self.callbacks = [callback]


class Buffer:
    """The entries of one campaign, in the order in which they are to be handed out.

    claims: those that wait for it, in order of arrival.
    """

    __slots__ = (
        "_campaign",
        "_claimed",
        "_entries",
        "_low",
        "_rate",
        "_since",
        "claimed_at",
        "claims",
        "popping",
        "target",
    )

    def __init__(self, campaign: int, now: float) -> None:
        self._campaign = campaign
        self._entries: deque[bytes] = deque()
        self.claims: deque[Claim] = deque()
        self._rate = 0.0
        self._claimed = self._low = 0
        self._since = self.claimed_at = now
        #: Entries to hold.
        self.target = 0
        #: Whether a pop is under way.
        self.popping = False

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entries: Iterable[bytes]) -> None:
        """Append entries; they need not be genuine."""
        self._entries.extend(entries)

    def claim(self, want: int, now: float, opened: Open) -> list[Entry]:
        """Take valid entries, up to `want`; drop others."""
        self._claimed += want
        self.claimed_at = now
        taken: list[Entry] = []
        entries = self._entries
        while entries and len(taken) < want:
            entry = opened(entries.popleft(), self._campaign, now)
            if entry is not None:
                taken.append(entry)
        return taken

    def is_low(self) -> bool:
        """Return whether a pop should begin: a third of the target is gone."""
        return len(self._entries) < self._low and not self.popping

    def learn(self, now: float) -> None:
        """Set the target from the rate of claims since the last call."""
        passed_s = now - self._since
        if passed_s >= _LEARN_S:
            self._rate = (self._rate + self._claimed / passed_s) / 2
            self._claimed, self._since = 0, now
            self.target = min(MOST, int(self._rate * AHEAD_S))
            self._low = self.target * 2 // 3

    def emptied(self) -> list[bytes]:
        """Take all entries."""
        entries = list(self._entries)
        self._entries.clear()
        return entries

    def missing(self) -> int:
        """Return how many entries should be popped now."""
        if self.popping or not (self.claims or self.is_low()):
            return 0
        wanted = sum(claim.want for claim in self.claims)
        return min(MAX_CLAIM, wanted + max(0, self.target - len(self)))

    def is_idle(self, since: float) -> bool:
        """Return whether no claim has come since then, and none waits."""
        return self.claimed_at < since and not (self.popping or self.claims)


class Replay:
    """The answer to the last claim of each session, for the sessions answered last.

    Sessions and bytes are limited; the oldest answers are dropped first. Entries are kept as they
    were popped: bytes, which the garbage collector does not traverse.
    """

    def __init__(self, most_sessions: int = MOST_SESSIONS, most_bytes: int = MOST_BYTES) -> None:
        self._most_sessions = most_sessions
        self._most_bytes = most_bytes
        self._bytes = 0
        # In the order of the answers: lease id, entries, and until when they may be repeated.
        self._answered: dict[int, tuple[str, list[bytes], float]] = {}

    def put(self, session: int, lease: str, share: Sequence[Entry]) -> None:
        """Keep the answer to a claim."""
        answered = self._answered
        if session in answered:
            self._drop(session)
        raws = [entry.raw for entry in share]
        answered[session] = lease, raws, min([entry.until for entry in share])
        self._bytes += sum(map(len, raws))
        while len(answered) > self._most_sessions or self._bytes > self._most_bytes:
            self._drop(next(iter(answered)))

    def get(self, session: int, lease: str, now: float) -> Sequence[bytes] | None:
        """Return the entries of a claim if it was the session's last; None if it is unknown.

        Return an empty sequence once the entries are too old to be handed out.
        """
        answered = self._answered.get(session)
        if answered is None or answered[0] != lease:
            return None
        return answered[1] if now < answered[2] else ()

    def _drop(self, session: int) -> None:
        self._bytes -= sum(map(len, self._answered.pop(session)[1]))
