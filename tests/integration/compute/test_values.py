"""What goes in comes out again with its type, and nothing is executed on the way."""

from __future__ import annotations

import base64
import json
import math
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq import Client
from taskq.compute.functions import Arguments
from taskq_agent import typed
from taskq_agent.typed import NotStorable
from tests.payloads import called

WAIT_S = 100.0

VALUES = [
    None,
    True,
    7,
    10**40,
    1.5,
    1e16,
    1e300,
    -0.0,
    math.inf,
    "text",
    "NUL \0 within",
    "\ud800",
    (1, (2, [3])),
    {1, 2},
    frozenset({"a"}),
    b"\0\xff",
    bytearray(b"x"),
    complex(1, -math.inf),
    datetime(2026, 11, 22, 1, 2, 3, 4, tzinfo=timezone.utc),
    date(2026, 11, 22),
    timedelta(days=-1, microseconds=3),
    Decimal("1.10"),
    Path("/a/b"),
    {"$tuple": [1]},
    {1: 2, (3,): 4},
    {"value": 3},
    {"args": [1]},
    {"taskq_blob": {"size": 1, "digest": "x"}},
    {"deep": {"list": [1, {"x": (1,)}]}, "smiles": "CCO"},
    {},
]
ARRAYS = [
    np.arange(6, dtype=np.int16).reshape(2, 3),
    np.array([1.5, np.nan, np.inf], dtype=">f4"),
    np.array("2026-11-22", dtype="datetime64[D]"),
    np.zeros((0, 3)),
    np.array([(1, 2.5)], dtype=[("n", "i4"), ("x", "f8")]),
]


def stored(value: Any) -> Any:
    """Return JSON as PostgreSQL gives it back, without exponents and signs of zero."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    assert "\\u0000" not in text
    text.encode()
    return json.loads(text, parse_float=float)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_value_comes_back_as_itself(value: Any) -> None:
    """As a result, and as an argument by position and by name."""
    result = typed.decode_result(stored(typed.encode_result(value)))
    assert (result, type(result)) == (value, type(value))
    assert repr(result) == repr(value)  # the sign of zero
    args, kwargs = typed.decode_call(stored(typed.encode_call((value, value), {"k": value})))
    assert (args, kwargs) == ([value, value], {"k": value})
    assert typed.decode_call(stored(typed.encode_call((value,), {}))) == ([value], {})


@pytest.mark.parametrize("value", ARRAYS, ids=repr)
def test_array_comes_back_as_itself(value: Any) -> None:
    """With its type of elements, byte order and shape."""
    result = typed.decode_result(stored(typed.encode_result({"poses": value})))["poses"]
    assert (result.dtype, result.shape, type(result)) == (value.dtype, value.shape, type(value))
    np.testing.assert_array_equal(result, value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=10,
)


@given(json_values)
def test_any_value_of_json_comes_back(value: Any) -> None:
    """Whatever the names of its objects are."""
    assert typed.decode_result(stored(typed.encode_result(value))) == value


@pytest.mark.thorough
@given(
    st.recursive(
        json_values,
        lambda inner: st.dictionaries(
            st.sampled_from(
                ["$array", "$tuple", "$pickle", "$dict", "$float", "$scalar", "$path", "$what"]
            ),
            inner,
        ),
    )
)
def test_stored_nonsense_is_a_value_or_an_error(value: Any) -> None:
    """Anyone who may seed may store anything; reading it executes nothing and ends."""
    with suppress(ValueError):
        typed.decode(value)


def test_equal_sets_are_stored_alike() -> None:
    """Their own order depends on how they were made, and for text on the process."""
    assert [*{0, 8}] != [*{8, 0}]
    for kind in (set, frozenset):
        assert typed.encode(kind((0, 8))) == typed.encode(kind((8, 0)))
        assert typed.encode(kind("hgfedcba")) == {f"${kind.__name__}": [*"abcdefgh"]}
    nested = {"x": [{frozenset({0, 8}), (1, "b")}]}
    assert typed.encode(nested) == {"x": [{"$set": [{"$frozenset": [0, 8]}, {"$tuple": [1, "b"]}]}]}


class Ligand:
    """An object whose hash is another one in each process."""

    def __init__(self, smiles: str) -> None:
        self.smiles = smiles


def test_calls_with_equal_sets_have_one_key() -> None:
    """Of plain values and of objects, which are pickled."""
    arguments = Arguments("00")

    def key(value: object) -> str:
        return arguments.call((value,), {}, {})[1]

    assert key({0, 8}) == key({8, 0}) != key({0, 9})
    kept = [{Ligand(smiles) for smiles in "ABCDEFGH"} for _ in range(4)]
    assert len(set(map(key, kept))) == 1
    assert key({1: "a", 2: "b"}) != key({2: "b", 1: "a"})  # functions see that order


def test_json_stays_json() -> None:
    """So that results can be ranked, exported and read in any language."""
    payload = {"smiles": "CCO", "seed": 3}
    assert typed.encode_call((payload,), {}) == payload
    assert typed.encode_result({"score": np.float32(1.5), "n": np.int64(2)}) == {
        "score": 1.5,
        "n": 2,
    }
    assert typed.encode_result(3) == {"value": 3}


def test_error_names_the_value_that_cannot_be_stored() -> None:
    """An object, and an array that holds objects."""
    with pytest.raises(NotStorable, match="an object cannot be stored"):
        typed.encode([object()])
    with pytest.raises(NotStorable, match=r"a numpy\.ndarray"):
        typed.encode(np.array([object()]))
    with pytest.raises(ValueError, match="not a type of value"):
        typed.decode({"$pickle": ["gASVAA=="]})


def test_large_results_come_back(served_queue: Client, name: str) -> None:
    """Above what a report takes; an array as it is, for others in Base64."""

    def make(number: int) -> object:
        import numpy as np  # noqa: PLC0415

        return np.arange(number / 1) if number > 1 else called.large(1_000_000)

    run = served_queue.map(make, [1, 100_000], name=name)
    text, array = run.result(WAIT_S)
    assert len(text) == 1_000_000
    assert (array[99_999], array.flags.writeable, array.base is None) == (99_999.0, True, False)
    _, raw = run.campaign.results(raw=True)
    assert raw.result is not None
    assert raw.result["taskq_blob"]["size"] < array.nbytes + 200
    _, shown = run.campaign.results()
    assert shown.result is not None
    kind, shape, memory = shown.result["value"]["$array"]
    assert (kind, shape, base64.b64decode(memory)) == ("<f8", [100_000], array.tobytes())


@pytest.mark.parametrize("size", [1, 300_000])
def test_value_is_the_same_whichever_way_it_comes(
    near_queue: Client, served_queue: Client, size: int
) -> None:
    """From agents of this machine, from PostgreSQL, as a blob: names in the order of jsonb."""
    values = [
        near_queue.submit(called.disordered, size).result(WAIT_S),
        near_queue.submit(called.disordered, size).result(WAIT_S),  # done already
        served_queue.map(called.disordered, [size], name=f"/disordered/{size}").result(WAIT_S)[0],
    ]
    for value in values:
        assert [*value] == ["id", "zz", "é", "smiles"]
        assert [*value["é"]] == ["a", "b"]
