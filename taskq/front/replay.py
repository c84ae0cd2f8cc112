"""Answers to recent claims, for agents that lose an answer and repeat the claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskq.front.entries import Entry

MOST_SESSIONS: Final = 50_000
MOST_BYTES: Final = 64 << 20


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
        raws = [one.raw for one in share]
        answered[session] = lease, raws, min([one.until for one in share])
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
