"""Seeding from pipes and exporting into them, with the real command and real pipes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from taskq import Campaign
from tests.fixtures.queues import Hire
from tests.helpers.command_line import PROGRAM, CommandLine

pytestmark = pytest.mark.thorough

COUNT = 3_000
Feed = Callable[[CommandLine, list[str], bytes, Path], "subprocess.CompletedProcess[bytes]"]


def molecule(i: int) -> str:
    return f"{i}\n\n\n  0  0  0  0\nM  END\n> <id>\nn{i}\n\n$$$$\n"


FORMATS: dict[str, bytes] = {
    "smiles": "".join(f"C{'C' * (i % 90)} n{i}\n" for i in range(COUNT)).encode(),
    "csv": ("id,v\n" + "".join(f"n{i},{i}\n" for i in range(COUNT))).encode(),
    "tsv": ("id\tv\n" + "".join(f"n{i}\t{i}\n" for i in range(COUNT))).encode(),
    "jsonl": "".join(f'{{"id": "n{i}"}}\n' for i in range(COUNT)).encode(),
    "sdf": "".join(map(molecule, range(COUNT))).encode(),
}
OPTIONS = {name: [] if name == "smiles" else ["--key-field", "id"] for name in FORMATS}


def _run(taskq: CommandLine, words: list[str], **how: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        words,
        env=taskq.environment,
        capture_output=True,
        check=False,
        timeout=100,
        **how,  # type: ignore[call-overload,no-any-return]
    )


def through_stdin(
    taskq: CommandLine, words: list[str], data: bytes, _: Path
) -> subprocess.CompletedProcess[bytes]:
    """Feed /dev/stdin."""
    return _run(taskq, [*words, "/dev/stdin"], input=data)


def through_dash(
    taskq: CommandLine, words: list[str], data: bytes, _: Path
) -> subprocess.CompletedProcess[bytes]:
    """Feed standard input under its short name."""
    return _run(taskq, [*words, "-"], input=data)


def through_substitution(
    taskq: CommandLine, words: list[str], data: bytes, folder: Path
) -> subprocess.CompletedProcess[bytes]:
    """Feed what a shell puts in place of `<(...)`."""
    (folder / "data").write_bytes(data)
    line = '"${@:2}" <(cat "$1")'
    return _run(taskq, ["bash", "-c", line, "bash", str(folder / "data"), *words])


def through_a_named_pipe(
    taskq: CommandLine, words: list[str], data: bytes, folder: Path
) -> subprocess.CompletedProcess[bytes]:
    """Feed a named pipe, whose one writer writes once."""
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=[data], daemon=True)
    writer.start()
    return _run(taskq, [*words, str(fifo)])


@pytest.mark.parametrize(
    ("feed", "name"),
    [
        *((through_stdin, name) for name in FORMATS),
        (through_dash, "csv"),
        (through_substitution, "sdf"),
        (through_a_named_pipe, "jsonl"),
    ],
)
def test_every_line_of_a_pipe_becomes_a_task(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path, feed: Feed, name: str
) -> None:
    """A pipe is opened once and read to its end, whatever the format and anyone who made it."""
    data = FORMATS[name] if feed is not through_dash else gzip.compress(FORMATS[name])
    words = [str(PROGRAM), "seed", "/c", "--format", name, *OPTIONS[name]]
    done = feed(taskq, words, data, tmp_path)
    assert done.returncode == 0, done.stderr
    assert {task.key for task in campaign.tasks()} == {f"n{i}" for i in range(COUNT)}


def test_two_lines_of_a_pipe_are_two_tasks(taskq: CommandLine, campaign: Campaign) -> None:
    """What fits into the first buffer is not lost with it, with a sweep and a campaign file too."""
    words = [str(PROGRAM), "seed", "/c", "--format", "smiles", "/dev/stdin"]
    assert _run(taskq, words, input=b"C a\nN b\n").returncode == 0
    swept = [*words, "--sweep", "t=1:2"]
    assert _run(taskq, swept, input=b"C a\nN b\n").returncode == 0
    assert {task.key for task in campaign.tasks()} == {
        *["a", "b", "a;t=1", "a;t=2", "b;t=1", "b;t=2"]
    }


def test_campaign_file_may_name_a_pipe(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """The table [seed] is read by the same rule: a pipe once."""
    file = tmp_path / "campaign.toml"
    file.write_text(
        f'path = "{campaign.path}"\n[handler]\nkind = "command"\nargv = ["true"]\n'
        '[seed]\nfile = "/dev/stdin"\nformat = "smiles"\n'
    )
    words = [str(PROGRAM), "seed", "--campaign-file", str(file)]
    assert _run(taskq, words, input=b"C a\nN b\n").returncode == 0
    assert {task.key for task in campaign.tasks()} == {"a", "b"}


def test_pipe_among_files_is_read_in_its_turn(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Files and pipes may be mixed; where the size of one is unknown, so is that of all."""
    (tmp_path / "first.smi").write_text("C a\n")
    (tmp_path / "last.smi").write_text("N c\n")
    words = ["seed", "/c", "--format", "smiles", tmp_path / "first.smi", "/dev/stdin"]
    command = [str(PROGRAM), *map(str, words), str(tmp_path / "last.smi")]
    assert _run(taskq, command, input=b"O b\n").returncode == 0
    assert [task.key for task in campaign.tasks()] == ["a", "b", "c"]


