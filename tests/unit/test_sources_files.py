"""Opening seed files: names, formats, compression, standard input, progress."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE

import pytest

from taskq.ingest.sources import FORMATS, BadLine, SourceOptions, check_read_once, open_source
from taskq.model.errors import NotFound, UsageError
from taskq.model.seed import Seed

SAMPLES = {
    "smiles": b"CCO ethanol\n",
    "csv": b"smiles,name\nCCO,ethanol\n",
    "tsv": b"smiles\tname\nCCO\tethanol\n",
    "jsonl": b'{"smiles": "CCO", "name": "ethanol"}\n',
}
ETHANOL = {"smiles": "CCO", "name": "ethanol"}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", SAMPLES)
def test_format_is_recognised_by_each_of_its_suffixes(
    tmp_path: Path, name: str, compressed: bool
) -> None:
    """In capitals too, plain and gzip."""
    for suffix in FORMATS[name].suffixes:
        path = tmp_path / f"LIBRARY{suffix.upper()}{'.gz' * compressed}"
        data = SAMPLES[name]
        path.write_bytes(gzip.compress(data) if compressed else data)
        with open_source(path) as source:
            assert [record.payload for record in source if isinstance(record, Seed)] == [ETHANOL]


def test_gzip_shows_in_the_bytes_whatever_the_name(tmp_path: Path) -> None:
    """A compressed file without .gz, and a plain one with it, are read all the same."""
    hidden = tmp_path / "hidden.smi"
    hidden.write_bytes(gzip.compress(b"CCO ethanol\n"))
    plain = tmp_path / "plain.smi.gz"
    plain.write_bytes(b"CCO ethanol\n")
    for path in (hidden, plain):
        with open_source(path) as source:
            assert list(source) == [Seed(ETHANOL, "ethanol")]


def test_gzip_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    """Files that were compressed in parts and concatenated, as bgzip does, are one file."""
    path = tmp_path / "parts.smi.gz"
    path.write_bytes(gzip.compress(b"CCO one\nCC") + gzip.compress(b"N two\n"))
    with open_source(path) as source:
        assert [record.key for record in source if isinstance(record, Seed)] == ["one", "two"]


def test_absent_file_is_not_found_and_named(tmp_path: Path) -> None:
    """An absent file is NotFound, with its name."""
    with pytest.raises(NotFound, match=r"absent\.smi"):
        open_source(tmp_path / "absent.smi")


def test_directory_unknown_suffix_and_unknown_format_are_usage_errors(tmp_path: Path) -> None:
    """What cannot be a seed file is refused with the known formats and suffixes."""
    (tmp_path / "folder.smi").mkdir()
    with pytest.raises(UsageError, match="directory"):
        open_source(tmp_path / "folder.smi")
    for name in ("ligands.xyz", "ligands.smi"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"smiles, csv, .*\.smi, .*\.sdf"):
        open_source(tmp_path / "ligands.xyz")
    with pytest.raises(UsageError, match="'mol2'; known are: smiles"):
        open_source(tmp_path / "ligands.smi", format="mol2")
    with pytest.raises(NotFound, match="no file"):
        open_source(tmp_path / "c.smii")
    with pytest.raises(UsageError, match="cannot be read"):
        open_source("nul\0.smi")


def test_option_that_the_format_does_not_know_is_refused(tmp_path: Path) -> None:
    """No option is ignored silently."""
    (tmp_path / "ligands.smi").touch()
    with pytest.raises(UsageError, match="'key' does not apply"):
        open_source(tmp_path / "ligands.smi", options=SourceOptions(key="id"))


@pytest.mark.parametrize(
    "bad",
    [
        {"types": "auto"},
        {"delimiter": "::"},
        {"delimiter": '"'},
        {"delimiter": ""},
        {"key": 3},
        {"header": "yes"},
        {"smiles_field": 0},
        {"encoding": "cp037"},
        {"encoding": "utf-7"},
        {"encoding": "unicode_escape"},
        {"encoding": "hex"},
        {"encoding": "nonsense"},
    ],
)
def test_options_without_sense_are_refused(bad: dict[str, object]) -> None:
    """An option's value is checked where it is given."""
    with pytest.raises(UsageError, match=next(iter(bad))):
        SourceOptions(**bad)  # type: ignore[arg-type]  # that is the point


