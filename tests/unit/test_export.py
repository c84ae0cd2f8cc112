"""Result records as files."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.files.destination import new_folder, opened
from taskq.ingest.sources import open_source
from taskq.model.errors import NotFound, OutputFailed, UsageError
from taskq.results.records import FORMATS, write

pytestmark = pytest.mark.thorough

PARQUET: Any = importlib.import_module("pyarrow.parquet")  # it has no types
AT = datetime(2026, 11, 20, 17, 34, 5, 250_000, tzinfo=timezone(timedelta(hours=1)))
#: A mol block, without which no record goes to SDF.
METHANE = "\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n" + 3 * "    0.0000" + " C\nM  END\n"


def record(i: int, **changes: Any) -> dict[str, Any]:
    return {
        "key": f"L{i}",
        "task": i,
        "attempt": 1,
        "outcome": "done",
        "error": None,
        "ended_at": AT,
        "payload": {"smiles": "C" * (i % 7 + 1), "seed": i},
        "result": {"score": -i / 8, "poses": [1, {"x": None}]},
        **changes,
    }


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
    with pytest.raises(UsageError, match=r"pip install 'taskq-campaigns\[parquet\]'"):
        write(records, tmp_path / "out.parquet", "parquet")
    assert list(tmp_path.iterdir()) == []
    assert list(records) == [record(0)]


def test_unknown_format_is_refused() -> None:
    """The known formats are named."""
    with pytest.raises(UsageError, match="'xlsx'; known are: jsonl, json, csv, parquet"):
        write([], io.BytesIO(), "xlsx")


@pytest.mark.parametrize("format", FORMATS)
def test_no_records_give_an_empty_file(tmp_path: Path, format: str) -> None:  # noqa: A002  # as in write
    """An export without results is a valid file."""
    path = tmp_path / "out"
    assert write([], path, format) == 0
    if format == "parquet":
        assert PARQUET.read_table(path).num_rows == 0
    else:
        assert path.read_bytes() == (b"[]\n" if format == "json" else b"")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, UsageError])
def test_interrupted_export_leaves_what_was_there(
    tmp_path: Path,
    format: str,  # noqa: A002  # as in write
    error: type[BaseException],
) -> None:
    """Ctrl-C or an error in the middle changes no file and leaves none behind."""
    path = tmp_path / "out"
    path.write_text("before")

    def records() -> Iterator[dict[str, Any]]:
        yield from (record(i, molblock=METHANE) for i in range(5000))
        assert len(list(tmp_path.iterdir())) == 2, "the new file grows beside the old one"
        raise error

    with pytest.raises(error):
        write(records(), path, format)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["before"]


def test_finished_export_replaces_the_file_behind_a_link(tmp_path: Path) -> None:
    """A symbolic link stays one; the new file has the permissions that files have here."""
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "out"
    target.write_text("before")
    link = tmp_path / "link"
    link.symlink_to(target)
    write([{"a": 1}], link, "jsonl")
    assert link.is_symlink()
    assert target.read_text() == '{"a": 1}\n'
    (tmp_path / "ordinary").write_text("")
    assert target.stat().st_mode == (tmp_path / "ordinary").stat().st_mode
    assert list(target.parent.iterdir()) == [target]


def test_what_is_no_ordinary_file_is_written_directly(tmp_path: Path) -> None:
    """A named pipe stays one, and is never renamed over."""
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    with subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE) as reader:
        write([{"a": 1}], fifo, "jsonl")
        assert reader.communicate(timeout=60)[0] == b'{"a": 1}\n'
    assert fifo.is_fifo()


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    """Absent folder, directory, a file for a folder."""
    with pytest.raises(NotFound, match=r"no folder .*absent"):
        write([], tmp_path / "absent" / "out.csv", "csv")
    with pytest.raises(UsageError, match="is a directory"):
        write([], tmp_path, "csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotFound, match=r"no folder .*file"):
        write([], tmp_path / "file" / "out.csv", "csv")


@pytest.mark.parametrize("make", [opened, new_folder])
def test_a_place_that_may_not_be_written_is_told_by_its_name(
    make: Callable[[str], AbstractContextManager[object]],
) -> None:
    """Not by the name that the output has until it is complete; the kernel's own folder refuses."""
    place = "/sys/results.parquet"
    with pytest.raises(OutputFailed) as told, make(place):
        pass
    assert str(told.value).startswith(f"'{place}' cannot be written: ")
    assert ".part" not in str(told.value)


def test_full_disk_is_told() -> None:
    """The kernel's own full device: the export may be repeated once there is room."""
    with pytest.raises(OutputFailed, match="No space left"):
        write([record(i) for i in range(2000)], "/dev/full", "jsonl")


@pytest.mark.parametrize("format", FORMATS)
def test_closed_pipe_ends_quietly(format: str) -> None:  # noqa: A002  # as in write
    """`taskq export ... | head -1` prints a line and no traceback, and exits with 0."""
    program = (
        "import itertools, sys; from taskq.results.records import write\n"
        "value = {'payload': {'text': 'x' * 1000}, 'molblock': sys.argv[2]}\n"
        "records = ({'key': i} | value for i in itertools.count())\n"
        "write(records, sys.stdout.buffer, sys.argv[1])\n"
    )
    command = [sys.executable, "-c", program, format, METHANE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert len(child.stdout.read(4)) == 4
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 0


def test_interrupted_process_leaves_no_file(tmp_path: Path) -> None:
    """A real SIGINT in the middle of an export."""
    program = (
        "import itertools, sys; from taskq.results.records import write\n"
        "def records():\n"
        "    for i in itertools.count():\n"
        "        if i == 5000: print('going', flush=True)\n"
        "        yield {'key': i}\n"
        "try: write(records(), sys.argv[1], 'csv')\n"
        "except KeyboardInterrupt: sys.exit(130)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "out.csv")], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"going\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", FORMATS)
def test_export_takes_bounded_memory(tmp_path: Path, format: str) -> None:  # noqa: A002  # as in write
    """Records of 120 MB in all pass with far less memory."""
    program = (
        "import re, sys; from pathlib import Path\n"
        "from taskq.results.records import write\n"
        "def peak(): return int(re.search(r'VmHWM:\\s+(\\d+)',"
        " Path('/proc/self/status').read_text())[1]) // 1024\n"
        "def record(i, x): return {'key': i, 'result': {'x': x}, 'molblock': sys.argv[3]}\n"
        "write([record(0, 1)], sys.argv[1], sys.argv[2])\n"
        "start = peak()\n"
        "def text(i): return f'{i:016d}' * 1250\n"
        "records = (record(i, text(i)) for i in range(6_000))\n"
        "print(write(records, sys.argv[1], sys.argv[2]), peak() - start)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out"), format, METHANE],
        capture_output=True,
        check=True,
        timeout=120,
    )
    count, grown_mib = map(int, done.stdout.split())
    assert count == 6_000
    assert grown_mib < 100
