"""Updates of attempts: how far they are, output that is followed; whose they are, how large."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from taskq import Campaign, Seed
from taskq.db.connections import Database
from taskq.dispatch.heartbeats import HeartbeatBatcher
from taskq.model.errors import Conflict
from taskq_agent.errors import Refused
from taskq_agent.protocol import Heartbeat, HeartbeatAnswer, Held
from taskq_agent.task_messages import Update, UpdatingHeartbeat
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent

pytestmark = pytest.mark.usefixtures("true_counts", "tasks")

ROWS = "select count(*) from taskq.progress"


@pytest.fixture
def tasks(campaign: Campaign) -> Campaign:
    """Give the campaign tasks a to f."""
    campaign.seed([Seed({"n": n}, key) for n, key in enumerate("abcdef")])
    return campaign


def tell(postgres: Postgres, agent: ScriptedAgent, task: Claimed, **members: Any) -> None:
    """Say something of an attempt, as a client of any language would."""
    said = {"session": agent.session, "campaign": task.campaign, "task": task.task}
    update = {**said, "lease": task.lease, **members}
    postgres.execute("select taskq.note_updates(%s)", [json.dumps([update])])


def shown(campaign: Campaign, key: str) -> tuple[float | None, str | None]:
    """Return how far a task is."""
    task = campaign.task(key)
    return task.progress, task.progress_note


def follow(postgres: Postgres, task: Claimed) -> dict[str, Any]:
    """Ask for the output of a task."""
    found = postgres.execute("select * from taskq.follow(%s, %s)", [task.campaign, task.task])
    (row,) = found.fetchall()
    return row


def wanted(postgres: Postgres, agent: ScriptedAgent, *held: Claimed) -> list[list[Any]]:
    """Beat; return the attempts whose output is wanted."""
    named = [attempt.fence for attempt in held]
    beat = {"session": agent.session, "held": named, "pending": [], "drawn": agent.drawn}
    rows = postgres.execute("select * from taskq.beat(%s)", [json.dumps([beat])]).fetchall()
    assert all(row["stop"] is None and not row["ended"] for row in rows)
    return [item for row in rows for item in row["follow"] or ()]


@pytest.mark.parametrize("singly", [False, True], ids=["packed", "unpacked"])
def test_progress_is_shown_while_its_attempt_runs(
    singly: bool, tasks: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """In lists, with a filter, in the history; not that of an attempt before."""
    agent = hire()
    claim, other = agent.claim_singly(2) if singly else agent.claim(2)
    assert shown(tasks, "a") == (None, None)
    tell(postgres, agent, claim, fraction=0.4, note="sweep 40")
    tell(postgres, agent, claim, fraction=0.5, note="sweep 50")
    assert shown(tasks, "a") == (0.5, "sweep 50")
    assert shown(tasks, other.key) == (None, None)
    (found,) = tasks.tasks(where="key = 'a'")
    assert (found.progress, found.progress_note) == (0.5, "sweep 50")
    assert tasks.history("a")[-1].detail == "it runs: 50 %, sweep 50"
    agent.release(claim, started=True)
    assert shown(tasks, "a") == (None, None)
    agent.forget_position()
    again = next(task for task in agent.claim(5) if task.key == "a")
    assert shown(tasks, "a") == (None, None)
    tell(postgres, agent, claim, fraction=0.9)
    assert shown(tasks, "a") == (None, None)
    tell(postgres, agent, again, note="begun")
    assert shown(tasks, "a") == (None, "begun")


def test_nobody_updates_what_another_holds(tasks: Campaign, hire: Hire, postgres: Postgres) -> None:
    """Though he knew the lease; nor of what he has lost, nor of what is not there."""
    agent, stranger = hire(), hire(host="elsewhere")
    (task,) = agent.claim()
    follow(postgres, task)
    tell(postgres, stranger, task, fraction=0.9, output=base64.b64encode(b"planted").decode())
    assert shown(tasks, "a") == (None, None)
    assert follow(postgres, task)["output"] is None
    silence(postgres, agent.session)
    assert expire(postgres) == 1
    tell(postgres, agent, task, fraction=0.9)
    tell(postgres, agent, Claimed(77, 78, task.lease, 1, "x", {}), fraction=0.9)
    assert value(postgres, ROWS) == 0


def test_stored_updates_are_bounded(tasks: Campaign, hire: Hire, postgres: Postgres) -> None:
    """Whatever a hostile agent sends past a gateway and its own limits."""
    agent = hire()
    (task,) = agent.claim()
    follow(postgres, task)
    tell(postgres, agent, task, fraction=7e300, note="\x1b[31m\n\x9f" + "ä" * 1_000_000)
    assert shown(tasks, "a") == (1.0, " [31m  " + "ä" * 113)
    tell(postgres, agent, task, fraction=-5)
    assert shown(tasks, "a") == (0.0, None)
    large = base64.b64encode(b"x" * 1_000_000 + b"end").decode()
    tell(postgres, agent, task, output=large, written=2**62)
    row = follow(postgres, task)
    assert row["written"] == 2**62
    kept = base64.b64decode(row["output"])
    assert (len(kept), kept[-4:]) == (8192, b"xend")
    assert value(postgres, ROWS) == 1


@pytest.mark.parametrize(
    "nonsense",
    [
        {"session": "x"},
        {"campaign": 2**70},
        {"lease": "no"},
        {"output": "%"},
        {"fraction": "much"},
        {"fraction": 10**999},
    ],
    ids=str,
)
def test_nonsense_changes_nothing(nonsense: dict[str, Any], hire: Hire, postgres: Postgres) -> None:
    """An error of its own class, also where the whole is no array."""
    agent = hire()
    task, other = agent.claim(2)
    follow(postgres, task)
    good = {"session": agent.session, "campaign": task.campaign, "lease": task.lease, "note": "n"}
    both = [{**good, "task": other.task}, {**good, "task": task.task, **nonsense}]
    for said in (both, {}, 7):
        with pytest.raises(psycopg.Error) as refused:
            postgres.execute("select taskq.note_updates(%s)", [json.dumps(said)])
        assert refused.value.sqlstate == "TQ400"
    assert value(postgres, ROWS) == 0


def test_repeated_updates_are_not_written_again(hire: Hire, postgres: Postgres) -> None:
    """Agents repeat it with each heartbeat, so that a lost one, or a crash, costs nothing."""
    agent = hire()
    (task,) = agent.claim()
    version = "select xmin::text from taskq.progress"
    tell(postgres, agent, task, fraction=0.25, note="n")
    first = value(postgres, version)
    tell(postgres, agent, task, fraction=0.25, note="n")
    assert value(postgres, version) == first
    postgres.execute("update taskq.progress set until = now() + interval '1 min'")
    tell(postgres, agent, task, fraction=0.25, note="n")
    assert value(postgres, "select min(until) > now() + interval '4 min' from taskq.progress")


def test_outdated_updates_and_requests_to_follow_are_deleted(
    hire: Hire, postgres: Postgres
) -> None:
    """Recent ones stay."""
    agent = hire()
    claim, other = agent.claim(2)
    for task in (claim, other):
        tell(postgres, agent, task, note="n")
        follow(postgres, task)
    for name in ("progress set until", "followed set asked_at"):
        postgres.execute(
            f"update taskq.{name} = now() - interval '31 s' where task_id = %s",
            [claim.task],
        )
    assert wanted(postgres, agent, claim, other) == [[other.campaign, other.task, other.lease]]
    postgres.execute("select taskq.forget_progress()")
    for table in ("progress", "followed"):
        left = f"select array_agg(task_id) from taskq.{table}"  # noqa: S608  # a constant
        assert value(postgres, left) == [other.task]


def test_neither_survives_a_crash(postgres: Postgres) -> None:
    """Nor costs the log anything: both tables are unlogged."""
    kinds = "select array_agg(distinct relpersistence::text) from pg_class where oid = any (%s)"
    tables = "array['taskq.progress'::regclass, 'taskq.followed'::regclass]"
    assert value(postgres, kinds.replace("%s", tables)) == ["u"]


def test_output_comes_while_somebody_follows(hire: Hire, postgres: Postgres) -> None:
    """Only from the session that has the task, and only of the attempt that runs."""
    agent, other = hire(), hire(host="elsewhere")
    task, two = agent.claim(2)
    (third,) = other.claim()
    output = base64.b64encode(b"line\n").decode()
    tell(postgres, agent, task, output=output, written=5)
    assert wanted(postgres, agent, task, two) == []
    row = follow(postgres, task)
    assert (row["status"], row["attempt"], row["written"]) == ("working", 1, None)
    assert wanted(postgres, agent, task, two) == [[task.campaign, task.task, task.lease]]
    assert wanted(postgres, other, third) == []
    tell(postgres, agent, task, output=output, written=5)
    tell(postgres, agent, two, output=output, written=5)
    row = follow(postgres, task)
    assert (row["written"], base64.b64decode(row["output"])) == (5, b"line\n")
    agent.release(task, started=True)
    row = follow(postgres, task)
    assert (row["status"], row["written"], row["output"]) == ("waiting", None, None)
    assert wanted(postgres, agent, two) == []
    tell(postgres, agent, task, output=output, written=5)
    assert follow(postgres, task)["written"] is None


def test_few_are_followed_at_a_time(tasks: Campaign, hire: Hire, postgres: Postgres) -> None:
    """By a login, and by all together; those that nobody asks for any more do not count."""
    tasks.seed([Seed({"n": n}) for n in range(100, 110)])
    (first, *others) = hire().claim(12)
    for other in others[:8]:
        follow(postgres, other)
        follow(postgres, other)
    with pytest.raises(psycopg.Error, match="8 tasks is followed already") as refused:
        follow(postgres, first)
    assert refused.value.sqlstate == "TQ409"
    with pytest.raises(Conflict):
        next(tasks.logs(first.key))
    postgres.execute("update taskq.followed set asked_at = now() - interval '31 s'")
    follow(postgres, first)
    postgres.execute(
        "insert into taskq.followed (campaign_id, task_id, asker, asked_at)"
        " select 1, n, 'login another', now() from generate_series(1, 63) n"
    )
    with pytest.raises(Conflict):
        next(tasks.logs(others[0].key))


def test_reader_of_live_output_keeps_no_heartbeat_waiting(
    tasks: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Even with a transaction that is left open after it has asked."""
    agent = hire()
    (task,) = agent.claim()
    follow(postgres, task)
    with psycopg.connect(dsn, options="-c lock_timeout=1000") as idle:
        idle.execute("select taskq.follow(%s, %s)", [task.campaign, task.task])
        postgres.execute("set lock_timeout = 1000")
        assert wanted(postgres, agent, task) == [[task.campaign, task.task, task.lease]]
        output = base64.b64encode(b"x").decode()
        tell(postgres, agent, task, note="n", output=output, written=1)
        postgres.execute("select taskq.forget_progress()")
    assert shown(tasks, "a") == (None, "n")