def test_standard_input_needs_a_format() -> None:
    """A stream has no suffix to guess from."""
    with pytest.raises(UsageError, match="standard input"):
        open_source("-")


@pytest.mark.thorough
@pytest.mark.parametrize("compressed", [False, True])
def test_standard_input_is_read_through_a_pipe_and_left_open(compressed: bool) -> None:
    """`-` reads a real pipe, byte by byte if it must, plain or gzip."""
    data = b"CCO ethanol\nCCN\n"
    if compressed:
        data = gzip.compress(data)
    program = (
        "import sys; from taskq.ingest.sources import open_source\n"
        "with open_source('-', format='smiles') as source:\n"
        "    print([r.key for r in source], source.total_bytes, source.bytes_read)\n"
        "sys.stdin.buffer.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    for byte in data:
        child.stdin.write(bytes([byte]))
        child.stdin.flush()
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert out.decode().strip() == f"['ethanol', 'CCN'] None {len(data)}"


@pytest.mark.thorough
def test_records_of_a_pipe_arrive_before_it_ends() -> None:
    """A slow producer's tasks are seeded as they come: nothing waits for a full buffer."""
    program = (
        "from taskq.ingest.sources import open_source\n"
        "for record in open_source('-', format='smiles'):\n"
        "    print(record.key, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for name in ("one", "two"):
            child.stdin.write(f"CCO {name}\n".encode())
            child.stdin.flush()
            assert child.stdout.readline().decode().strip() == name
        child.stdin.close()
        assert child.wait(60) == 0


def test_pipe_is_opened_when_it_is_read(tmp_path: Path) -> None:
    """To make a source of a named pipe, and to close it, waits for no writer and takes nothing."""
    fifo = tmp_path / "pipe.smi"
    os.mkfifo(fifo)
    for _ in range(3):
        with open_source(fifo) as source:
            assert (source.total_bytes, source.bytes_read, source.line) == (None, 0, 0)
    writer = threading.Thread(target=fifo.write_bytes, args=[b"CCO ethanol\n"], daemon=True)
    writer.start()
    with open_source(fifo) as source:
        assert list(source) == [Seed(ETHANOL, "ethanol")]


@pytest.mark.thorough
def test_pipe_that_somebody_made_non_blocking_is_waited_for() -> None:
    """Who shares a pipe may have set it so; no data yet are not the end of them."""
    near, far = os.pipe()
    os.set_blocking(near, False)
    program = (
        "from taskq.ingest.sources import open_source\n"
        "for record in open_source('-', format='smiles'):\n"
        "    print(record.key, flush=True)\n"
    )
    with (
        subprocess.Popen([sys.executable, "-c", program], stdin=near, stdout=PIPE) as child,
        os.fdopen(far, "wb", buffering=0) as writer,
    ):
        os.close(near)
        assert child.stdout is not None
        for name in ("one", "two"):
            writer.write(f"CCO {name}\n".encode())
            assert child.stdout.readline().decode().strip() == name
        writer.close()
        assert child.wait(60) == 0


def test_pipes_that_are_named_twice_are_refused(tmp_path: Path) -> None:
    """A pipe gives its data once, under whatever name; a regular file as often as one likes."""
    fifo, file = tmp_path / "pipe.smi", tmp_path / "file.smi"
    os.mkfifo(fifo)
    file.write_bytes(b"")
    (tmp_path / "link").symlink_to(fifo)
    check_read_once([str(file), str(file), str(fifo), "/no/such", "nul\0", "-"])
    for twice in ([fifo, fifo], [fifo, tmp_path / "link"], ["-", "-"]):
        with pytest.raises(UsageError, match="only once"):
            check_read_once([str(path) for path in twice])


@pytest.mark.parametrize(
    ("data", "program"),
    [
        (b"\x1f\x9d\x90C", "compress.*`zcat"),
        (b"7z\xbc\xaf\x27\x1c", "7-Zip.*`7z x -so"),
        (b"PK\x03\x04\x14\x00", "damaged zip file"),
    ],
)
def test_error_names_a_compression_that_cannot_be_unpacked(
    tmp_path: Path, data: bytes, program: str
) -> None:
    """With the program that does it: one clear error, not many bad lines."""
    path = tmp_path / "library.smi"
    path.write_bytes(data)
    with open_source(path) as source, pytest.raises(UsageError, match=program):
        list(source)


def test_zstd_without_its_module_names_the_ways_to_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Python 3.14 it is an extra; the program does it without."""
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    path = tmp_path / "library.smi.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd\x04\x00")
    with (
        open_source(path) as source,
        pytest.raises(UsageError, match=r"pip install .*\[zstd\].*`zstd -dc .*library.smi.zst \|"),
    ):
        list(source)


def test_zip_file_in_a_pipe_names_the_program(tmp_path: Path) -> None:
    """Its list of files is at its end, so a pipe would have to be kept."""
    fifo = tmp_path / "pipe.smi"
    os.mkfifo(fifo)
    writer = threading.Thread(
        target=fifo.write_bytes, args=[b"PK\x03\x04" + bytes(99)], daemon=True
    )
    writer.start()
    with open_source(fifo) as source, pytest.raises(UsageError, match="from a pipe: `unzip -p"):
        list(source)
    writer.join(60)


@pytest.mark.thorough
@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress])
def test_bomb_is_read_in_bounded_memory(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """A few KB that unpack to 200 MB take the memory of a line."""
    path = tmp_path / "bomb.smi"
    path.write_bytes(compress(b"C" * 200_000_000))
    tracemalloc.start()
    try:
        with open_source(path) as source:
            (bad,) = source
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(bad, BadLine)
    assert peak < 32 * 1_048_576


def test_bytes_read_reach_the_total(tmp_path: Path) -> None:
    """Progress counts the bytes on disk: it never falls and ends at the file's size."""
    path = tmp_path / "library.smi.gz"
    path.write_bytes(gzip.compress(b"".join(b"C%d n%d\n" % (i, i) for i in range(50_000))))
    with open_source(path) as source:
        assert source.total_bytes == path.stat().st_size
        last = 0
        for _ in source:
            assert source.bytes_read >= last
            last = source.bytes_read
        assert source.bytes_read == source.total_bytes
        assert source.line == 50_000


def test_closing_closes_the_file(tmp_path: Path) -> None:
    """A source that is left early leaks no descriptor."""
    path = tmp_path / "ligands.smi"
    path.write_bytes(b"CCO one\nCCN two\n" * 100_000)
    with open_source(path) as source:
        first = next(iter(source))
    assert first == Seed({"smiles": "CCO", "name": "one"}, "one")
    with pytest.raises(ValueError, match="closed"):
        list(source)


def test_notes_on_a_file_are_warnings_in_a_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A program that says nothing else about them sees them, each once."""
    path = tmp_path / "library.smi"
    path.write_bytes(b"CCO one\t46\nCCN two\t45\n")
    with open_source(path) as source:
        assert len(list(source)) == 2
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{path}:1: the columns after the name")


def test_empty_file_has_no_records(tmp_path: Path) -> None:
    """An empty file of any format is no error and no task."""
    for name, known in FORMATS.items():
        path = tmp_path / f"empty{known.suffixes[0]}"
        path.write_bytes(b"")
        with open_source(path) as source:
            assert list(source) == [], name


def test_bad_line_text_is_safe_on_a_terminal(tmp_path: Path) -> None:
    """The excerpt of a bad line has no control characters and at most 200 characters."""
    path = tmp_path / "nasty.jsonl"
    path.write_bytes(b"\x1b[2J\x07\xff" + b"x" * 1000 + b"\n")
    with open_source(path) as source:
        (bad,) = source
    assert isinstance(bad, BadLine)
    assert bad.text.startswith(r"\x1b[2J\x07\xff")
    assert bad.text.isprintable()
    assert len(bad.text) <= 200


@pytest.mark.thorough
def test_library_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """A library streams: reading 27 MB of it adds at most 8 MiB to the peak of the process."""
    path = tmp_path / "library.smi"
    path.write_bytes(b"".join(b"%s\tZINC%08d\n" % (b"C" * 40, i) for i in range(500_000)))
    program = (
        "import re, sys; from pathlib import Path\n"
        "from taskq.ingest.sources import open_source\n"
        "def peak(): return int(re.search(r'VmHWM:\\s+(\\d+)',"
        " Path('/proc/self/status').read_text())[1]) // 1024\n"
        "start = peak()\n"
        "print(sum(1 for _ in open_source(sys.argv[1])), peak() - start)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, check=True, timeout=120
    )
    count, grown_mib = map(int, done.stdout.split())
    assert count == 500_000
    assert grown_mib <= 8
