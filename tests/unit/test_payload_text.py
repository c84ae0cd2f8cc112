"""Payloads as text: the encoder of tasks says what Python's own does."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.model.errors import InvalidTask
from taskq.model.seed import Seed

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_payload_and_derived_key_are_those_of_json(payload: dict[str, Any]) -> None:
    """The key too, byte for byte: tasks that were seeded by any release are found again."""
    canonical = json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()
    key = f"sha256:{hashlib.sha256(canonical).hexdigest()[:40]}"
    assert Seed(payload).encoded() == (key, json.dumps(payload, ensure_ascii=False), 0)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), {1}, b"", object()])
def test_what_json_cannot_say_is_refused(wrong: object) -> None:
    """With json's reason."""
    with pytest.raises(InvalidTask, match="a payload must be JSON: ") as caught:
        Seed({"n": [wrong]}).encoded()
    with pytest.raises((TypeError, ValueError)) as reason:
        json.dumps({"n": [wrong]}, allow_nan=False)
    assert str(caught.value).endswith(str(reason.value))
