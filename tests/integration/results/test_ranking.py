"""The best of many results: as if all were fetched and sorted, but in bounded memory."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from taskq import Campaign, Client
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.files.large_results import Fetching
from taskq.model.errors import ResultLost, UsageError
from taskq.results import ranking
from taskq.results.group_ranking import GroupRanking
from taskq.results.ranking import Best, Ranking, dotted
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres

pytestmark = pytest.mark.both_transports

FIELDS = ("result.score", "result.a.b", "result.a.b.c", "payload.n", "phases.run_s", "result.a.0")
FIELDS += ("task_id", "attempt", "ended_at", "result.", "result", "key", "nope", "attempt.x")
VALUES: tuple[Any, ...] = (
    *(
        0,
        0.0,
        -0.0,
        1,
        1.0,
        2,
        -7,
        0.1,
        -7.25,
        1e300,
        -1e-300,
        10**30,
        10**30 + 1,
        9007199254740993,
    ),
    *(None, True, False, "3", "NaN", "", [1], {"b": 4}, {"b": {"c": 5}}, {"b.c": 6}, {}),
)


@pytest.mark.parametrize("seed", range(4))
def test_best_are_those_that_sorting_all_gives(
    seed: int, queue: Client, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of random results in two campaigns, by any field, both ways, equal ones in their order."""
    monkeypatch.setattr(ranking, "PAGE", 3)
    chance = random.Random(seed)
    campaigns = [queue.create_campaign(path) for path in ("/c/a", "/c/b")]
    for campaign in campaigns:
        campaign.seed({"n": n, "x": chance.choice(VALUES)} for n in range(40))
        fill(postgres, campaign, chance)
    found = [record for campaign in campaigns for record in records(campaign)]
    for field in FIELDS:
        for ascending in (False, True):
            top = chance.choice((1, 2, 7, 1_000))
            expected, without = sorted_all(found, top, field, ascending=ascending)
            it = Ranking(
                *(queue.queries, Fetching(queue.queries), top, field),
                ascending=ascending,
                scan=chance.choice((1, 7, 1_000)),
            )
            for campaign in campaigns:
                it.look(campaign)
            assert it.left_out == without, field
            if not expected:
                with pytest.raises(UsageError, match="task_id"):
                    it.best()
                continue
            best = [(campaign.path, asdict(result)) for campaign, result in it.best()]
            assert best == expected, (field, ascending, top)


