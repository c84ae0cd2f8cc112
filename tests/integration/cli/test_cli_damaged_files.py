"""Seeding from files that are damaged, empty or joined, as the command line tells it."""

from __future__ import annotations

import gzip
import subprocess
import zlib
from pathlib import Path

import pytest

from taskq import Campaign
from tests.helpers.command_line import PROGRAM, CommandLine

LINES = [f"C{'C' * (i % 80)} n{i}" for i in range(12_000)]
DATA = gzip.compress("".join(f"{line}\n" for line in LINES).encode())


def keys(campaign: Campaign) -> list[str]:
    return [task.key for task in campaign.tasks()]


def altered(data: bytes) -> bytes:
    """Return data in which one bit is another, so that only the checksum knows."""
    for position in range(len(data) // 2, len(data)):
        part = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        member = zlib.decompressobj(31)
        try:
            member.decompress(part)
        except zlib.error as error:
            if "incorrect data check" in str(error):
                return part
    raise AssertionError("each change is found at once")


@pytest.mark.parametrize("kind", ["cut", "altered", "junk"])
def test_damaged_file_adds_nothing_unless_it_is_asked_for(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path, kind: str
) -> None:
    """It is verified first. With `--on-error skip` all that can be read is added; 65 both times."""
    data = {"cut": DATA[: len(DATA) // 2], "altered": altered(DATA), "junk": DATA + b"junk"}[kind]
    file = tmp_path / "library.smi.gz"
    file.write_bytes(data)
    code, error = taskq.refused("seed", "/c", file)
    assert (code, campaign.status().total) == (65, 0)
    assert "--on-error skip adds what can be read; no task was added" in error
    # What is altered may have the key of another line.
    result = taskq("seed", "/c", file, "--on-error", "skip", "--on-conflict", "skip")
    assert result.exit_code == 65, result.stderr
    added = campaign.status().total
    assert f"{added:,} tasks added" in result.stderr
    whole = zlib.decompressobj(31).decompress(data).count(b"\n") if kind == "cut" else len(LINES)
    if kind != "altered":
        assert keys(campaign) == [f"n{i}" for i in range(whole)]
        assert f"{file}:{whole + 1}: " in result.stderr
    said = "nothing before it is uncertain" if kind == "junk" else "lines 1 to"
    assert f"{file} ({said}" in result.stderr.splitlines()[-1]


@pytest.mark.thorough
def test_lines_before_the_damage_of_a_pipe_are_added_and_reported_as_uncertain(
    taskq: CommandLine, campaign: Campaign
) -> None:
    """The command ends with code 65 and names these lines."""
    cut = DATA[:-5]
    words = [str(PROGRAM), "seed", "/c", "--format", "smiles", "/dev/stdin"]
    done = subprocess.run(
        words, env=taskq.environment, capture_output=True, check=False, timeout=60, input=cut
    )
    assert done.returncode == 65
    assert b"no checksum vouches for lines 1 to 12,000" in done.stderr
    assert b"tasks added before: 10,000" in done.stderr
    assert campaign.status().total == 10_000
    done = subprocess.run(
        [*words, "--on-error", "skip"],
        env=taskq.environment,
        capture_output=True,
        check=False,
        timeout=60,
        input=cut,
    )
    assert done.returncode == 65
    assert b"2,000 tasks added" in done.stderr
    assert keys(campaign) == [f"n{i}" for i in range(12_000)]


def test_source_without_records_is_named(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """An empty file, one of nothing but comments, an empty archive or pipe: no error, but said."""
    empty = {"empty.smi": b"", "comments.smi": b"# none\n\n", "empty.smi.gz": gzip.compress(b"")}
    for name, content in empty.items():
        (tmp_path / name).write_bytes(content)
        result = taskq("seed", "/c", tmp_path / name)
        assert (result.exit_code, result.stderr.splitlines()[0]) == (
            0,
            f"Warning: {tmp_path / name} has no records.",
        )
    (tmp_path / "full.smi").write_text("C a\n")
    result = taskq("seed", "/c", tmp_path / "full.smi", tmp_path / "empty.smi")
    assert (result.exit_code, result.stderr.count("has no records")) == (0, 1)
    assert keys(campaign) == ["a"]


def test_byte_order_mark_within_a_file_is_reported_with_its_line(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """`cat a.csv b.csv` has a second header in its middle, which is not a task."""
    file = tmp_path / "joined.csv"
    file.write_bytes(b"\xef\xbb\xbfid,v\na,1\n" + b"\xef\xbb\xbfid,v\nb,2\n")
    code, error = taskq.refused("seed", "/c", file, "--key-field", "id")
    assert (
        code,
        f"{file}:3: a byte order mark, left where files were joined, within the file" in error,
    ) == (65, True), error
    result = taskq("seed", "/c", file, "--key-field", "id", "--on-error", "skip")
    assert (result.exit_code, keys(campaign)) == (0, ["a", "b"])
