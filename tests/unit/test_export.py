"""Result records as files."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.ingest.sources import open_source
from taskq.model.errors import UsageError
from taskq.results.records import write
from tests.helpers.export_records import AT, PARQUET, record

pytestmark = pytest.mark.thorough


def exported(records: list[dict[str, Any]], format: str) -> bytes:  # noqa: A002  # as in write
    stream = io.BytesIO()
    assert write(records, stream, format) == len(records)
    return stream.getvalue()


def csv_rows(records: list[dict[str, Any]]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(exported(records, "csv").decode(), newline="")))


def parquet(records: list[dict[str, Any]]) -> Any:
    return PARQUET.read_table(io.BytesIO(exported(records, "parquet")))


# As the database holds them: without NUL, which csv refuses before Python 3.11.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
    st.lists(st.integers(), max_size=2),
    st.dictionaries(TEXTS, st.integers(), max_size=2),
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {"key": TEXTS, "task": st.integers(0, 2**62), "payload": OBJECTS,
         "result": st.one_of(st.none(), OBJECTS, st.integers())}
    ),
    max_size=5,
)  # fmt: skip


@given(RECORDS)
def test_json_lines_round_trip(records: list[dict[str, Any]]) -> None:
    """A record is a line, complete and unchanged."""
    lines = exported(records, "jsonl").split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line) for line in lines] == records


@given(RECORDS)
def test_table_formats_take_any_record(records: list[dict[str, Any]]) -> None:
    """Whatever the values are, each record is one row, in CSV as in Parquet, keys intact."""
    keys = [record["key"] for record in records]
    assert [row["key"] for row in csv_rows(records)] == keys
    if records:
        assert parquet(records)["key"].to_pylist() == keys


def test_values_without_a_form_in_json_have_one() -> None:
    """Instants are ISO 8601 in UTC, durations seconds, identifiers text."""
    values = {
        "at": AT,
        "took": timedelta(minutes=1, milliseconds=500),
        "share": Decimal("0.25"),
        "lease": UUID(int=1),
    }
    assert json.loads(exported([values], "jsonl")) == {
        "at": "2026-11-20T16:34:05.250000Z",
        "took": 60.5,
        "share": 0.25,
        "lease": "00000000-0000-0000-0000-000000000001",
    }
    (row,) = csv_rows([values])
    assert row["at"] == "2026-11-20T16:34:05.250000Z"
    assert row["took"] == "60.5"
    assert row["lease"] == "00000000-0000-0000-0000-000000000001"


def test_csv_has_a_column_for_each_name_of_payload_and_result() -> None:
    """Columns of one object stand side by side; a failed task has no result, and no column."""
    rows = csv_rows(
        [record(0, result=None), record(1), record(2, payload={"smiles": "N", "charge": True})]
    )
    assert list(rows[0]) == [
        "key", "task", "attempt", "outcome", "error", "ended_at",
        "payload.smiles", "payload.seed", "payload.charge", "result.score", "result.poses",
    ]  # fmt: skip
    assert rows[0]["result.score"] == ""
    assert rows[1]["result.score"] == "-0.125"
    assert rows[1]["result.poses"] == '[1, {"x": null}]'
    assert rows[2]["payload.charge"] == "true"


def test_result_that_is_no_object_has_a_column_of_its_own() -> None:
    """A handler may return a number."""
    rows = csv_rows([record(0, result=7.5), record(1)])
    assert [row["result"] for row in rows] == ["7.5", ""]
    assert [row["result.score"] for row in rows] == ["", "-0.125"]


def test_csv_is_read_back_by_the_csv_source(tmp_path: Path) -> None:
    """Quotes, commas, line ends, tabs and a leading equals sign are values like others."""
    texts = ['a "b"', "a,b", "a\nb", "a\tb", "=1+1", " x ", "é€", "\ufeff"]
    path = tmp_path / "out.csv"
    write([{"key": f"k{i}", "text": text} for i, text in enumerate(texts)], path, "csv")
    with open_source(path) as source:
        assert [seed.payload["text"] for seed in source] == texts  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["a\rb", "\r", "a\r\nb"])
def test_carriage_return_in_a_value_does_not_break_the_row(text: str) -> None:
    """Progress bars in captured output contain lone CRs."""
    assert [row["tail"] for row in csv_rows([{"key": "a", "tail": text}])] == [text]


#: Beginnings that a spreadsheet takes for a formula's, in a cell of its own.
FORMULAS = tuple("=+-@\uff1d\uff0b\uff0d\uff20\t\r\n")


@given(
    st.lists(st.sampled_from([*FORMULAS, "a", "1", " ", ";", ",", '"', "'", "\u00a0"])).map("".join)
)
def test_no_cell_is_a_formula(text: str) -> None:
    """Also if the spreadsheet splits cells at semicolons, tabs or line ends, as some do."""
    stream = io.BytesIO()
    write([{"key": "a", "text": text}], stream, "csv", spreadsheet=True)
    ((_, cell),) = list(csv.reader(io.StringIO(stream.getvalue().decode(), newline="")))[1:]
    assert cell.replace("'", "") == text.replace("'", "")
    if not re.fullmatch(r"[-+]?1+", text):
        assert not cell.startswith(FORMULAS)
        for part in re.split("[;\t\r\n]", cell):
            assert not part.strip(" \u00a0").startswith(FORMULAS)


def test_marked_csv_keeps_numbers() -> None:
    """Most scores are negative, and some are text."""
    values: list[Any] = [
        -9.5,
        -1,
        1e-7,
        -1e-7,
        "-9.5",
        "+1.",
        "-1e-07",
        "plain",
        None,
        True,
        -(10**30),
    ]
    plain, marked = io.BytesIO(), io.BytesIO()
    rows = [{"key": f"k{n}", "value": value} for n, value in enumerate(values)]
    write(rows, plain, "csv")
    write(rows, marked, "csv", spreadsheet=True)
    assert marked.getvalue() == plain.getvalue()


def test_other_formats_are_not_marked() -> None:
    """A program reads them."""
    with pytest.raises(UsageError, match="only CSV is marked"):
        write([], io.BytesIO(), "jsonl", spreadsheet=True)


def test_unknown_columns_of_later_records_go_to_rest() -> None:
    """What the first thousand records did not show is kept, and nothing is when there is none."""
    records = [record(i) for i in range(1500)]
    records[1400]["result"]["late"] = {"a": 1}
    records[1401]["result"] = "text"
    rows = csv_rows(records)
    assert list(rows[0])[-1] == "rest"
    assert [i for i, row in enumerate(rows) if row["rest"]] == [1400, 1401]
    assert json.loads(rows[1400]["rest"]) == {"result.late": {"a": 1}}
    assert json.loads(rows[1401]["rest"]) == {"result": "text"}
    assert "rest" not in csv_rows(records[:1000])[0]


def test_parquet_has_types() -> None:
    """Numbers, booleans and instants are such; mixed columns are text."""
    table = parquet(
        [
            record(0, ok=True, mixed=1, big=2**70, number=1),
            record(1, ok=None, mixed="a", big=1, number=0.5),
        ]
    )
    types = {field.name: str(field.type) for field in table.schema}
    assert types["key"] == "string"
    assert types["task"] == "int64"
    assert types["ok"] == "bool"
    assert types["number"] == "double"
    assert types["ended_at"] == "timestamp[us, tz=UTC]"
    assert types["mixed"] == types["big"] == types["result.poses"] == "string"
    assert table["ok"].to_pylist() == [True, None]
    assert table["mixed"].to_pylist() == ["1", "a"]
    assert table["ended_at"].to_pylist() == [AT, AT]
    assert table["result.score"].to_pylist() == [0.0, -0.125]


def test_parquet_values_that_do_not_fit_go_to_rest() -> None:
    """A column keeps the type of its first thousand values; others are kept next to it."""
    records = [record(i) for i in range(3000)]
    records[2500]["payload"]["seed"] = "x"
    records[2501]["task"] = True
    records[2502]["result"]["score"] = 2**60
    table = parquet(records)
    rest = table["rest"].to_pylist()
    assert {i: json.loads(text) for i, text in enumerate(rest) if text} == {
        2500: {"payload.seed": "x"},
        2501: {"task": True},
        2502: {"result.score": 2**60},
    }
    assert table["payload.seed"][2500].as_py() is None
    assert table["key"].to_pylist() == [record["key"] for record in records]


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is named, no record is asked for and nothing is written."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet")

    records = iter([record(0)])
    with pytest.raises(UsageError, match=r"pip install .*\[parquet\]"):
        write(records, tmp_path / "out.parquet", "parquet")
    assert list(tmp_path.iterdir()) == []
    assert list(records) == [record(0)]


def test_unknown_format_is_refused() -> None:
    """The known formats are named."""
    with pytest.raises(UsageError, match="'xlsx'; known are: jsonl, json, csv, parquet"):
        write([], io.BytesIO(), "xlsx")
