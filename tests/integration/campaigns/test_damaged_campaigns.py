"""Damaged campaigns, unreadable handlers, tasks at which the server fails: others go on."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any, Final

import pytest
from psycopg import sql

from taskq import Client, InvalidCampaign, Seed
from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from tests.fixtures.histories import BREACHES, History, in_task
from tests.fixtures.queues import Hire
from tests.helpers.batched_agents import SERVING, BatchedAgents
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, expire, promote, silence, value
from tests.helpers.waiting import wait_until

RECORDED: Final = """
    insert into taskq.attempt (campaign_id, task_id, attempt, lease_id, session_id, claimed_at,
                               ended_at, outcome)
    select campaign_id, task_id, attempt, lease_id, session_id, claimed_at,
           clock_timestamp(), 'released'
      from taskq.state where task_id = %(task)s
"""
UNCOUNTED: Final = """
    delete from taskq.counter c using taskq.task t
     where t.task_id = %(task)s and c.campaign_id = t.campaign_id
"""
#: The task, and what is done to it.
DAMAGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    **{name: (key, changes) for name, (_, key, changes) in BREACHES.items()},
    "an attempt that is recorded while it is at work": ("working", (RECORDED,)),
    "no time of the claim": ("working", (in_task(claimed_at="null"),)),
    "a spec and attempts without a task": (
        "failed",
        ("delete from taskq.task where task_id = %(task)s",),
    ),
    "no counter": (
        "waiting",
        (UNCOUNTED,),
    ),
    "attempts of nothing": (
        "retried",
        (
            "delete from taskq.task where task_id = %(task)s",
            "delete from taskq.spec where task_id = %(task)s",
        ),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("key", "changes"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_campaign_can_be_removed(
    queue: Client, history: History, dsn: str, key: str, changes: tuple[str, ...]
) -> None:
    """Nothing of it stays, and the audit of the rest is clean."""
    queue.create_campaign("/d").seed([{"n": 1}])
    history.breach(key, *changes)
    CommandLine(dsn).out("campaign", "rm", "/c", "--yes")
    for table in ("campaign", "spec", "task", "attempt", "counter", "delta"):
        left = f"select count(*) from taskq.{table} where campaign_id = %s"  # noqa: S608  # a word of this file
        assert value(history.postgres, left, history.campaign.campaign_id) == 0, table
    assert list(queue.audit()) == []
    assert queue.campaign("/").status().total == 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("changes", "ended"),
    [
        ((RECORDED,), ["released", "released"]),
        ((in_task(lease_id="null"),), ["released"]),
        ((in_task(session_id="null"),), ["released"]),
    ],
    ids=["recorded already", "no lease", "nobody's"],
)
def test_damaged_task_can_be_cancelled(
    queue: Client, history: History, dsn: str, changes: tuple[str, ...], ended: list[str]
) -> None:
    """What is recorded of it stays; work that nobody can have had is no attempt."""
    history.breach("working", *changes)
    CommandLine(dsn).out("cancel", "/c", "--key", "working")
    assert history.campaign.task("working").status == "cancelled"
    assert [attempt.outcome for attempt in history.campaign.attempts("working")] == ended
    assert list(queue.audit()) == []


@pytest.mark.thorough
def test_task_without_a_lease_does_not_stop_the_upkeep(
    queue: Client, history: History, hire: Hire
) -> None:
    """Neither its own session's other tasks nor those of others: all are handed out again."""
    history.campaign.seed([{"n": n} for n in range(2)])
    agent = hire()
    tasks = agent.claim(2)
    history.breach(tasks[0].key, in_task(lease_id="null"))
    silence(history.postgres, agent.session)
    expire(history.postgres)
    promote(history.postgres)
    for task in tasks:
        assert history.campaign.task(task.key).status == "waiting"
    assert list(queue.audit()) == []


def lose(postgres: Postgres, toast: str) -> None:
    """Lose what a table keeps apart, as a disk may."""
    postgres.execute("set allow_system_table_mods = on")
    kind = "update pg_class set relkind = %s where oid = %s::regclass"
    postgres.execute(kind, ["r", toast])
    postgres.execute(sql.SQL("delete from {}").format(sql.Identifier(*toast.split("."))))
    postgres.execute(kind, ["t", toast])

    def is_lost() -> bool:
        # Such a row is read until it is removed, which waits for transactions that may see it.
        postgres.execute("vacuum taskq.spec")
        return value(postgres, f"select pg_relation_size('{toast}') = 0") is True

    wait_until(is_lost)


async def test_campaign_whose_tasks_make_the_server_fail_keeps_no_other_waiting(
    queue: Client, database: Database, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """As one with a damaged payload: it is left out for a while, and one line says so."""
    campaign = servable(queue)
    campaign.seed([Seed({"n": n}, priority=1) for n in range(2)])
    damaged = servable(queue, "/c/damaged")
    noise = "".join(random.Random(n).choice("abcdefghij") for n in range(30_000))
    damaged.seed([Seed({"n": 7, "text": noise}, priority=9)])
    found = "select reltoastrelid::regclass from pg_class where oid = 'taskq.spec'::regclass"
    toast = value(postgres, found)
    lose(postgres, toast)
    members = BatchedAgents(database, 3)
    async with Batcher(database) as batcher:
        got: list[int] = []
        until = time.monotonic() + 60.0
        # Who finds a span locked takes the campaign for empty, for a second.
        while (len(got) < 2 or not caplog.records) and time.monotonic() < until:
            claims = (batcher.exchange(members.claim(number), SERVING) for number in range(3))
            answers = await asyncio.gather(*claims)
            got += [task.payload["n"] for answer in answers for task in answer.tasks]
        assert sorted(got) == [0, 1]
    assert damaged.status().waiting == 1
    lines = [
        record.getMessage() for record in caplog.records if "is left out" in record.getMessage()
    ]
    assert len(lines) == 1
    assert "for toast value" in lines[0]


HANDLERS: dict[str, dict[str, Any]] = {
    "no-kind": {},
    "strange-kind": {"kind": "spell"},
    "strange-field": {"kind": "command", "argv": ["true"], "colour": "red"},
    "no-program": {"kind": "command", "argv": 5},
}


@pytest.mark.parametrize("name", HANDLERS)
def test_campaign_whose_handler_nobody_can_read_is_shown_and_mended(
    name: str, queue: Client, postgres: Postgres, dsn: str
) -> None:
    """Lists and explanations go on; what needs the handler names it, and what mends it."""
    body = json.dumps({"handler": HANDLERS[name]})
    postgres.execute("select taskq.create_campaign('/c', %s)", [body])
    campaign = queue.campaign("/c")
    campaign.seed([{"n": 1}])
    (task,) = campaign.tasks()
    assert campaign.explain().path == "/c"
    assert campaign.explain(task.key).headline == "waiting"
    assert [run.path for run in queue.runs()] in ([], ["/c"])
    assert queue.left_over().unfinished == 1
    taskq = CommandLine(dsn)
    for words in (("status", "/"), ("explain", "/c"), ("explain", "/c", task.key)):
        taskq.out(*words)
    with pytest.raises(InvalidCampaign, match=r"handler.*stored for /c.*taskq campaign change /c"):
        campaign.spec()
    queue.create_campaign("/d", exist_ok=False)
    campaign.change(queue.campaign("/d").spec())
    assert campaign.spec().handler is None
