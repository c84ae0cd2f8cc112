"""An agent's presence: opened, kept alive, squared with what it holds, ended or expired."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest

from taskq import Campaign, Client, Seed
from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq.model.errors import NotFound, SessionEnded, UsageError
from taskq_agent.errors import Refused, SessionLost
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import Heartbeat, Held, Hello, Request
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import (
    Postgres,
    expire,
    silence,
    statuses,
    task_row,
    value,
)
from tests.helpers.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.usefixtures("true_counts")


@pytest.fixture
def agent(campaign: Campaign, hire: Hire) -> ScriptedAgent:
    """Give an agent of a campaign with the tasks a to d."""
    campaign.seed(Seed({"n": n}, key) for n, key in enumerate("abcd"))
    return hire()


def open_session(database: Database, **changed: object) -> object:
    """Open a session with the usual words but those that are changed."""
    words: dict[str, object] = {
        "path": "/c",
        "key": str(uuid.uuid4()),
        "lease_s": 120.0,
        "agent": "",
        "host": "",
        "site": "",
        "pid": 1,
        "slots": 1,
        "release": "",
        "offers": [],
    }
    return database.value("open_session", **(words | changed))


def test_ended_session_cannot_be_opened_again(agent: ScriptedAgent, database: Database) -> None:
    """Its leases are void; the agent must draw a new key."""
    agent.leave()
    with pytest.raises(SessionEnded, match="open another"):
        open_session(database, key=agent.key)


@pytest.mark.usefixtures("campaign")
def test_session_needs_a_campaign_that_exists(database: Database) -> None:
    """A misspelt path is reported at once, not after hours of waiting."""
    with pytest.raises(NotFound, match="/nowhere"):
        open_session(database, path="/nowhere")


@pytest.mark.usefixtures("campaign")
@pytest.mark.parametrize("lease_s", [0, 0.5, 86_401, float("nan")])
def test_lease_time_has_bounds(database: Database, lease_s: float) -> None:
    """From a second to a day."""
    with pytest.raises(UsageError, match="session_lease_range"):
        open_session(database, lease_s=lease_s)


@pytest.mark.usefixtures("campaign")
def test_texts_that_an_agent_gives_about_itself_are_cut(queue: Client, database: Database) -> None:
    """A host name of a megabyte is no reason to fail, nor to be kept."""
    open_session(database, host="h" * 1_000_000, release="r" * 1_000)
    (seen,) = queue.agents()
    assert (seen.host, seen.release) == ("h" * 200, "r" * 50)


@pytest.mark.usefixtures("campaign")
def test_session_keeps_what_its_agent_offers(queue: Client, database: Database) -> None:
    """And is not opened with a tag that is not well formed."""
    open_session(database, offers=["gpu", "mem=64"])
    (agent,) = queue.agents()
    assert agent.offers == ["gpu", "mem=64"]
    with pytest.raises(UsageError, match="the tag 'mem>=64' is not well formed"):
        open_session(database, offers=["mem>=64"])


def test_heartbeats_keep_a_session_alive(agent: ScriptedAgent, postgres: Postgres) -> None:
    """A session whose beat arrived in time does not expire."""
    (task,) = agent.claim(1)
    silence(postgres, agent.session)
    agent.heartbeat([task])
    assert expire(postgres) == 0
    assert agent.done(task) == "accepted"


def test_silent_session_expires_and_its_tasks_are_handed_out_again(
    agent: ScriptedAgent, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Anyone who comes next gets them; each attempt is recorded as lost, with its class."""
    agent.claim(2)
    silence(postgres, agent.session)
    assert expire(postgres) == 2
    assert statuses(postgres) == dict.fromkeys("abcd", "waiting")
    (lost,) = campaign.attempts("a")
    assert (lost.outcome, lost.error_class, lost.attempt) == ("lost", "agent-lost", 1)
    again = hire(slots=4).claim(2)
    assert [(task.key, task.attempt) for task in again] == [("a", 2), ("b", 2)]
    assert expire(postgres) == 0


