"""`taskq recover`: a farm that crashed is brought back at once; agents that live are left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client
from taskq.db.connections import Database
from taskq.model.errors import NotFound, SessionEnded
from taskq.model.retry_policy import RetryPolicy
from taskq.model.views import Recovery
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.plans import watched
from tests.helpers.postgres import (
    Postgres,
    assert_counts_are_true,
    expire,
    silence,
    statuses,
    task_row,
    value,
)
from tests.helpers.scripted_agent import Claimed, ScriptedAgent

NOTHING = Recovery(sessions=0, sessions_left=0, tasks_left=0, braked=False, campaigns=[])


@pytest.fixture
def gone(campaign: Campaign, hire: Hire, postgres: Postgres) -> tuple[ScriptedAgent, list[Claimed]]:
    """Give an agent that has been silent for long, with two tasks of four."""
    campaign.seed({"n": n} for n in range(4))
    agent = hire()
    tasks = agent.claim_singly(2)
    silence(postgres, agent.session)
    return agent, tasks


def moved(path: str, handed_out: int, retried: int = 0) -> dict[str, object]:
    """Return the events of a campaign."""
    return {"path": path, "handed_out": handed_out, "retried": retried}


def test_tasks_of_silent_agents_are_handed_out_again_and_nothing_is_counted(
    gone: tuple[ScriptedAgent, list[Claimed]], queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """As released: the crash was not the tasks' fault. What the agents still say is superseded."""
    agent, tasks = gone
    found = queue.recover()
    assert (found.sessions, found.campaigns) == (1, [moved("/c", 2)])
    assert set(statuses(postgres).values()) == {"waiting"}
    row = task_row(postgres, tasks[0].task)
    assert (row["failures"], row["losses"]) == (0, 0)
    (attempt,) = queue.campaign("/c").attempts(tasks[0].key)
    assert (attempt.outcome, attempt.error_class) == ("released", None)
    assert agent.done(tasks[0]) == "superseded"
    with pytest.raises(SessionEnded):
        agent.heartbeat()
    assert [task.attempt for task in hire().claim(2)] == [2, 2]
    assert queue.recover() == NOTHING
    assert_counts_are_true(postgres)


