"""Priorities of tasks, given by their keys, changed a million at a time.

Keys are looked up first, then sorted by task. Neighbours are in one span, so a chunk locks few
spans for a moment, and claims pass over those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice
from numbers import Integral, Real
from typing import Any, Final, Literal, TypeAlias

from taskq.campaign.bulk import Action
from taskq.db.access import KEY_CHUNK, Queries, task_ids
from taskq.db.catalogue import array
from taskq.db.pacing import PacedChange
from taskq.model.errors import InvalidTask, UsageError
from taskq.model.seed import PRIORITY_RANGE
from taskq_agent.text import is_unicode

Extreme: TypeAlias = Literal["highest", "lowest"]

LEVELS: Final = 1_000
NAMED: Final = 100
CHUNK: Final = 1_000
#: A chunk's tasks lie within so many ids: it affects that many tasks at most, and some 30 spans.
RANGE: Final = 16_384


@dataclass(slots=True)
class Prioritised:
    """Outcome of `Campaign.prioritise`, and its progress.

    Attributes:
        total: The number of keys.
        unchanged: Tasks that had that priority.
        not_waiting: Tasks that run or are final, left alone.
        unknown: Keys of no task.
        some_unknown: The first 100 of them.
    """

    total: int
    _: KW_ONLY
    changed: int = 0
    unchanged: int = 0
    not_waiting: int = 0
    unknown: int = 0
    some_unknown: list[str] = field(default_factory=list)

    @property
    def read(self) -> int:
        """Keys handled so far."""
        return self.changed + self.unchanged + self.not_waiting + self.unknown


def levels(values: Mapping[str, float], best: Extreme) -> dict[str, int]:
    """Return priorities from 1,000 down to 1 by rank, the best first; equal values share one."""
    ordered = sorted(set(values.values()), reverse=best == "highest")
    rank = {value: LEVELS - n * LEVELS // len(ordered) for n, value in enumerate(ordered)}
    return {key: rank[value] for key, value in values.items()}


def checked(given: object, best: Extreme | None) -> dict[str, int]:
    """Return priorities by key from a caller's values; raise `InvalidTask`, `UsageError`."""
    if best not in {None, "highest", "lowest"}:
        raise UsageError(f'best is "highest" or "lowest", not {best!r:.80}')
    items = getattr(given, "items", None)
    pairs: Iterable[Any] = given if items is None else items()  # type: ignore[assignment]
    values: dict[str, Any] = {}
    try:
        for key, value in pairs:
            values[key] = value
            if type(key) is not str or not is_unicode(key) or "\0" in key:
                raise InvalidTask(f"a key is text, not {key!r:.80}")
            if best is None:
                _check_priority(key, value)
            elif not isinstance(value, Real) or not math.isfinite(value):
                raise InvalidTask(f"the value of {key!r:.300} must be a number, not {value!r:.80}")
    except (TypeError, ValueError) as error:
        raise UsageError(
            "priorities are given by a mapping of keys, a pandas Series with keys as its index, or "
            "pairs of key and value"
        ) from error
    return (
        {key: int(value) for key, value in values.items()} if best is None else levels(values, best)
    )


def _check_priority(key: str, value: object) -> None:
    low, high = PRIORITY_RANGE
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidTask(
            f"the priority of {key!r:.300} must be a whole number, not {value!r:.80}; "
            'for scores, say which are best, "highest" or "lowest"'
        )
    if not low <= int(value) <= high:
        raise InvalidTask(f"the priority of {key!r:.300}, {value}, is outside {low} to {high}")


def prioritise(
    database: Queries,
    campaign: int,
    wanted: Mapping[str, int],
    on_progress: Callable[[Prioritised], None] | None,
) -> Prioritised:
    """Change the priorities of a campaign's tasks, given by their keys."""
    outcome, pace = Prioritised(len(wanted)), PacedChange(database)
    found: list[tuple[int, int]] = []
    keys = iter(wanted)
    while some := [*islice(keys, KEY_CHUNK)]:
        with pace.step():
            known = task_ids(database, campaign, some)
        found += [(task, wanted[key]) for key, task in known.items()]
        unknown = [key for key in some if key not in known] if len(known) < len(some) else []
        outcome.unknown += len(unknown)
        outcome.some_unknown += unknown[: NAMED - len(outcome.some_unknown)]
    found.sort()
    for chunk in _chunks(found):
        _send(database, campaign, chunk, outcome, pace)
        if on_progress is not None:
            on_progress(outcome)
    return outcome


def to_priority(database: Queries, priority: int) -> Action:
    """Return the action that gives tasks a priority; raise `UsageError`."""
    low, high = PRIORITY_RANGE
    if type(priority) is not int or not low <= priority <= high:
        raise UsageError(f"a priority is a whole number from {low} to {high}, not {priority!r:.80}")

    pace = PacedChange(database)

    def change(campaign: int, tasks: list[int]) -> int:
        outcome = Prioritised(len(tasks))
        for chunk in _chunks([(task, priority) for task in tasks]):
            _send(database, campaign, chunk, outcome, pace)
        return outcome.changed

    return change


def _chunks(found: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    first = 0
    for place in range(1, len(found) + 1):
        whole = place == len(found) or place - first == CHUNK
        if whole or found[place][0] - found[first][0] >= RANGE:
            yield found[first:place]
            first = place


def _send(
    database: Queries,
    campaign: int,
    chunk: Sequence[tuple[int, int]],
    outcome: Prioritised,
    pace: PacedChange,
) -> None:
    with pace.step():
        (row,) = database.rows(
            "prioritise",
            campaign=campaign,
            tasks=array(task for task, _ in chunk),
            priorities=array(priority for _, priority in chunk),
        )
    outcome.changed += row["changed"]
    outcome.unchanged += row["unchanged"]
    outcome.not_waiting += row["others"]