def test_large_results_are_ranked_by_what_they_are(
    queue: Client, campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """Not by the reference; one that is lost is left out, and ranked raw it is what it is."""
    campaign.seed({"n": n} for n in range(4))
    agent = hire()
    blobs = open_blobs(queue.queries)
    small, large, larger, lost = agent.claim(4)
    agent.done(small, {"score": 2})
    for task, score in ((large, 1), (larger, 3)):
        agent.done(task, stored(blobs, tmp_path, {"score": score}))
    agent.done(lost, {"taskq_blob": {"digest": "0" * 64, "size": 7}})
    missed: list[ResultLost] = []

    def best(field: str, **words: Any) -> tuple[list[Any], int]:
        it = Ranking(queue.queries, Fetching(queue.queries, **words), 3, field)
        it.look(campaign)
        return [result.payload["n"] for _, result in it.best()], it.left_out

    assert best("result.score", on_lost=missed.append) == ([2, 0, 1], 1)
    assert len(missed) == 1
    assert best("result.taskq_blob.size", raw=True)[1] == 1
    assert best("payload.n", raw=True) == ([3, 2, 1], 0)


def test_large_result_has_the_numbers_that_a_small_one_has(
    queue: Client, campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """Also those that no double can be."""
    numbers = (10**309 - 1, 1 - 10**309, 10**309, -(10**309))
    campaign.seed({"n": n} for n in range(8))
    agent = hire()
    blobs = open_blobs(queue.queries)
    claimed = agent.claim(8)
    for place, task in enumerate(claimed):
        result = {"score": numbers[place // 2]}
        agent.done(task, stored(blobs, tmp_path, result) if place % 2 else result)
    it = Ranking(queue.queries, Fetching(queue.queries), 8, "result.score")
    it.look(campaign)
    assert [result.payload["n"] for _, result in it.best()] == [0, 1, 2, 3]
    assert (it.ranked, it.left_out) == (4, 4)
    best = Best("result.score", n=8, group="payload.n")
    with GroupRanking(queue.queries, Fetching(queue.queries), best) as groups:
        groups.look(campaign)
        found = [task for _, task in groups.best()]
    assert found == [claimed[n].task for n in (2, 3, 0, 1)]
    assert groups.left_out == 4


def fill(postgres: Postgres, campaign: Campaign, chance: random.Random) -> None:
    """Let most tasks have a result, some after a failure or two, some none."""
    postgres.execute(
        "insert into taskq.session (key, campaign_id, opened_at, heartbeat_at, lease_s, slots, pid,"
        "  agent, host, site, release)"
        " values (gen_random_uuid(), %s, now(), now(), 60, 1, 1, 'a', 'h', 's', '')",
        [campaign.campaign_id],
    )
    for task in list(campaign.tasks()):
        tries = chance.choice((0, 1, 1, 2, 3))
        for attempt in range(1, tries + 1):
            result = chance.choice((None, random_result(chance), random_result(chance)))
            postgres.execute(
                "insert into taskq.attempt (campaign_id, task_id, attempt, lease_id, session_id,"
                "  claimed_at, ended_at, outcome, phases, result)"
                " select %s, %s, %s, gen_random_uuid(), max(session_id), now(),"
                "        now() + %s * interval '1 microsecond', %s, %s, %s from taskq.session",
                [
                    *(campaign.campaign_id, task.task_id, attempt, chance.randrange(5)),
                    "done" if attempt == tries else "failed",
                    json.dumps(chance.choice((None, {}, {"run_s": chance.randrange(4) / 4}))),
                    None if result is None else json.dumps(result),
                ],
            )


def random_result(chance: random.Random) -> dict[str, Any]:
    """Return a result that may have what is asked for, in more than one place."""
    names = ("score", "a", "a.b", "a.b.c", "", "b")
    return {name: chance.choice(VALUES) for name in chance.sample(names, chance.randrange(5))}


def records(campaign: Campaign) -> list[tuple[str, dict[str, Any]]]:
    """Return all results of a campaign."""
    return [(campaign.path, asdict(result)) for result in campaign.results()]


def sorted_all(
    found: list[tuple[str, dict[str, Any]]], top: int, field: str, *, ascending: bool
) -> tuple[list[tuple[str, dict[str, Any]]], int]:
    """Return the best, and how many have no value: slowly, of all at once, in plain Python."""
    ranked = [(number(dotted(record, field)), path, record) for path, record in found]
    valued = [it for it in ranked if it[0] is not None]
    # Sorting keeps the order of equal ones, also backwards.
    valued.sort(key=lambda it: it[0], reverse=not ascending)
    return [(path, record) for _, path, record in valued[:top]], len(ranked) - len(valued)


def number(value: object) -> Any:
    """Return what a value is ranked by; None: nothing."""
    if isinstance(value, datetime):
        return value.timestamp()
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def stored(blobs: BlobStore, folder: Path, result: Mapping[str, Any]) -> dict[str, Any]:
    """Store a result as a blob; return the reference to it."""
    file = folder / "result.json"
    file.write_text(json.dumps(result))
    digest, size = blobs.put(file)
    return {"taskq_blob": {"digest": digest, "size": size}}


def test_campaign_says_once_which_results_are_best(
    taskq: CommandLine, campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """Options take precedence, and another field needs a direction."""
    path = campaign.path
    campaign.seed({"n": n} for n in range(5))
    agent = hire()
    for task in agent.claim(5):
        n = task.payload["n"]
        agent.done(task, {"score": -n, "deep": {"rank": 10 - n}})
    taskq.out("campaign", "change", path, "--best-result", "lowest result.score")
    assert campaign.spec().best == "lowest result.score"
    ranked = ("results", path, "--best", 2)
    assert [record["result"]["score"] for record in taskq.json(*ranked)] == [-4, -3]
    by_score = (*ranked, "--by", "result.score")
    assert [record["result"]["score"] for record in taskq.json(*by_score)] == [-4, -3]
    assert [record["result"]["score"] for record in taskq.json(*ranked, "--highest")] == [0, -1]
    code, error = taskq.refused(*ranked, "--by", "result.deep.rank")
    assert (code, "which result.deep.rank is best?" in error) == (2, True), error

    table = tmp_path / "best.csv"
    taskq.out("export", path, "--best", 1, "--columns", "result.score", "--to", table)
    assert table.read_text().split() == ["result.score", "-4"]
    taskq.out("campaign", "create", "/next")
    taskq.out("seed", "/next", "--from", path, "--best", 1, "--so-far")
    assert [record["payload"]["n"] for record in taskq.json("tasks", "/next")] == [4]

    taskq.out("campaign", "change", path, "--best-result", "none")
    assert taskq.refused(*ranked)[0] == 2
    code, error = taskq.refused("campaign", "change", path, "--best-result", "score")
    assert (code, "lowest FIELD" in error) == (2, True), error
