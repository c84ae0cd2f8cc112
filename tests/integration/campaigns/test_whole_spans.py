"""Tasks that are cancelled, retried and removed while they are packed: whole spans at a time.

Everybody sees them as cancelled, and nothing is lost when some of a span go another way.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest

from taskq import Campaign, Client, Seed
from taskq.db.connections import Database
from taskq.model.errors import Conflict
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, assert_counts_are_true, statuses, value
from tests.helpers.scripted_pool import ScriptedPool

pytestmark = pytest.mark.usefixtures("true_counts")

#: Two in each span.
TASKS = 40
KEYS = [f"k{n:02d}" for n in range(TASKS)]


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign of which all tasks are in spans."""
    campaign = servable(queue)
    campaign.seed(Seed({"n": n}, key) for n, key in enumerate(KEYS))
    return campaign


def spans(postgres: Postgres) -> dict[str, int]:
    """Return how many spans there are, by their status, and how many tasks have a row."""
    found = postgres.execute("select status::text from taskq.span").fetchall()
    in_rows: int = value(postgres, "select count(*) from taskq.task")
    return Counter(row["status"] for row in found) | {"rows": in_rows}


def removed(
    database: Database | Client, campaign: Campaign, limit: int, after: int = 0
) -> tuple[int, int | None]:
    """Remove a chunk of tasks; return how many, and the id to go on after."""
    queries = database.queries if isinstance(database, Client) else database
    words: dict[str, Any] = {"campaign": campaign.campaign_id, "after": after, "limit": limit}
    (row,) = queries.rows("remove_tasks", **words)
    return row["moved"], row["last"]


