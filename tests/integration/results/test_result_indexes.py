"""Indexes of results: the best are those of a scan, whatever is taken in, and when."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from taskq import Campaign, Client, Conflict, NotFound, Seed, UsageError
from taskq.campaign import indexes as indexing
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from taskq.files.large_results import Fetching
from taskq.results.ranking import Ranking
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.both_transports

VALUES: tuple[Any, ...] = (0, 1, 1.0, -7.25, -7, 10**30, 1e-300, None, "3", True, [1], {"b": 4})
#: More digits than an index can hold, which cannot be compressed.
DIGITS = "".join(random.Random(0).choices("123456789", k=9_000))


def best(
    queue: Client, campaign: Campaign, field: str, *, top: int = 7, ascending: bool = False
) -> tuple[list[str], int, int]:
    """Return the keys of the best results, how many are ranked, and how many are not."""
    ranking = Ranking(queue.queries, Fetching(queue.queries), top, field, ascending=ascending)
    ranking.look(campaign)
    keys = [] if not ranking.ranked else [result.key for _, result in ranking.best()]
    return keys, ranking.ranked, ranking.left_out


def rank_count(postgres: Postgres) -> int:
    """Return how many numbers are kept in all indexes."""
    return int(value(postgres, "select count(*) from taskq.result_rank"))


def keep(database: Database) -> None:
    """Do a round of upkeep."""
    holder = "00000000-0000-4000-8000-000000000000"
    database.rows("keep", holder=holder, term_s=60.0)


@pytest.mark.thorough
@pytest.mark.parametrize("field", rest_thorough(["result.a", "result.a.b", "payload.n"], 2))
@pytest.mark.parametrize("seed", range(3))
def test_best_of_an_index_are_those_of_a_scan(
    queue: Client,
    campaign: Campaign,
    hire: Hire,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    field: str,
) -> None:
    """In both directions, with ties, values that are no numbers, failures and retries between.

    Retries of done tasks too, whose results the index forgets.
    """
    chance = random.Random(seed)
    monkeypatch.setattr(indexing, "SCAN", chance.choice((1, 3, 50)))
    campaign.seed(Seed({"n": chance.choice(VALUES)}, f"t{n}") for n in range(90))
    agent = hire()
    used = 0
    for _ in range(6):
        done = [result.key for result in campaign.results()]
        campaign.retry(status="done", keys=chance.sample(done, min(4, len(done))))
        held = agent.claim(chance.randrange(8, 20))
        chance.shuffle(held)
        for task in held:
            if chance.random() < 0.3 and task.attempt < 3:
                agent.fail(task, retry=False)
            else:
                agent.done(task, {"a": chance.choice(VALUES)})
        for ascending in (False, True):
            top = chance.choice((1, 3, 200))
            without = best(queue, campaign, field, top=top, ascending=ascending)
            campaign.index(field)
            (made,) = campaign.indexes()
            assert made.complete
            assert (made.ranked, made.seen - made.ranked) == without[1:]
            assert best(queue, campaign, field, top=top, ascending=ascending) == without
            used += 1
        spans = "select count(*) from taskq.result_span a join taskq.result_span b"
        spans += " on b.first_id between a.first_id + 1 and a.last_id + 1"
        assert value(postgres, spans) == 0
        campaign.retry(status="failed")
    assert used == 12
    assert rank_count(postgres) == made.ranked


def test_index_that_lacks_a_result_is_not_asked(
    queue: Client, campaign: Campaign, hire: Hire, database: Database
) -> None:
    """The best are exact at any moment; the keeper takes in what has come."""
    campaign.seed(Seed({}, f"t{n}") for n in range(3))
    agent = hire()
    first, second, third = agent.claim(3)
    agent.done(third, {"a": 5})
    campaign.index("result.a")
    agent.done(first, {"a": 9})
    assert not campaign.indexes()[0].complete
    assert best(queue, campaign, "result.a") == (["t0", "t2"], 2, 0)
    keep(database)
    assert campaign.indexes()[0].complete
    agent.done(second, {"a": 7})
    keep(database)
    assert best(queue, campaign, "result.a") == (["t0", "t1", "t2"], 3, 0)


def test_index_is_asked_instead_of_the_results(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """What the index says is what is found, of several campaigns too."""
    other = queue.create_campaign("/c/d")
    for served in (campaign, other):
        served.seed(Seed({}, f"{served.path}{n}") for n in range(3))
        agent = hire(served.path)
        for number, task in enumerate(agent.claim(3)):
            agent.done(task, {"a": number})
    campaign.index("result.a")
    postgres.execute("update taskq.result_rank set rank = 1.5 where rank = 0")
    ranking = Ranking(queue.queries, Fetching(queue.queries), 4, "result.a")
    for served in (other, campaign):
        ranking.look(served)
    found = [result.key for _, result in ranking.best()]
    assert found == ["/c/d2", "/c2", "/c0", "/c/d1"]


@pytest.mark.parametrize("ascending", [False, True])
def test_number_of_thousands_of_digits_is_none(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres, *, ascending: bool
) -> None:
    """With an index and without; all that a double can be is one, and what is little longer."""
    numbers = ["1e308", f"-{'9' * 309}", "5e-324", f"0.{DIGITS[:1000]}"]
    numbers += [DIGITS, f"-{DIGITS}", f"0.{DIGITS}", "1e309", "-1e309", f"0.{DIGITS[:1001]}"]
    campaign.seed(Seed({}, f"t{n}") for n in range(10))
    agent = hire()
    for task, number in zip(agent.claim(10), numbers, strict=True):
        agent.done(task, {})
        said = "update taskq.attempt set result = %s where task_id = %s"
        postgres.execute(said.encode(), [f'{{"a": {number}}}', task.task])
    without = best(queue, campaign, "result.a", ascending=ascending)
    order = ["t1", "t2", "t3", "t0"]
    assert without == (order if ascending else order[::-1], 4, 6)
    campaign.index("result.a")
    assert campaign.indexes()[0].complete
    assert best(queue, campaign, "result.a", ascending=ascending) == without


def test_index_that_cannot_be_kept_holds_up_no_other(
    campaign: Campaign, hire: Hire, database: Database, postgres: Postgres
) -> None:
    """Of its own campaign or of another; whatever it is that is wrong with it."""
    campaign.seed([Seed({}, "t")])
    names = [f"a{n}" for n in range(4)]
    for name in names:
        campaign.index(f"result.{name}")
    agent = hire()
    (task,) = agent.claim(1)
    agent.done(task, dict.fromkeys(names, 7))
    postgres.execute(
        "insert into taskq.result_rank (index_id, rank, task_id)"
        " select index_id, 7, %s from taskq.result_index where name = 'a1'",
        [task.task],
    )

    def are_complete() -> bool:
        keep(database)  # a round does what it can in 100 ms
        found = {index.field: index.complete for index in campaign.indexes()}
        return found == {f"result.{name}": name != "a1" for name in names}

    wait_until(are_complete)


def test_large_results_are_ranked_by_their_content(
    queue: Client, campaign: Campaign, hire: Hire, tmp_path: Path
) -> None:
    """The database does not know it, so such an index serves only who ranks references."""
    (tmp_path / "large").write_text('{"a": 7}')
    digest, size = open_blobs(queue.queries).put(tmp_path / "large")
    campaign.seed(Seed({}, f"t{n}") for n in range(2))
    agent = hire()
    task, other = agent.claim(2)
    agent.done(task, {"a": 1})
    agent.done(other, {"taskq_blob": {"digest": digest, "size": size}})
    campaign.index("result.a")
    (made,) = campaign.indexes()
    assert (made.seen, made.ranked, made.large) == (2, 1, 1)
    assert best(queue, campaign, "result.a") == (["t1", "t0"], 2, 0)


def test_indexes_are_bounded_and_dropped(
    queue: Client, campaign: Campaign, hire: Hire, database: Database, postgres: Postgres
) -> None:
    """The keeper removes what they took, also with their campaign."""
    campaign.seed(Seed({}, f"t{n}") for n in range(30))
    agent = hire()
    for task in agent.claim(30):
        agent.done(task, {f"n{n}": n for n in range(16)})
    for number in range(16):
        campaign.index(f"result.n{number}")
    with pytest.raises(Conflict, match="16 indexes"):
        campaign.index("result.n16")
    campaign.index("result.n15")
    assert campaign.drop_index("result.n3")
    assert not campaign.drop_index("result.n3")
    assert len(campaign.indexes()) == 15
    keep(database)
    assert rank_count(postgres) == 15 * 30
    campaign.index("result.n3")
    campaign.cancel()
    queue.queries.rows("remove_tasks", campaign=campaign.campaign_id, after=0, limit=1)
    assert campaign.indexes() == []  # what is left may be resumed, and get other tasks
    campaign.remove()
    keep(database)
    assert rank_count(postgres) == 0
    assert value(postgres, "select count(*) from taskq.result_span") == 0
    assert value(postgres, "select count(*) from taskq.result_index") == 0
    assert queue.create_campaign("/c").indexes() == []


@pytest.mark.parametrize(
    "field",
    ["", "result", "result.", "score", "task_id", "nope.x", "error.x", f"result.{'x' * 256}"],
)
def test_field_that_cannot_be_indexed_is_refused(campaign: Campaign, field: str) -> None:
    """Also by the SQL function itself; a name is data, whatever is in it."""
    with pytest.raises(UsageError):
        campaign.index(field)
    name = "result.a'\"; drop table taskq.attempt; --\x1b[31m"
    campaign.index(name)
    assert [index.field for index in campaign.indexes()] == [name]


def test_command_indexes_lists_and_drops(
    taskq: CommandLine, campaign: Campaign, hire: Hire
) -> None:
    """With one line for people, records for programs, and nothing that a terminal obeys."""
    campaign.seed(Seed({}, f"t{n}") for n in range(3))
    agent = hire()
    for number, task in enumerate(agent.claim(3)):
        agent.done(task, {"score": number} if number else {})
    words = ("campaign", "index", "/c")
    said = taskq.out(*words, "--by", "result.score")
    assert said.startswith("3 results of /c indexed by result.score, 1 without a number there. ")
    (listed,) = taskq.json(*words, "--list")
    assert (listed["field"], listed["seen"], listed["complete"]) == ("result.score", 3, True)
    assert (
        taskq.out("export", "/c", "--best", 1, "--by", "result.score", "--highest").count("t2") == 1
    )
    drop = (*words, "--by", "result.score", "--drop")
    assert "would be dropped" in taskq.out(*drop, "--dry-run")
    assert taskq.out(*drop).endswith(" is dropped.\n")
    assert taskq.refused(*drop, "--dry-run")[0] == 66
    assert taskq.refused(*words, "--by", "result.score", "--dry-run")[0] == 2
    assert taskq.refused(*words, "--by", "result.score", "--drop")[0] == 66
    assert taskq.refused(*words)[0] == 2
    assert taskq.refused(*words, "--list", "--by", "result.score")[0] == 2
    assert taskq.refused(*words, "--drop")[0] == 2
    assert taskq.refused(*words, "--by", "error.class")[0] == 2
    taskq.out(*words, "--by", "result.\x1b[31m")
    assert "\x1b" not in taskq.out(*words, "--list")


def test_index_is_for_an_own_campaign(campaign: Campaign) -> None:
    """Of one that is not there, there is none."""
    campaign.remove()
    with pytest.raises(NotFound):
        campaign.index("result.a")
