"""What a campaign says that each result must have: `[results] require` and `require_files`.

A requirement is text: the name of a value in the result, then, if wanted, its kind and its bounds,
such as `score`, `pose.energy number` or `score number >= -50 <= 0`. Bounds are of numbers. Without
a kind, any value but null will do. A name may contain dots: at each level the whole rest of the
name is tried first.

This is the one judgement; `handlers.completeness` asks it of the ends of attempts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

MAX_REQUIRED = 32
_MOST_CHARS = 300

NUMBER = "number"
_KINDS: Dict[str, Callable[[Any], bool]] = {
    NUMBER: lambda value: type(value) in (int, float),
    "text": lambda value: type(value) is str,
    "boolean": lambda value: type(value) is bool,
    "list": lambda value: type(value) is list,
    "object": lambda value: type(value) is dict,
}
KINDS = tuple(_KINDS)
_BOUND = r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?"
_FORM = re.compile(
    rf"(?P<name>\S{{1,200}})(?: (?P<kind>{'|'.join(KINDS)}))?"
    rf"(?: >= (?P<least>{_BOUND}))?(?: <= (?P<most>{_BOUND}))?"
)
_SHOWN_CHARS = 80
_MOST_NAMED = 5


@dataclass(frozen=True)
class Required:
    """A value that each result must have. kind: None for any value but null."""

    name: str
    kind: Optional[str] = None
    least: Optional[float] = None
    most: Optional[float] = None

    def fault(self, result: Mapping[str, Any]) -> str:
        """Return what is wrong with a result; nothing if it has the value."""
        value = value_at(result, self.name)
        if value is None:
            return f"{self.name} is {'null' if _has(result, self.name) else 'missing'}"
        shown = repr(value)[:_SHOWN_CHARS]
        if self.kind is not None and not _KINDS[self.kind](value):
            return f"{self.name} is {shown}, which is no {self.kind}"
        if self.least is not None and not value >= self.least:
            return f"{self.name} is {shown}, below {self.least:g}"
        if self.most is not None and not value <= self.most:
            return f"{self.name} is {shown}, above {self.most:g}"
        return ""


def required(text: str) -> Required:
    """Return the requirement in a text; ValueError says what is wrong with it."""
    found = _FORM.fullmatch(text) if len(text) <= _MOST_CHARS else None
    if found is None:
        raise ValueError(
            f"{text!r:.100} must read NAME, NAME KIND or NAME number >= LEAST <= MOST, with one of "
            f"the kinds {', '.join(KINDS)}"
        )
    least, most = (None if found[it] is None else float(found[it]) for it in ("least", "most"))
    kind = found["kind"]
    if least is not None or most is not None:
        if kind not in (None, NUMBER):
            raise ValueError(f"{text!r:.100}: only a number has bounds")
        kind = NUMBER
    if least is not None and most is not None and least > most:
        raise ValueError(f"{text!r:.100}: no number is within these bounds")
    return Required(found["name"], kind, least, most)


def texts(value: object) -> Tuple[str, ...]:
    """Return requirements as texts, each once; some may be tables, as campaign files have them.

    A table has `name` and may have `kind`, `min` and `max`. ValueError says what is wrong.
    """
    if not isinstance(value, (list, tuple)) or len(value) > MAX_REQUIRED:
        raise ValueError(
            f'it must be a list of {MAX_REQUIRED} names at most, such as ["score"], not '
            f"{value!r:.80}"
        )
    return tuple(dict.fromkeys(map(_text, value)))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    name = value.get("name") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(name, str):
        raise ValueError(  # noqa: TRY004 - a value of a file, like others
            f'{value!r:.80} is neither a name nor a table such as {{name = "score"}}'
        )
    if unknown := set(value) - {"name", "kind", "min", "max"}:
        raise ValueError(f"{min(map(str, unknown))!r:.80} is unknown; known: name, kind, min, max")
    parts = [name]
    if value.get("kind") is not None:
        parts.append(str(value["kind"]))
    for sign, bound in ((">=", value.get("min")), ("<=", value.get("max"))):
        if bound is not None:
            parts.append(f"{sign} {bound}")
    return " ".join(parts)


def lacking(
    result: Mapping[str, Any],
    files: Mapping[str, int],
    require: Sequence[str],
    require_files: Sequence[str],
) -> str:
    """Return what a result lacks, for people; nothing if it is complete.

    files: the sizes of the output files by their names; an empty file counts as missing.
    """
    faults = [fault for text in require if (fault := required(text).fault(result))]
    faults += [
        f"the file {name} is {'empty' if name in files else 'missing'}"
        for name in require_files
        if not files.get(name)
    ]
    more = len(faults) - _MOST_NAMED
    return "; ".join(faults[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def value_at(result: object, name: str) -> Any:
    """Return the value at a dotted name; None where there is none. See `value_at` in SQL."""
    while isinstance(result, Mapping):
        if name in result:
            return result[name]
        first, dot, name = name.partition(".")
        if not dot:
            return None
        result = result.get(first)
    return None


def _has(result: Mapping[str, Any], name: str) -> bool:
    """Return whether a result has a name whose value is null."""
    above, _, last = name.rpartition(".")
    inner = value_at(result, above) if above else result
    return name in result or (isinstance(inner, Mapping) and last in inner)
