"""Tables of pandas go as data: types of columns, indices, names and what is missing stay."""

from __future__ import annotations

import json
from datetime import timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal

from taskq.compute.functions import Arguments
from taskq.compute.trust import ResultReader
from taskq_agent import tables, typed
from taskq_agent.objects import ObjectReader, ObjectWriter
from tests.payloads import shapes
from tests.payloads.shapes import Ligand

EXACT: Any = {"check_freq": True, "check_index_type": "exact"}


def through(value: Any) -> Any:
    """Return a result as the queue carries it to a caller of the module's functions."""
    stored = json.loads(json.dumps(typed.encode_result(value, ObjectWriter())))
    return ResultReader(homes=[shapes.__name__]).decoded(stored)


def a_frame() -> pd.DataFrame:
    """Return a table with a column of each type."""
    return pd.DataFrame(
        {
            "whole": [1, 2],
            "small": np.array([1, 2], dtype="u1"),
            "real": [1.5, np.nan],
            "truth": [True, False],
            "text": ["x", None],
            "known text": pd.array(["a", None], dtype="string"),
            "plain text": pd.Series(["p", "q"], dtype=object),
            "kind": pd.Categorical(["u", "v"], ordered=True),
            "when": pd.date_range("2026", periods=2),
            "where": pd.date_range("2026", periods=2, tz="Europe/Berlin"),
            "offset": pd.date_range("2026", periods=2, tz=timezone(timedelta(hours=2))),
            "span": pd.to_timedelta([1, 2], unit="s"),
            "known whole": pd.array([1, None], dtype="Int64"),
            "known real": pd.array([1.5, None], dtype="Float32"),
            "known truth": pd.array([True, None], dtype="boolean"),
            "mixed": pd.Series([1, "a"], dtype=object),
        }
    )


def test_frame_comes_back_with_the_types_of_its_columns() -> None:
    frame = a_frame()
    frame.attrs["unit"] = {"real": ("kcal", "mol")}
    again = through({"table": frame})["table"]
    assert_frame_equal(again, frame, check_column_type="exact", **EXACT)
    assert again.dtypes.to_list() == frame.dtypes.to_list()
    assert again.attrs == frame.attrs
    again.loc[0, "whole"] = 7  # it may be changed


def test_objects_within_a_column_come_back() -> None:
    frame = pd.DataFrame({"o": pd.Series([Ligand("C"), [1], pd.NA, pd.NaT], dtype=object)})
    ligand, listed, missing, never = through(frame)["o"]
    assert (ligand, listed) == (Ligand("C"), [1])
    assert missing is pd.NA
    assert never is pd.NaT


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(),
        pd.DataFrame(index=[3, 4]),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])),
        pd.DataFrame({"a": [1.5]}, index=pd.MultiIndex.from_tuples([(1, "x")], names=["k", None])),
        pd.DataFrame({1: [1.5]}, index=pd.CategoricalIndex(["a"])),
    ],
    ids=range(6),
)
def test_frame_of_any_shape_keeps_its_names(frame: pd.DataFrame) -> None:
    assert_frame_equal(through(frame), frame, check_column_type="exact", **EXACT)


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([1, 2], index=["x", "y"], name=("n", 1)),
        pd.Series([1, 2], index=pd.date_range("2026", periods=2, freq="D")),
        pd.Series([1, 2], index=[7, 7]),
        pd.Series(["a", "b"], dtype="category"),
        pd.Series([], dtype=float),
    ],
    ids=range(5),
)
def test_series_comes_back_with_its_index(series: Any) -> None:
    assert_series_equal(through(series), series, **EXACT)


@pytest.mark.parametrize(
    "value",
    [
        pd.Timestamp("2026-11-22"),
        pd.Timestamp("2026-11-22 01:02:03.000000004", tz="Europe/Berlin"),
        pd.Timedelta("1 days 00:00:01"),
        pd.NA,
        pd.NaT,
        pd.date_range("2026", periods=3, freq="h"),
        pd.RangeIndex(3, name="x"),
        pd.Index(["a", 1], dtype=object),
    ],
    ids=range(8),
)
def test_single_values_and_indices_come_back(value: Any) -> None:
    again = through(value)
    assert repr(again) == repr(value)
    assert type(again) is type(value)
    assert getattr(again, "unit", None) == getattr(value, "unit", None)


class Derived(pd.DataFrame):
    """A class that is derived from pandas' own."""


@pytest.mark.parametrize(
    "value",
    [
        pd.Series(pd.period_range("2026", periods=2)),
        pd.Series(pd.arrays.SparseArray([0, 1])),
        pd.Series([1], dtype="int64[pyarrow]"),
        Derived({"a": [1]}),
    ],
    ids=["periods", "sparse", "arrow", "derived"],
)
def test_table_without_a_form_as_data_is_pickled(value: Any) -> None:
    """It would not be the same afterwards."""
    assert typed.encode(value, ObjectWriter(lambda _: [1])) == {"$pickle": [1]}


def test_table_is_an_argument_of_a_function_by_name() -> None:
    payload, text = Arguments(None).content((a_frame(),), {})
    (again,), _ = typed.decode_call(payload, ObjectReader(lambda *_: None))
    assert_frame_equal(again, a_frame(), **EXACT)
    assert Arguments(None).content((a_frame(),), {})[1] == text
    assert Arguments(None).content((a_frame().iloc[:1],), {})[1] != text


def test_frame_of_too_many_columns_is_refused() -> None:
    """Each takes much more memory and time than its text."""
    count = tables.MOST_COLUMNS + 1
    nothing = {"plain": {"$array": ["<f8", [0], ""]}}
    stored = [{"range": [0, count, 1], "names": [None]}, {"range": [0, 0, 1], "names": [None]}]
    with pytest.raises(ValueError, match="columns"):
        tables.decoded("$frame", [*stored, [nothing] * count, {}], typed.decode)


def test_text_is_no_time_zone() -> None:
    """Some readers of zones open any file that a text names."""
    times = {"$array": ["<M8[ns]", [1], "AAAAAAAAAAA="]}
    index = {
        "column": {"times": times, "zone": "dateutil//etc/passwd"},
        "names": [None],
        "freq": None,
    }
    with pytest.raises(TypeError, match="zone"):
        tables.decoded("$index", index, typed.decode)
