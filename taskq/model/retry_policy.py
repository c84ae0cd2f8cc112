"""Rules for retrying the tasks of a campaign. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from taskq.model.campaign_checks import checked_classes
from taskq.model.errors import InvalidCampaign
from taskq.model.settings import (
    TEXTS,
    TIME,
    WHOLE,
    YEAR_S,
    described,
    keep_checked,
    setting,
    settings,
)

_retry: Final = partial(setting, table="retry")
_attempts: Final = partial(_retry, WHOLE, low=1, high=1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Rules for retrying a task after an unsuccessful attempt, and for failing it."""

    max_attempts: int = _attempts("failures after which a task is failed", 3)
    max_losses: int = _attempts(
        "losses (attempts whose agent vanished) after which a task is failed", 5
    )
    backoff_s: float = _retry(
        TIME, "delay after a task's first failure; it doubles each time", 10.0, low=0, high=YEAR_S
    )
    backoff_max_s: float = _retry(TIME, "longest delay", 3600.0, low=0, high=YEAR_S)
    never_retry: tuple[str, ...] = _retry(
        TEXTS,
        "[classes of error](errors.md#classes-of-error) after which a task is failed at once",
        (),
        check=checked_classes,
        metavar="CLASS",
    )
    max_lost_hosts: int = _attempts(
        "different hosts with a loss of a task, after which it is failed as poison", 3
    )
    max_out_of_time: int = _attempts(
        "attempts in a row that make no progress before their agent's time is over, until the task "
        "is failed, as [too-long](task-life.md#when-the-time-is-too-short)",
        5,
    )

    @classmethod
    def from_settings(cls, kept: Mapping[str, Any]) -> RetryPolicy:
        """Return the rules among the settings of a campaign that the database keeps."""
        return cls(**{name: kept[name] for name in settings(cls)})

    def __post_init__(self) -> None:
        keep_checked(self)
        if self.backoff_s > self.backoff_max_s:
            raise InvalidCampaign(
                f"retry.backoff_s ({self.backoff_s:g}) is longer than "
                f"retry.backoff_max_s ({self.backoff_max_s:g})"
            )


RetryPolicy.__doc__ = f"{RetryPolicy.__doc__}\n{described(RetryPolicy)}\n"
