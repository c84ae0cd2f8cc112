"""Key conflicts: policies for keys that are stored with another payload, and their messages.

The database alone decides whether payloads are equal (`seed_conflicts.sql`). This
module turns its reports into exceptions with messages for people, and compares as it does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, get_args

from taskq.ingest.sources.records import excerpt
from taskq.model.errors import Clash, KeyConflict, UsageError

OnConflict: TypeAlias = Literal["fail", "skip", "keep-both"]
ON_CONFLICT: Final[tuple[OnConflict, ...]] = get_args(OnConflict)

MAX_REPORTED_CLASHES: Final = 100
"""Conflicts of a seeding that are reported one by one; all are counted."""


def check_choice(on_conflict: str) -> None:
    """Raise `UsageError` unless this is one of `ON_CONFLICT`."""
    if on_conflict not in ON_CONFLICT:
        raise UsageError(
            f"on_conflict must be 'fail', 'skip' or 'keep-both', not {on_conflict!r:.80}"
        )


def comparable(text: str) -> Any:
    """Return JSON as a value; two values are equal if PostgreSQL finds their texts equal.

    Python alone takes true for 1, and does not read 1e23 as the whole number that PostgreSQL reads.
    """
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(text: str) -> tuple[str, Decimal]:
    return "number", Decimal(text)


def reported_clashes(
    rows: Sequence[Mapping[str, Any]], numbers: Sequence[int]
) -> tuple[Clash, ...]:
    """Return the conflicts reported by `seed_again`; numbers: the records' numbers by place."""
    clashes = (Clash(row["key"], row["stored"], row["offered"], row["place"]) for row in rows)
    return tuple(_shown(clash, numbers[clash.number - 1]) for clash in clashes)


def submit_conflict(error: KeyConflict) -> KeyConflict:
    """Return the database's error for a single task, with a message for people."""
    clashes = tuple(_shown(clash, clash.number) for clash in error.clashes)
    return KeyConflict(
        "; ".join(map(describe_clash, clashes)),
        count=error.count,
        clashes=clashes,
        too_long=error.too_long,
    )


def seeding_conflict(error: KeyConflict, numbers: Sequence[int], added: int) -> KeyConflict:
    """Return the database's error for a chunk of records as the error of the seeding.

    numbers: the records' numbers by place. added: tasks that earlier chunks added.
    """
    clashes = tuple(_shown(clash, numbers[clash.number - 1]) for clash in error.clashes)
    first = f"the record at {clashes[0].number}: {describe_clash(clashes[0])}"
    choices = "on_conflict='skip'" if error.too_long else "on_conflict='skip' or 'keep-both'"
    return KeyConflict(
        f"{'' if error.count == 1 else f'{error.count:,} records conflict, such as '}{first} "
        f"({remedies(error)} {choices}; tasks added so far: {added}; "
        "seed again: it continues from there and adds none twice)",
        count=error.count,
        clashes=clashes,
        too_long=error.too_long,
        added=added,
    )


def describe_clash(clash: Clash) -> str:
    """Return a conflict as part of a sentence: printable, on one line."""
    key = excerpt(clash.key)
    return f"the key '{key}' is stored with another payload: {clash.stored}, not {clash.offered}"


def remedies(error: KeyConflict) -> str:
    """Return the user's remedies, as a sentence that ends before the names of the choices."""
    reason = "a key is too long for a number behind it; " if error.too_long else ""
    return f"{reason}correct the records, take other fields for the key, or choose"


def _shown(clash: Clash, number: int) -> Clash:
    stored, offered = excerpt(clash.stored), excerpt(clash.offered)
    return replace(clash, stored=stored, offered=offered, number=number)
