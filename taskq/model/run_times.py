"""How long attempts ran; `ran_s.sql` says the same."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime


def ran_s(phases: Mapping[str, float] | None, claimed_at: datetime, ended_at: datetime) -> float:
    """Return for how many seconds an attempt ran, as its agent measured it.

    If it does not say, those from claim to end. Tasks of one start have a share of its time.
    """
    run_s = (phases or {}).get("run_s")
    return max((ended_at - claimed_at).total_seconds(), 0.0) if run_s is None else run_s