async def test_updates_are_sent_only_for_heartbeats_that_carry_some(
    tasks: Campaign,
    hire: Hire,
    postgres: Postgres,
    database: Database,
    statements: Counter[str],
) -> None:
    """One statement for all heartbeats that arrive together; none if none carries an update."""
    hired, other = hire(), hire()
    (first,), (second,) = hired.claim(), other.claim()
    follow(postgres, first)
    silent = [
        Heartbeat(agent.session, (Held(task.campaign, task.task, task.lease),), drawn=agent.drawn)
        for agent, task in ((hired, first), (other, second))
    ]
    telling = [
        UpdatingHeartbeat(
            **vars(beat),
            updates=(Update(task.campaign, task.task, task.lease, 0.5, "ab", "eA==", 1),),
        )
        for beat, task in zip(silent, (first, second), strict=True)
    ]

    async def sent(beats: Sequence[Heartbeat]) -> list[HeartbeatAnswer]:
        async with HeartbeatBatcher(database, 0.2) as heartbeats:
            return [*await asyncio.gather(*map(heartbeats.heartbeat, beats))]

    answers = await sent(silent)
    assert statements == {"beat": 1, "stamp": 1}
    assert [getattr(answer, "follow", ()) for answer in answers] == [silent[0].held, ()]
    await sent(telling)
    assert statements == {"beat": 2, "stamp": 2, "note_updates": 1}
    assert [shown(tasks, task.key) for task in (first, second)] == [(0.5, "ab")] * 2
    assert follow(postgres, first)["written"] == 1
    many = replace(telling[0], updates=telling[0].updates * 501)
    with pytest.raises(Refused, match="updates is not of 0 to 500"):
        await sent([many])
