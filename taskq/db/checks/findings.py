"""What a check of the server found: in a sentence, and what mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from taskq.db.access import Queries
from taskq.db.rows import Row

State: TypeAlias = Literal["fine", "advice", "fault", "unseen"]
#: All is as it must be.
FINE: Final = "fine"
#: It works, but could be safer or faster.
ADVICE: Final = "advice"
#: It loses work, stops the queue, or will.
FAULT: Final = "fault"
#: It could not be looked at.
UNSEEN: Final = "unseen"


@dataclass(frozen=True, slots=True)
class ServerFinding:
    """A finding: its sentence, and its remedy, which may be a statement or a command.

    figures: the numbers in the text, by name.
    """

    state: State
    text: str
    remedy: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """A check of the server.

    read: returns the rows that it judges. judge: returns its findings, at least one. needs_schema:
    whether it looks at the tables of taskq. explains: whether its faults explain why a queue is
    slow, or will stop: `direct` next to the database, where they read catalogs alone, whatever the
    login; `anywhere` also over a gateway.
    """

    name: str
    read: Callable[[Queries], list[Row]]
    judge: Callable[[list[Row]], Iterable[ServerFinding]]
    needs_schema: bool = True
    explains: Literal["", "direct", "anywhere"] = ""


@cache
def reads(name: str) -> Callable[[Queries], list[Row]]:
    """Return what reads a statement of `sql/queries`, for one name always the same."""
    return lambda queries: queries.rows(name)
