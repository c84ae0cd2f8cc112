"""Detection of a thread that makes no progress."""

from __future__ import annotations

CHECK_S = 1.0


class Watchdog:
    """Counts the checks since the thread last reported progress.

    It counts checks, not seconds: a stopped process (SIGSTOP) or a sleeping host is not hung,
    although the clock shows no progress for long.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._checked_at = 0.0
        self._missed = 0

    def reset(self) -> None:
        """Report progress; called by the watched thread."""
        self._missed = 0

    def is_hung(self, now: float) -> bool:
        """Check; the watching thread must call this at least every `CHECK_S` seconds."""
        if now - self._checked_at >= CHECK_S:
            self._checked_at = now
            self._missed += 1
        return self._missed * CHECK_S > self._patience_s
