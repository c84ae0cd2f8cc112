"""Results of several recipes: every export names them, and filters and rankings tell them apart."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Seed
from taskq.gateway.web.hits import read_hits
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.molecules import mol_block, read
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.both_transports(
    near=[
        "test_page_of_the_best_knows_their_recipes",
        "test_pages_of_results_do_not_look_for_agents_while_there_is_one_recipe",
    ]
)

#: Tasks with the recipes that made their results; the score of each is its place.
RECIPES = {"a": 1, "b": 1, "c": 2, "d": 2, "e": None, "f": 2}
BY_SCORE = ("--by", "result.score", "--lowest")


@pytest.fixture
def mixed(queue: Client, hire: Hire) -> Campaign:
    """Give a campaign with results of two recipes, one of an agent that is too old to say."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=TRUE, params={"grid": 1}))
    campaign.seed(Seed({"n": n, "pair": n // 2}, key) for n, key in enumerate(RECIPES))
    new, old = hire(), hire(speaks=False)
    do(new, "ab")
    campaign.change(replace(campaign.spec(), params={"grid": 2}))
    do(new, "cd", recipe=2)
    do(old, "e")
    do(new, "f", recipe=2)
    return campaign


def do(agent: ScriptedAgent, keys: str, **said: Any) -> None:
    for key in keys:
        (task,) = agent.claim(1)
        assert task.key == key
        result = {"score": task.payload["n"], "mol": mol_block("CCO")}
        assert agent.report(task, "done", result=result, **said) == "accepted"


def test_each_result_has_its_recipe(mixed: Campaign, taskq: CommandLine) -> None:
    """In Python, and in what commands print."""
    assert {result.key: result.recipe for result in mixed.results()} == RECIPES
    assert {row["key"]: row["recipe"] for row in taskq.json("results", "/c")} == RECIPES
    assert taskq.out("results", "/c").count("RECIPE") == 1
    events = taskq.json("history", "/c", "c")
    assert [(event["what"], event["recipe"]) for event in events] == [
        ("claimed", None),
        ("done", 2),
        ("done", None),
    ]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet"])
def test_exports_have_a_column_of_recipes(
    suffix: str, mixed: Campaign, taskq: CommandLine, tmp_path: Path
) -> None:
    """Empty where nobody knows it."""
    to = tmp_path / f"results.{suffix}"
    taskq.out("export", mixed.path, "--to", to)
    if suffix == "csv":
        rows = [*csv.DictReader(io.StringIO(to.read_text()))]
        assert {row["key"]: row["recipe"] for row in rows} == {
            key: "" if recipe is None else str(recipe) for key, recipe in RECIPES.items()
        }
        return
    if suffix == "parquet":
        rows = pytest.importorskip("pyarrow.parquet").read_table(to).to_pylist()
    elif suffix == "json":
        rows = json.loads(to.read_text())
    else:
        rows = [*map(json.loads, to.read_text().splitlines())]
    assert {row["key"]: row["recipe"] for row in rows} == RECIPES


def test_molecules_of_other_recipes_than_the_first_say_so(
    mixed: Campaign, taskq: CommandLine, tmp_path: Path
) -> None:
    """A file of a campaign that never changed is as it was."""
    to = tmp_path / "hits.sdf"
    words = ["--pose-field", "result.mol", "--where", "key in ('a', 'c', 'e')"]
    taskq.out("export", mixed.path, "--to", to, *words)
    fields = [fields for _, fields in read(to.read_bytes())]
    assert [row.get("recipe") for row in fields] == [None, "2", "unknown"]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("recipe < 2", "ab"),
        ("recipe <= 2 and result.score > 0", "bcdf"),
        ("recipe != 2", "abe"),
        ("recipe = null", "e"),
        ("recipe in (1, 3)", "ab"),
        ("not recipe < 2", "cdef"),
    ],
)
def test_filters_know_recipes(where: str, keys: str, mixed: Campaign, taskq: CommandLine) -> None:
    """Nobody knows that of e, so that it is less than nothing, and not 2."""
    assert "".join(result.key for result in mixed.results(where=where)) == keys
    listed = taskq.json("tasks", "/c", "--where", where)
    assert "".join(sorted(task["key"] for task in listed)) == keys


def test_retry_by_recipe_withdraws_just_these_results(mixed: Campaign, taskq: CommandLine) -> None:
    """They are computed again by the recipe that the campaign has now."""
    taskq.out("retry", "/c", "--where", "recipe < 2 and status = done", "--yes")
    assert {result.key for result in mixed.results()} == {*"cdef"}
    assert {mixed.task(key).status for key in "ab"} == {"waiting"}
    assert [attempt.recipe for attempt in mixed.attempts("a")] == [1]


def test_retry_of_failed_tasks_knows_the_recipe_of_their_last_attempt(
    mixed: Campaign, hire: Hire
) -> None:
    """Earlier ones do not count."""
    mixed.seed(Seed({"n": 9}, key) for key in "gh")
    agent = hire()
    for recipe in (2, None):
        (task,) = agent.claim(1)
        said = {} if recipe is None else {"recipe": recipe}
        assert agent.report(task, "failed", retry=False, **said) == "accepted"
    assert mixed.retry(where="recipe < 2") == 1
    assert [mixed.task(key).status for key in "gh"] == ["failed", "waiting"]


@pytest.mark.parametrize("indexed", [False, True])
def test_best_of_a_recipe_leaves_out_all_others(
    indexed: bool, mixed: Campaign, queue: Client, taskq: CommandLine
) -> None:
    """An index, which does not know recipes, changes nothing."""
    if indexed:
        mixed.index("result.score")
    ended = taskq("results", "/c", "--best", 2, *BY_SCORE, "--recipe", 2, "-o", "jsonl")
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ([row["key"] for row in found], ended.stderr) == (["c", "d"], "")
    best = queue.best("/c", by="result.score", percent=50, recipe=2)
    assert [result.key for result in best] == ["c", "d"]
    assert best.ranked == 3
    groups = queue.best("/c", by="result.score", n=9, group="payload.pair", recipe=2)
    assert [result.key for result in groups] == ["c", "f"]
    assert [*queue.best("/c", by="result.score", n=3, recipe=7)] == []


def test_best_of_several_recipes_says_so_once(
    mixed: Campaign, queue: Client, taskq: CommandLine
) -> None:
    """In whatever form; the best of one, and of a campaign that never changed, do not."""
    said = (
        "Results of several recipes of /c, such as 1 and 2, are ranked together; "
        "--recipe N ranks one: taskq campaign changes /c\n"
    )
    for form in ("table", "jsonl"):
        words = ("results", "/c", "--best", 6, *BY_SCORE)
        assert taskq(*words, "-o", form).stderr == said
    assert taskq("results", "/c", "--best", 2, *BY_SCORE).stderr == ""
    exported = taskq("export", mixed.path, "--best", 3, *BY_SCORE)
    assert exported.stderr == said
    queue.create_campaign(CampaignSpec("/next", handler=TRUE))
    seeded = taskq("seed", "/next", "--from", "/c", "--best", 3, *BY_SCORE)
    assert said in seeded.stderr
    refused = taskq("results", "/c", "--recipe", 2)
    assert "`--where 'recipe = 2'`" in refused.stderr


def test_page_of_the_best_knows_their_recipes(mixed: Campaign, queue: Client) -> None:
    """It has a column of them if they differ."""
    hits = read_hits(queue.database, mixed.campaign_id, "score", ascending=True)
    assert hits is not None
    assert [(hit.key, hit.recipe) for hit in hits.best] == [*RECIPES.items()]


def test_pages_of_results_do_not_look_for_agents_while_there_is_one_recipe(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """The rule is inlined: its function is never called, so no result pays for it."""
    campaign = queue.create_campaign(CampaignSpec("/d", handler=TRUE))
    campaign.seed([Seed({"n": 1}, "a")])
    agent = hire("/d")
    do(agent, "a")
    query = "explain (verbose) select * from taskq.results_page_of(%s, 0, 10)"
    rows = postgres.execute(query, [campaign.campaign_id]).fetchall()
    plan = "\n".join(row["QUERY PLAN"] for row in rows)
    assert "ran_recipe(" not in plan
    assert "CASE WHEN (p.recipe IS NOT NULL)" in plan
