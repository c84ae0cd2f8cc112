"""Errors name the right thing: where what was asked for is to be had."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from taskq import Campaign, Client, Seed
from taskq.model.words import phases
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine


@pytest.fixture
def finished(campaign: Campaign, hire: Hire) -> Campaign:
    """Give a campaign with two results."""
    campaign.seed({"n": n} for n in range(2))
    agent = hire()
    for task in agent.claim(2):
        agent.done(task, {"n": 1})
    return campaign


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["status", "--json"], "`-o json` writes JSON"),
        (["results", "/c", "--jsonl"], "`-o jsonl`"),
        (["results", "/c", "--csv"], "--to FILE.csv"),
        (["results", "/c", "-o", "csv"], "`taskq export -o csv`"),
        (["export", "/c", "-o", "hits.csv"], "`--to hits.csv` names a file"),
        (["campaign", "create", "--file", "c.toml"], "--campaign-file names"),
        (["results", "/c", "-o", "hits.json"], "`> hits.json` names a file"),
        (["status", "-o", "yaml"], "is not one of table, json, jsonl"),
        (["agent", "run", "--until-empty", "--gateway", "https://g"], "taskq-agent run"),
        (
            ["--dsn", "https://gateway.example.org", "status"],
            "a gateway asks for a manager's token",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_word_is_answered_with_the_command_that_does_it(
    taskq: CommandLine, words: list[str], hint: str
) -> None:
    """Not a similar word that means something else."""
    code, error = taskq.refused(*words)
    assert (code, hint in error, "Did you mean" in error) == (2, True, False), error


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("gw.example.org", "--url is a gateway's address, such as https://gw.example.org, not"),
        ("gw.example.org:443", "such as https://gw.example.org, not"),
        ("http://", "such as https://gw.example.org"),
        ("postgresql://me:secret@host/queue", "give PostgreSQL's address by --dsn"),
    ],
)
def test_malformed_address_of_a_gateway_is_not_blamed_on_postgresql(
    monkeypatch: pytest.MonkeyPatch, url: str, hint: str
) -> None:
    """From the option or the environment; a part that may be a password is not repeated."""
    monkeypatch.setenv("TASKQ_TOKEN", "t")
    for words, environment in (["--url", url], None), ([], {"TASKQ_URL": url}):
        code, error = CommandLine("", address=environment or {}).refused("status", *words)
        assert (code, "not a PostgreSQL address" in error, "secret" in error) == (2, False, False)
        assert hint.replace("--url", "TASKQ_URL" if environment else "--url") in error, error


def test_similar_option_is_still_proposed(taskq: CommandLine) -> None:
    """A slip of the finger gets what it got before."""
    code, error = taskq.refused("status", "--ouput", "json")
    assert (code, "Did you mean '--output'?" in error) == (2, True), error


@pytest.mark.parametrize("name", ["hits.xlsx", "hits.csv.gz", "hits.tsv"])
def test_export_is_what_its_suffix_says(
    taskq: CommandLine, finished: Campaign, tmp_path: Path, name: str
) -> None:
    """A suffix that stands for no format is refused, unless an option names the format."""
    code, error = taskq.refused("export", finished.path, "--to", tmp_path / name)
    assert (code, ".jsonl, .ndjson, .json, .csv, .parquet" in error) == (2, True), error
    assert not list(tmp_path.iterdir())
    taskq.out("export", "/c", "--to", tmp_path / name, "--format", "csv")
    assert (tmp_path / name).read_text().startswith("campaign,")
    taskq.out("export", "/c", "--to", tmp_path / "plain")
    taskq.out("export", "/c", "--to", tmp_path / "lines.ndjson")
    assert json.loads((tmp_path / "plain").read_text().splitlines()[0])["result"] == {"n": 1}
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "lines.ndjson").read_bytes()


@pytest.mark.usefixtures("finished")
def test_output_of_an_export_is_the_format_of_its_results(
    taskq: CommandLine, tmp_path: Path
) -> None:
    """Wherever they go, and in whichever option; contradictions are refused."""
    to = tmp_path / "hits.csv"
    said = taskq("export", "/c", "--to", to)
    assert (said.stdout, said.stderr) == ("", f"2 results of /c written to {to}.\n")
    assert taskq.out("export", "/c", "-o", "csv") == to.read_text()
    assert len(taskq.out("export", "/c", "-o", "jsonl").splitlines()) == 2
    for words in (["export", "/c", "-o", "json"], ["-o", "json", "export", "/c"]):
        records = json.loads(taskq.out(*words))
        assert [record["result"] for record in records] == [{"n": 1}, {"n": 1}]
    assert json.loads(taskq.out("export", "/", "--no-below", "-o", "json")) == []
    code, error = taskq.refused("export", "/c", "--to", to, "-o", "jsonl")
    assert (code, "says csv, and -o says jsonl" in error) == (2, True), error


@pytest.mark.usefixtures("finished")
def test_chosen_columns_are_all_that_is_exported(taskq: CommandLine) -> None:
    """In the given order and by the given names; columns that no result has are reported."""
    words = ["--columns", "n=payload.n,result.n,key"]
    assert taskq.out("export", "/c", "-o", "csv", *words).splitlines() == [
        "n,result.n,key",
        f"0,1,{Seed({'n': 0}).encoded()[0]}",
        f"1,1,{Seed({'n': 1}).encoded()[0]}",
    ]
    said = taskq("export", "/c", "--columns", "result.n,result.scroe")
    assert [json.loads(line) for line in said.stdout.splitlines()] == [
        {"result.n": 1, "result.scroe": None}
    ] * 2
    assert said.stderr == "Warning: no result has a value of result.scroe.\n"
    for wrong in ("", "a,", "a=", "=a", "a,b=c,a", '"a'):
        code, error = taskq.refused("export", "/c", "--columns", wrong)
        assert (code, "column" in error) == (2, True), error


def test_class_of_error_that_no_task_has_is_reported(
    taskq: CommandLine, queue: Client, hire: Hire
) -> None:
    """With those that there are; it is no error, since handlers may choose any."""
    queue.create_campaign("/c")
    words = ["retry", "/c", "--error-class", "timeout"]
    result = taskq(*words)
    assert (result.exit_code, result.stdout) == (0, "0 tasks of /c will be tried again.\n")
    assert "no attempt there has failed or was lost" in result.stderr
    below = queue.create_campaign("/c/below")
    below.seed({"n": n} for n in range(3))
    agent = hire("/c/below")
    for task, name in zip(agent.claim(3), ("time-limit", "time-limit", "exit-3"), strict=True):
        agent.fail(task, name, retry=False)
    assert taskq(*words).stderr == (
        "No such task of /c ended with the class 'timeout'; "
        "attempts there have: time-limit (2), exit-3 (1).\n"
    )
    result = taskq("retry", "/c", "--error-class", "time-limit")
    assert (result.stdout, result.stderr) == ("2 tasks of /c will be tried again.\n", "")


def test_key_is_looked_for_below_or_shown_by_an_example(queue: Client, taskq: CommandLine) -> None:
    """Keys are those of one campaign, and anyone who asks above it does not know which."""
    queue.create_campaign("/vs")
    queue.create_campaign("/vs/docking").seed(Seed({}, f"n={n}") for n in range(9))
    for command in ("explain", "logs"):
        said = taskq.refused(command, "/vs", "n=7")[1]
        assert "/vs has no task with the key 'n=7'; /vs/docking below it has one" in said
        said = taskq.refused(command, "/vs/docking", "7")[1]
        assert "no task with the key '7'; one of its keys is 'n=0'" in said
        said = taskq.refused(command, "/vs", "7")[1]
        assert "it has none of its own, but 1 campaign below it, such as /vs/docking" in said


def test_tasks_are_shown_with_their_last_attempts(
    campaign: Campaign, hire: Hire, taskq: CommandLine
) -> None:
    """Which host had them, when, and the class; a filter of these means the last one only."""
    campaign.seed({"n": n} for n in range(2))
    agent = hire(host="n17")
    failed, delayed = agent.claim(2)
    agent.fail(failed, retry=False)
    agent.fail(delayed)
    lines = taskq.out("tasks", "/c", "--where", 'class = "Boom"').splitlines()
    assert {"SINCE", "HOST", "CLASS"} <= set(lines[0].split())
    assert all({"n17", "Boom"} <= set(line.split()) for line in lines[1:])
    said = taskq("tasks", "/c", "--where", 'host = "n18"').stderr
    assert said.startswith("There are none.\nFilters on host, site, class, error and exit_code see")
    assert taskq("tasks", "/c", "--where", "priority = 9").stderr == "There are none.\n"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("host lst", "No such sub-command 'lst'; did you mean `taskq host list`?"),
        ("host n17", "path begins with /; `taskq host show n17` shows one."),
        ("agent n17", "No such sub-command 'n17'; a campaign's path begins with /. See"),
        ("hosts list /nope", "no campaign /nope; `taskq tree` shows what there is"),
        ("failures /nope --judge site", "no campaign /nope; `taskq tree` shows what there is"),
        ("host show n17", "no host n17 has served / lately; `taskq host` shows what there is"),
        ("explain /c n=1 extra", "(extra). See `taskq explain -h`."),
    ],
)
def test_wrong_arguments_get_what_was_meant(taskq: CommandLine, words: str, hint: str) -> None:
    """Also for what is neither a sub-command nor a path."""
    assert hint in taskq.refused(*words.split())[1]


def test_all_commands_that_look_take_the_root_where_no_campaign_is_named(
    taskq: CommandLine, finished: Campaign
) -> None:
    """One that has ended is shown as finished, with all of its tasks."""
    assert taskq("failures").exit_code == 0
    assert " finished " in taskq.out("watch")
    assert "\n1. 2 tasks have ended: 2 done," in taskq.out("explain")
    assert [reason["tasks"] for reason in taskq.json("explain", finished.path)["reasons"]] == [2]
    assert taskq.out("status", finished.path).startswith(f"{finished.path}  finished  100.0 %")
    assert " finished " in taskq.out("tree").splitlines()[2]
    (record,) = taskq.json("ls")
    assert (record["state"], record["finished"]) == ("open", True)


def test_single_host_is_shown(queue: Client, taskq: CommandLine, hire: Hire) -> None:
    """With its ban, who made it, and its agents; a similar name is proposed."""
    hire("/", agent="a1", host="n17", site="alpha")
    queue.fleet.ban("host", "n17", why="exit-1", until=timedelta(days=1))
    shown = taskq.out("hosts", "show", "n17")
    assert re.search(r"ban +banned until 20\S+Z, by \S+ at 20\S+Z: exit-1\n", shown)
    assert "a1" in shown
    assert "alpha" in shown
    record = taskq.json("hosts", "show", "n17")
    assert (record["ban"]["why"], [session["agent"] for session in record["sessions"]]) == (
        "exit-1",
        ["a1"],
    )
    assert "did you mean n17?" in taskq.refused("hosts", "show", "n71")[1]
    assert taskq.out("sites", "show", "alpha").startswith("site ")
    shown = taskq.out("hosts", "-h")
    assert "[PATH]" in shown
    assert "--banned" in shown


def test_measurements_of_an_attempt_are_shown_with_units() -> None:
    """Seconds as durations, other numbers with three digits."""
    measured = {"run_s": 1.45616, "wait_s": 0, "cpu_s": 12.3456, "poses": 2.34567}
    assert phases(measured) == "run 1.5 s, wait 0.0 s, poses 2.35, 12 s of CPU"
