"""Compiles a filter for the statement `find_tasks`: its terms as JSON, its states, its parts.

The server makes a jsonpath of the terms (`filter_path.sql`), whatever client sends
them. So the server does no more than this language allows, and even the worst filter is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Final

from taskq.campaign.filter_parser import parse
from taskq.campaign.filter_terms import KINDS, And, Field, FieldComparison, Not, Or, Term, Value
from taskq.model.seed import STATUSES

_ALL: Final = frozenset(STATUSES)
#: The part of a task that a field reads.
_PARTS: Final = {
    "payload": "payload",
    "result": "result",
    "recipe": "recipe",
    **dict.fromkeys(("class", "error", "exit_code", "host", "site"), "attempt"),
}

#: Parts of a task that have fields of any name.
_FREE: Final = frozenset(name for name, kind in KINDS.items() if kind == "any")


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter ready to be sent. terms: JSON. states: those that can match.

    keys: those that can match; None: any. parts: what to read of each task, apart from its key and
    its state. fields: of payloads and results, in their order in the filter.
    """

    terms: str
    states: frozenset[str]
    keys: frozenset[str] | None
    parts: frozenset[str]
    fields: tuple[Field, ...]
    _term: Term

    def finds_lack_of(self, field: Field) -> bool:
        """Return whether tasks may match because they lack this field."""
        return (True, False) in _without(self._term, field, negated=False)


def compiled(text: str | None, error_class: str | None = None) -> Filter:
    """Return the compiled filter; None matches all tasks. Raise `InvalidFilter`.

    error_class: only tasks whose last attempt ended with it.
    """
    terms = [] if text is None else [parse(text)]
    if error_class is not None:
        terms.append(FieldComparison(("class",), "=", (error_class,)))
    term = terms[0] if len(terms) == 1 else And(tuple(terms))
    fields = [field for field in _fields(term) if field[0] in _FREE]
    return Filter(
        _json(term), _states(term), _keys(term), _parts(term), tuple(dict.fromkeys(fields)), term
    )


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


def _fields(term: Term) -> Iterator[Field]:
    if isinstance(term, Not):
        yield from _fields(term.term)
    elif isinstance(term, And | Or):
        yield from chain.from_iterable(map(_fields, term.terms))
    else:
        yield term.field


def _without(term: Term, field: Field, *, negated: bool) -> frozenset[tuple[bool, bool]]:
    """Return the values that a term may have for a task without a field.

    Each next to the value that it has if all comparisons with the field speak against a match.
    negated: whether the term stands below an odd number of `not`.
    """
    if isinstance(term, Not):
        inner = _without(term.term, field, negated=not negated)
        return frozenset((not value, not other) for value, other in inner)
    if isinstance(term, And | Or):
        join = any if isinstance(term, Or) else all
        found = {(join(()), join(()))}
        for part in term.terms:
            more = _without(part, field, negated=negated)
            found = {(join((a, c)), join((b, d))) for a, b in found for c, d in more}
        return frozenset(found)
    if term.field == field:
        return frozenset([(term.values == (None,), negated)])
    return frozenset([(True, True), (False, False)])


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


def _keys(term: Term) -> frozenset[str] | None:
    """Return the keys that can match, perhaps too many; None: any."""
    if isinstance(term, And | Or):
        inner = [_keys(part) for part in term.terms]
        named = [keys for keys in inner if keys is not None]
        if isinstance(term, And):
            return frozenset.intersection(*named) if named else None
        return frozenset().union(*named) if len(named) == len(inner) else None
    if isinstance(term, Not) or term.field != ("key",) or term.operator not in {"=", "in"}:
        return None
    return frozenset(value for value in term.values if isinstance(value, str))
