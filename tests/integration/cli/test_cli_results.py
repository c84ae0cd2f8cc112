"""Tasks, results, failures and agents from the command line."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]  # it has no stubs

from taskq import Campaign, Client
from taskq.model.views import AgentView, Attempt, Failure, FailureCause, Result, TaskView
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres

pytestmark = pytest.mark.both_transports


@pytest.fixture
def finished(campaign: Campaign, hire: Hire) -> Campaign:
    """Give a campaign with nine tasks: five done, three failed, one waiting for its retry."""
    campaign.seed({"n": n} for n in range(9))
    agent = hire()
    for task in agent.claim(9):
        n = task.payload["n"]
        if n < 5:
            agent.done(task, {"score": -n, "deep": {"rank": 10 - n}, "name": f"pose{n}"})
        else:
            agent.fail(task, "odd" if n % 2 else "even", retry=n == 8)
    return campaign


def names(view: type) -> set[str]:
    """Return the fields of a view with the field that tells campaigns apart."""
    return {"campaign", *(field.name for field in fields(view))}


def test_tasks_are_listed_by_status_and_key(taskq: CommandLine, finished: Campaign) -> None:
    """JSON has the fields of the dataclass."""
    listed = taskq.json("tasks", "/c")
    assert len(listed) == 9
    assert listed[0].keys() == names(TaskView)
    assert [task["payload"]["n"] for task in taskq.json("tasks", "/", "--status", "failed")] == [
        *(5, 6, 7),
    ]
    (delayed,) = taskq.json("tasks", "/c", "--status", "delayed")
    assert delayed["due_at"].endswith("Z")
    assert taskq.json("tasks", "/c", "--key", delayed["key"]) == [delayed]
    assert taskq.refused("tasks", "/c", "--key", "nope")[0] == 66
    assert finished.status().delayed == 1


def test_output_is_limited_when_asked_and_says_so(taskq: CommandLine, finished: Campaign) -> None:
    """A table that is not all says that there is more; records stop at the limit."""
    result = taskq("tasks", finished.path, "--limit", 4)
    assert len(result.stdout.splitlines()) == 5
    assert "There are more than these 4" in result.stderr
    assert len(taskq.out("tasks", "/c", "--limit", 4, "-o", "jsonl").splitlines()) == 4
    assert taskq("tasks", "/c", "--limit", 9).stderr == ""


def test_results_of_a_subtree_name_their_campaigns(
    taskq: CommandLine, queue: Client, hire: Hire
) -> None:
    """A campaign's results include those below, each with the path that its key belongs to."""
    for path in ("/w/a", "/w/b"):
        queue.create_campaign(path).seed([{"n": 1}])
        agent = hire(path)
        agent.done(agent.claim()[0], {"score": 1})
    found = taskq.json("results", "/w")
    assert [record["campaign"] for record in found] == ["/w/a", "/w/b"]
    assert found[0].keys() == names(Result)
    assert "/w/b" in taskq.out("results", "/w")


