"""A large seed with every kind of damage planted in it, compared line by line with a slow reader.

The reader below shares nothing with that of the product: it holds each file in memory, splits it
at line feeds, and decides of one line after the other whether it is a task.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from taskq import Campaign
from tests.helpers.command_line import PROGRAM, CommandLine

pytestmark = pytest.mark.thorough

MOST = 1_048_576
MARK = b"\xef\xbb\xbf"


@dataclass
class Expected:
    """What a slow reader says of files: tasks in order, and the places of bad lines."""

    tasks: dict[str, dict[str, str]] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)

    def add(self, name: str, content: bytes, *, torn: bool = False) -> None:
        """Read a file of SMILES; torn: its last line may be the beginning of one."""
        lines = content.split(b"\n")
        last = lines.pop()
        if last and not torn:
            lines.append(last)
        for number, line in enumerate(lines, 1):
            self._line(f"{name}:{number}", line.removeprefix(MARK) if number == 1 else line)

    def _line(self, place: str, raw: bytes) -> None:
        if len(raw) > MOST or b"\0" in raw or MARK in raw:
            self.bad.append(place)
            return
        try:
            line = str(raw, "utf-8").rstrip("\r")
        except UnicodeDecodeError:
            self.bad.append(place)
            return
        words = line.split(maxsplit=1)
        if not words or line[0] == "#":
            return
        if "\r" in line or len(words[0]) > 60_000:  # the payload has a limit
            self.bad.append(place)
            return
        name = words[1].split("\t")[0].strip() if len(words) > 1 else ""
        key = name or words[0]
        task = {"smiles": words[0], "name": name} if name else {"smiles": words[0]}
        if self.tasks.setdefault(key, task) != task:
            raise AssertionError(f"the test must not have two tasks called {key}")


def molecules(draw: random.Random, prefix: str, count: int) -> list[bytes]:
    letters = "CNOcn=#"
    return [
        f"C{''.join(draw.choices(letters, k=draw.randint(1, 60)))} {prefix}{i}\n".encode()
        for i in range(count)
    ]


def damaged(draw: random.Random, count: int) -> bytes:
    """Return lines of which some were replaced by damage of every kind, in a known order."""
    lines = molecules(draw, "plain", count)
    planted = [
        b"C\0C nul\n",
        b"CC latin\xe9\n",
        b"C" * 10_000_000 + b" long\n",
        b"C" * MOST + b"\n",
        b"C" * 70_000 + b" large\n",
        b"CCO crlf\r\n",
        b"CCO several\r\r\n",
        b"CCN mid\rdle\n",
        MARK + b"CCS mark\n",
        b"CCF glued" + MARK + b"CCCl two\n",
        b"\xed\xa0\x80 surrogate\n",
        b"\n",
        b" \t \n",
        b"# comment\n",
        b"CCO\xc2\xa0no-break\n",
        "C β-name\tmore\n".encode(),
        b"c1ccccc1\n",
        *lines[:20],  # again, word for word
    ]
    for line, position in zip(planted, draw.sample(range(1, count), len(planted)), strict=True):
        lines.insert(position, line)
    return MARK + b"".join(lines).removesuffix(b"\n")


def junk(draw: random.Random) -> bytes:
    """Return bytes that are no text, in short lines that do not begin like another format."""
    return b"".join(b"~" + draw.randbytes(draw.randint(20, 100)) for _ in range(10))


def run(
    taskq: CommandLine, *words: object, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run the real command."""
    return subprocess.run(
        [str(PROGRAM), *map(str, words)],
        env=taskq.environment,
        input=given,
        capture_output=True,
        check=False,
        timeout=120,
    )


