"""Parquet in several files: all that was written comes back, under names that others read."""

from __future__ import annotations

import importlib
import os
import resource
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from taskq.model.errors import NotFound, OutputFailed, UsageError
from taskq.results import partitions
from taskq.results.partitions import MOST_VALUES, write_partitioned

DATASET: Any = importlib.import_module("pyarrow.dataset")  # it has no types
AT = datetime(2026, 11, 20, tzinfo=timezone.utc)


def record(n: int, target: object) -> dict[str, Any]:
    """Return a result."""
    return {"key": f"k{n}", "at": AT, "result": {"n": n, "target": target}}


def files(folder: Path) -> dict[str, int]:
    """Return the rows of each file below a folder, by name."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): DATASET.dataset(path).count_rows() for path in found}


def read(folder: Path) -> list[dict[str, Any]]:
    """Return all rows, in the order of n."""
    rows: list[dict[str, Any]] = DATASET.dataset(folder, partitioning="hive").to_table().to_pylist()
    return sorted(rows, key=lambda row: row["result.n"])


@pytest.mark.parametrize(
    ("rows", "sizes"), [(400, [400, 400, 200]), (500, [500] * 2), (9**9, [1_000])]
)
def test_each_file_has_so_many_rows(tmp_path: Path, rows: int, sizes: list[int]) -> None:
    """And the last one what is left, in order."""
    to = tmp_path / "results"
    assert write_partitioned((record(n, "a") for n in range(1_000)), to, f"rows={rows}") == 1_000
    assert files(to) == {f"part-{n:05}.parquet": size for n, size in enumerate(sizes)}
    table = DATASET.dataset(to).to_table()
    assert table["result.n"].to_pylist() == [*range(1_000)]
    assert table["at"].to_pylist() == [AT] * 1_000


VALUES = [
    "1lf3",
    "../x",
    "/etc/passwd",
    "..",
    "a=b%2F",
    "é ü",
    "a\nb\0c",
    "\x1b[2J",
    "*?",
    "~",
    "A" * 200,
]


def test_each_value_has_a_folder(tmp_path: Path) -> None:
    """Whatever it is; all of them are one level deep, and name it as it was."""
    to = tmp_path / "results"
    to.mkdir()  # an empty folder may be there
    records = [record(n, value) for n, value in enumerate(VALUES * 3)]
    assert write_partitioned(records, to, "result.target") == len(records)
    assert [(row["result.n"], row["result.target"]) for row in read(to)] == [*enumerate(VALUES * 3)]
    assert {*files(to).values()} == {3}
    assert all(name.isascii() and name.isprintable() for name in files(to))
    assert {path.parent.parent for path in to.rglob("*.parquet")} == {to}
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    assert "result.target=1lf3/part-0.parquet" in files(to)


def test_values_of_other_types_are_folders_too(tmp_path: Path) -> None:
    """Rows without a value, or with an empty one, are together, as Hive has them."""
    for name, values in {
        "none": ["", None, "x"],
        "numbers": [1, -2.5, None],
        "truth": [True, False, None],
    }.items():
        write_partitioned(
            (record(n, value) for n, value in enumerate(values)), tmp_path / name, "result.target"
        )
    read_back = [
        [row["result.target"] for row in read(tmp_path / name)] for name in ("none", "numbers")
    ]
    assert read_back == [[None, None, "x"], ["1.0", "-2.5", None]]
    assert [*files(tmp_path / "truth")] == [
        "result.target=__HIVE_DEFAULT_PARTITION__/part-0.parquet",
        "result.target=false/part-0.parquet",
        "result.target=true/part-0.parquet",
    ]


@pytest.mark.thorough
def test_rows_are_written_before_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value's file has more than one row group then, and all rows."""
    monkeypatch.setattr(partitions, "_MOST_WAITING", 100_000)
    records = (record(n, "ab"[n % 2]) | {"text": "x" * 20_000} for n in range(3_000))
    assert write_partitioned(records, tmp_path / "r", "result.target") == 3_000
    assert {*files(tmp_path / "r").values()} == {1_500}
    assert [row["result.n"] for row in read(tmp_path / "r")] == [*range(3_000)]


def failing(error: BaseException) -> Iterator[dict[str, Any]]:
    """Yield results, then fail."""
    yield from (record(n, "a") for n in range(5_000))
    raise error


@pytest.mark.parametrize("partition", ["rows=10", "result.target"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), UsageError("x")])
def test_interrupted_export_leaves_nothing(
    tmp_path: Path, partition: str, error: BaseException
) -> None:
    """No file, and no folder."""
    with pytest.raises(type(error)):
        write_partitioned(failing(error), tmp_path / "results", partition)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "partition"),
    [
        (range(10_000), "result.n"),
        (range(MOST_VALUES + 1), "result.n"),
        (["x" * 300], "result.target"),
        (["é" * 100], "result.target"),
        (["x"], "result.nothing"),
        (["x"], "rows=0"),
        (["x"], "rows="),
        (["x"], "rows=-1"),
        (["x"], f"rows={'9' * 5_000}"),
    ],
)
def test_partitions_that_cannot_be_are_refused(tmp_path: Path, values: Any, partition: str) -> None:
    """Too many values, too long ones, no such column; then nothing is left."""
    records = [record(n, value) for n, value in enumerate(values)]
    with pytest.raises(UsageError):
        write_partitioned(records, tmp_path / "results", partition)
    assert list(tmp_path.iterdir()) == []


def test_existing_destination_stays(tmp_path: Path) -> None:
    """A file, or a folder with something in it; and the folder above must be there."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    for name in ("full", "full/mine"):
        with pytest.raises(UsageError, match="exists already"):
            write_partitioned([record(1, "a")], tmp_path / name, "rows=1")
    with pytest.raises(NotFound, match="no folder"):
        write_partitioned([], tmp_path / "no" / "folder", "rows=1")
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "mine"]
    assert write_partitioned([], tmp_path / "none", "result.target") == 0
    assert files(tmp_path / "none") == {}


def test_full_disk_is_reported_and_leaves_no_file(tmp_path: Path) -> None:
    """Here by a limit on files."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OutputFailed):
            write_partitioned(
                ({"n": n, "text": os.urandom(50).hex()} for n in range(5_000)),
                tmp_path / "r",
                "rows=4000",
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_column_called_rest_stays_apart_from_what_has_none(tmp_path: Path) -> None:
    """As `--columns rest=...` makes one."""
    records = [
        {"rest": "ab"[n % 2], "m": n if n < 1_400 else "x", "result.n": n} for n in range(1_500)
    ]
    assert write_partitioned(records, tmp_path / "out", "rest") == 1_500
    rows = read(tmp_path / "out")
    assert {*rows[0]} == {"m", "result.n", "rest", "rest_"}
    assert sum(row["rest_"] == '{"m": "x"}' for row in rows) == 100
