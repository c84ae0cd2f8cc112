"""Tokens of filters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from taskq.model.errors import InvalidFilter
from taskq_agent.text import is_unicode

MAX_CHARS: Final = 10_000
MAX_NUMBER_CHARS: Final = 40
MAX_EXPONENT: Final = 400

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE](?P<exponent>[-+]?[0-9]+))?)(?![\w.])
  | (?P<word>[^\W\d][\w-]*)
  | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<foreign>==|<>|&&|\|\||=~|!~)
  | (?P<mark><=|>=|!=|[=<>~().,])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {'"': '"', "'": "'", "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_INSTEAD: Final = {"==": "=", "<>": "!=", "&&": "and", "||": "or", "=~": "~", "!~": "not … ~"}


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A token. kind: word, text, number, mark or end. value: of a text without its quotes."""

    kind: str
    value: str
    column: int


def tokens(text: str) -> list[Lexeme]:
    """Return the tokens of a filter, the last of kind `end`; raise `InvalidFilter`."""
    if len(text) > MAX_CHARS:
        raise InvalidFilter(f"a filter has at most {MAX_CHARS:,} characters", text, MAX_CHARS)
    if not is_unicode(text) or "\0" in text:
        bad = next(n for n, c in enumerate(text) if c == "\0" or not is_unicode(c))
        raise InvalidFilter("this is not a valid text", text, bad)
    found, column = [], 0
    while column < len(text):
        match = _TOKEN.match(text, column)
        if match is None:
            raise InvalidFilter(_unreadable(text[column]), text, column)
        kind, value = str(match.lastgroup), match[0]
        if kind == "exponent" or match["number"]:
            kind = "number"
            exponent = match["exponent"] or "0"
            if len(value) > MAX_NUMBER_CHARS or abs(int(exponent)) > MAX_EXPONENT:
                raise InvalidFilter("this number is too long", text, column)
        if kind == "foreign":
            raise InvalidFilter(f"write {_INSTEAD[value]} instead of {value}", text, column)
        if kind == "text":
            value = _unescaped(text, column, value)
        if kind != "space":
            found.append(Lexeme(kind, value, column))
        column = match.end()
    return [*found, Lexeme("end", "", len(text))]


def _unescaped(text: str, column: int, quoted: str) -> str:
    for match in _ESCAPE.finditer(quoted, 1, len(quoted) - 1):
        if match[1] not in _ESCAPES:
            at = column + match.start()
            raise InvalidFilter(r"an escape is one of \" \' \\ \n \r \t", text, at)
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], quoted[1:-1])


def _unreadable(character: str) -> str:
    if character in "\"'":
        return "this quote is not closed"
    if character == "!":
        return "write not instead of !"
    if character.isdecimal() or character in "+-":
        return "this is not a number; put text in quotes"
    return "this has no meaning here; put text in quotes"
