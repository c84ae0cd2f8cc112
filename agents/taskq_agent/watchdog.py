"""Notice a thread that is there but makes no headway."""

from __future__ import annotations

LOOK_S = 1.0


class Watchdog:
    """Counts the looks since a thread last came round.

    Looks, not seconds: a process that was stopped (SIGSTOP) or a machine that slept is not
    hung, although by the clock nobody has come round for long.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._looked_at = 0.0
        self._missed = 0

    def came_round(self) -> None:
        """Note a sign of life; called by the thread that is watched."""
        self._missed = 0

    def is_hung(self, now: float) -> bool:
        """Look; to be called at least every `LOOK_S`, by the thread that watches."""
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._missed += 1
        return self._missed * LOOK_S > self._patience_s
