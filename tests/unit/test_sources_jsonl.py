"""JSON Lines files as tasks."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.ingest.sources.jsonl import read as read_jsonl
from taskq.ingest.sources.lines import LineReader
from taskq.ingest.sources.records import BadLine, Record, SourceOptions
from taskq.model.seed import MAX_PAYLOAD_DEPTH, Seed

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\\"), max_size=10)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


def read(data: bytes, **options: Any) -> list[Record]:
    return list(read_jsonl(LineReader(io.BytesIO(data), "file"), SourceOptions(**options)))


@pytest.mark.thorough
@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=4), max_size=5), st.booleans())
def test_round_trip(payloads: list[dict[str, Any]], ascii_only: bool) -> None:
    """Any objects written as JSON come back equal, empty lines between them or not."""
    data = "\n\n".join(json.dumps(payload, ensure_ascii=ascii_only) for payload in payloads)
    assert read(data.encode()) == [Seed(payload) for payload in payloads]


def test_key_and_priority_come_from_fields() -> None:
    """A key may be text or a whole number."""
    records = read(b'{"id": "a", "rank": -2}\n{"id": 7, "rank": "3"}\n', key="id", priority="rank")
    assert records == [
        Seed({"id": "a", "rank": -2}, "a", -2),
        Seed({"id": 7, "rank": "3"}, "7", 3),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{'a': 1}", "not JSON: "),
        (b'{"a": 1} x', "not JSON: Extra data at character 10"),
        (b"[1, 2]", "must be an object"),
        (b'"text"', "must be an object"),
        (b'{"a": 1, "a": 1}', "the name 'a' occurs twice in one object"),
        (b'{"b": [{"x": 1, "y": 2, "x": 3}]}', "the name 'x' occurs twice in one object"),
        (b'{"a": 1, "\\u0061": 2}', "the name 'a' occurs twice"),
        (b'{"a": NaN}', "not JSON: NaN"),
        (b'{"a": -Infinity}', "not JSON: -Infinity"),
        (b'{"a": 1e999}', "a payload must be JSON"),
        (b'{"a": "\\u0000"}', "NUL"),
        (b'{"a": "\\ud800"}', "lone surrogate"),
        (b'{"\\udfff": 1}', "lone surrogate"),
        (b'{"a": ' + b"1" * 5000 + b"}", "thousands of digits"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested more than"),
        (b'{"a": "' + b"x" * 70_000 + b'"}', "payload of"),
        (b'{"b": 1}', "no field 'id' to take the key from"),
        (b'{"id": null}', "key field 'id' must be text or a whole number, not None"),
        (b'{"id": true}', "not True"),
        (b'{"id": 1.5}', "not 1.5"),
        (b'{"id": ""}', "key field 'id' is empty"),
        (b'{"id": "a", "rank": 1.5}', "priority field 'rank' must be a whole number"),
        (b'{"id": "a", "rank": 99999}', "priority 99999 is outside"),
    ],
)
def test_bad_line_says_why_and_does_not_stop(line: bytes, reason: str) -> None:
    """A line that cannot be a task is reported with its number; the next one is read."""
    priority = "rank" if b"rank" in line else None
    key = "id" if b"id" in line or b'"b"' in line else None
    good = b'{"id": "z", "rank": 0}\n'
    bad, after = read(line + b"\n" + good, key=key, priority=priority)
    assert isinstance(bad, BadLine)
    assert bad.number == 1
    assert reason in bad.reason
    assert isinstance(after, Seed)


def test_line_that_is_cut_by_the_end_of_the_file_says_so() -> None:
    """A cut file has another error than a line that was never JSON."""
    _, cut = read(b'{"a": 1}\n{"a": [1, 2')
    assert isinstance(cut, BadLine)
    assert cut.number == 2
    assert cut.reason.startswith("the file ends within this line")
    assert read(b'{"a": 1}') == [Seed({"a": 1})]


def test_depth_limit_is_exact() -> None:
    """Nesting is limited for what the payload holds, not for brackets in its text."""

    def nested(depth: int) -> bytes:
        return b'{"a": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"

    assert isinstance(read(nested(MAX_PAYLOAD_DEPTH))[0], Seed)
    assert isinstance(read(nested(MAX_PAYLOAD_DEPTH + 1))[0], BadLine)
    assert isinstance(read(b'{"smiles": "' + b"[C]" * 100 + b'"}')[0], Seed)
