"""Text: numbers with their nouns, instants, durations, commands; and values as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Final
from uuid import UUID

from taskq_agent.units import in_bytes

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 86_400


def instant(at: datetime | None) -> str:
    """Return an instant in ISO 8601, UTC, to the second."""
    return "" if at is None else f"{at.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def duration(seconds: float) -> str:
    """Return a duration in two units at most: `4.2 s`, `3 min 12 s`, `5 h 10 min`, `2 d 3 h`."""
    if seconds < MINUTE_S:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"  # noqa: PLR2004  # two digits
    whole = round(seconds)
    for unit_s, unit, part_s, part in (
        (DAY_S, "d", HOUR_S, "h"),
        (HOUR_S, "h", MINUTE_S, "min"),
        (MINUTE_S, "min", 1, "s"),
    ):
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def rate(per_second: float) -> str:
    """Return a rate in the unit that makes it readable: `1,200/s`, `0.85/s`, `12/min`, `3/h`."""
    if not per_second:
        return "0/s"
    for value, unit in (
        (per_second, "s"),
        (per_second * MINUTE_S, "min"),
        (per_second * HOUR_S, "h"),
    ):
        if value >= 0.5 or unit == "h":  # noqa: PLR2004  # below, the next unit reads better
            return f"{value:,.0f}/{unit}" if value >= 10 else f"{value:.2g}/{unit}"  # noqa: PLR2004  # two digits
    raise AssertionError("unreachable: the last unit takes every value")


def phases(measured: Mapping[str, float] | None) -> str:
    """Return an agent's measurements of an attempt: `run 3.2 s, 12 s of CPU, 1.5 GiB at most`.

    On devices it adds `4 GiB of GPU memory at most`.
    """
    its = dict(measured or {})
    cpu_s, peak = its.pop("cpu_s", None), its.pop("peak_bytes", None)
    on_devices = its.pop("gpu_peak_bytes", None)
    parts = [
        f"{name.removesuffix('_s')} {duration(value)}"
        if name.endswith("_s")
        else f"{name} {value:.3g}"
        for name, value in its.items()
    ]
    parts += [] if cpu_s is None else [f"{duration(cpu_s)} of CPU"]
    parts += [] if peak is None else [f"{in_bytes(peak)} at most"]
    parts += [] if on_devices is None else [f"{in_bytes(on_devices)} of GPU memory at most"]
    return ", ".join(parts)


def percent(share: float) -> str:
    """Return a share from 0 to 1 in percent, with its significant digits: `0.4 %`."""
    value = 100 * share
    digits = 1 if 0 < value < 9.95 or 90.05 < value < 100 else 0  # noqa: PLR2004  # two digits
    return f"{value:.{digits}f} %"


def progress(fraction: float | None, note: str | None) -> str:
    """Return the progress of an attempt: `40 %, sweep 40 of 100`; empty if it reports none."""
    return ", ".join(filter(None, ("" if fraction is None else percent(fraction), note)))


def counted(number: int, thing: str) -> str:
    """Return a number with its noun: `1 task`, `1,234 tasks`."""
    if number == 1:
        return f"1 {thing}"
    return f"{number:,} {thing}{'es' if thing.endswith('s') else 's'}"


def beginning(text: str, chars: int) -> str:
    """Return a text, cut to so many characters or fewer, with `...` behind if it is cut.

    A command in backticks is kept whole or left out: its beginning may be another command.
    """
    return text if len(text) <= chars else f"{text[: end_before_command(text, chars)]}..."


def given_up(failures: int, losses: int) -> str:
    """Return the attempts after which a task was given up: `given up after 3 failures`; or ""."""
    ends = ((failures, "failure"), (losses, "lost agent"))
    text = " and ".join(counted(number, what) for number, what in ends if number)
    return f"given up after {text}" if text else ""


def end_before_command(text: str, chars: int) -> int:
    """Return where to cut a text after at most so many characters, without cutting a command."""
    shown, rest = text[:chars], text[chars:]
    if shown.count("`") % 2 == 0 or "`" not in rest:
        return chars
    return len(shown[: shown.rindex("`")].rstrip())


def command(*words: object, names: Iterable[str] = ()) -> str:
    """Return a command of `taskq` that a shell reads as these words.

    names: arguments that come from outside, last: a name that begins with a dash is not an option.
    """
    named = list(names)
    mark = ["--"] if any(name.startswith("-") for name in named) else []
    return " ".join(map(_quoted, ["taskq", *map(str, words), *mark, *named]))


def _quoted(word: str) -> str:
    """Return a word quoted for a shell; with escapes if a terminal would not show it as it is."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = (
        f"\\{char}"
        if char in "\\'"
        else char
        if char.isprintable()
        else "".join(f"\\{byte:03o}" for byte in char.encode(errors="replace"))
        for char in word
    )
    return f"$'{''.join(escaped)}'"


def plain(value: object) -> object:
    """Return the form in JSON of a value that JSON lacks; raise TypeError if it has none."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def as_json(value: object, form: Callable[[object], object] = plain) -> str:
    """Return a value as JSON on one line: instants in ISO 8601, UTC; durations in seconds.

    form: returns the form of what JSON lacks. Raise ValueError for a number that is not finite,
    TypeError for a value without a form.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=form)


def as_text(value: object) -> str:
    """Return a value as a cell of a table: text as it is, nothing for None, the rest as JSON."""
    if value is None:
        return ""
    if isinstance(value, (datetime, UUID)):
        return str(plain(value))
    return value if isinstance(value, str) else as_json(value)