def test_agents_with_a_recent_heartbeat_survive_a_recovery(
    gone: tuple[ScriptedAgent, list[Claimed]], queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """An agent may be silent for half of its lease, however long the lease is."""
    _, patient, prompt = gone, hire(lease_s=86_400), hire(lease_s=120)
    postgres.execute(
        "update taskq.session set heartbeat_at = clock_timestamp() - make_interval(secs => %s)"
        " where session_id = %s",
        [40_000, patient.session],
    )
    held = [(agent, agent.claim(1)) for agent in (patient, prompt)]
    assert queue.recover().sessions == 1
    for agent, tasks in held:
        assert agent.heartbeat(tasks) == set()
        assert agent.done(tasks[0]) == "accepted"


def test_time_in_which_the_server_was_down_is_not_silence(
    gone: tuple[ScriptedAgent, list[Claimed]], queue: Client, postgres: Postgres
) -> None:
    """Agents that live have not been able to beat."""
    agent, tasks = gone
    postgres.execute(
        "update taskq.session"
        "   set lease_s = 86400, heartbeat_at = clock_timestamp() - interval '9 d'"
    )
    assert queue.recover() == NOTHING
    assert agent.heartbeat(tasks) == set()


def test_dry_run_of_recover_reports_the_same_and_changes_nothing(
    gone: tuple[ScriptedAgent, list[Claimed]], queue: Client, postgres: Postgres
) -> None:
    """Not even what it would have written."""
    agent, tasks = gone
    before = value(postgres, "select array_agg(t::text order by task_id) from taskq.state t")
    planned = queue.recover(dry_run=True)
    after = value(postgres, "select array_agg(t::text order by task_id) from taskq.state t")
    assert after == before
    assert agent.heartbeat(tasks) == set()
    silence(postgres, agent.session)
    assert queue.recover() == planned


def test_site_and_path_choose_the_agents(queue: Client, hire: Hire, postgres: Postgres) -> None:
    """An agent of a campaign above may work elsewhere: it is not one of the path's."""
    for path in ("/a", "/a/b", "/a-b"):
        queue.create_campaign(path).seed([{"n": 1}])
    agents = {path: hire(path) for path in ("/a", "/a/b", "/a-b")}
    for agent in agents.values():
        agent.claim(1)
        silence(postgres, agent.session)
    postgres.execute(
        "update taskq.session set site = 'there' where session_id = %s", [agents["/a/b"].session]
    )
    assert queue.recover("/a/b", site="here") == NOTHING
    assert queue.recover("/a", site="there").campaigns == [moved("/a/b", 1)]
    assert queue.recover("/a").campaigns == [moved("/a", 1)]
    assert queue.recover().campaigns == [moved("/a-b", 1)]
    with pytest.raises(NotFound):
        queue.recover("/nowhere")


def test_recover_takes_the_silence_that_counts(
    gone: tuple[ScriptedAgent, list[Claimed]], queue: Client
) -> None:
    """Longer, to be careful; shorter, when it is known that all are dead."""
    assert queue.recover(silent_s=86_400) == NOTHING
    assert queue.recover(silent_s=0).sessions == 1
    assert gone


def lose(queue: Client, hire: Hire, postgres: Postgres, path: str) -> None:
    """Let the only task of a new campaign fail through its agent's loss."""
    spec = CampaignSpec(path, retry=RetryPolicy(max_losses=1))
    queue.create_campaign(spec).seed([{"n": 1}])
    agent = hire(path)
    agent.claim(1)
    silence(postgres, agent.session)
    assert expire(postgres) == 1
    assert queue.campaign(path).status().failed == 1


@pytest.mark.parametrize(
    "error_class",
    ["agent-lost", "job-out-of-memory", "job-node-failed", "job-out-of-time", "poison"],
)
def test_tasks_that_failed_through_lost_agents_get_another_chance(
    error_class: str, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Those that failed since then; no others, and not in a campaign that is cancelled."""
    for path in ("/p/new", "/p/old", "/p/own", "/p/cancelled", "/q"):
        lose(queue, hire, postgres, path)
    postgres.execute("update taskq.attempt set error_class = %s", [error_class])
    postgres.execute(
        "update taskq.attempt set ended_at = ended_at - interval '3 h' where campaign_id = %s",
        [queue.campaign("/p/old").campaign_id],
    )
    postgres.execute(
        "update taskq.attempt set outcome = 'failed', error_class = 'Boom' where campaign_id = %s",
        [queue.campaign("/p/own").campaign_id],
    )
    queue.campaign("/p/cancelled").cancel()

    assert queue.recover("/p") == NOTHING
    for since in (timedelta(hours=2), datetime.now(timezone.utc) - timedelta(hours=2)):
        planned = queue.recover("/p", lost_since=since, dry_run=True)
        assert planned.campaigns == [moved("/p/new", 0, 1)]
    assert queue.recover("/p", lost_since=timedelta(hours=2)) == planned
    assert queue.campaign("/p/new").task(key_of(queue, "/p/new")).losses == 0
    left = {status.path: status.failed for status in queue.campaign("/").tree() if status.failed}
    assert left == {"/p/cancelled": 1, "/p/old": 1, "/p/own": 1, "/q": 1}
    assert queue.recover("/p", lost_since=timedelta(days=1)).campaigns == [moved("/p/old", 0, 1)]
    assert queue.recover("/p", lost_since=timedelta(days=1)) == NOTHING


def key_of(queue: Client, path: str) -> str:
    """Return the key of the only task of a campaign."""
    (task,) = queue.campaign(path).tasks()
    return task.key


@pytest.mark.thorough
def test_brake_is_off_when_nobody_silent_is_left(
    queue: Client, campaign: Campaign, postgres: Postgres, hire: Hire
) -> None:
    """All of it in one call, though the brake held the tasks; of a part, it goes on holding."""
    campaign.seed({"n": n} for n in range(24))
    agents = [hire() for _ in range(24)]
    for agent in agents:
        agent.claim(1)
        silence(postgres, agent.session)
    postgres.execute(
        "update taskq.session set site = 'there' where session_id = %s", [agents[0].session]
    )
    assert expire(postgres) == 0
    found = queue.recover(site="there")
    assert (found.sessions, found.braked) == (1, True)
    assert expire(postgres) == 0
    found = queue.recover()
    assert (found.sessions, found.braked, found.campaigns) == (23, False, [moved("/c", 23)])
    assert queue.brake() is None


@pytest.fixture
def other(dsn: str) -> Iterator[psycopg.Connection]:
    """Give a connection with a transaction that is rolled back in the end."""
    with psycopg.connect(dsn) as connection:
        yield connection
        connection.rollback()


def test_recover_skips_and_counts_sessions_and_tasks_that_are_locked(
    gone: tuple[ScriptedAgent, list[Claimed]],
    queue: Client,
    hire: Hire,
    postgres: Postgres,
    other: psycopg.Connection,
) -> None:
    """A heartbeat in progress saves its session, a report its task; recover waits for neither."""
    agent, tasks = gone
    beating = hire()
    silence(postgres, beating.session)
    other.execute("select from taskq.session where session_id = %s for update", [beating.session])
    other.execute("select from taskq.task where task_id = %s for update", [tasks[0].task])
    found = queue.recover()
    assert (found.sessions, found.sessions_left, found.tasks_left) == (1, 1, 1)
    assert found.campaigns == [moved("/c", 1)]
    other.rollback()
    assert queue.recover().sessions == 1
    # The keeper hands out what was left, and it is no loss either.
    assert expire(postgres) == 0
    assert set(statuses(postgres).values()) == {"waiting"}
    assert task_row(postgres, tasks[0].task)["losses"] == 0
    assert agent.done(tasks[0]) == "superseded"


def test_recover_hands_out_tasks_that_an_ended_session_still_has(
    gone: tuple[ScriptedAgent, list[Claimed]], queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Its claim committed after its end, and no keeper has seen it; others keep theirs."""
    agent, _ = gone
    assert len(hire().claim(1)) == 1
    postgres.execute(
        "update taskq.session set ended_at = clock_timestamp() - interval '3 d'"
        " where session_id = %s",
        [agent.session],
    )
    assert queue.recover(site="elsewhere") == NOTHING
    assert queue.recover("/c") == replace(NOTHING, campaigns=[moved("/c", 2)])
    assert Counter(statuses(postgres).values()) == {"waiting": 3, "working": 1}


def test_recovering_goes_by_key(
    gone: tuple[ScriptedAgent, list[Claimed]], database: Database, postgres: Postgres
) -> None:
    """It reads neither other tasks nor attempts that ended otherwise."""
    queue = Client(database)
    queue.create_campaign("/other").seed({"n": n} for n in range(3_000))
    question = "select * from taskq.recover('/', null, null, now() - interval '1 h', true)"
    postgres.execute(question)
    with watched(postgres) as seen:
        postgres.execute(question)
    hot = seen.to("task", "spec", "attempt")
    assert hot.access_paths <= {
        "task by task_working",
        "task by task_pkey",
        "task by ctid",
        "spec by spec_pkey",
        "attempt by attempt_unsuccessful",
    }
    assert hot.widest is not None
    assert hot.widest.rows <= len(gone[1])


def test_recover_command_reports_what_it_did(
    gone: tuple[ScriptedAgent, list[Claimed]], taskq: CommandLine, postgres: Postgres
) -> None:
    """By campaign; for programs as a record; a dry run in the same words."""
    assert taskq.out("recover", "/c", "--dry-run") == (
        "Would end 1 silent agent and hand out 2 tasks again.\n  /c  2 handed out again\n"
    )
    code, said = taskq.refused("recover")
    assert code != 0
    assert "At and below /: end 1 silent agent and hand out 2 tasks again. Do it?" in said
    assert statuses(postgres)[gone[1][0].key] == "working"
    assert taskq.json("recover", "--yes") == {
        "path": "/",
        "dry_run": False,
        "sessions": 1,
        "sessions_left": 0,
        "tasks_left": 0,
        "braked": False,
        "campaigns": [moved("/c", 2)],
    }
    assert taskq.out("recover").startswith("Nothing to do; ")


@pytest.mark.parametrize("since", ["2h", "1.5 h", "90min", "1d", "7200 s", "an hour ago"])
def test_command_knows_times_and_durations(
    since: str, queue: Client, hire: Hire, postgres: Postgres, taskq: CommandLine
) -> None:
    """An instant without a zone is UTC."""
    lose(queue, hire, postgres, "/c")
    if since == "an hour ago":
        since = f"{datetime.now(timezone.utc) - timedelta(hours=1):%Y-%m-%dT%H:%M:%S}"
    assert taskq.out("recover", "--lost-since", since, "--yes") == (
        "Done: gave 1 failed task another chance.\n  /c  1 tried again\n"
    )


@pytest.mark.parametrize(
    ("option", "said", "reason"),
    [
        ("--silent-for", "1e19", "from 0 to 7 d"),
        ("--silent-for", "nan", "from 0 to 7 d"),
        ("--lost-since", "999999999d", "beyond the calendar"),
        ("--lost-since", "2999-01-01", "still to come"),
        ("--lost-since", "2w", "neither a time"),
    ],
)
def test_command_refuses_times_that_cannot_be_meant(
    option: str, said: str, reason: str, taskq: CommandLine
) -> None:
    """It names the option, and nothing is asked of the server."""
    code, text = taskq.refused("recover", option, said, "--yes")
    assert code == 2
    assert f"'{option}'" in text
    assert reason in text


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("since", ["yesterday", "2", "2w", ""])
def test_command_refuses_what_is_no_time(since: str, taskq: CommandLine) -> None:
    """And says what is one."""
    _, said = taskq.refused("recover", "--lost-since", since)
    assert "nor a duration, such as 2h" in said
