"""Compiles a filter to what the statement `find_tasks` takes: a jsonpath, values, states, parts.

Each comparison becomes `exists(FIELD ? (@ = $VALUE))`, which is true or false whatever the field
holds, or if there is none: so `not` is what it says. Texts of the filter reach the path as string
literals only, all other values as variables. `like_regex` with the flag q takes its pattern
literally, so nothing in it can make it slow.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from taskq.steering.parser import parse
from taskq.steering.syntax import STATES, And, FieldComparison, Not, Or, Term, Value

_ALL: Final = frozenset(STATES)
_SYMBOLS: Final = {"=": "==", "in": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
#: Which part of what is known of a task has to be read for a field.
_PARTS: Final = {
    "payload": "payload",
    "result": "result",
    **dict.fromkeys(("class", "error", "exit_code", "host", "site"), "attempt"),
}


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter, ready to be sent. values: JSON. states: those that can match.

    parts: what has to be read of each task besides its key and where it stands.
    """

    path: str
    values: str
    states: frozenset[str]
    parts: frozenset[str]


def compiled(text: str | None, error_class: str | None = None) -> Filter:
    """Return a filter, None: of all tasks; raise `InvalidFilter`.

    error_class: only tasks whose last attempt ended with it.
    """
    terms = [] if text is None else [parse(text)]
    if error_class is not None:
        terms.append(FieldComparison(("class",), "=", (error_class,)))
    if not terms:
        return Filter("1 == 1", "{}", _ALL, frozenset())
    compiler, term = _Compiler(), And(tuple(terms))
    path = compiler.path(term)
    values = ",".join(f'"v{n}":{value}' for n, value in enumerate(compiler.values))
    return Filter(path, f"{{{values}}}", _states(term), frozenset(compiler.parts))


class _Compiler:
    def __init__(self) -> None:
        self.values: list[str] = []
        self.parts: set[str] = set()

    def path(self, term: Term) -> str:
        if isinstance(term, Not):
            return f"!({self.path(term.term)})"
        if isinstance(term, And):
            return " && ".join(f"({self.path(one)})" for one in term.terms)
        if isinstance(term, Or):
            return " || ".join(f"({self.path(one)})" for one in term.terms)
        return self._comparison(term)

    def _comparison(self, one: FieldComparison) -> str:
        if one.field[0] in _PARTS:
            self.parts.add(_PARTS[one.field[0]])
        field = "$" + "".join(f".{json.dumps(name)}" for name in one.field)
        if one.values == (None,):
            return f'!exists({field}.type() ? (@ != "null"))'
        if one.operator == "~":
            return f'exists({field} ? (@ like_regex {json.dumps(one.values[0])} flag "q"))'
        name = f"$v{len(self.values)}"
        self.values.append(f"[{','.join(map(_json, one.values))}]")
        return f"exists({field} ? (@ {_SYMBOLS[one.operator]} {name}[*]))"


def _json(value: Value) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _states(term: Term) -> frozenset[str]:
    """Return states that can match, perhaps too many."""
    if isinstance(term, And):
        return _ALL.intersection(*map(_states, term.terms))
    if isinstance(term, Or):
        return frozenset().union(*map(_states, term.terms))
    if isinstance(term, Not):
        exact = isinstance(term.term, FieldComparison) and term.term.field == ("state",)
        return _ALL - _states(term.term) if exact else _ALL
    if term.field == ("state",):
        return frozenset(str(value) for value in term.values if value is not None)
    return _ALL
