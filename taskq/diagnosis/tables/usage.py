"""Usage: columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from taskq.db.usage import Per, Used
from taskq.model.columns import Column

#: From so many hours on, fractions do not count.
_LARGE: Final = 100.0


def columns(per: Sequence[Per]) -> list[Column[Used]]:
    """Return the columns of usage that is kept apart by these."""
    digits = 7 if "month" in per else 10
    keys: list[Column[Used]] = []
    if {"day", "month"} & {*per}:
        title = "month" if "month" in per else "day"
        keys = [Column(title, lambda used: used.starts and used.starts.isoformat()[:digits])]
    if "owner" in per:
        keys.append(Column("owner", lambda used: used.owner or "-"))
    if "campaign" in per:
        keys.append(Column("campaign", gives_way=True))
    if "site" in per:
        keys.append(Column("site", lambda used: used.site or "-"))
    if "end" in per:
        keys.append(Column("end"))
    return [
        *keys,
        Column("attempts", kind="count"),
        Column("core-hours", _hours(lambda used: used.core_s)),
        *(
            Column(title, _hours(value), sparse=True, yields=1)
            for title, value in (
                ("done", lambda used: used.done_core_s),
                ("failed", lambda used: used.failed_core_s),
                ("lost", lambda used: used.lost_core_s),
                ("cancelled", lambda used: used.cancelled_core_s),
                ("released", lambda used: used.released_core_s),
            )
            if "end" not in per
        ),
        Column("gpu-hours", _hours(lambda used: used.gpu_s), sparse=True, yields=1),
    ]


def _hours(seconds: Callable[[Used], float]) -> Callable[[Used], str]:
    """Return what writes hours: to a hundredth below 100, else whole; none as nothing."""

    def text(used: Used) -> str:
        hours = seconds(used) / 3600
        if not hours:
            return ""
        return f"{hours:,.0f}" if hours >= _LARGE else f"{hours:.2f}"

    return text
