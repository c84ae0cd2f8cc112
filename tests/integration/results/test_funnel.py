"""The best results of one stage become the tasks of the next: as if all were fetched and sorted."""

from __future__ import annotations

import json
import math
import random
import signal
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from taskq import Client, Conflict, KeyConflict, Seed, UsageError
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.results import group_ranking
from taskq.results.feeder import Feeder
from taskq.results.group_ranking import LineSorter
from taskq.results.ranking import Best
from taskq.results.selection import select
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.waiting import wait_until

SCORES: tuple[Any, ...] = (-9.1, -7, -7.0, 0, 1e-30, 3, 12.5, "-11", None, True)
LIGANDS: tuple[Any, ...] = ("CCO", "CC", "C\\C=C/C", "", 1, 7, None, "ß\n")


@pytest.fixture
def taskq(dsn: str) -> CommandLine:
    """Give the command line of this queue."""
    return CommandLine(dsn)


def dock(queue: Client, hire: Hire, tasks: dict[str, list[tuple[str, Any, Any]]]) -> None:
    """Finish tasks of campaigns, each with its key, its ligand and its score."""
    for path, rows in tasks.items():
        campaign = queue.create_campaign(path)
        campaign.seed(Seed({"smiles": ligand}, key) for key, ligand, _ in rows)
        scores = {key: score for key, _, score in rows}
        agent = hire(path)
        while claimed := agent.claim(100):
            for task in claimed:
                agent.done(task, {"score": scores[task.key]})


def expected(
    tasks: dict[str, list[tuple[str, Any, Any]]], wanted: Best
) -> tuple[list[tuple[str, str]], int]:
    """Return what is to be chosen, as campaign and key, and of how many."""
    rows = [
        (score if wanted.lowest else -score, place, path, key, f"{type(ligand)} {ligand}")
        for place, path in enumerate(sorted(tasks))
        for key, ligand, score in tasks[path]
        if type(score) in (int, float) and (wanted.group is None or ligand is not None)
    ]
    ranked = sorted(rows, key=lambda row: row[:2])  # stable: in the order of seeding
    if wanted.group is not None:
        ranked = list({pair[4]: pair for pair in reversed(ranked)}.values())
        ranked.sort(
            key=lambda pair: (pair[0], pair[1], [k for k, _, _ in tasks[pair[2]]].index(pair[3]))
        )
    number = wanted.n or math.ceil(len(ranked) * float(wanted.percent or 0) / 100)
    return [row[2:4] for row in ranked[:number]], len(ranked)


@pytest.mark.parametrize("group", [None, "payload.smiles"])
def test_chosen_are_those_of_a_sorted_list(
    queue: Client, hire: Hire, monkeypatch: pytest.MonkeyPatch, group: str | None
) -> None:
    """Whatever ties there are, however small the parts are that are read; and all is counted."""
    monkeypatch.setattr(group_ranking, "SCAN", 7)
    monkeypatch.setattr(group_ranking, "LineSorter", partial(LineSorter, 10))
    chance = random.Random(17)
    tasks = {
        path: [(f"t{n}", chance.choice(LIGANDS), chance.choice(SCORES)) for n in range(60)]
        for path in ("/dock", "/dock/b", "/dock/a")
    }
    dock(queue, hire, tasks)
    for wanted in (
        Best("result.score", n=1, group=group),
        Best("result.score", n=40, group=group),
        Best("result.score", percent=1, lowest=False, group=group),
        Best("result.score", percent=33.3, group=group),
        Best("result.score", percent=100, lowest=False, group=group),
    ):
        chosen, ranked = expected(tasks, wanted)
        found = select(queue.database, queue.campaign("/dock"), wanted)
        assert [(result.campaign, result.key) for result in found] == chosen, wanted
        assert found.ranked == ranked
        own, _ = expected({"/dock": tasks["/dock"]}, wanted)
        again = select(queue.database, queue.campaign("/dock"), wanted, below=False)
        assert [(result.campaign, result.key) for result in again] == own


def test_large_results_are_ranked_as_well(queue: Client, hire: Hire) -> None:
    """Their values, and their groups, are in a blob."""
    store: BlobStore = open_blobs(queue.database)
    campaign = queue.create_campaign("/dock")
    campaign.seed(Seed({"smiles": "CC" if n % 2 else "C"}, f"t{n}") for n in range(6))
    agent = hire("/dock")
    for n, task in enumerate(agent.claim(6)):
        result = {"score": n, "scaffold": f"s{n // 3}"}
        if n % 3 == 0:
            digest = store_result(store, result)
            agent.done(task, {"taskq_blob": {"digest": digest, "size": 9}})
        else:
            agent.done(task, result)
    for group, keys in (("payload.smiles", ["t0", "t1"]), ("result.scaffold", ["t0", "t3"])):
        best = queue.best("/dock", by="result.score", percent=100, group=group)
        assert [result.key for result in best] == keys
        assert (best.ranked, best.left_out) == (2, 0)


