"""Compiles a filter for the statement `find_tasks`: its terms as JSON, its states, its parts.

The server makes a jsonpath of the terms (`sql/functions/filter_path.sql`), whatever client sends
them. So the server does no more than this language allows, and even the worst filter is bounded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from taskq.campaign.filter_parser import And, FieldComparison, Not, Or, Term, Value, parse
from taskq.model.seed import STATUSES

_ALL: Final = frozenset(STATUSES)
#: The part of a task that a field reads.
_PARTS: Final = {
    "payload": "payload",
    "result": "result",
    **dict.fromkeys(("class", "error", "exit_code", "host", "site"), "attempt"),
}


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter ready to be sent. terms: JSON. states: those that can match.

    parts: what to read of each task, apart from its key and its state.
    """

    terms: str
    states: frozenset[str]
    parts: frozenset[str]


def compiled(text: str | None, error_class: str | None = None) -> Filter:
    """Return the compiled filter; None matches all tasks. Raise `InvalidFilter`.

    error_class: only tasks whose last attempt ended with it.
    """
    terms = [] if text is None else [parse(text)]
    if error_class is not None:
        terms.append(FieldComparison(("class",), "=", (error_class,)))
    term = terms[0] if len(terms) == 1 else And(tuple(terms))
    return Filter(_json(term), _states(term), _parts(term))


def _json(term: Term) -> str:
    if isinstance(term, Not):
        return f'["not",{_json(term.term)}]'
    if isinstance(term, And | Or):
        operator = "and" if isinstance(term, And) else "or"
        return f"[{','.join([json.dumps(operator), *map(_json, term.terms)])}]"
    operator = "=" if term.operator == "in" else term.operator
    values = map(_value, term.values)
    return f"[{','.join([json.dumps(operator), json.dumps(term.field), *values])}]"


def _value(value: Value) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _parts(term: Term) -> frozenset[str]:
    if isinstance(term, Not):
        return _parts(term.term)
    if isinstance(term, And | Or):
        return frozenset().union(*map(_parts, term.terms))
    return frozenset({_PARTS[term.field[0]]} if term.field[0] in _PARTS else ())


def _states(term: Term) -> frozenset[str]:
    """Return the states that can match, perhaps too many."""
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