def test_damaged_files_seed_what_a_slow_reader_finds(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Each task, in its order, and each bad line by its number: none is lost, none is invented."""
    draw = random.Random(20_000)
    expected = Expected()

    plain = tmp_path / "plain.smi"
    content = damaged(draw, 8_000)
    plain.write_bytes(content)
    expected.add(str(plain), content)

    noise = tmp_path / "noise.smi"
    content = junk(draw)
    noise.write_bytes(content)
    expected.add(str(noise), content)

    cut = tmp_path / "cut.smi.gz"
    data = gzip.compress(b"".join(molecules(draw, "cut", 6_000)))
    data = data[: len(data) * 2 // 3]
    cut.write_bytes(data)
    content = zlib.decompressobj(31).decompress(data)
    whole = content.count(b"\n")
    expected.bad.append(f"{cut}:{whole + 1}")
    expected.add(str(cut), content, torn=True)

    ended = tmp_path / "ended.smi.gz"
    content = b"".join(molecules(draw, "ended", 3_000))
    ended.write_bytes(
        gzip.compress(content[:50_000]) + gzip.compress(content[50_000:]) + noise.read_bytes()
    )
    expected.bad.append(f"{ended}:3001")
    expected.add(str(ended), content)

    piped = damaged(random.Random(2), 3_000).replace(b" plain", b" piped")
    expected.add("/dev/stdin", piped)

    files = [plain, noise, cut, ended, "/dev/stdin"]
    words = ["seed", "/c", "--format", "smiles", "--on-error", "skip", *files]
    refused = run(taskq, *words, tmp_path, given=piped)
    assert (refused.returncode, campaign.status().total) == (2, 0)
    assert b"is a directory" in refused.stderr

    done = run(taskq, *words, given=piped)
    assert done.returncode == 65, done.stderr
    said = done.stderr.decode()
    places = re.findall(rf"^((?:{re.escape(str(tmp_path))}/|/dev/)[^:]+:\d+): ", said, re.MULTILINE)
    assert places == expected.bad
    assert f"{len(expected.tasks):,} tasks added" in said
    assert f"{cut} (lines 1 to {whole:,} are uncertain)" in said
    assert f"{ended} (nothing before it is uncertain)" in said
    found = [(task.key, task.payload) for task in campaign.tasks()]
    for number, (task, wanted) in enumerate(zip(found, expected.tasks.items(), strict=False)):
        assert task == wanted, number
    assert len(found) == len(expected.tasks)

    again = run(taskq, *words, given=piped)
    assert again.returncode == 65
    assert b"0 tasks added" in again.stderr
    assert campaign.status().total == len(found)


TABLE = (
    "id,note\n"
    + "".join(f'r{i},"note {i}"\n' for i in range(1_000))
    + 'open1,"left open\n'
    + "".join(f"s{i},plain {i}\n" for i in range(1_000))
    + 'two,"over\ntwo lines"\n'
    + 'open2,"left open\n'
    + "".join(f"t{i},plain {i}\n" for i in range(1_000))
    + 'u,"bad" quote\nshort\nv,\x00\n'
    + 'last,"left open\n'
    + "w,end\n"
)


def test_damaged_tables_seed_what_a_slow_reader_finds(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """An open quote is one bad line; what is seeded is every line but those planted."""
    file = tmp_path / "table.csv"
    file.write_text(TABLE)
    lines = TABLE.split("\n")[1:-1]
    wanted: dict[str, str] = {}
    bad = []
    for number, line in enumerate(lines, 2):
        key, comma, note = line.partition(",")
        if line in {'two,"over', 'two lines"'}:
            wanted["two"] = "over\ntwo lines"
        elif not comma or "\0" in note or (note.count('"') and not re.fullmatch('"[^"]*"', note)):
            bad.append(str(number))
        else:
            wanted[key] = note.strip('"')
    done = run(
        taskq, "seed", "/c", file, "--key-field", "id", "--on-error", "skip", "--output", "json"
    )
    assert (done.returncode, json.loads(done.stdout)["bad"]) == (0, len(bad)), done.stderr
    assert re.findall(r"table\.csv:(\d+):", done.stderr.decode()) == bad
    assert {task.key: task.payload["note"] for task in campaign.tasks()} == wanted
