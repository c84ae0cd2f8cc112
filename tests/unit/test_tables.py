"""Tables of results: agents choose the names in results, and those do not spoil the columns."""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.compute import frames
from taskq.model.views import Result
from taskq.model.words import as_text
from taskq.results.partitions import write_partitioned
from taskq.results.records import write
from taskq.results.tabular import MAX_COLUMNS, Table

PARQUET: Any = importlib.import_module("pyarrow.parquet")  # it has no types
HONEST = ["key", "payload.smiles", "result.score", "result.pose", "host"]


def honest(n: int) -> dict[str, Any]:
    """Return a result as it should be."""
    result = {"score": -n / 8, "pose": f"p{n}"}
    return {"key": f"k{n}", "payload": {"smiles": "C" * (n % 9)}, "result": result, "host": "h"}


def hostile(n: int, names: int) -> dict[str, Any]:
    """Return a result with names that no other has."""
    return honest(n) | {"result": {f"x{n}_{i}": i for i in range(names)}}


def records(spoilt: int, names: int, good: int) -> Iterator[dict[str, Any]]:
    """Yield results, those with many names first."""
    yield from (hostile(n, names) for n in range(spoilt))
    yield from (honest(n) for n in range(spoilt, spoilt + good))


def as_csv(rows: Iterator[dict[str, Any]]) -> tuple[bytes, list[dict[str, str]]]:
    """Return rows as CSV, and as others read that."""
    stream = io.BytesIO()
    write(rows, stream, "csv")
    csv.field_size_limit(sys.maxsize)
    return stream.getvalue(), list(csv.DictReader(io.StringIO(stream.getvalue().decode())))


def as_parquet(rows: Iterator[dict[str, Any]]) -> Any:
    """Return rows as they come back from Parquet."""
    stream = io.BytesIO()
    write(rows, stream, "parquet")
    return PARQUET.read_table(stream)


@pytest.mark.parametrize(
    ("spoilt", "names", "good"),
    [(10, 4_000, 100), pytest.param(20, 60_000, 1_100, marks=pytest.mark.thorough)],
    ids=["many names", "results of the largest size, before all others"],
)
def test_names_that_agents_invent_are_in_the_rest(spoilt: int, names: int, good: int) -> None:
    """The columns are those of most records, and nothing is lost."""
    data, rows = as_csv(records(spoilt, names, good))
    table = as_parquet(records(spoilt, names, good))
    for columns in ([*rows[0]], table.column_names):
        assert len(columns) == MAX_COLUMNS + 1
        assert {*HONEST, "rest"} <= {*columns}
    assert [float(row["result.score"]) for row in rows[spoilt:]] == [
        -n / 8 for n in range(spoilt, spoilt + good)
    ]
    assert table["result.score"].to_pylist()[spoilt:] == [
        -n / 8 for n in range(spoilt, spoilt + good)
    ]
    for n in (0, spoilt - 1):
        kept = json.loads(rows[n]["rest"])
        kept |= {name: int(text) for name, text in rows[n].items() if "x" in name and text}
        assert kept == {f"result.x{n}_{i}": i for i in range(names)}
        assert json.loads(table["rest"][n].as_py()).items() <= kept.items()
    assert len(data) < 3 * spoilt * names * len(f"result.x{spoilt}_{names}: 100") + 2_000 * good


def test_folders_of_parquet_have_the_same_columns(tmp_path: Path) -> None:
    """Each file of them."""
    write_partitioned(records(3, 2_000, 50), tmp_path / "to", "host")
    (file,) = (tmp_path / "to").rglob("*.parquet")
    columns = PARQUET.read_table(file, partitioning=None).column_names
    assert len(columns) == MAX_COLUMNS  # without the one that names the folder
    assert {*HONEST, "rest"} - {*columns} == {"host"}


@pytest.mark.parametrize(
    "name",
    ["", " ", "a\nb", "a\0b", "\x1b[2J", "\u202eevil", "\u2028", "x" * 201, "Score", "SCORE"],
)
def test_name_that_is_unfit_for_a_column_is_in_the_rest(name: str) -> None:
    """Empty, not printable, long, or that of another column but for its case."""
    spoilt = honest(0)
    spoilt["result"] |= {name: 1}
    table = Table([spoilt, *map(honest, range(1, 9))])
    assert table.columns == ["key", "payload.smiles", "result.score", "result.pose", "host"]
    assert [rest for _, rest in table] == [{f"result.{name}": 1}] + 8 * [{}]


