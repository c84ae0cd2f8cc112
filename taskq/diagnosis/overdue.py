"""Attempts that run far longer than others of their campaign."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class OverdueAttempt:
    """An attempt that runs far longer than others; see `overdue` in SQL for the fields."""

    campaign: str
    key: str
    host: str
    claimed_at: datetime
    run_s: float
    usual_s: float
    limit_s: float
