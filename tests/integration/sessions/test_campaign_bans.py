"""Bans for one campaign: agents leave it out, and work on for others."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq.model.errors import Conflict, NotFound
from taskq_agent.campaign_news import CampaignBan
from taskq_agent.protocol import Heartbeat, Hello
from tests.fixtures.queues import Hire
from tests.helpers.agent_processes import agent_process
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, keep, value
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.usefixtures("campaign", "true_counts")

WHY = "its glibc is too old"
MOST = 16


def hello(host: str, path: str = "/c") -> Hello:
    """Return what an agent says first."""
    return Hello(str(uuid.uuid4()), path, "agent", host, 1, "here", 1, "0", ())


def working_campaign(queue: Client, path: str, tasks: int) -> Campaign:
    """Create a campaign whose tasks take a moment."""
    handler = Handler("command", argv=("true",))
    campaign = queue.create_campaign(CampaignSpec(path, handler=handler))
    campaign.seed({"n": n} for n in range(tasks))
    return campaign


def attempts(postgres: Postgres, path: str) -> int:
    """Return how many attempts at tasks of a campaign have begun, on whatever host."""
    return int(
        value(
            postgres,
            "select count(*) from taskq.attempt a where a.campaign_id = taskq.campaign_id(%s)"
            "   and a.outcome <> 'released'",
            path,
        )
    )


@pytest.mark.thorough
def test_agent_leaves_out_a_campaign_that_its_host_is_banned_for_until_the_ban_is_lifted(
    dsn: str, queue: Client, postgres: Postgres, tmp_path: Path
) -> None:
    """It works on for another campaign, hands back what it held of this one, and stays."""
    banned, other = (working_campaign(queue, f"/c/{name}", 2_000) for name in ("x", "y"))
    log = tmp_path / "log"
    with agent_process(dsn, "a", log, "--host", "n17", "--lease", "4") as process:
        wait_until(lambda: banned.status().done > 0 and other.status().done > 0)
        queue.fleet.ban("host", "n17", why=WHY, campaign="/c/x")
        wait_until(lambda: "/c/x is left out from now on" in log.read_text())
        assert WHY in log.read_text()
        wait_until(lambda: banned.status().working == 0)
        begun, done = attempts(postgres, "/c/x"), other.status().done
        wait_until(lambda: other.status().done > done + 10)
        assert attempts(postgres, "/c/x") == begun
        assert queue.fleet.unban("host", "n17")
        wait_until(lambda: attempts(postgres, "/c/x") > begun + 5)
        assert process.poll() is None


@pytest.mark.thorough
def test_new_agent_begins_nothing_of_a_campaign_that_its_host_is_banned_for(
    dsn: str, queue: Client, postgres: Postgres, tmp_path: Path
) -> None:
    """It learns of the ban when its session opens, before its first claim."""
    banned, other = (working_campaign(queue, f"/c/{name}", 15) for name in ("x", "y"))
    queue.fleet.ban("site", "here", why=WHY, campaign="/c/x")
    log = tmp_path / "log"
    with agent_process(dsn, "a", log, "--site", "here"):
        wait_until(lambda: other.status().unfinished == 0)
    assert banned.status().done == 0
    assert attempts(postgres, "/c/x") == 0


def test_agents_that_serve_nothing_else_leave_and_are_refused(
    database: Database, queue: Client, hire: Hire
) -> None:
    """For them it is as a ban for all campaigns."""
    queue.create_campaign("/c/x")
    above, at, elsewhere = hire(host="n17"), hire("/c/x", host="n17"), hire("/c/x", host="n18")
    assert queue.fleet.ban("host", "n17", why=WHY, campaign="/c/x") == 2
    draining = {agent.session_id: agent.draining for agent in queue.agents()}
    assert draining == {above.session: False, at.session: True, elsewhere.session: False}
    transport = DirectTransport(database)
    with pytest.raises(Exception, match=f"the host n17 is banned for /c/x: {WHY}"):
        transport.open(hello("n17", "/c/x"))
    transport.close(transport.open(hello("n18", "/c/x")).session)
    (agent,) = [agent for agent in queue.agents() if agent.session_id == at.session]
    assert agent.banned == f"the host n17 is banned for /c/x: {WHY}"


def test_heartbeats_and_welcomes_name_the_campaigns_that_agents_leave_out(
    database: Database, queue: Client, postgres: Postgres
) -> None:
    """As long as the ban holds, by whom or what it is ended: an operator, or time."""
    queue.create_campaign("/c/x")
    transport = DirectTransport(database)
    session = transport.open(hello("n17")).session
    found = CampaignBan("/c/x", WHY)
    try:
        assert transport.heartbeat(Heartbeat(session)).banned == ()
        assert queue.fleet.ban("host", "n17", why=WHY, campaign="/c/x", until=timedelta(hours=1))
        assert transport.heartbeat(Heartbeat(session)).banned == (found,)
        second = DirectTransport(database)
        welcome = second.open(hello("n17"))
        assert welcome.banned == (found,)
        second.close(welcome.session)
        postgres.execute("update taskq.ban set until = clock_timestamp()")
        keep(postgres)
        answer = transport.heartbeat(Heartbeat(session))
        assert (answer.banned, answer.orders.drain) == ((), False)
    finally:
        transport.close(session)


def test_session_that_was_being_opened_meanwhile_learns_of_a_ban_from_the_keeper(
    dsn: str, queue: Client, postgres: Postgres
) -> None:
    """Neither the ban nor the session could see the other."""
    queue.create_campaign("/c/x")
    with psycopg.connect(dsn) as opening:
        opening.execute("select taskq.open_session('/c', gen_random_uuid(), p_host => 'n17')")
        assert queue.fleet.ban("host", "n17", why=WHY, campaign="/c/x") == 0
        opening.commit()
    keep(postgres)
    noted = value(postgres, "select banned from taskq.session where not drain")
    assert noted == [{"path": "/c/x", "why": WHY}]


def test_failed_task_waits_for_no_host_that_is_banned_for_its_campaign(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Else it would wait for agents that leave the campaign out."""
    campaign = queue.create_campaign("/c/x")
    campaign.seed([{"n": 1}])
    first = hire(host="n1")
    hire(host="n2")
    first.campaign = campaign.campaign_id
    (task,) = first.claim()
    first.fail(task)
    postgres.execute("update taskq.task set due_at = clock_timestamp()")
    value(postgres, "select taskq.promote_delayed()")
    assert first.claim() == []
    queue.fleet.ban("host", "n2", why="x", campaign="/c/x")
    first.forget_position()
    assert len(first.claim()) == 1


