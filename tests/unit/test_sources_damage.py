"""Gzip files that were cut, altered or written over: what is read, and its messages."""

from __future__ import annotations

import gzip
import os
import random
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taskq.ingest.sources import Damage, Record, open_source
from taskq.model.seed import Seed
from tests.helpers.variants import rest_thorough

LINES = [f"[{i * 7919 % 10007}C] n{i}" for i in range(5_000)]


def text_of(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


WHOLE = gzip.compress(text_of(LINES))


def read(path: Path) -> list[Record]:
    with open_source(path) as source:
        return list(source)


@contextmanager
def piped(path: Path, data: bytes) -> Iterator[Path]:
    """Give a named pipe that data come out of."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=[data], daemon=True)
    writer.start()
    yield path
    writer.join(60)


def names(records: list[Record]) -> list[str | None]:
    return [record.key for record in records if isinstance(record, Seed)]


def damage(records: list[Record]) -> Damage:
    (found,) = [record for record in records if isinstance(record, Damage)]
    return found


def slowly(data: bytes) -> tuple[bytes, bytes]:
    """Return what gzip data hold before a damage, a bit of it at a time, and what is verified."""
    found = verified = b""
    while data[:2] == b"\x1f\x8b":
        member = zlib.decompressobj(31)
        while data and not member.eof:
            byte, data = data[:1], data[1:]
            try:
                while piece := member.decompress(byte, 1):
                    found += piece
                    byte = member.unconsumed_tail
            except zlib.error:
                return found, verified
        if member.eof:
            verified = found
    return found, verified


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_every_whole_line_before_a_cut_is_read_and_the_line_of_the_cut_named(
    tmp_path: Path, kept: float
) -> None:
    """Nothing that can be decompressed is thrown away, and no half line becomes a task."""
    data = WHOLE[: int(len(WHOLE) * kept)]
    whole = zlib.decompressobj(31).decompress(data).count(b"\n")
    path = tmp_path / "cut.smi.gz"
    path.write_bytes(data)
    records = read(path)
    assert names(records) == [f"n{i}" for i in range(whole)]
    assert damage(records).number == whole + 1
    assert damage(records).uncertain == (1, whole)
    assert "cut off here" in damage(records).reason
    assert records[0] is damage(records)


def test_damaged_pipe_says_at_its_end_which_lines_are_uncertain(tmp_path: Path) -> None:
    """A pipe cannot be verified beforehand; its lines come, and the damage is the last record."""
    data = WHOLE[: len(WHOLE) // 2]
    whole = zlib.decompressobj(31).decompress(data).count(b"\n")
    with piped(tmp_path / "pipe.smi", data) as path:
        records = read(path)
    assert names(records) == [f"n{i}" for i in range(whole)]
    assert records[-1] is damage(records)
    assert damage(records).uncertain == (1, whole)
    assert f"no checksum vouches for lines 1 to {whole:,}" in damage(records).reason


def test_no_task_comes_before_the_checksums_of_a_file_are_known(tmp_path: Path) -> None:
    """A byte that changed anywhere is the first error of a regular file."""
    path = tmp_path / "altered.smi.gz"
    draw = random.Random(7)
    for position in sorted(draw.sample(range(10, len(WHOLE)), 100)):
        data = bytearray(WHOLE)
        data[position] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        with open_source(path) as source:
            assert isinstance(next(iter(source)), Damage), position


def test_all_that_can_be_decompressed_before_a_damage_is_read(tmp_path: Path) -> None:
    """As much comes out as when zlib is asked for a byte at a time, wherever the damage is."""
    first = gzip.compress(text_of(LINES[:150]))
    small = first + gzip.compress(text_of(LINES[150:300]))
    path = tmp_path / "altered.smi.gz"
    for position in range(10, len(small), 13):
        if 0 <= position - len(first) < 10:  # a header has bytes that nobody checks, as its time
            continue
        data = small[:position] + bytes([small[position] ^ 0xFF]) + small[position + 1 :]
        path.write_bytes(data)
        records = read(path)
        found, verified = slowly(data)
        sure, whole = verified.count(b"\n"), found.count(b"\n")
        damaged = damage(records)
        assert damaged.number == whole + 1, position
        assert damaged.uncertain == ((sure + 1, whole) if sure < whole else None), position
        assert names(records)[:sure] == [f"n{i}" for i in range(sure)], position


def test_data_behind_the_end_hides_no_line(tmp_path: Path) -> None:
    """Junk behind verified data is reported, and nothing before it is uncertain."""
    path = tmp_path / "junk.smi.gz"
    for junk in (b"junk", b"\x1f", b"\0\0\0junk\n" * 50_000):
        for cut in (0, 1):
            path.write_bytes(gzip.compress(text_of(LINES)[: -cut or None]) + junk)
            records = read(path)
            assert names(records) == [f"n{i}" for i in range(len(LINES))]
            assert damage(records).uncertain is None
            assert "something else follows" in damage(records).reason


def test_zeros_behind_the_end_are_no_damage(tmp_path: Path) -> None:
    """Tapes and block devices pad with them, also between members."""
    path = tmp_path / "padded.smi.gz"
    path.write_bytes(gzip.compress(b"C a\n") + b"\0" * 200_000 + gzip.compress(b"C b\n") + b"\0")
    assert names(read(path)) == ["a", "b"]
    assert len(read(path)) == 2


def test_only_the_lines_of_the_damaged_member_are_uncertain(tmp_path: Path) -> None:
    """Each member has its checksum: those before the damaged one vouch for their lines."""
    parts = [gzip.compress(text_of(LINES[i : i + 100])) for i in range(0, 1_000, 100)]
    path = tmp_path / "parts.smi.gz"
    path.write_bytes(b"".join(parts[:7]) + parts[7][:-8] + bytes(8) + b"".join(parts[8:]))
    records = read(path)
    assert damage(records).uncertain == (701, 800)
    assert "incorrect data check" in damage(records).reason
    assert names(records) == [f"n{i}" for i in range(800)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("suffix", "data"),
    rest_thorough(
        [
            ("csv", b"id,v\n" + b'"a\nb",1\n' * 50_000),
            ("sdf", b"a\n\n\nM  END\n$$$$\n" * 50_000),
            ("jsonl", b'{"id":\t1}\n' * 50_000),
            ("tsv", b"id\tv\n" + b"a\t1\n" * 50_000),
        ]
    ),
)
def test_damage_of_a_pipe_is_reported_instead_of_errors_of_the_reader(
    tmp_path: Path, suffix: str, data: bytes
) -> None:
    """A molecule or quoted value without an end is not the cause if the pipe was cut."""
    with piped(tmp_path / f"pipe.{suffix}", gzip.compress(data)[:-200]) as path:
        bad = [record for record in read(path) if not isinstance(record, Seed)]
    assert isinstance(bad[0], Damage)
    assert len([line for line in bad if isinstance(line, Damage)]) == 1


def test_regular_file_at_standard_input_is_verified_from_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` may be a file that was opened, and read in part, by anyone who started us."""
    path = tmp_path / "file"
    path.write_bytes(b"prefix" + gzip.compress(b"C a\n"))
    with path.open() as stream:
        stream.buffer.read(6)
        monkeypatch.setattr("sys.stdin", stream)
        with open_source("-", format="smiles") as source:
            assert source.checked_first
            assert names(list(source)) == ["a"]