@pytest.mark.parametrize(
    ("words", "order"),
    [
        (["--by", "result.score", "--highest"], [0, 1]),
        (["--by", "result.score", "--lowest"], [4, 3]),
        (["--by", "result.deep.rank", "--lowest"], [4, 3]),
        (["--by", "payload.n", "--highest"], [4, 3]),
        (["--by", "ended_at", "--lowest"], [0, 1]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_best_results_come_first(
    taskq: CommandLine, finished: Campaign, words: list[str], order: list[int]
) -> None:
    """By any number or instant of a result, the highest or the lowest first."""
    best = taskq.json("results", finished.path, "--best", 2, *words)
    assert [hit["payload"]["n"] for hit in best] == order


def test_columns_shown_are_those_that_most_results_have(
    taskq: CommandLine, campaign: Campaign, hire: Hire
) -> None:
    """Not those that the first result invents."""
    campaign.seed([{"n": n} for n in range(6)])
    agent = hire()
    first, *others = agent.claim(6)
    agent.done(first, {f"a{n}": n for n in range(2_000)})
    for task in others:
        agent.done(task, {"score": 1.5})
    result = taskq("results", campaign.path)
    assert "RESULT.SCORE" in result.stdout.splitlines()[0]
    assert result.stdout.count("1.5") == 5
    assert "more fields in the results" in result.stderr


def test_export_for_spreadsheets_has_no_formulas(
    taskq: CommandLine, campaign: Campaign, hire: Hire
) -> None:
    """Only with the option, and only in CSV."""
    campaign.seed([{"n": -1, "name": "=1+1"}])
    agent = hire()
    agent.done(agent.claim()[0], {"note": "@x"})
    words = (
        "export",
        campaign.path,
        "-o",
        "csv",
        "--columns",
        "payload.n,payload.name,result.note",
    )
    assert taskq.out(*words).splitlines()[1] == "-1,=1+1,@x"
    assert taskq.out(*words, "--spreadsheet").splitlines()[1] == "-1,'=1+1,'@x"
    code, error = taskq.refused("export", campaign.path, "--spreadsheet")
    assert (code, "--to hits.csv" in error) == (2, True), error


def test_ranking_by_values_that_are_no_numbers_is_refused(
    taskq: CommandLine, finished: Campaign
) -> None:
    """The error names the numbers that there are."""
    words = ("results", finished.path, "--best", 3, "--highest", "--by", "result.name")
    code, error = taskq.refused(*words)
    assert (code, "result.score" in error) == (2, True), error


@pytest.mark.parametrize("command", ["results", "export", "fetch"])
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--best", "3"], "--best N and --by FIELD go together"),
        (["--by", "result.score", "--lowest"], "--best N and --by FIELD go together"),
        (["--highest"], "--best N and --by FIELD go together"),
        (["--best", "3", "--by", "result.score"], "which result.score is best? Give --lowest or"),
        (["--best", "3", "--by", "result.score", "--lowest", "--where", "attempts = 1"], "--where"),
    ],
)
def test_which_results_are_best_is_never_guessed(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path, command: str, words: list[str], why: str
) -> None:
    """The same in all commands that take the best: half of it, or no direction, is refused."""
    where = ["--to", tmp_path / "x.csv"] * (command != "results")
    code, error = taskq.refused(command, campaign.path, *where, *words)
    assert (code, why in error) == (2, True), error


def test_results_since_a_time_are_those_that_ended_later(
    taskq: CommandLine, finished: Campaign, postgres: Postgres
) -> None:
    """A duration or an instant; a file's name is refused."""
    postgres.execute(
        "update taskq.attempt set ended_at = ended_at - interval '1 day'"
        " where task_id in (select task_id from taskq.attempt order by task_id limit 2)"
    )
    ended = sorted(result["ended_at"] for result in taskq.json("results", finished.path))
    for since, left in (("2h", 3), (ended[2], 3), ("2d", 5)):
        found = taskq.json("results", "/c", "--since", since)
        assert sorted(record["ended_at"] for record in found) == ended[-left:]
        assert taskq.out("export", "/c", "--since", since).count("\n") == left
    code, error = taskq.refused("export", "/c", "--since", "demo.cursor")
    assert (code, "is neither a time" in error) == (2, True), error


def test_results_without_the_number_are_left_out_and_counted(
    taskq: CommandLine, campaign: Campaign, hire: Hire
) -> None:
    """A result that cannot be ranked does not end the ranking."""
    campaign.seed({"n": n} for n in range(3))
    agent = hire()
    for task, score in zip(agent.claim(3), (1, None, 3), strict=True):
        agent.done(task, {"score": score})
    result = taskq("results", "/c", "--best", 5, "--by", "result.score", "--highest", "-o", "json")
    assert [record["result"]["score"] for record in json.loads(result.stdout)] == [3, 1]
    assert result.stderr == "1 result without a number in result.score.\n"


def test_ranking_of_many_results_names_the_index_that_it_lacks(
    taskq: CommandLine, finished: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it reads them; not once the index is there, nor by what cannot be indexed."""
    monkeypatch.setattr("taskq_cli.commands.results._LARGE", 5)
    monkeypatch.setattr("taskq_cli.display.progress.LINE_INTERVAL_S", -1.0)
    words = ["results", finished.path, "--best", 1, "--lowest", "--by"]
    index = "taskq campaign index --by result.score /c"
    hint = f"Reading 5 results; an index spares it: {index}\n"
    shown = "100%  ranking /c  5 of 5"
    assert re.fullmatch(f"{hint}({shown}.*\n)+", taskq(*words, "result.score").stderr)
    assert taskq(*words, "attempt").stderr.startswith(shown)
    finished.index("result.score")
    assert taskq(*words, "result.score").stderr == ""
    monkeypatch.setattr("taskq_cli.commands.results._LARGE", 6)
    assert taskq(*words, "payload.n").stderr == ""


def test_results_are_exported_in_each_format(
    taskq: CommandLine, finished: Campaign, tmp_path: Path
) -> None:
    """The format follows the suffix or the option; all have the same records."""
    for name in ("r.jsonl", "r.csv", "r.parquet"):
        result = taskq("export", finished.path, "--to", tmp_path / name)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "5 results" in result.stderr
    records = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert records == taskq.json("results", "/c")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text())))
    assert [row["result.score"] for row in rows] == ["0", "-1", "-2", "-3", "-4"]
    table = parquet.read_table(tmp_path / "r.parquet")
    assert table.column("payload.n").to_pylist() == [0, 1, 2, 3, 4]
    best = ["--best", 1, "--by", "result.score", "--highest"]
    written = taskq.out("export", "/c", "--format", "csv", *best)
    assert len(written.splitlines()) == 2


def test_results_are_exported_to_several_files(
    taskq: CommandLine, finished: Campaign, tmp_path: Path
) -> None:
    """Of so many rows, or by a column, which others read out of the names."""
    to, by_name = tmp_path / "rows", tmp_path / "names"
    result = taskq("export", finished.path, "--to", f"{to}/", "--split", "rows=2")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "5 results of /c written" in result.stderr
    names = sorted(path.name for path in to.iterdir())
    assert names == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert parquet.read_table(to)["payload.n"].to_pylist() == [0, 1, 2, 3, 4]
    words = ["--columns", "n=payload.n,pose=result.name", "--split", "pose"]
    assert taskq("export", finished.path, "--to", by_name, *words).exit_code == 0
    table = parquet.read_table(by_name)
    rows = [(record["n"], record["pose"]) for record in table.to_pylist()]
    assert sorted(rows) == [(n, f"pose{n}") for n in range(5)]
    for words in (["-o", "csv", "--to", tmp_path / "x"], [], ["--to", to]):
        assert taskq.refused("export", "/c", "--split", "rows=2", *words)[0] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["names", "rows"]


def test_export_that_cannot_be_written_leaves_nothing(
    taskq: CommandLine, finished: Campaign, tmp_path: Path
) -> None:
    """An absent folder or a folder in place of a file is reported."""
    assert taskq.refused("export", finished.path, "--to", tmp_path / "no" / "r.csv")[0] == 66
    assert taskq.refused("export", "/c", "--to", tmp_path)[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_failures_are_grouped_by_class(taskq: CommandLine, finished: Campaign) -> None:
    """Attempts, tasks, hosts and an example for each class; or each failed task."""
    groups = {failure["error_class"]: failure for failure in taskq.json("failures", finished.path)}
    assert groups["even"].keys() == names(FailureCause)
    assert {name: (group["attempts"], group["tasks"]) for name, group in groups.items()} == {
        "even": (2, 2),
        "odd": (2, 2),
    }
    assert groups["odd"]["some_hosts"] == {"node1": 2}
    each = taskq.json("failures", "/c", "--each")
    assert each[0].keys() == names(Failure)
    assert len(each) == 3
    assert "it broke" in taskq.out("failures", "/c")


def test_failures_of_two_causes_are_listed_apart(
    taskq: CommandLine, campaign: Campaign, hire: Hire
) -> None:
    """One exit code of two causes, by the last line of output, each with its attempts by host."""
    campaign.seed({"n": n} for n in range(9))
    bad = {"error_class": "exit-1", "error": "exited with 1", "exit_code": 1, "retry": False}
    for host, count, tail in (
        ("n1", 3, "reading\nno space left on device\n\n"),
        ("n1", 1, "step 17 of 300: energy is not a number"),
        ("n2", 2, "step 4 of 300: energy is not a number\n"),
    ):
        agent = hire(host=host)
        for task in agent.claim(count):
            agent.report(task, "failed", tail=tail, **bad)
    agent = hire(host="n3")
    for task in agent.claim(3):
        said = f"ligand 0x{task.task:x} has {task.payload['n']} atoms"
        agent.report(task, "failed", error_class="Odd", error=said, tail=str(task.key), retry=False)
    causes = {cause.cause: cause for cause in campaign.failure_causes()}
    assert {cause: (value.attempts, value.some_hosts) for cause, value in causes.items()} == {
        "exited with #: no space left on device": (3, {"n1": 3}),
        "exited with #: step # of #: energy is not a number": (3, {"n2": 2, "n1": 1}),
        "ligand # has # atoms": (3, {"n3": 3}),
    }
    assert [(cause.causes, cause.hosts, cause.tasks) for cause in causes.values()] == [
        *((3, 1, 3), (3, 1, 3), (3, 2, 3)),
    ]
    table, _, causes = taskq.out("failures", "/c").partition("\n\n")
    lines = table.splitlines()
    assert len(lines) == 4
    assert "exit-1: unclear: none of 3 hosts stands out" in causes
    assert "  $ taskq logs /c " in causes
    assert "no space left on device" in "".join(lines)
    assert re.search(r"step 4 of 300: energy is not a number +n2 2, n1 1 ", "".join(lines))
    assert [cause.attempts for cause in campaign.failure_causes(limit=1)] == [3]


def test_failed_tasks_are_tried_again_by_class_or_key(
    taskq: CommandLine, finished: Campaign
) -> None:
    """A retry takes what was asked for, and says how many."""
    assert taskq.json("retry", "/c", "--error-class", "odd") == {
        "path": "/c",
        "tasks": 2,
        "dry_run": False,
    }
    (left,) = taskq.json("tasks", "/c", "--status", "failed")
    assert taskq.json("retry", "/c", "--key", left["key"])["tasks"] == 1
    assert taskq.out("retry", "/c") == "0 tasks of /c will be tried again.\n"
    assert finished.status().failed == 0


def test_retrying_leaves_cancelled_campaigns_below_alone(
    taskq: CommandLine, queue: Client, hire: Hire
) -> None:
    """One cancelled child does not keep the others from being tried again."""
    for path in ("/w/a", "/w/b", "/w/c"):
        queue.create_campaign(path).seed([{"n": 1}])
        agent = hire(path)
        agent.fail(agent.claim()[0], retry=False)
    queue.campaign("/w/b").cancel()
    assert taskq.json("retry", "/w", "--yes")["tasks"] == 2
    code, error = taskq.refused("retry", "/w/b")
    assert (code, "resume it" in error) == (3, True)


def test_attempts_of_a_task_are_shown_with_their_output(
    taskq: CommandLine, campaign: Campaign, hire: Hire
) -> None:
    """Each attempt with its outcome, host and the end of what it wrote."""
    campaign.seed([{"n": 1}])
    (key,) = (task.key for task in campaign.tasks())
    agent = hire()
    agent.report(
        agent.claim()[0],
        "failed",
        error_class="Boom",
        error="it broke",
        exit_code=3,
        retry=False,
        tail="line 1\nline 2\n",
    )
    (attempt,) = taskq.json("logs", "/c", key)
    assert {"campaign", *attempt} == names(Attempt)
    text = taskq.out("logs", "/c", key, "--attempt", 1)
    assert "Boom: it broke" in text
    assert "\n  line 1\n  line 2\n" in text
    assert taskq.refused("logs", "/c", key, "--attempt", 2)[0] == 66
    assert taskq.refused("logs", "/c", "nope")[0] == 66


def test_agents_are_listed(taskq: CommandLine, campaign: Campaign, hire: Hire) -> None:
    """Who works, where, and on how much."""
    campaign.seed([{"n": 1}])
    hire().claim()
    (agent,) = taskq.json("agents", "/c")
    assert {"campaign", *agent} == names(AgentView)
    assert (agent["host"], agent["working"]) == ("node1", 1)
    assert "node1" in taskq.out("agents")
    hire()
    assert len(taskq.json("agents", "/c", "--limit", 1)) == 1


def test_nothing_to_show_is_no_error(taskq: CommandLine, campaign: Campaign) -> None:
    """An empty list is an empty list."""
    for words in (["tasks"], ["results"], ["failures"], ["agents"], ["ls"]):
        result = taskq(*words, campaign.path)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "There are none.\n")
        assert taskq.json(*words, campaign.path) == []
        assert taskq.out(*words, campaign.path, "-o", "jsonl") == ""