def test_one_pipe_named_twice_is_refused(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """It would be empty, or never be opened, the second time; nothing is added."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "link").symlink_to(fifo)
    for twice in ([fifo, fifo], [fifo, tmp_path / "link"], ["-", "/dev/stdin"]):
        words = [str(PROGRAM), "seed", "/c", "--format", "smiles", *map(str, twice)]
        done = _run(taskq, words, input=b"C a\n")
        assert (done.returncode, b"only once" in done.stderr) == (2, True), done.stderr
    assert campaign.status().total == 0


def test_absent_file_after_a_pipe_stops_before_the_pipe_is_read(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Files are still looked at beforehand, and the pipe keeps what it has for the next try."""
    words = ["seed", "/c", "--format", "smiles", "/dev/stdin", tmp_path / "absent.smi"]
    done = _run(taskq, [str(PROGRAM), *map(str, words)], input=b"C a\n")
    assert (done.returncode, campaign.status().total) == (66, 0)


@pytest.fixture
def results(campaign: Campaign, hire: Hire) -> int:
    """Give the campaign results; return how many."""
    campaign.seed({"n": n} for n in range(4))
    agent = hire()
    for task in agent.claim(4):
        agent.done(task, {"score": 1})
    return 4


def test_export_goes_into_the_pipe_that_it_names(
    taskq: CommandLine, results: int, tmp_path: Path
) -> None:
    """/dev/stdout, `>(...)` and a named pipe get every line; nothing is renamed over them."""
    words = [str(PROGRAM), "export", "/c", "--format", "jsonl", "--to"]
    direct = _run(taskq, [*words, "/dev/stdout"])
    assert (direct.returncode, len(direct.stdout.splitlines())) == (0, results), direct.stderr
    taken = tmp_path / "taken"
    line = (
        '"${@:2}" >(cat > "$1.part"; mv "$1.part" "$1"); while [ ! -e "$1" ]; do sleep 0.01; done'
    )
    assert _run(taskq, ["bash", "-c", line, "bash", str(taken), *words]).returncode == 0
    assert len(taken.read_text().splitlines()) == results
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE) as reader:
        assert _run(taskq, [*words, str(fifo)]).returncode == 0
        assert len(reader.communicate(timeout=100)[0].splitlines()) == results
    assert fifo.is_fifo()


def test_export_to_stdout_goes_on_behind_what_a_file_holds(
    taskq: CommandLine, results: int, tmp_path: Path
) -> None:
    """`--to /dev/stdout >> all.jsonl` appends: what is open already is neither replaced nor cut."""
    file = tmp_path / "all.jsonl"
    file.write_text("before\n")
    before = file.stat().st_ino
    line = '"${@:2}" >> "$1"; echo after >> "$1"'
    words = [str(PROGRAM), "export", "/c", "--format", "jsonl", "--to", "/dev/stdout"]
    assert _run(taskq, ["bash", "-c", line, "bash", str(file), *words]).returncode == 0
    lines = file.read_text().splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("before", "after", results + 2)
    assert json.loads(lines[1])["result"] == {"score": 1}
    assert file.stat().st_ino == before
