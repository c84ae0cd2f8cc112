"""Results since a cursor: each once, whenever its transaction commits, whatever dies."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Campaign, Client, Conflict, Cursor, Seed, UsageError
from taskq.db.catalogue import statement
from taskq.db.connections import Database
from taskq.results import following
from tests.fixtures.queues import Hire
from tests.helpers.meanwhile import meanwhile
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of

pytestmark = pytest.mark.both_transports


@contextmanager
def uncommitted(dsn: str) -> Iterator[Postgres]:
    """Give a connection whose transaction commits when the block ends."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        yield connection


def report(connection: Postgres, task: Claimed, outcome: str = "done", **details: Any) -> None:
    """Report an attempt on a connection of one's own."""
    words = dict.fromkeys(("sessions", "leases", "wants"))
    reports = json.dumps([report_of(task, outcome, **{"result": {}, **details})])
    answer = connection.execute(
        statement("exchange"), {"campaign": task.campaign, "reports": reports, **words}
    ).fetchone()
    assert answer is not None
    assert answer["acks"] == ["accepted"]


def keys(campaign: Campaign, cursor: Cursor) -> list[str]:
    """Return the keys of the results that a cursor does not have, and have it take them in."""
    return [result.key for result in campaign.results(since=cursor)]


def test_cursor_misses_no_results_that_commit_late(
    campaign: Campaign, hire: Hire, dsn: str
) -> None:
    """Ids and ends of attempts precede those that were given; the commit follows them."""
    campaign.seed(Seed({}, f"t{n}") for n in range(4))
    agent, cursor = hire(), Cursor()
    first, second, third, fourth = agent.claim(2) + agent.claim_singly(2)
    with uncommitted(dsn) as late, uncommitted(dsn) as later:
        report(late, first)
        report(later, third)
        agent.done(fourth)
        assert keys(campaign, cursor) == ["t3"]
        late.commit()
        assert keys(campaign, cursor) == ["t0"]
        agent.done(second)
    assert keys(campaign, cursor) == ["t1", "t2"]
    assert keys(campaign, cursor) == []


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_each_result_is_given_once_whatever_the_order(
    queue: Client, hire: Hire, dsn: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Of several campaigns, with failures, retries and late commits, in however small steps."""
    chance = random.Random(seed)
    monkeypatch.setattr(following, "GAPS", chance.choice((1, 2, 1_000)))
    monkeypatch.setattr(following, "SCAN", chance.choice((1, 2, 3, 5_000)))
    top = queue.create_campaign("/w")
    for path in ("/w", "/w/a", "/w/b"):
        queue.create_campaign(path).seed(Seed({}, f"{path}{n}") for n in range(12))
    agents = [hire(path) for path in ("/w", "/w/a", "/w/b")]
    held: list[tuple[ScriptedAgent, Claimed]] = []
    cursor, given = Cursor(), Counter[str]()
    for _ in range(60):
        with ExitStack() as open_ones:
            for agent in agents:
                claim = chance.choice((agent.claim, agent.claim_singly))
                held += [(agent, task) for task in claim(chance.choice((1, 3)))]
            chance.shuffle(held)
            late = open_ones.enter_context(uncommitted(dsn))
            for _ in range(min(len(held), chance.randrange(4))):
                agent, task = held.pop()
                outcome = {"error_class": "x", "error": "", "retry": True}
                match chance.randrange(4):
                    case 0 if task.attempt < 3:
                        agent.release(task, started=True)
                    case 1 if task.attempt < 3:
                        report(late, task, "failed", **outcome)
                    case 2:
                        report(late, task)
                    case _:
                        agent.done(task)
            given.update(keys(top, cursor))
        cursor = Cursor.of_text(cursor.text)
        top.retry(status="failed")
    for agent, task in held:
        agent.done(task)
    given.update(keys(top, cursor))
    assert given == Counter(result.key for result in top.results())
    assert set(given.values()) == {1}
    assert len(cursor) == len(given) > 20


def test_results_far_apart_are_given_in_order(campaign: Campaign, hire: Hire) -> None:
    """A page of few among many tasks is read another way than one of many."""
    campaign.seed(Seed({"n": n}, f"t{n}") for n in range(200))
    agent = hire()
    held = agent.claim(200)
    for number in (199, 0, 90):
        agent.done(held[number], {"from": number})
    found = [(result.key, result.payload, result.result) for result in campaign.results()]
    assert found == [(f"t{n}", {"n": n}, {"from": n}) for n in (0, 90, 199)]


def test_result_counts_as_given_when_the_next_is_asked_for(campaign: Campaign, hire: Hire) -> None:
    """One that its taker failed at comes again."""
    campaign.seed(Seed({}, f"t{n}") for n in range(4))
    agent, cursor = hire(), Cursor()
    for task in agent.claim(4):
        agent.done(task)
    results = campaign.results(since=cursor)
    assert [next(results).key for _ in range(3)] == ["t0", "t1", "t2"]
    del results
    assert len(cursor) == 2
    assert keys(campaign, cursor) == ["t2", "t3"]


@pytest.mark.thorough
def test_following_gives_each_result_once_and_ends(
    campaign: Campaign, hire: Hire, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While two agents work, one of which commits late, and after the last of them."""
    monkeypatch.setattr(following, "POLL_S", 0.01)
    campaign.seed(Seed({}, f"t{n}") for n in range(300))
    campaign.seed([Seed({}, "fails")])
    agents = [hire(), hire()]

    def work(agent: ScriptedAgent, end: Callable[[Claimed], object]) -> None:
        while claimed := agent.claim(7):
            for task in claimed:
                if task.key == "fails":
                    agent.fail(task, retry=False)
                else:
                    end(task)

    def late(task: Claimed) -> None:
        with uncommitted(dsn) as connection:
            report(connection, task)
            paused.wait(0.005)

    paused = threading.Event()
    cursor = Cursor()
    with meanwhile(
        lambda _: work(agents[0], agents[0].done),
        lambda _: work(agents[1], late),
    ):
        found = [result.key for result in campaign.follow(cursor)]
    assert Counter(found) == Counter(f"t{n}" for n in range(300))
    assert len(cursor) == 300
    assert list(campaign.follow(cursor)) == []


def test_cursor_is_for_one_campaign(queue: Client, campaign: Campaign, tmp_path: Path) -> None:
    """Ids of another's tasks would hide results."""
    cursor = Cursor()
    assert keys(campaign, cursor) == []
    cursor.write(tmp_path / "c")
    cursor = Cursor.read(tmp_path / "c")
    other = queue.create_campaign("/d")
    with pytest.raises(Conflict, match="of /c, not of /d"):
        other.results(since=cursor)
    campaign.remove()
    with pytest.raises(Conflict, match="begin with a new cursor"):
        queue.create_campaign("/c").results(since=cursor)
    with pytest.raises(UsageError, match="leave out where"):
        other.results(since=Cursor(), where="attempt = 1")


def test_cursor_is_valid_in_every_time_zone(
    campaign: Campaign, hire: Hire, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL tells times in that of the session; earlier releases wrote them so."""
    campaign.submit({}, "a")
    agent = hire()
    agent.done(*agent.claim())
    cursor = Cursor()
    assert keys(campaign, cursor) == ["a"]
    for zone, offset in (("Asia/Tokyo", 9), ("America/Lima", -5)):
        monkeypatch.setenv("PGTZ", zone)
        with Client(Database(dsn).open()) as there:
            assert keys(there.campaign("/c"), cursor) == []
            new = Cursor()
            assert keys(there.campaign("/c"), new) == ["a"]
            assert new.text == cursor.text
        value = json.loads(cursor.text)
        created_at = datetime.fromisoformat(value["created_at"])
        value["created_at"] = created_at.astimezone(timezone(timedelta(hours=offset))).isoformat()
        assert keys(campaign, Cursor.of_text(json.dumps(value))) == []


HEAD = '{"taskq_cursor":1,"campaign":"/c","created_at":"2026-11-22T01:02:03+00:00","given":'


@pytest.mark.parametrize(
    "text",
    [
        *("x", "{}", "[]", "null", "\0", "\ufffd", '{"taskq_cursor":2}', "[" * 100_000),
        *(HEAD, f'{HEAD}{{"1":[0]}}}}', f'{HEAD}{{"1":[1,0]}}}}', f'{HEAD}{{"1":[1,-1]}}}}'),
        *(f'{HEAD}{{"1":[1,1,0,1]}}}}', f'{HEAD}{{"1":[-1,1]}}}}', f'{HEAD}{{"1":[1,true]}}}}'),
        *(f'{HEAD}{{"1":[1,{2**63}]}}}}', f'{HEAD}{{"1":7}}}}', f'{HEAD}{{"x":[]}}}}'),
        *(f'{HEAD}{{"1":[{"9" * 5000},1]}}}}', f"{HEAD}{{}}}}".replace("T01", "x")),
    ],
    ids=lambda text: repr(text[-30:]),
)
def test_malformed_cursor_is_refused(text: str, tmp_path: Path) -> None:
    """Also one that is nearly right: it would leave out results, or repeat them."""
    with pytest.raises(UsageError):
        Cursor.of_text(text)
    (tmp_path / "c").write_text(text)
    with pytest.raises(UsageError, match="name another file"):
        Cursor.read(tmp_path / "c")


def test_missing_or_empty_file_is_a_new_cursor(tmp_path: Path) -> None:
    """As mktemp makes one."""
    assert Cursor.read(tmp_path / "none").text == Cursor().text
    (tmp_path / "empty").touch()
    assert len(Cursor.read(tmp_path / "empty")) == 0
    with pytest.raises(UsageError, match="cannot be read"):
        Cursor.read(tmp_path)
