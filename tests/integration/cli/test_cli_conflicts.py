"""Conflicts of keys and keys of several fields, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taskq import Campaign
from taskq.ingest.key_conflicts import MAX_REPORTED_CLASHES
from taskq.ingest.seeding import CHUNK
from tests.helpers.command_line import CommandLine

pytestmark = pytest.mark.both_transports


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Give a file in which two molecules have one name."""
    file = tmp_path / "l.smi"
    file.write_text("# two of one name\nC a\n\nCC b\nCCC a\nC a\n")
    return file


def payloads(campaign: Campaign) -> dict[str, object]:
    """Return the payloads of a campaign by key."""
    return {task.key: task.payload for task in campaign.tasks()}


def test_two_records_of_one_name_are_refused(
    taskq: CommandLine, campaign: Campaign, file: Path
) -> None:
    """With code 65, the line, both payloads, what was added, and how to go on."""
    result = taskq("seed", "/c", file)
    named, error = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (65, "")
    assert named == (
        f"{file}:5: the key 'a' is stored with another payload: "
        '{"name": "a", "smiles": "C"}, not {"name": "a", "smiles": "CCC"}'
    )
    assert "1 record has the key of another payload" in error
    assert "no task was added" in error
    assert "--on-conflict skip" in error
    assert "keep-both" in error
    assert campaign.status().total == 0


def test_conflicts_can_be_skipped_or_kept(
    taskq: CommandLine, campaign: Campaign, file: Path
) -> None:
    """Said and counted; giving the same command again makes no more tasks."""
    result = taskq("seed", "/c", file, "--on-conflict", "skip")
    assert result.exit_code == 0
    assert f"{file}:5: the key 'a'" in result.stderr
    assert "2 tasks added to /c, 1 known before, 1 conflict skipped; 4 records" in result.stdout
    result = taskq("seed", "/c", file, "--on-conflict", "keep-both")
    assert "1 task added to /c, 1 of them under a numbered key, 3 known before;" in result.stdout
    assert payloads(campaign)["a#2"] == {"smiles": "CCC", "name": "a"}
    for choice in ("keep-both", "skip", "fail"):
        again = taskq.json("seed", "/c", file, "--on-conflict", choice)
        assert again == {
            "path": "/c",
            "read": 4,
            "added": 0,
            "known": 4,
            "bad": 0,
            "conflicts": 0,
        }


