"""Where exports are written: whole files or none; errors name the place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from taskq.files.destination import new_folder, opened
from taskq.model.errors import NotFound, OutputFailed, UsageError
from taskq.results.records import FORMATS, write
from tests.helpers.export_records import METHANE, PARQUET, record

pytestmark = pytest.mark.thorough


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
        assert len(list(tmp_path.iterdir())) == 2, "the new file grows next to the old one"
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


def test_destination_that_is_no_ordinary_file_is_written_directly(tmp_path: Path) -> None:
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
def test_error_names_the_destination_that_may_not_be_written(
    make: Callable[[str], AbstractContextManager[object]],
) -> None:
    """Not the name that the output has until it is complete; the kernel's own folder refuses."""
    place = "/sys/results.parquet"
    with pytest.raises(OutputFailed) as raised, make(place):
        pass
    assert str(raised.value).startswith(f"'{place}' cannot be written: ")
    assert ".part" not in str(raised.value)


def test_full_disk_is_reported_as_such() -> None:
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
    """Records of 400 MB in all pass with far less memory."""
    program = (
        "import re, sys; from pathlib import Path\n"
        "from taskq.results.records import write\n"
        "def peak(): return int(re.search(r'VmHWM:\\s+(\\d+)',"
        " Path('/proc/self/status').read_text())[1]) // 1024\n"
        "def record(i, x): return {'key': i, 'result': {'x': x}, 'molblock': sys.argv[3]}\n"
        "write([record(0, 1)], sys.argv[1], sys.argv[2])\n"
        "start = peak()\n"
        "def text(i): return f'{i:016d}' * 1250\n"
        "records = (record(i, text(i)) for i in range(20_000))\n"
        "print(write(records, sys.argv[1], sys.argv[2]), peak() - start)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out"), format, METHANE],
        capture_output=True,
        check=True,
        timeout=120,
    )
    count, grown_mib = map(int, done.stdout.split())
    assert count == 20_000
    assert grown_mib < 200, grown_mib
