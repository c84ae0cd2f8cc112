"""Cases for what is decided about pilots."""

from __future__ import annotations

from typing import Any

from taskq.pilots.planner import Decision, PilotJobs, PilotState, Waiting, decide
from taskq.pilots.settings import PilotSettings

HOUR_S = 3_600.0


def settings(**values: Any) -> PilotSettings:
    """Return settings of jobs of ten cores and ten hours."""
    return PilotSettings(
        folder="/jobs", **{"cores": 10, "time_limit": 10 * HOUR_S, "max_jobs": 100, **values}
    )


def waiting(claimable: int, usual_s: float | None = 600.0, **values: Any) -> Waiting:
    """Return a campaign in which so many tasks can be claimed."""
    known: dict[str, Any] = {
        "campaign_id": 1,
        "path": "/demo",
        "working": 0,
        "unfinished": claimable,
        "time_limit_s": None,
        "requires": (),
        "tags_suit": True,
        "time_suits": True,
    }
    return Waiting(claimable=claimable, usual_s=usual_s, **{**known, **values})


def decided(
    campaigns: list[Waiting],
    fleet: PilotJobs | None = None,
    state: PilotState | None = None,
    **values: Any,
) -> Decision:
    """Return what is decided for these campaigns."""
    return decide(settings(**values), campaigns, fleet or PilotJobs(), state or PilotState())
