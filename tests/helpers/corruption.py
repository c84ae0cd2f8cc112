"""Hypothesis strategies for corrupted JSON values."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

#: Texts with separators, terminators, escapes and halves of characters.
TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["/", "..", "a/../b", "{x}", "%s", "\0", "\x1b[2J", "\ud800", "1e999", "-0"]),
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | TEXTS
    | st.just("x" * 70_000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def corrupted(draw: st.DrawFn, value: Any) -> Any:
    """Return a copy of a JSON value with up to three places replaced by anything, or removed."""
    result = [copy.deepcopy(value)]
    for _ in range(draw(st.integers(0, 3))):
        outer: Any = result
        place: Any = 0
        while isinstance(outer[place], (dict, list)) and outer[place] and draw(st.booleans()):
            outer = outer[place]
            places = list(outer) if isinstance(outer, dict) else range(len(outer))
            place = draw(st.sampled_from(places))
        if outer is not result and draw(st.booleans()):
            del outer[place]
        else:
            outer[place] = draw(ANYTHING)
    return result[0]
