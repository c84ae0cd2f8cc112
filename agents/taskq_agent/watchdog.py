"""Notice a thread that is there but makes no headway."""

from __future__ import annotations

CHECK_S = 1.0


class Watchdog:
    """Counts the looks since a thread last came round.

    Looks, not seconds: a process that was stopped (SIGSTOP) or a machine that slept is not
    hung, although by the clock nobody has come round for long.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._checked_at = 0.0
        self._missed = 0

    def reset(self) -> None:
        """Note a sign of life; called by the thread that is watched."""
        self._missed = 0

    def is_hung(self, now: float) -> bool:
        """Look; to be called at least every `LOOK_S`, by the thread that watches."""
        if now - self._checked_at >= CHECK_S:
            self._checked_at = now
            self._missed += 1
        return self._missed * CHECK_S > self._patience_s
