"""Whether tasks come in an order that explains what moved at a time.

A file that lists its tasks by groups gives other results where a group begins, and nothing has
changed. So the payloads of the tasks claimed just before that time are compared with those claimed
just after it. A field explains the time if it has a few values, none of them on both sides, or if
it is a number, such as the length of the payload, that has a step there too. A number that grows
all the time, such as an index, has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, variance
from typing import Any, Final

from taskq.db.access import Queries
from taskq.db.catalogue import array
from taskq.diagnosis.ends import Move
from taskq.model.words import as_json

#: Tasks that each side must have with a field.
_LEAST: Final = 12
#: The most values on one side of a field that groups tasks.
_FEW: Final = 3
#: By how many standard deviations a number differs; what grows steadily, by less than 3.5 in the
#: means of such neighbours.
_STEP: Final = 6.0
#: The least variance that is believed of how long payloads are, in characters.
_LEAST_VARIANCE: Final = 4.0
#: The most fields of a payload that are compared, and characters of a value.
_MOST_FIELDS: Final = 32
_MOST_CHARS: Final = 100
#: Numbers above it are not compared: squares of theirs would not fit into a float.
_LARGEST: Final = 1e100

_Fields = Mapping[str, Sequence[Any]]


def with_orders(database: Queries, moves: Iterable[Move]) -> list[Move]:
    """Return what moved, each with how its tasks differ at that time, if they do."""
    found = []
    for move in moves:
        campaign = database.row("campaign", path=move.campaign)
        if campaign is None or min(len(move.before), len(move.behind)) < _LEAST:
            found.append(move)
            continue
        rows = database.rows(
            "find_tasks",
            campaign=campaign["campaign_id"],
            filter=as_json(["and"]),
            states=["done"],
            parts=[],
            payloads=True,
            tasks=array(sorted([*move.before, *move.behind])),
            after=0,
            limit=len(move.before) + len(move.behind),
        )
        payloads = {row["task_id"]: row["payload"] for row in rows if row["matches"]}
        before, behind = ([payloads.get(it) for it in its] for its in (move.before, move.behind))
        found.append(replace(move, order=order(before, behind, are_near=move.is_near)))
    return found


def order(before: Sequence[object], behind: Sequence[object], *, are_near: bool = True) -> str:
    """Return in words how the payloads of tasks differ on both sides of a time; empty if not.

    Both in the order of claims. are_near: whether one side follows the other; if not, a number that
    grows steadily differs in any case.
    """
    fields, others = _fields(before), _fields(behind)
    for name in sorted(fields.keys() & others.keys()):
        here, there = fields[name], others[name]
        if min(len(here), len(there)) < _LEAST:
            continue
        shown = name or "the payload"
        values, its = {as_json(it) for it in here}, {as_json(it) for it in there}
        if name and max(len(values), len(its)) <= _FEW and not values & its:
            return f"{shown} was {', '.join(sorted(values))} and is {', '.join(sorted(its))}"
        if are_near and all(isinstance(it, int | float) for it in (*here, *there)):
            apart = abs(fmean(there) - fmean(here))
            least = 0.0 if name else _LEAST_VARIANCE  # an index gets one digit more
            if apart > _STEP * max(variance(here), variance(there), least) ** 0.5:
                unit = "" if name else " characters long"
                return f"{shown} was {fmean(here):.4g}{unit} on average and is {fmean(there):.4g}"
    return ""


def _fields(payloads: Iterable[object]) -> _Fields:
    """Return the short values by field, in order; of no name: how many characters a payload has."""
    found: dict[str, list[Any]] = defaultdict(list)
    for payload in payloads:
        if not isinstance(payload, dict):
            continue
        found[""].append(len(as_json(payload)))
        for name in sorted(payload)[:_MOST_FIELDS]:
            value = payload[name]
            if name and name.isprintable() and _is_comparable(value):
                found[name].append(value)
    return found


def _is_comparable(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _MOST_CHARS and value.isprintable()
    return isinstance(value, int | float) and abs(value) <= _LARGEST
