"""What can be a result: a JSON object that PostgreSQL's jsonb can hold, of bounded size."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Union

from taskq_agent.protocol import MAX_RESULT_BYTES

# an escaped NUL, unlike an escaped backslash before the characters u0000
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class BadResult(ValueError):
    """A payload returned or wrote something that cannot be stored as its result."""


def encoded(result: Any) -> str:
    """Return a result as compact JSON; BadResult says what is wrong with it."""
    if not isinstance(result, Mapping):
        raise BadResult(f"a result must be a JSON object, not {type(result).__name__}")
    try:
        text = json.dumps(dict(result), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadResult("the result is not valid Unicode: it contains a lone surrogate") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise BadResult(f"the result is not JSON: {error}") from None
    if size > MAX_RESULT_BYTES:
        raise BadResult(
            f"result of {size} bytes; {MAX_RESULT_BYTES} at most: "
            "keep large outputs in files and return their names"
        )
    if "\\u0000" in text and _NUL.search(text):  # the first is fast, the second exact
        raise BadResult("the result contains a NUL character, which the database cannot store")
    return text


def parsed(text: Union[bytes, bytearray]) -> Any:
    """Return the value of a JSON text from outside; ValueError if it is none.

    NaN and infinity pass here: `encoded` refuses them with a better text.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