def test_second_stage_that_reuses_names_is_refused(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Hundreds are counted, some named; tasks of an earlier file are counted and stay."""
    first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    rows = [{"id": n} for n in range(300)]
    first.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    taskq.out("seed", "/c", first, "--key-field", "id")
    second.write_text("".join(f"{json.dumps(row | {'stage': 2})}\n" for row in rows))
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": "fine"}\n')
    result = taskq("seed", "/c", more, second, "--key-field", "id")
    *named, error = result.stderr.splitlines()
    assert (result.exit_code, len(named)) == (65, MAX_REPORTED_CLASHES)
    assert named[0].startswith(f"{second}:1: the key '0'")
    assert "300 records have keys of other payloads" in error
    assert "tasks added before: 1;" in error
    assert campaign.status().total == 301
    result = taskq("seed", "/c", second, "--key-field", "id", "--on-conflict", "skip")
    assert "300 conflicts skipped" in result.stdout
    *named, more, _no_handler = result.stderr.splitlines()
    assert len(named) == MAX_REPORTED_CLASHES
    assert more == "Further conflicts are only counted."


def test_conflict_in_a_later_chunk_leaves_what_was_added(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """And the same command goes on from there, once it says what is wanted."""
    file = tmp_path / "l.smi"
    file.write_text("".join(f"C m{n}\n" for n in range(CHUNK + 5)) + "CC m0\n")
    result = taskq("seed", "/c", file)
    assert result.exit_code == 65
    assert f"tasks added before: {CHUNK:,}" in result.stderr
    assert campaign.status().total == CHUNK
    count = taskq.json("seed", "/c", file, "--on-conflict", "keep-both")
    assert (count["added"], count["known"], count["conflicts"]) == (6, CHUNK, 1)


def test_shown_payloads_obey_no_terminal(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Escapes of both payloads and of the key are written out."""
    file = tmp_path / "l.jsonl"
    key = "x\u202e"
    rows = [{"id": key, "t": "\x9b31m\x1b[2J"}, {"id": key, "t": "\x9b32m\u2066"}]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    result = taskq("seed", "/c", file, "--key-field", "id")
    assert result.exit_code == 65
    assert all(line.isprintable() for line in result.stderr.splitlines())
    result = taskq("seed", "/c", file, "--key-field", "id", "--on-conflict", "skip")
    assert all(line.isprintable() for line in result.stderr.splitlines())
    assert campaign.status().total == 1


KEYED = {
    "l.csv": "target,name,n\n1lf3,a,1\n1lf3,b,2\n2abc,a,3\n",
    "l.tsv": "target\tname\tn\n1lf3\ta\t1\n1lf3\tb\t2\n2abc\ta\t3\n",
    "l.jsonl": '{"target": "1lf3", "name": "a"}\n{"target": "1lf3", "name": "b"}\n'
    '{"target": "2abc", "name": "a"}\n',
    "l.sdf": "".join(
        f"x\n\n\n  0  0  0  0\nM  END\n> <target>\n{target}\n\n> <name>\n{name}\n\n$$$$\n"
        for target, name in (("1lf3", "a"), ("1lf3", "b"), ("2abc", "a"))
    ),
}


@pytest.mark.parametrize("name", KEYED)
def test_key_can_be_made_of_several_fields(
    name: str, taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """In the order in which they are named, in each format that has fields."""
    file = tmp_path / name
    file.write_text(KEYED[name])
    taskq.out("seed", "/c", file, "--key-field", "target,name")
    assert payloads(campaign).keys() == {"1lf3,a", "1lf3,b", "2abc,a"}


def test_joined_keys_differ_for_different_records(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """A comma or backslash in a value is escaped; a value may be empty, not all of them."""
    file = tmp_path / "l.jsonl"
    pairs = [("a,b", "c"), ("a", "b,c"), ("a\\", ",c"), ("a\\,", "c"), ("", "c"), ("c", ""), (1, 2)]
    rows = [{"x": x, "y": y} for x, y in pairs]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert taskq.json("seed", "/c", file, "--key-field", "x,y")["added"] == len(pairs)
    assert {"a\\,b,c", "a,b\\,c", ",c", "c,", "1,2"} < payloads(campaign).keys()
    file.write_text('{"x": "", "y": ""}\n')
    code, error = taskq.refused("seed", "/c", file, "--key-field", "x,y")
    assert (code, "'x' and 'y' are all empty" in error) == (65, True)


WRONG_KEYS = [
    ("x,z", 2, "no column 'z' to take the key from"),
    ("x,,y", 2, "names an empty field"),
    ("x,x", 2, "names 'x' twice"),
]


@pytest.mark.parametrize(("key", "code", "reason"), WRONG_KEYS)
def test_key_fields_that_the_file_lacks_are_refused_before_anything_is_added(
    key: str, code: int, reason: str, taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Before anything is added."""
    file = tmp_path / "l.csv"
    file.write_text("x,y\n1,2\n")
    assert (taskq.refused("seed", "/c", file, "--key-field", key)[0], campaign.status().total) == (
        code,
        0,
    )
    assert reason in taskq.refused("seed", "/c", file, "--key-field", key)[1]


def test_field_with_a_comma_in_its_name_is_quoted(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """As in CSV."""
    file = tmp_path / "l.csv"
    file.write_text('"x,y",z\na,b\n')
    taskq.out("seed", "/c", file, "--key-field", '"x,y"')
    taskq.out("seed", "/c", file, "--key-field", '"x,y",z')
    assert payloads(campaign).keys() == {"a", "a,b"}
