"""`taskq export --cursor` and `--follow`: what was written is what the cursor says, or more."""

from __future__ import annotations

import csv
import io
import json
import signal
from pathlib import Path

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]  # it has no stubs

from taskq import Campaign, Cursor, Seed
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.both_transports


@pytest.fixture
def agent(campaign: Campaign, hire: Hire) -> ScriptedAgent:
    """Give an agent of a campaign of nine tasks."""
    campaign.seed(Seed({"n": n}, f"t{n}") for n in range(9))
    return hire()


def end(agent: ScriptedAgent, count: int) -> None:
    """End the next tasks."""
    for task in agent.claim(count):
        agent.done(task, {"score": task.payload["n"]})


def keys(text: str) -> list[str]:
    """Return the keys of JSON Lines."""
    return [json.loads(line)["key"] for line in text.splitlines()]


def test_each_call_writes_what_has_come_since_the_last(
    taskq: CommandLine, agent: ScriptedAgent, tmp_path: Path
) -> None:
    """In each format, to a file or a pipe; and nothing twice."""
    words = ("export", "/c", "--cursor", tmp_path / "cursor")
    end(agent, 2)
    assert keys(taskq.out(*words)) == ["t0", "t1"]
    assert taskq.out(*words) == ""
    end(agent, 2)
    rows = csv.DictReader(io.StringIO(taskq.out(*words, "-o", "csv")))
    assert [row["key"] for row in rows] == ["t2", "t3"]
    end(agent, 2)
    said = taskq(*words, "--to", tmp_path / "f.parquet")
    assert said.stderr == f"2 results of /c written to {tmp_path / 'f.parquet'}.\n"
    assert parquet.read_table(tmp_path / "f.parquet")["key"].to_pylist() == ["t4", "t5"]
    end(agent, 3)
    assert [record["key"] for record in json.loads(taskq.out(*words, "-o", "json"))] == [
        "t6",
        "t7",
        "t8",
    ]
    assert len(Cursor.read(tmp_path / "cursor")) == 9


@pytest.mark.thorough
def test_following_ends_with_the_campaign(
    taskq: CommandLine, agent: ScriptedAgent, tmp_path: Path
) -> None:
    """Results come through the pipe as they are reported, with one head in CSV."""
    words = ("export", "/c", "--follow", "--cursor", tmp_path / "cursor", "-o", "csv")
    end(agent, 1)
    with taskq.process(*words, "--columns", "id=key,n=payload.n") as started:
        assert started.stdout is not None
        assert [started.stdout.readline() for _ in range(2)] == ["id,n\n", "t0,0\n"]
        for number in range(1, 9):
            end(agent, 1)
            assert started.stdout.readline() == f"t{number},{number}\n"
        assert started.stdout.read() == ""
        assert started.wait() == 0
    assert taskq.out("export", "/c", "--follow").count("\n") == 9
    assert taskq.out("export", "/c", "--cursor", tmp_path / "cursor") == ""


@pytest.mark.thorough
@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_results_that_the_reader_did_not_take_come_again(
    taskq: CommandLine, agent: ScriptedAgent, tmp_path: Path, follow: tuple[str, ...]
) -> None:
    """Its end of the pipe is closed: the cursor stays as it was."""
    end(agent, 9)
    words = ("export", "/c", "--cursor", tmp_path / "cursor")
    with taskq.process(*words, *follow) as started:
        assert started.stdout is not None
        started.stdout.close()
        assert started.wait() == 0
    assert len(keys(taskq.out(*words))) == 9


@pytest.mark.thorough
def test_killed_follower_loses_nothing(
    taskq: CommandLine, agent: ScriptedAgent, tmp_path: Path
) -> None:
    """What was written and is not in the cursor yet is written again by the next."""
    cursor = tmp_path / "cursor"
    words = ("export", "/c", "--follow", "--cursor", cursor)
    seen: list[str] = []
    for count in (3, 6, 9):
        with taskq.process(*words) as started:
            assert started.stdout is not None
            end(agent, 3)
            while len(set(seen)) < count:
                seen += keys(started.stdout.readline())
            if count == 3:  # at the others it is killed between the two
                wait_until(lambda: len(Cursor.read(cursor)) == 3, timeout_s=60)
            started.send_signal(signal.SIGKILL)
            seen += keys(started.stdout.read())
            given = {f"t{n}" for n in range(len(Cursor.read(cursor)))}
            assert given <= set(seen)
    seen += keys(taskq.out("export", "/c", "--cursor", cursor))
    assert set(seen) == {f"t{n}" for n in range(9)}
    assert taskq.out("export", "/c", "--cursor", cursor) == ""


def test_unsuitable_options_of_an_export_are_refused_and_change_nothing(
    taskq: CommandLine, agent: ScriptedAgent, tmp_path: Path
) -> None:
    """In one line, with what to do."""
    end(agent, 1)
    cursor = tmp_path / "cursor"
    since = ("export", "/c", "--cursor", cursor)
    for words, said in (
        ((*since, "--best", 3, "--by", "result.score", "--lowest"), "leave out --best"),
        (("export", "/c", "--follow", "--where", "attempts = 1"), "leave out --best"),
        ((*since, "--to", cursor), "a file of its own"),
        (("export", "/c", "--cursor", "-"), "a file of its own"),
        (("export", "/c", "--follow", "--to", tmp_path / "f.csv"), "leave out --to"),
        (("export", "/c", "--follow", "-o", "csv"), "csv with --columns"),
        (("export", "/c", "--follow", "-o", "parquet"), "csv with --columns"),
        ((*since, "--to", "/dev/null"), "an ordinary file or standard output"),
    ):
        code, error = taskq.refused(*words)
        assert code == 2, words
        assert said in error
    cursor.write_text("{}")
    code, error = taskq.refused(*since)
    assert (code, cursor.read_text()) == (2, "{}")
    assert "not a cursor" in error
    cursor.unlink()
    taskq.out(*since, "--to", tmp_path / "nowhere.jsonl")
    assert taskq.refused("export", "/nope", "--cursor", cursor)[0] == 66
    assert taskq.refused("export", "/", "--cursor", cursor)[0] != 0


def test_file_that_cannot_be_written_leaves_the_cursor(
    taskq: CommandLine, agent: ScriptedAgent, tmp_path: Path
) -> None:
    """The next call writes what this one could not."""
    end(agent, 2)
    words = ("export", "/c", "--cursor", tmp_path / "cursor")
    assert taskq.refused(*words, "--to", tmp_path / "nowhere" / "f.jsonl")[0] == 66
    assert keys(taskq.out(*words)) == ["t0", "t1"]