def test_cancelling_and_retrying_all_writes_spans_only(
    campaign: Campaign, postgres: Postgres, hire: Hire
) -> None:
    """As many as there are; the tasks of a span that is claimed from go with the others."""
    assert spans(postgres) == {"waiting": 20, "rows": 0}
    agent = hire()
    agent.claim(1)
    assert campaign.cancel() == 40
    assert spans(postgres) == {"cancelled": 20, "rows": 1}
    campaign.resume()
    assert agent.claim(8) == []
    assert campaign.retry(status="cancelled") == 40
    assert spans(postgres) == {"waiting": 20, "rows": 1}
    agent.forget_position()
    assert len(agent.claim(100)) == 40


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 20, 1000])
def test_chunks_of_spans_and_rows_leave_nothing_behind(
    limit: int,
    campaign: Campaign,
    postgres: Postgres,
    hire: Hire,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chunk ends in the spans before it ends in the rows, or the other way round."""
    agent = hire()
    agent.done(agent.claim(1)[0])
    apart = [KEYS[n] for n in (5, 20, 21, 22, 38)]
    assert campaign.cancel(apart) == campaign.retry(keys=apart, status="cancelled") == 5
    monkeypatch.setattr("taskq.db.access.MOVE_CHUNK", limit)
    assert campaign.cancel() == 39
    assert Counter(statuses(postgres).values()) == {"cancelled": 39, "done": 1}
    campaign.resume()
    assert campaign.retry(status="cancelled") == 39
    assert Counter(statuses(postgres).values()) == {"waiting": 39, "done": 1}


def test_span_that_claims_have_emptied_is_not_cancelled(
    campaign: Campaign, postgres: Postgres, hire: Hire
) -> None:
    """It goes, as with the next claim: nothing of it can be retried."""
    hire().claim_singly(2)
    assert spans(postgres) == {"waiting": 20, "rows": 2}
    assert campaign.cancel() == 40
    assert spans(postgres) == {"cancelled": 19, "rows": 2}


def test_everybody_sees_tasks_of_a_cancelled_span_as_cancelled(
    queue: Client, campaign: Campaign, database: Database, postgres: Postgres, hire: Hire
) -> None:
    """Whether they list, look for, count, explain, change or seed them, or would run them."""
    agent = hire()
    agent.done(agent.claim(1)[0])
    campaign.cancel()
    campaign.resume()
    rest = KEYS[1:]
    status = campaign.status()
    assert (status.waiting, status.done, status.cancelled) == (0, 1, 39)
    assert [task.key for task in campaign.tasks("cancelled")] == rest
    assert list(campaign.tasks("waiting")) == []
    assert Counter(task.status for task in campaign.tasks()) == {"cancelled": 39, "done": 1}
    for where in ('state = "cancelled"', 'state != "done"', "payload.n >= 1"):
        assert [task.key for task in campaign.tasks(where=where)] == rest, where
    assert list(campaign.tasks(where='state = "waiting"')) == []
    assert statuses(postgres) == dict.fromkeys(rest, "cancelled") | {KEYS[0]: "done"}
    task = campaign.task(KEYS[7])
    assert (task.status, task.attempt, campaign.attempts(KEYS[7])) == ("cancelled", 0, [])
    assert [reason.code for reason in campaign.explain(KEYS[7]).reasons] == ["cancelled"]
    ended = database.rows(
        "unsuccessful",
        campaign=campaign.campaign_id,
        tasks=[campaign.task(key).task_id for key in KEYS[:3]],
    )
    assert [row["status"] for row in ended] == ["cancelled"] * 2
    assert [result.key for result in campaign.results()] == KEYS[:1]
    outcome = campaign.prioritise(dict.fromkeys(KEYS, 5))
    assert (outcome.changed, outcome.not_waiting) == (0, 40)
    assert campaign.set_priority(5, where="payload.n >= 0") == 0
    assert campaign.cancel() == campaign.cancel(KEYS) == campaign.cancel(where="payload.n >= 0")
    campaign.resume()
    assert campaign.retry(error_class="exit-1", status="cancelled") == 0
    assert campaign.seed(Seed({"n": n}, key) for n, key in enumerate(KEYS)).known == 40
    counted = campaign.seed([Seed({}, KEYS[3])], on_conflict="keep-both")
    assert (counted.added, counted.conflicts) == (1, 1)
    assert campaign.cancel([f"{KEYS[3]}#2"]) == 1
    assert agent.claim(8) == []
    assert ScriptedPool(database, campaign.campaign_id).lease(8) == []
    assert list(queue.audit()) == []


@pytest.mark.parametrize("chosen", [[0], [19], [4, 5], [3, 8], list(range(0, 40, 3)), [0, 39]])
@pytest.mark.parametrize("one_span", [False, True], ids=["twenty spans", "one span"])
def test_retry_of_some_leaves_the_others_cancelled_and_packed(
    chosen: list[int],
    one_span: bool,
    campaign: Campaign,
    postgres: Postgres,
    hire: Hire,
) -> None:
    """Wherever in a span they are; a later retry finds the others."""
    if one_span:
        postgres.execute("delete from taskq.span")
        postgres.execute("select taskq.pack(%s, 0, p_parts => 1)", [campaign.campaign_id])
    campaign.cancel()
    campaign.resume()
    keys = [KEYS[n] for n in chosen]
    assert campaign.retry(keys=keys, status="cancelled", dry_run=True) == len(keys)
    assert campaign.retry(keys=keys, status="cancelled") == len(keys)
    assert campaign.retry(keys=keys, status="cancelled") == 0
    found = statuses(postgres)
    assert {key for key, status in found.items() if status == "waiting"} == set(keys)
    assert len(found) == TASKS
    assert "waiting" not in spans(postgres)
    assert [task.key for task in hire().claim(100)] == keys
    assert campaign.retry(status="cancelled", dry_run=True) == TASKS - len(keys)
    assert campaign.retry(status="cancelled") == TASKS - len(keys)
    assert Counter(statuses(postgres).values())["waiting"] == TASKS - len(keys)


@pytest.mark.parametrize("where", ["payload.n < 5", "attempts = 0", "payload.n in (3, 17, 39)"])
def test_retry_by_a_filter_finds_what_is_in_cancelled_spans(
    where: str, campaign: Campaign, postgres: Postgres
) -> None:
    """A dry run counts the same."""
    campaign.cancel()
    campaign.resume()
    matching = len(list(campaign.tasks(where=where)))
    assert campaign.retry(status="cancelled", where=where, dry_run=True) == matching
    assert campaign.retry(status="cancelled", where=where) == matching
    assert Counter(statuses(postgres).values())["waiting"] == matching


@pytest.mark.thorough
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 39, 40, 1000])
def test_removal_cuts_spans_where_a_chunk_ends(
    limit: int, queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """After each chunk the counts are true and the audit is clean; what is left can go on."""
    agent = hire()
    agent.done(agent.claim(3)[0])
    campaign.cancel([KEYS[20]])
    assert campaign.cancel() == 38
    after: int | None = 0
    gone = 0
    while after is not None:
        moved, after = removed(queue, campaign, limit, after)
        assert moved <= limit
        gone += moved
        assert_counts_are_true(postgres)
        assert list(queue.audit()) == []
        assert len(statuses(postgres)) == TASKS - gone
    assert gone == TASKS
    assert spans(postgres) == {"rows": 0}


@pytest.mark.parametrize("after_one_chunk", [True, False])
def test_removal_of_what_still_waits_takes_whole_spans(
    after_one_chunk: bool, queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Nobody has cancelled the tasks, and one of a span is claimed; what is left may be resumed."""
    agent = hire()
    agent.claim(3)
    postgres.execute("update taskq.campaign set status = 'cancelled' where path = '/c'")
    assert removed(queue, campaign, 10)[0] == 10
    if after_one_chunk:
        campaign.resume()
        agent.forget_position()
        assert [task.key for task in agent.claim(100)] == KEYS[10:]
        assert list(queue.audit()) == []
    assert campaign.remove() == 30
    assert spans(postgres) == {"rows": 0}


def test_removal_may_begin_anywhere(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Whatever a caller names, no part of a span or a bundle stays without its task."""
    ids = value(postgres, "select array_agg(task_id order by task_id) from taskq.spec")
    hire().claim(4)
    postgres.execute("update taskq.campaign set status = 'cancelled' where path = '/c'")
    for after in (ids[38], ids[30], ids[1], ids[2]):
        removed(queue, campaign, 3, after)
        assert_counts_are_true(postgres)
        assert list(queue.audit()) == []


@pytest.mark.parametrize("kind", ["spans", "rows", "attempts"])
def test_chunk_of_a_removal_does_not_walk_what_those_before_it_deleted(
    kind: str, campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """As long as a snapshot is held, all of that is there; the last chunk costs as the first."""
    campaign.seed(Seed({"n": n}, str(n)) for n in range(2_000))
    if kind != "spans":
        agent = hire()
        agent.exchange([])
        tasks = agent.claim(1_000) + agent.claim(1_000)
        if kind == "attempts":
            for task in tasks:
                agent.done(task)
    campaign.cancel()
    costs: list[int] = []
    after: int | None = 0
    with psycopg.connect(dsn) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select from taskq.spec limit 1")
        while after is not None:
            with watched(postgres) as seen:
                row = postgres.execute(
                    "select moved, last from taskq.remove_tasks(%s, %s, 100)",
                    [campaign.campaign_id, after],
                ).fetchone()
            assert row is not None
            after = row["last"]
            costs.append(seen.buffers)
    assert len(costs) > 20
    assert max(costs[1:-1]) < 1.5 * min(costs[1:-1]), costs


def test_tasks_of_cancelled_campaigns_wait_for_a_resume(campaign: Campaign) -> None:
    """Spans as well: a retry says what to do first."""
    campaign.cancel()
    for keys in (None, KEYS[:2]):
        with pytest.raises(Conflict, match="resume it before retrying"):
            campaign.retry(keys=keys, status="cancelled")


@pytest.mark.parametrize(
    "page",
    [
        "select task_id from taskq.tasks(%s, 'cancelled', %s, 2)",
        "select last from taskq.retry(%s, 'cancelled', null, null, %s, 2, true)",
    ],
    ids=["listed", "retry tried"],
)
def test_page_walks_no_spans_of_the_pages_before(
    campaign: Campaign, postgres: Postgres, page: str
) -> None:
    """The last page meets few spans; the first one may meet what it does not show."""
    campaign.cancel()
    campaign.resume()
    last = value(postgres, "select max(last_id) from taskq.span")
    with watched(postgres) as seen:
        postgres.execute(page.encode(), [campaign.campaign_id, last - 2])
    met = sum(access.rows for access in seen.accesses if access.table == "span")
    assert met <= 5, seen.accesses
