"""Parser of filters: the recursive descent that makes terms of tokens.

filter      conjunction ("or" conjunction)*
conjunction condition ("and" condition)*
condition   "not" condition | "(" filter ")" | comparison
comparison  field operator value | field "not"? "in" "(" value ("," value)* ")"
field       name ("." (name | text))*
operator    = != < <= > >= ~
value       text | number | true | false | null | a status
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from difflib import get_close_matches
from typing import Final

from taskq.campaign.filter_lexer import Lexeme, tokens
from taskq.campaign.filter_terms import KINDS, And, Field, FieldComparison, Not, Or, Term, Value
from taskq.model.errors import InvalidFilter
from taskq.model.seed import STATUSES

MAX_DEPTH: Final = 20
MAX_COMPARISONS: Final = 100
#: Pieces of text in comparisons with `~`: the server keeps so many prepared from task to task.
MAX_PIECES: Final = 20

_OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=", "~")
_ORDERING: Final = ("<", "<=", ">", ">=")
_CONSTANTS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}
_KEYWORDS: Final = {"and", "or", "not", "in", *_CONSTANTS}
_SYNONYMS: Final = {"status": "state"}
_SIMILAR: Final = {
    "error_class": "class",
    "attempt": "attempts",
    "id": "key",
    "name": "key",
}


def parse(text: str) -> Term:
    """Return the term that a filter states; raise `InvalidFilter`, which shows the wrong place."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._place = 0
        self._depth = 0
        self._comparisons = 0
        self._pieces = 0

    def whole(self) -> Term:
        if self._next.kind == "end":
            raise self._error(self._next, "the filter is empty")
        term = self._filter()
        if self._next.kind != "end":
            raise self._error(self._next, "expected and, or, or the end")
        return term

    @property
    def _next(self) -> Lexeme:
        return self._tokens[self._place]

    def _take(self) -> Lexeme:
        token = self._next
        self._place += token.kind != "end"
        return token

    def _word(self, *words: str) -> bool:
        """Take the next token if it is one of these keywords or marks."""
        token = self._next
        if token.kind in {"word", "mark"} and token.value.lower() in words:
            self._take()
            return True
        return False

    def _error(self, token: Lexeme, reason: str) -> InvalidFilter:
        return InvalidFilter(reason, self._text, token.column)

    def _filter(self) -> Term:
        return self._joined("or", self._conjunction, Or)

    def _conjunction(self) -> Term:
        return self._joined("and", self._condition, And)

    def _joined(
        self, word: str, part: Callable[[], Term], join: Callable[[tuple[Term, ...]], Term]
    ) -> Term:
        terms = [part()]
        while self._word(word):
            terms.append(part())
        return terms[0] if len(terms) == 1 else join(tuple(terms))

    def _condition(self) -> Term:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(self._next, f"this is nested deeper than {MAX_DEPTH} levels")
        if self._word("not"):
            term: Term = Not(self._condition())
        elif self._word("("):
            term = self._filter()
            if not self._word(")"):
                raise self._error(self._next, "expected a closing parenthesis")
        else:
            term = self._comparison()
        self._depth -= 1
        return term

    def _comparison(self) -> Term:
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise self._error(self._next, f"a filter has at most {MAX_COMPARISONS} comparisons")
        field = self._field()
        operator = self._take()
        how = operator.value.lower()
        if operator.kind == "word" and how in {"in", "not"}:
            if how == "not" and not self._word("in"):
                raise self._error(self._next, "expected in")
            chosen = FieldComparison(field, "in", self._values(field))
            return Not(chosen) if how == "not" else chosen
        if operator.kind != "mark" or how not in _OPERATORS:
            raise self._error(operator, "expected one of = != < <= > >= ~ in")
        self._pieces += how == "~"
        if self._pieces > MAX_PIECES:
            raise self._error(operator, f"a filter has at most {MAX_PIECES} comparisons with ~")
        value = self._value(field, how)
        if how == "!=":
            return Not(FieldComparison(field, "=", (value,)))
        return FieldComparison(field, how, (value,))

    def _field(self) -> Field:
        token = self._take()
        name = _SYNONYMS.get(token.value.lower(), token.value.lower())
        if token.kind != "word" or name in _KEYWORDS:
            raise self._error(token, "expected a field, such as error or payload.NAME")
        if name not in KINDS:
            close = get_close_matches(name, KINDS, n=1)
            known = _SIMILAR.get(name) or (close[0] if close else None)
            others = f"did you mean {known}?" if known else f"there are {', '.join(KINDS)}"
            raise self._error(token, f"there is no field of that name; {others}")
        names = [name]
        while self._word("."):
            if KINDS[name] != "any":
                raise self._error(self._next, f"{name} has no fields")
            below = self._take()
            if below.kind not in {"word", "text"}:
                raise self._error(below, "expected the name of a field, quoted if need be")
            names.append(below.value)
        if KINDS[name] == "any" and len(names) == 1:
            raise self._error(self._next, f"name a field of it, such as {name}.NAME")
        return tuple(names)

    def _values(self, field: Field) -> tuple[Value, ...]:
        if not self._word("("):
            raise self._error(self._next, "expected a list in parentheses")
        values = [self._value(field, "in")]
        while self._word(","):
            values.append(self._value(field, "in"))
        if not self._word(")"):
            raise self._error(self._next, "expected a comma, or a closing parenthesis")
        return tuple(values)

    def _value(self, field: Field, operator: str) -> Value:
        token = self._take()
        value: Value
        if token.kind == "text":
            value = token.value
        elif token.kind == "number":
            value = Decimal(token.value)
        elif token.kind == "word" and token.value.lower() in _CONSTANTS:
            value = _CONSTANTS[token.value.lower()]
        elif token.kind == "word" and KINDS[field[0]] == "state":
            value = token.value.lower()
        else:
            quoted = f'; is it "{token.value}"?' if token.kind == "word" else ""
            raise self._error(token, f"expected a number, or text in quotes{quoted}")
        wrong = _misfit(KINDS[field[0]], field, operator, value)
        if wrong is not None:
            raise self._error(token, wrong)
        return value


def _misfit(kind: str, field: Field, operator: str, value: Value) -> str | None:
    """Return why the operator does not compare a field with a value; None if it does."""
    if operator == "~" and (not isinstance(value, str) or not value or kind in {"number", "state"}):
        return "~ looks for a piece of text in a field of text"
    if value is None:
        return None if operator in {"=", "!="} else "null can be compared only by = and !="
    if isinstance(value, bool) and operator in _ORDERING:
        return "true and false can be compared only by =, != and in"
    if kind == "state":
        if value not in STATUSES:
            return f"a status is one of {', '.join(STATUSES)}"
        return "states have no order" if operator in _ORDERING else None
    if kind == "text" and not isinstance(value, str):
        return f"{field[0]} is text: put its value in quotes"
    if kind == "number" and not isinstance(value, Decimal):
        return f"{field[0]} is a number"
    return None
