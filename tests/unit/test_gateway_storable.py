"""Values that a gateway lets into the database, judged without a walk through them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskq.gateway.messages import MAX_DEPTH, BadRequest, HelloMessage, Reader

#: What begins, ends or looks like an escape, a string or a value.
PIECES = st.sampled_from(
    ["\\", '"', "\x00", "\\u0000", "u0000", "\ud83d", "\ude00", "😀", "[", "]", "{", "}", "n", "é"]
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)
VALUES = st.recursive(
    TEXTS | st.none() | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
DEEP = st.sampled_from([0, 1, MAX_DEPTH - 4, MAX_DEPTH - 3, MAX_DEPTH - 2, MAX_DEPTH, 150])


def is_storable(value: Any, depth: int = 1) -> bool:
    """Walk through a value."""
    if isinstance(value, str):
        return "\x00" not in value and not any("\ud800" <= one <= "\udfff" for one in value)
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return depth <= MAX_DEPTH and all(is_storable(one, depth + 1) for one in value)
    return True


@given(VALUES, DEEP, st.booleans())
@example(["\\\\u0000", "\ud83d\ude00"], 0, False)
@example(['"[', '\\"]'] * 60, 0, True)
def test_values_are_judged_as_a_walk_through_them_would(
    value: Any, deep: int, in_lists: bool
) -> None:
    """NUL and lone surrogates, in names too, and nesting; nothing else is refused."""
    for _ in range(deep):
        value = [value] if in_lists else {"a": value}
    hello = {"campaign": "/c", "key": "0" * 8 + "-0000" * 3 + "-" + "0" * 12, "later": [value]}
    body = json.dumps(hello)
    expected = is_storable(json.loads(body))
    reader = Reader(HelloMessage)
    if expected:
        assert reader.read(body.encode()).campaign == "/c"
    else:
        with pytest.raises(BadRequest):
            reader.read(body.encode())
