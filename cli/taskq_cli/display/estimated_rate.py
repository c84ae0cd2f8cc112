"""Rate of a campaign estimated from run times, for when too few tasks end to measure a rate."""

from __future__ import annotations

import time
from typing import Final

from taskq import Campaign, Client
from taskq.model.views import Status

FRESH_S: Final = 30.0
"""Age in seconds after which the mean run time is read again."""
CAMPAIGNS: Final = 20
"""Most campaigns of a subtree that are read: those with most working tasks represent all."""
ENOUGH: Final = 10
"""Fewest tasks of the trend that tell more than the run times do."""


class EstimatedRate:
    """Estimate of the tasks that become final per second: as the trend has it, if enough ended.

    Otherwise it is the working tasks over the mean run time, which is Little's law (Operations
    Research 9(3), 1961). It reads a bounded number of points and attempts by key, at most once in
    `FRESH_S` seconds.
    """

    def __init__(self, client: Client, path: str, *, below: bool = True) -> None:
        self._client = client
        self._below = below
        self._path = path
        self._trend_per_s: float | None = None
        self._mean_s: float | None = None
        self._stale_at = 0.0

    def per_s(self, status: Status) -> float | None:
        """Return the rate; None if no task is working, or none has ended yet."""
        final, ended = status.done + status.failed, status.done + status.failures + status.losses
        if not status.working or not final:
            return None
        if time.monotonic() >= self._stale_at:
            pace = self._client.campaign(self._path).pace(status)
            self._trend_per_s = pace.per_s if pace and pace.ended >= ENOUGH else None
            self._mean_s = None if self._trend_per_s else self._read_mean_s(status)
            self._stale_at = time.monotonic() + FRESH_S
        if self._trend_per_s:
            return self._trend_per_s
        if not self._mean_s:
            return None
        # An attempt after which the task is retried makes no task final.
        return status.working / self._mean_s * min(1.0, final / max(1, ended))

    def _read_mean_s(self, status: Status) -> float | None:
        """Return the mean run time of an attempt, weighted by the campaigns' working tasks."""
        campaign = self._client.campaign(self._path)
        nodes = campaign.tree() if status.children and self._below else [status]
        busy = sorted((node for node in nodes if node.working), key=lambda node: -node.working)
        working, per_s = 0, 0.0
        for node in busy[:CAMPAIGNS]:
            usual_s = Campaign(self._client.queries, node.campaign_id, node.path).usual_run_s()
            if usual_s:
                working += node.working
                per_s += node.working / usual_s
        return working / per_s if per_s else None
