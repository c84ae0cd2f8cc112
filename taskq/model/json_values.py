"""Conversion of values to JSON and text for output, with one form for types that JSON lacks."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID


def as_json(value: object) -> str:
    """Return a value as JSON on one line: instants in ISO 8601, UTC; durations in seconds.

    Raise ValueError for a number that is not finite, TypeError for a value without a form.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def as_text(value: object) -> str:
    """Return a value as a cell of a table: text as it is, nothing for None, the rest as JSON."""
    if value is None:
        return ""
    if isinstance(value, (datetime, UUID)):
        return str(_plain(value))
    return value if isinstance(value, str) else as_json(value)


def _plain(value: object) -> str | float:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")
