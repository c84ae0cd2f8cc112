"""Values of options: instants, durations and sizes, and options that take a time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, Final, TypeAlias

import click

from taskq.model.words import duration
from taskq_agent.units import size_in_bytes, time_s

Decorator: TypeAlias = Callable[[Any], Any]

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
            raise click.BadParameter(f"{text!r} is beyond the calendar.") from None
        return long
    try:
        instant = datetime.fromisoformat(re.sub("[Zz]$", "+00:00", text.strip()))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither a time, such as 2026-03-01T18:00:00Z, nor a duration, such as 2h."
        ) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=timezone.utc)


def seconds(least: float = 0, most: float = math.inf) -> Callable[[str | float], float]:
    """Return an option type: a time within a range of seconds, such as 90s, 30m, 2h or 7d."""

    def convert(value: str | float) -> float:
        try:
            number = time_s(f"{value}")
        except ValueError:
            number = math.nan
        if not least <= number <= most or math.isinf(number):
            least_text = duration(least) if least else "0"
            limits = f" of {least_text} or more"
            if math.isfinite(most):
                limits = f", from {least_text} to {duration(most)}"
            raise click.BadParameter(
                f"{value!r} must be a time, such as 90s, 30m, 2h or 7d{limits}; a number alone is "
                "seconds."
            )
        return number

    return convert


def time_option(
    *names: str, least: float = 0, most: float = math.inf, default: float, text: str
) -> Decorator:
    """Return an option that takes a time; its help shows the default with a unit."""
    unit, length = next(
        (unit, length)
        for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
        if not default % length or length == 1
    )
    shown = f"{default / length:g}{unit}" if default else "0s"
    return click.option(
        *names,
        type=seconds(least, most),
        default=default,
        metavar="TIME",
        help=f"{text} [default: {shown}]",
    )


def size(value: str | int) -> int:
    """Return the bytes of an option's size, such as 512M, 4G or a number of bytes."""
    try:
        return 0 if f"{value}" == "0" else size_in_bytes(f"{value}")
    except ValueError:
        raise click.BadParameter(
            f"{value!r} must be a size, such as 512M or 4G; a number alone is bytes."
        ) from None