def store_result(store: BlobStore, result: dict[str, Any]) -> str:
    """Store a large result; return its digest."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "result")
        file.write_text(json.dumps(result))
        return store.put(file)[0]


def test_unfinished_stages_are_refused(queue: Client, hire: Hire, taskq: CommandLine) -> None:
    """Their best are not known; the next stage may lie below the first."""
    dock(queue, hire, {"/dock": [("a", "C", 1), ("b", "CC", 2)]})
    queue.create_campaign("/dock/md").seed([{"x": 1}])
    best = ("--best", "1", "--by", "result.score", "--lowest")
    seed = ("seed", "/dock/md", "--from", "/dock", *best)
    assert taskq.json(*seed)["added"] == 1
    assert queue.campaign("/dock/md").task("a").payload == {"smiles": "C"}
    queue.campaign("/dock").seed([Seed({"smiles": "N"}, "c")])
    code, error = taskq.refused(*seed)
    assert (code, "/dock has 1 unfinished task" in error) == (3, True), error
    with pytest.raises(Conflict):
        queue.best("/dock", by="result.score", n=1)
    assert taskq.json(*seed, "--so-far", "--highest")["added"] == 1


def test_seeding_the_best_again_adds_nothing(queue: Client, hire: Hire, taskq: CommandLine) -> None:
    """The same are chosen each time; the counts are those of the message."""
    rows = [(f"t{n}", f"C{n % 50}", n // 2 if n % 10 else None) for n in range(200)]
    dock(queue, hire, {"/dock": rows})
    queue.create_campaign("/md")
    seed = ("seed", "/md", "--from", "/dock", "--best", "10%", "--by", "result.score", "--lowest")
    first = taskq(*seed)
    assert first.stdout.startswith("18 tasks added to /md; 18 records")
    assert "The lowest by result.score: 18 of 180 results, from 0 to 9.\n" in first.stderr
    assert "Left out: 20 results without a number in result.score.\n" in first.stderr
    assert taskq.json(*seed) | {"read": 0} == {
        "path": "/md",
        "read": 0,
        "added": 0,
        "known": 18,
        "bad": 0,
        "conflicts": 0,
    }
    grouped = taskq(*seed, "--group", "payload.smiles")
    assert "The lowest by result.score: 5 of 45 groups, from 0 to 2.\n" in grouped.stderr
    stored = {task.key: task.payload for task in queue.campaign("/md").tasks()}
    assert stored == {key: {"smiles": ligand} for key, ligand, _ in rows if key in stored}


@pytest.mark.thorough
def test_live_stage_ends_with_the_first(queue: Client, hire: Hire, taskq: CommandLine) -> None:
    """It begins before. What belongs to it no longer is cancelled, or counted if it has begun."""
    dock(queue, hire, {"/dock": [(f"t{n}", "C", n) for n in range(10, 20)]})
    first, second = queue.campaign("/dock"), queue.create_campaign("/md")
    first.seed([Seed({"smiles": "N"}, f"t{n}") for n in range(10)])
    best = ("--best", "4", "--by", "result.score", "--lowest", "--live")
    seed = ("seed", "/md", "--from", "/dock", *best)
    with taskq.process(*seed, "-o", "json") as feeding:
        wait_until(lambda: second.status().total == 2)  # its share, while half is done
        agent = hire("/md")
        (begun,) = agent.claim(1)
        assert begun.key == "t10"
        feeding.send_signal(signal.SIGINT)
        assert feeding.wait() == 130
        assert "repeat the command to continue" in feeding.communicate()[1]
    with taskq.process(*seed, "-o", "json") as feeding:
        docking = hire("/dock")
        while claimed := docking.claim(5):
            for task in claimed:
                docking.done(task, {"score": int(task.key[1:])})
        output = feeding.communicate()[0]
    counts = {"done": 20, "ranked": 20, "left_out": 0, "chosen": 4, "cancelled": 1, "begun": 1}
    assert json.loads(output) == {"path": "/md", **counts, "some_begun": ["t10"]}
    stored = {task.key: task.status for task in second.tasks()}
    assert stored == dict.fromkeys(("t0", "t1", "t2", "t3"), "waiting") | {
        "t10": "working",
        "t11": "cancelled",
    }
    second.cancel(["t3"])
    again = taskq(*seed)
    assert second.task("t3").status == "waiting"
    assert again.stdout.startswith("/dock is finished: /md has its best 4 of 20; 1 no longer among")


def test_of_equal_results_the_first_seeded_is_chosen_however_late(
    queue: Client, hire: Hire
) -> None:
    """So a live stage ends as one that begins later, though an equal result had begun."""
    first, second = queue.create_campaign("/dock"), queue.create_campaign("/md")
    first.seed(Seed({"smiles": "C"}, f"t{n}") for n in range(2))
    docking, agent = hire("/dock"), hire("/md")
    early, late = docking.claim(2)
    feeder = Feeder(
        queue.queries,
        first,
        second,
        Best("result.score", percent=100, group="payload.smiles"),
    )
    docking.done(late, {"score": 1})
    assert (feeder.look().chosen, [task.key for task in agent.claim(2)]) == (1, ["t1"])
    docking.done(early, {"score": 1})
    fed = feeder.look()
    assert (fed.complete, fed.chosen, fed.begun, fed.some_begun) == (True, 1, 1, ("t1",))
    assert [task.key for task in agent.claim(2)] == ["t0"]


def test_tasks_at_work_are_not_cancelled_at_the_end_of_a_stage(queue: Client, hire: Hire) -> None:
    """In the statement that cancels the others: no agent has to stop what has just begun."""
    campaign = queue.create_campaign("/md")
    campaign.seed({"n": n} for n in range(4))
    agent = hire("/md")
    begun = agent.claim(2)
    tasks = [task.task for task in begun] + [begun[-1].task + 1]
    words = {"campaign": campaign.campaign_id, "tasks": tasks, "after": 0, "limit": 10}
    words["begun"] = False
    assert queue.queries.rows("cancel", **words)[0]["moved"] == 1
    assert [task.status for task in campaign.tasks()] == [*["working"] * 2, "cancelled", "waiting"]


def test_another_payload_matters_at_the_end(queue: Client, hire: Hire) -> None:
    """What is among the best so far only may have a key that the next stage has already."""
    dock(queue, hire, {"/dock": [("a", "C", 5)]})
    first, second = queue.campaign("/dock"), queue.create_campaign("/md")
    first.seed([Seed({"smiles": "N"}, "b")])
    second.seed([Seed({"other": 1}, "a")])
    feeder = Feeder(queue.queries, first, second, Best("result.score", n=1))
    assert feeder.look().chosen == 1
    first.pause()
    assert feeder.look().paused == ("/dock",)
    first.resume()
    assert second.status().total == 1
    agent = hire("/dock")
    agent.done(agent.claim(1)[0], {"score": 7})
    with pytest.raises(KeyConflict):
        feeder.look()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--best 1%", 2, "with --from"),
        ("--lowest", 2, "with --from"),
        ("--live", 2, "with --from"),
        ("--from /dock --best 5 --by x --lowest --live --so-far", 2, "choose one"),
        ("--from /md --best 5 --by x --lowest --live", 2, "from itself"),
        ("--from /dock --best 5 --by x --lowest --live --on-conflict skip", 2, "no --on-conflict"),
        ("--from /dock", 2, "--from needs --best"),
        ("--from /dock --best 1%", 2, "--best N and --by FIELD go together"),
        ("--from /dock --best 5 --by result.score", 2, "--lowest or --highest"),
        ("--from /dock --best 1.5 --by result.x --lowest", 2, "a number or a share"),
        ("--from /dock --best 0 --by result.x --lowest", 2, "whole number from 1"),
        ("--from /dock --best 101% --by result.x --lowest", 2, "at most 100"),
        ("--from /dock --best 5 --by result.x --lowest", 2, "none of 1 results"),
        ("--from /dock --best 5 --by result.score --lowest --group key", 2, "group"),
        ("--from /dock --best 5 --by x --lowest --sweep n=1:2", 2, "names the tasks"),
        ("--from /md --best 5 --by result.score --lowest", 2, "from itself"),
        ("--from /nope --best 5 --by result.score --lowest", 66, "no campaign /nope"),
        ("--from /dock --best 5 --by result.score\udcff --lowest", 2, "UTF-8"),
    ],
)
def test_impossible_choice_of_results_is_refused_in_a_line(
    queue: Client, hire: Hire, taskq: CommandLine, options: str, code: int, said: str
) -> None:
    """Nothing is added."""
    dock(queue, hire, {"/dock": [("a", "C", 1)]})
    queue.create_campaign("/md")
    exit_code, error = taskq.refused("seed", "/md", *options.split())
    assert (exit_code, said in error) == (code, True), error
    assert queue.campaign("/md").status().total == 0


def test_nothing_done_gives_nothing(queue: Client) -> None:
    """Of an empty campaign nothing is the best."""
    queue.create_campaign("/dock")
    assert list(queue.best("/dock", by="result.score", percent=1)) == []
    assert list(queue.best("/dock", by="result.score", n=1, group="payload.a")) == []


def test_grouping_by_a_field_that_no_result_has_raises(queue: Client, hire: Hire) -> None:
    """An empty choice would look like an answer."""
    dock(queue, hire, {"/dock": [("a", "C", 1)]})
    with pytest.raises(UsageError, match=r"none of 1 result has .* a value in 'payload.ligand'"):
        list(queue.best("/dock", by="result.score", n=1, group="payload.ligand"))
