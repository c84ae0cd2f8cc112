"""Reading of stored JSON, where one unreadable value does not hide the others.

Python reads no whole number of more than 4,300 digits, and nothing that is nested 1,000 deep. Only
the owner of the tables can store such values (see `json_fault.sql`). An object with
one name, which says why, replaces each, so that everything stored with it can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskq_agent.json_limits import MAX_READ_BYTES, json_fault

#: The one name in an object that stands for a value that cannot be read. Its value says why.
UNREADABLE: Final = "taskq_unreadable"
#: The depth that every reader of taskq's can read.
_DEEPEST: Final = 200
_BRACE_OR_STRING: Final = re.compile(rb'[{}]|"(?:[^"\\]|\\.)*"', re.DOTALL)


def loads(data: str | bytes | bytearray) -> Any:
    """Return the value of JSON text, with replacements for unreadable objects.

    Objects in an array are read one by one. Raise `ValueError` if the text is not JSON.
    """
    try:
        return json.loads(data)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        text = data.encode() if isinstance(data, str) else bytes(data)
        try:
            return json.loads(b"".join(_readable(text)))
        except (ValueError, RecursionError):
            why = json_fault(text, most=MAX_READ_BYTES, deep=_DEEPEST)
            return unreadable(f"JSON {why}" if why else str(error))


def unreadable(why: str) -> dict[str, Any]:
    """Return the replacement of an unreadable value."""
    return {UNREADABLE: why}


def why_unreadable(value: object) -> str | None:
    """Return why a value could not be read; None if it was."""
    return str(value[UNREADABLE]) if isinstance(value, Mapping) and UNREADABLE in value else None


def why_unreadable_text(text: bytes) -> str | None:
    """Return why JSON text, as PostgreSQL writes it, cannot be read; None if it can be.

    PostgreSQL writes numbers out, so a short text has neither many digits nor many levels.
    """
    if len(text) < _DEEPEST:
        return None
    why = json_fault(text, most=MAX_READ_BYTES, deep=_DEEPEST)
    return None if why is None else f"JSON {why}"


def checked(text: bytes, most: int) -> bytes:
    """Return JSON text if every reader can read it, else the text of its replacement."""
    why = json_fault(text, most=most, deep=_DEEPEST)
    return text if why is None else json.dumps(unreadable(f"JSON {why}")).encode()


def _readable(text: bytes) -> Iterator[bytes]:
    """Yield JSON text in pieces, with unreadable outermost objects replaced."""
    depth = begin = done = 0
    for found in _BRACE_OR_STRING.finditer(text):
        brace = found.group()
        if brace == b"{":
            begin = found.start() if depth == 0 else begin
            depth += 1
        elif brace == b"}":
            depth -= 1
            if depth == 0:
                yield text[done:begin]
                done = found.end()
                yield checked(text[begin:done], MAX_READ_BYTES)
    yield text[done:]