def test_expired_session_learns_that_it_has_expired(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """Heartbeats and claims do not revive it."""
    agent.claim(1)
    silence(postgres, agent.session)
    expire(postgres)
    with pytest.raises(SessionEnded, match="has ended"):
        agent.heartbeat()
    assert agent.exchange(want=1)["refused"] == [agent.session]


def test_session_that_expired_without_tasks_claims_no_more(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """Although the connection knows where the next task waits."""
    agent.done(agent.claim(1)[0])
    silence(postgres, agent.session)
    expire(postgres)
    assert agent.exchange(want=1)["refused"] == [agent.session]


def test_session_expires_without_tasks_too(
    agent: ScriptedAgent, queue: Client, postgres: Postgres
) -> None:
    """An agent that is gone is not shown for ever."""
    assert [seen.session_id for seen in queue.agents()] == [agent.session]
    silence(postgres, agent.session)
    expire(postgres)
    assert queue.agents() == []


def test_only_silence_longer_than_its_own_lease_ends_a_session(
    agent: ScriptedAgent, hire: Hire, postgres: Postgres
) -> None:
    """Each agent chooses its lease time."""
    patient = hire(lease_s=86_400)
    postgres.execute(
        "update taskq.session set heartbeat_at = heartbeat_at - interval '3 h'"
        " where session_id = %s",
        [patient.session],
    )
    patient.claim(1)
    silence(postgres, agent.session)
    expire(postgres)
    assert patient.heartbeat() == set()


def test_time_in_which_the_server_was_down_is_not_silence(
    agent: ScriptedAgent, hire: Hire, postgres: Postgres
) -> None:
    """A lease runs from the last beat or the server's start, whichever is later.

    Also when another session expires at that moment.
    """
    (task,) = agent.claim(1)
    doomed = hire()
    doomed.claim(1)
    postgres.execute(
        "update taskq.session"
        "   set lease_s = 86400, heartbeat_at = clock_timestamp() - interval '9 d'"
    )
    assert expire(postgres) == 0
    silence(postgres, doomed.session)
    assert expire(postgres) == 1
    assert agent.heartbeat([task]) == set()


def test_claim_that_overtakes_the_expiry_of_its_session_is_handed_out_again(
    agent: ScriptedAgent, campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """It saw its session open, and commits after that was ended: the next round finds it."""
    silence(postgres, agent.session)
    with psycopg.connect(dsn) as slow:
        slow.execute(
            "select taskq.exchange(%s, null, %s, %s::uuid[], '{1}')",
            [agent.campaign, [agent.session], [agent.draw_lease()]],
        )
        assert expire(postgres) == 0
    assert campaign.status().working == 1
    assert expire(postgres) == 1
    assert [(task.key, task.attempt) for task in hire().claim(1)] == [("a", 2)]


def test_leaving_agent_hands_back_what_it_holds(
    agent: ScriptedAgent, campaign: Campaign, hire: Hire
) -> None:
    """At once, and counted neither as failure nor as loss; leaving twice changes nothing."""
    agent.claim(2)
    assert agent.leave() == 2
    assert agent.leave() == 0
    view = campaign.task("a")
    assert (view.status, view.failures, view.losses) == ("waiting", 0, 0)
    assert [attempt.outcome for attempt in campaign.attempts("a")] == ["released"]
    assert [(task.key, task.attempt) for task in hire().claim(1)] == [("a", 2)]


def test_task_that_was_locked_when_its_agent_left_is_not_counted_as_lost(
    agent: ScriptedAgent, postgres: Postgres, dsn: str
) -> None:
    """A claim may lock a row for a moment that it does not take; upkeep comes back to it."""
    first, second = agent.claim_singly(2)
    with psycopg.connect(dsn) as other:
        other.execute("select from taskq.task where task_id = %s for update", [second.task])
        assert agent.leave() == 1
    assert expire(postgres) == 0
    row = task_row(postgres, second.task)
    assert (row["status"], row["losses"]) == ("waiting", 0)
    assert set(statuses(postgres).values()) == {"waiting"}
    assert first.task != second.task


def test_heartbeat_that_names_everything_changes_nothing(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """The ordinary beat."""
    tasks = agent.claim(2)
    before = [task_row(postgres, task.task) for task in tasks]
    assert agent.heartbeat(tasks) == set()
    assert [task_row(postgres, task.task) for task in tasks] == before


def test_heartbeat_hands_on_tasks_that_the_agent_does_not_name(
    agent: ScriptedAgent, campaign: Campaign, hire: Hire
) -> None:
    """Its claim's answer was lost and is not asked for again; the attempt never began."""
    kept, forgotten = agent.claim(2)
    assert agent.heartbeat([kept]) == set()
    assert agent.done(forgotten) == "superseded"
    assert campaign.attempts("b") == []
    assert [(task.key, task.attempt) for task in hire().claim(1)] == [("b", 1)]
    assert agent.done(kept) == "accepted"


@pytest.mark.parametrize("want", [1, 2])
def test_heartbeat_leaves_claims_alone_that_may_still_be_answered(
    want: int, agent: ScriptedAgent, hire: Hire
) -> None:
    """A claim that waits for its answer is named as pending."""
    lease = agent.draw_lease()
    tasks = agent.claim(want, lease=lease)
    agent.heartbeat([], pending=[lease])
    assert not {task.task for task in hire().claim(2)} & {task.task for task in tasks}
    assert agent.claim(want, lease=lease) == tasks


def test_heartbeat_does_not_judge_claims_that_are_younger(agent: ScriptedAgent) -> None:
    """A claim may overtake a beat that was written before it."""
    old = agent.draw_lease()
    (task,) = agent.claim(1)
    assert agent.heartbeat([], drawn=old) == set()
    assert agent.done(task) == "accepted"


def test_heartbeat_names_the_attempts_to_stop(agent: ScriptedAgent, campaign: Campaign) -> None:
    """Cancelled, ended, or handed on: each lease that is void, and no other."""
    cancelled, ended, fine, handed_on = agent.claim(4)
    campaign.cancel([cancelled.key])
    agent.done(ended)
    agent.heartbeat([cancelled, ended, fine])
    stop = agent.heartbeat([cancelled, ended, fine, handed_on])
    assert stop == {cancelled.task, ended.task, handed_on.task}


def test_agents_are_shown_with_what_they_hold(
    queue: Client, agent: ScriptedAgent, hire: Hire
) -> None:
    """Those of a campaign, above and below it; longest silent first."""
    queue.create_campaign("/c/below")
    queue.create_campaign("/c2")
    agent.claim(3)
    below, unrelated, top = hire("/c/below"), hire("/c2"), hire("/")
    seen = {item.session_id: item for item in queue.agents("/c")}
    assert set(seen) == {agent.session, below.session, top.session}
    assert (seen[agent.session].working, seen[agent.session].host) == (3, "node1")
    assert [item.session_id for item in queue.agents()] == [
        agent.session,
        below.session,
        unrelated.session,
        top.session,
    ]


def test_direct_transport_of_agents_keeps_these_promises(
    queue: Client, database: Database, postgres: Postgres
) -> None:
    """Opening, exchange and heartbeat, each repeated; stop orders; a lost session."""
    campaign = servable(queue, "/c/deep/er")
    campaign.seed([Seed({"n": 1}, "a"), Seed({"n": 2}, "b")])
    transport = DirectTransport(database)
    hello = Hello(str(uuid.uuid4()), "/c", "me", "node1", 1, "here", 1, "0")
    welcome = transport.open(hello)
    assert transport.open(hello) == welcome
    request = Request(welcome.session, want=2, lease=new_lease())
    answer = transport.exchange(request)
    assert [task.key for task in answer.tasks] == ["a", "b"]
    assert answer.campaigns[0].path == "/c/deep/er"
    assert transport.exchange(request) == answer
    held = tuple(Held(task.campaign, task.task, task.lease) for task in answer.tasks)
    campaign.cancel(["a"])
    assert (
        transport.heartbeat(Heartbeat(welcome.session, held, drawn=request.lease)).stop == held[:1]
    )
    postgres.execute("select taskq.end_session(%s)", [welcome.session])
    with pytest.raises(SessionLost):
        transport.heartbeat(Heartbeat(welcome.session, held))
    with pytest.raises(SessionLost):
        transport.exchange(Request(welcome.session, want=1, lease=new_lease()))
    transport.close(welcome.session)


def test_late_heartbeat_of_a_session_that_was_replaced_ends_no_other(
    campaign: Campaign, database: Database
) -> None:
    """The beats have a connection of their own, which may first be there when all has changed."""
    transport = DirectTransport(database)
    hellos = [
        Hello(str(uuid.uuid4()), campaign.path, "agent", "node1", 1, "here", 1, "0")
        for _ in range(2)
    ]
    replaced, newest = [transport.open(hello).session for hello in hellos]
    transport.heartbeat(Heartbeat(replaced))
    transport.heartbeat(Heartbeat(newest))
    transport.close(newest)


def test_sessions_without_attempts_are_removed_a_day_after_their_end(
    campaign: Campaign, hire: Hire, postgres: Postgres, queue: Client
) -> None:
    """Those that are open, have attempts or are known by a task's row stay."""
    campaign.seed({"n": n} for n in range(3))
    idle, recent, done, holding, released, living = (hire(host=f"n{n}") for n in range(6))
    (task,) = done.claim(1)
    done.done(task)
    assert len(holding.claim(1)) == 1
    (task,) = released.claim(1)
    released.release(task, started=False)
    gone = [hired.session for hired in (idle, done, holding, released)]
    postgres.execute(
        "update taskq.session set ended_at = clock_timestamp() - interval '25 h'"
        " where session_id = any (%s)",
        [gone],
    )
    postgres.execute(
        "update taskq.session set ended_at = clock_timestamp() where session_id = %s",
        [recent.session],
    )
    ask = "select taskq.remove_unused_sessions(10, 86400)"
    assert [value(postgres, ask), value(postgres, ask)] == [1, 0]
    left = postgres.execute("select session_id from taskq.session").fetchall()
    stay = (recent, done, holding, released, living)
    assert {row["session_id"] for row in left} >= {hired.session for hired in stay}
    assert idle.session not in {row["session_id"] for row in left}
    assert expire(postgres) == 0
    assert list(queue.audit()) == []


@pytest.mark.parametrize(
    "claim",
    [{"want": 1_001}, {"want": -1}, {"lease": "no uuid"}, {"lease": ""}],
    ids=["too many", "fewer than none", "no lease id", "empty lease id"],
)
def test_claim_beyond_the_limits_is_refused_by_the_server(
    queue: Client, database: Database, claim: dict[str, Any]
) -> None:
    """Whatever made it: the client of an agent with a connection of its own checks no claims."""
    servable(queue, tasks=1)
    transport = DirectTransport(database)
    session = transport.open(Hello(new_lease(), "/c")).session
    with pytest.raises(Refused):
        transport.exchange(Request(session, **({"want": 1, "lease": new_lease()} | claim)))
    assert len(transport.exchange(Request(session, want=1, lease=new_lease())).tasks) == 1
    transport.close(session)
