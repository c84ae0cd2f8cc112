"""What is iterated over is what the caller means, or an error says what to write."""

from __future__ import annotations

from collections import UserDict
from enum import Enum
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from taskq.compute.trust import ResultReader
from taskq.model.errors import UsageError
from taskq.model.given import elements, names

ROWS = [{"smiles": "CCO"}, {"smiles": "C"}]


class Colour(Enum):
    """Iterating over it gives its members."""

    RED = 1


class Columns:
    """A table of a library that nobody here knows, as polars' are."""

    columns = ("smiles",)

    def __iter__(self) -> Any:
        return iter([["CCO", "C"]])

    def to_dicts(self) -> list[dict[str, str]]:
        """Return the rows."""
        return ROWS


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("ligands.smi", "its characters"),
        (b"CCO", "as numbers"),
        (bytearray(b"CCO"), "as numbers"),
        (memoryview(b"CCO"), "as numbers"),
        ({"a": 1}, ".items()"),
        (UserDict(a=1), ".values()"),
        (MappingProxyType({"a": 1}), "its names alone"),
        (pd.DataFrame(ROWS), 'it.to_dict("records")'),
        (pa.Table.from_pylist(ROWS), "it.to_pylist()"),
        (pa.RecordBatch.from_pylist(ROWS), "it.to_pylist()"),
        (Columns(), "it.to_dicts()"),
        (7, "[value]"),
        (Path("ligands.smi"), "[value]"),
        (SimpleNamespace(), "[value]"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_iterable_over_something_else_is_refused_with_a_remedy(given: Any, advice: str) -> None:
    with pytest.raises(UsageError) as raised:
        elements("arguments", given)
    assert advice in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        [1],
        (1, 2),
        {1, 2},
        range(3),
        iter([1]),
        np.ones((2, 2)),
        pd.Series([1, 2]),
        pd.Index(["a"]),
        pa.array([1]),
        {"a": 1}.items(),
        {"a": 1}.values(),
        pd.DataFrame(ROWS).to_dict("records"),
        pd.DataFrame(ROWS).itertuples(),
        pa.Table.from_pylist(ROWS).to_pylist(),
        Columns().to_dicts(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_iterable_over_its_elements_passes(given: Any) -> None:
    assert elements("arguments", given) is given


@pytest.mark.parametrize("given", ["eight", b"eight", Path("eight"), 8, UsageError])
def test_one_name_is_not_taken_for_several(given: Any) -> None:
    """Its characters are names too."""
    with pytest.raises(UsageError, match="give a list"):
        names("keys", given)
    assert names("keys", [given]) == [given]


@pytest.mark.parametrize("given", ["rdkit", UsageError, pd, Colour])
def test_trust_of_one_package_or_class_says_to_give_a_list(given: Any) -> None:
    """Iterated over, a text would trust packages of one letter."""
    with pytest.raises(UsageError, match="give a list"):
        ResultReader(given)
