"""How fast a campaign goes by what its latest tasks took, where too few end to be counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from taskq import Campaign, Client
from taskq.views import Status

FRESH_S: Final = 30.0
"""How long durations are believed."""
CAMPAIGNS: Final = 20
"""Of a subtree those with most working tasks stand for all."""


class History:
    """Tasks that become final per second: those that are worked on, by how long such take.

    (Little's law, Operations Research 9(3), 1961.) It reads a bounded number of attempts, by key,
    and not at every look.
    """

    def __init__(
        self, client: Client, path: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._path = path
        self._clock = clock
        self._mean_s: float | None = None
        self._stale_at = 0.0

    def per_s(self, status: Status) -> float | None:
        """Return the rate; None where nothing is worked on, or nothing has ended yet."""
        final, ended = status.done + status.failed, status.done + status.failures + status.losses
        if not status.working or not final:
            return None
        if self._clock() >= self._stale_at:
            self._mean_s = self._look(status)
            self._stale_at = self._clock() + FRESH_S
        if not self._mean_s:
            return None
        # An attempt after which the task is tried again brings none to its end.
        return status.working / self._mean_s * min(1.0, final / max(1, ended))

    def _look(self, status: Status) -> float | None:
        """Return the mean time of an attempt, of campaigns by how many of their tasks run."""
        campaign = self._client.campaign(self._path)
        nodes = campaign.tree() if status.children else [status]
        busy = sorted((node for node in nodes if node.working), key=lambda node: -node.working)
        working, per_s = 0, 0.0
        for node in busy[:CAMPAIGNS]:
            usual_s = Campaign(self._client.database, node.campaign_id, node.path).usual_run_s()
            if usual_s:
                working += node.working
                per_s += node.working / usual_s
        return working / per_s if per_s else None
