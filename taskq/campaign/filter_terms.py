"""Terms of filters, as the parser makes them and the compiler takes them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

Value: TypeAlias = str | int | Decimal | bool | None
#: The name of a field, and the names below it.
Field: TypeAlias = tuple[str, ...]

#: What each field holds; below `payload` and `result`, fields of any kind.
KINDS: Final = {
    "key": "text",
    "state": "state",
    "class": "text",
    "error": "text",
    "exit_code": "number",
    "attempts": "number",
    "failures": "number",
    "losses": "number",
    "host": "text",
    "site": "text",
    "recipe": "number",
    "priority": "number",
    "payload": "any",
    "result": "any",
}


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """A comparison of a field with a value; with operator `in`, with several.

    operator: one of = < <= > >= ~ in.
    """

    field: Field
    operator: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """A term that is true where its inner term is not."""

    term: Term


@dataclass(frozen=True, slots=True)
class And:
    """A term that is true where all its terms are."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A term that is true where one of its terms is."""

    terms: tuple[Term, ...]


Term: TypeAlias = FieldComparison | Not | And | Or
