"""JSON Lines files: an object per line, which is the payload."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from taskq.ingest.sources.lines import LineReader
from taskq.ingest.sources.records import BadLine, Record, SourceOptions, excerpt, seed_from
from taskq.model.errors import InvalidTask
from taskq.model.seed import MAX_PAYLOAD_DEPTH


def read(lines: LineReader, options: SourceOptions) -> Iterator[Record]:
    """Yield a task per line, with the object as its payload. Empty lines are skipped."""
    for line in lines:
        if isinstance(line, BadLine):
            yield line
        elif line and not line.isspace():
            yield _record(lines.number, line, options, cut=not lines.ended)


def _record(number: int, line: str, options: SourceOptions, *, cut: bool) -> Record:
    try:
        payload = _object(line, cut=cut)
        return seed_from(payload, payload, options)
    except InvalidTask as error:
        return BadLine(number, str(error), excerpt(line))


def _object(line: str, *, cut: bool) -> dict[str, Any]:
    try:
        value = _decode(line)
    except RecursionError:
        raise InvalidTask(f"values are nested more than {MAX_PAYLOAD_DEPTH} deep") from None
    except json.JSONDecodeError as error:
        if cut:
            raise InvalidTask(f"the file ends within this line: {error.msg}") from None
        raise InvalidTask(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except ValueError:  # int() raises it for no other reason
        raise InvalidTask("a whole number of thousands of digits") from None
    if not isinstance(value, dict):
        raise InvalidTask("the line must be an object of names and values, such as {...}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; refuse a name with two values, since readers differ in which they take."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidTask(f"the name {excerpt(twice)!r} occurs twice in one object")
    return value


def _refuse(constant: str) -> NoReturn:
    raise InvalidTask(f"not JSON: {constant} is not a number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)


def _decode(line: str) -> Any:
    # `decode` also skips white space, a quarter of its time, though there is hardly ever any.
    try:
        value, end = _DECODER.raw_decode(line)
    except json.JSONDecodeError:
        value, end = None, -1  # `decode` raises it, with the position
    return value if end == len(line) else _DECODER.decode(line)