def test_host_is_banned_for_a_bounded_number_of_campaigns(queue: Client) -> None:
    """Agents get the list with each heartbeat."""
    for n in range(MOST + 1):
        queue.create_campaign(f"/c/{n}")
    for n in range(MOST):
        queue.fleet.ban("host", "n17", why="x", campaign=f"/c/{n}")
    with pytest.raises(Conflict, match="n17 is banned for 16 campaigns; ban it for one above them"):
        queue.fleet.ban("host", "n17", why="x", campaign=f"/c/{MOST}")
    queue.fleet.ban("host", "n17", why="y", campaign="/c/0")
    queue.fleet.ban("host", "n17", why="x")
    with pytest.raises(NotFound):
        queue.fleet.ban("host", "n17", why="x", campaign="/none")
    assert len(queue.fleet.bans()) == MOST + 1


def test_command_bans_for_a_campaign_lists_and_lifts(dsn: str, queue: Client, hire: Hire) -> None:
    """Both bans of a host are listed; one of them is lifted, or all are."""
    taskq = CommandLine(dsn)
    queue.create_campaign("/c/x")
    hire(host="n1")
    ban = ("host", "ban", "n1", "--why", WHY)
    assert taskq.out(*ban, "--campaign", "/c/x", "--dry-run") == (
        "1 host would be banned for /c/x, with 1 agent; nothing was changed.\n"
    )
    assert taskq.out(*ban, "--campaign", "/c/x") == (
        "1 host banned for /c/x; 1 agent ordered to leave it out.\n"
    )
    assert [it["path"] for it in taskq.json("host", "list", "--banned")] == ["/c/x"]
    assert "banned for /c/x" in taskq.out("host", "list", "/c")
    assert taskq.refused(*ban, "--campaign", "/c/z")[0] == 66
    assert taskq.out(*ban) == "1 host banned; 1 agent ordered to leave.\n"
    assert taskq.json("host", "unban", "n1", "--campaign", "/c/x") == {"hosts": ["n1"]}
    assert [it["path"] for it in taskq.json("host", "list", "--banned")] == ["/"]
    taskq.out(*ban, "--campaign", "/c/x")
    assert taskq.json("host", "unban", "n1") == {"hosts": ["n1"]}
    assert taskq.json("host", "list", "--banned") == []
