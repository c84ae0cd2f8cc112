"""Times that users type: an instant, or a duration from now on or back from now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Final

import click

from taskq_agent.arguments import time_s

_DURATION: Final = re.compile(r"\d{1,9}(?:\.\d{1,3})? ?(s|m|min|h|d)")


def since(text: str) -> datetime | timedelta:
    """Parse an instant, or a duration before now; a time without a zone is UTC."""
    parsed = _parsed(text, -1)
    if isinstance(parsed, datetime) and parsed > datetime.now(timezone.utc):
        raise click.BadParameter(
            f"{text!r} is still to come; a time is UTC unless it says otherwise."
        )
    return parsed


def until(text: str) -> datetime | timedelta:
    """Parse an instant, or a duration from now on; a time without a zone is UTC."""
    parsed = _parsed(text, 1)
    if isinstance(parsed, datetime) and parsed <= datetime.now(timezone.utc):
        raise click.BadParameter(f"{text!r} is over; a time is UTC unless it says otherwise.")
    return parsed


def _parsed(text: str, direction: int) -> datetime | timedelta:
    if _DURATION.fullmatch(text.strip()):
        try:
            long = timedelta(seconds=time_s(text))
            datetime.now(timezone.utc) + direction * long
        except OverflowError:
            when = "ago there was" if direction < 0 else "from now on there is"
            raise click.BadParameter(f"{text!r} {when} no calendar.") from None
        return long
    try:
        instant = datetime.fromisoformat(re.sub("[Zz]$", "+00:00", text.strip()))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither a time, as 2026-03-01T18:00:00Z, nor a duration, as 90m or 2h."
        ) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=timezone.utc)


def lasting(text: str) -> timedelta:
    """Parse a duration, as 90s, 5min or 2h."""
    if not _DURATION.fullmatch(text.strip()):
        raise click.BadParameter(f"{text!r} is not a duration, as 90s, 5min or 2h.")
    return timedelta(seconds=time_s(text))