def test_names_that_all_records_have_are_columns_whatever_their_case() -> None:
    """The number of atoms, and that of nitrogens; blanks that are printed, and other letters."""
    fields = {"n": 1, "N": 2, "IC50\u00a0(nM)": 3, "größe": 4, "a.b": 5}
    table = Table([{"result": fields}] * 3)
    assert table.columns == [f"result.{name}" for name in fields]
    assert table.rest is None


def test_columns_of_our_own_keep_their_names() -> None:
    """Also next to results with more fields than there are columns, and with the name `rest`."""
    fields = {f"f{i}": i for i in range(2 * MAX_COLUMNS)} | {"rest": 1}
    table = Table([{"key": "a", "rest": 1, "result": fields, "REST_": 1, "host": "h"}] * 3)
    assert len(table.columns) == MAX_COLUMNS
    assert {"key", "rest", "REST_", "host", "result.f0"} <= {*table.columns}
    assert table.rest == "rest__"


def test_two_values_under_one_dotted_name_are_both_there() -> None:
    """A field that has a point in its name, and one of an object."""
    table = Table([{"x": {"y": 1}, "x.y": 2}, {"x.y": 3, "x": {"y": 4}}])
    assert table.columns == ["x.y", "x.y_"]
    assert [values for values, _ in table] == [[1, 2], [3, 4]]


def test_one_hostile_value_stops_no_parquet() -> None:
    """Whatever its type is; later ones are in the rest."""
    values = [10**350, "x", True, [1], {"a": 1}, None, math.pi, 2**63]
    for value in values:
        spoilt = [honest(n) | {"result": {"score": value}} for n in range(2)]
        for rows in ([*spoilt, *map(honest, range(2, 9))], [*map(honest, range(1_500)), *spoilt]):
            assert as_parquet(iter(rows)).num_rows == len(rows)


NAMES = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3),
    st.sampled_from(["rest", "key", "Key", "a.b", "a", "A", "payload.a", "x" * 300]),
)
FIELDS = st.dictionaries(NAMES, st.one_of(st.integers(), st.booleans(), NAMES), max_size=4)
RECORDS = st.lists(
    st.fixed_dictionaries({"key": NAMES, "payload": FIELDS, "result": st.one_of(FIELDS, NAMES)}),
    min_size=1,
    max_size=6,
)


@given(RECORDS)
def test_columns_and_rest_have_all_values(made: list[dict[str, Any]]) -> None:
    """Whatever the names are: each value is in a column, or in the rest, once."""
    table = Table(made)
    columns = table.columns
    assert len({*columns}) == len(columns)
    for record, (values, rest) in zip(made, table, strict=True):
        found = {n: v for n, v in zip(columns, values, strict=True) if v is not None} | rest
        assert len(found) == sum(value is not None for value in values) + len(rest)
        assert sorted(map(as_text, found.values())) == sorted(
            as_text(value)
            for part in record.values()
            for value in (part.values() if isinstance(part, dict) else [part])
        )


def frame_of(values: list[dict[str, Any]]) -> Any:
    """Return the frame of a run with these results."""
    at = datetime(2026, 11, 20, tzinfo=timezone.utc)
    own = ("agent", "h", "site", {"run_s": 1.0}, {}, {}, 1)
    return frames.frame(
        frames.row(Result("/a", n, f"k{n}", 1, at, at, *own), {"x": n}, value)
        for n, value in enumerate(values)
    )


def test_frame_has_columns_that_most_results_have() -> None:
    """And those of the queue itself: no result says on which host it was computed."""
    made = [{"score": n} for n in range(200)]
    made += [{f"x{n}_{i}": 0 for i in range(500)} | {"host": "evil", "x": 5} for n in range(20)]
    frame = frame_of(made)
    assert len(frame.columns) == MAX_COLUMNS + 1
    assert {"key", "x", "score", "attempt", "host", "seconds", "rest"} <= {*frame.columns}
    assert {*frame["host"]} == {"h"}
    assert [*frame["host_result"].dropna()] == ["evil"] * 20
    assert [*frame["x_result"].dropna()] == [5] * 20
    assert [*frame["score"].dropna()] == [*range(200)]
    assert "rest" not in frame_of(made[:200])


def test_names_that_are_the_same_as_text_are_no_columns() -> None:
    """Thousands that are not a number would each look for a free name behind all others."""
    value = {float("nan"): n for n in range(20_000)}
    assert len(value) == 20_000
    (record,) = frame_of([value]).to_dict("records")
    assert record.keys() == {"key", "x", "value", "attempt", "host", "seconds"}
    assert len(record["value"]) == 20_000
    (plain,) = frame_of([{1: "a", "b": 2}]).to_dict("records")
    assert (plain["1"], plain["b"]) == ("a", 2)
