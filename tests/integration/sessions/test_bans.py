"""Bans of hosts and sites: who leaves, who is not let in, and until when."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timedelta, timezone
from threading import Event

import psycopg
import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.db.tokens import hashed, session_token
from taskq.dispatch.direct import DirectTransport
from taskq.model.errors import Conflict, UsageError
from taskq_agent.errors import Refused
from taskq_agent.protocol import Heartbeat, Hello
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.meanwhile import meanwhile
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, keep, value

pytestmark = pytest.mark.usefixtures("campaign", "true_counts")

HOUR = timedelta(hours=1)


def hello(host: str, site: str = "", key: str | None = None) -> Hello:
    """Return what an agent says first."""
    return Hello(key or str(uuid.uuid4()), "/c", "agent", host, 1, site, 1, "0", ())


def enrol(postgres: Postgres, secret: str, host: str = "n1", site: str = "") -> str:
    """Open a session as a gateway does; return its path, or why it is refused."""
    key = str(uuid.uuid4())
    hashes = {
        "token_hash": f"\\x{hashed(secret).hex()}",
        "session_hash": f"\\x{hashed(session_token(secret, key)).hex()}",
    }
    words = {"place": 1, "path": "/c", "key": key, "agent": "", "host": host, "site": site}
    numbers = {"pid": 1, "slots": 1, "release": "0", "offers": []}
    hellos = json.dumps([words | numbers | hashes])
    statement = "select coalesce(refused || ' ' || reason, path) from taskq.enrol_many(%s, 60)"
    return str(value(postgres, statement, hellos))


def test_agents_of_a_banned_host_drain_and_keep_what_they_hold(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """It moves no task: what they hold is theirs until they report."""
    campaign.seed({"n": n} for n in range(4))
    bad, other = hire(host="n17"), hire(host="n18")
    (task,) = bad.claim()
    assert queue.fleet.ban("host", "here", why="no host, but their site") == 0
    queue.fleet.unban("host", "here")
    assert queue.fleet.ban("host", "n17", why="its disk dies") == 1
    assert {agent.host: agent.draining for agent in queue.agents()} == {"n17": True, "n18": False}
    assert bad.heartbeat([task]) == set()
    assert bad.done(task) == "accepted"
    assert len(other.claim()) == 1
    assert queue.fleet.ban("host", "n17", why="its disk died") == 0
    (ban,) = queue.fleet.bans()
    assert (ban.kind, ban.name, ban.why, ban.until) == ("host", "n17", "its disk died", None)
    assert ban.login == value(postgres, "select session_user")


def test_agents_of_a_banned_host_learn_the_reason(database: Database, queue: Client) -> None:
    """Connected ones from a heartbeat; new ones are refused with it."""
    transport = DirectTransport(database)
    welcome = transport.open(hello("n17"))
    try:
        assert not transport.heartbeat(Heartbeat(welcome.session)).orders.drain
        queue.fleet.ban("host", "n17", why="its disk dies", until=datetime.now(timezone.utc) + HOUR)
        orders = transport.heartbeat(Heartbeat(welcome.session)).orders
        assert orders.drain
        assert orders.why.startswith("the host n17 is banned until 20")
        assert orders.why.endswith("Z: its disk dies")
    finally:
        transport.close(welcome.session)
    second = DirectTransport(database)
    with pytest.raises(Refused, match=r"the host n17 is banned until .*: its disk dies"):
        second.open(hello("n17"))
    queue.fleet.unban("host", "n17")
    second.close(second.open(hello("n17")).session)


def test_session_that_is_open_is_found_again_by_its_key(database: Database, queue: Client) -> None:
    """Its answer may have been lost; an agent that holds tasks is not sent away."""
    transport, again = DirectTransport(database), DirectTransport(database)
    key = str(uuid.uuid4())
    session = transport.open(hello("n17", key=key)).session
    queue.fleet.ban("host", "n17", why="x")
    assert again.open(hello("n17", key=key)).session == session
    again.close(session)
    transport.close(session)


def test_site_is_that_of_the_token_where_none_is_named(queue: Client, postgres: Postgres) -> None:
    """A ban of a site keeps away all that say they are there, with whatever token."""
    secret, _ = queue.tokens.create("site", "cracow", ["/c"])
    assert enrol(postgres, secret) == "/c"
    assert queue.fleet.ban("site", "cracow", why="power cut") == 1
    assert enrol(postgres, secret) == "TQ403 the site cracow is banned: power cut"
    assert enrol(postgres, secret, site="warsaw") == "/c"
    assert queue.fleet.ban("host", "n2", why="its disk dies") == 0
    refusal = "TQ403 the host n2 is banned: its disk dies"
    assert enrol(postgres, secret, host="n2", site="warsaw") == refusal


def test_ban_ends_at_its_time(queue: Client, hire: Hire, postgres: Postgres) -> None:
    """Without anybody doing anything."""
    queue.fleet.ban("host", "n17", why="x", until=HOUR)
    with pytest.raises(psycopg.DatabaseError, match="the host n17 is banned until"):
        postgres.execute("select taskq.open_session('/c', gen_random_uuid(), p_host => 'n17')")
    postgres.execute("update taskq.ban set until = clock_timestamp()")
    assert queue.fleet.bans() == []
    assert not hire(host="n17").exchange(want=1)["refused"]
    assert not queue.fleet.unban("host", "n17")


def test_bans_are_bounded(queue: Client, postgres: Postgres) -> None:
    """Those that have ended stay until there is no room; then the first to end goes."""
    postgres.execute(
        "insert into taskq.ban (kind, name, why, login, banned_at, until)"
        " select 'host', 'n' || n, 'x', 'x', now(), now() - interval '1 h' + n * interval '1 s'"
        " from generate_series(1, 1000) n"
    )
    queue.fleet.ban("host", "m1", why="x")
    assert value(postgres, "select count(*) from taskq.ban where name <> 'n1'") == 1_000
    postgres.execute("update taskq.ban set until = null")
    with pytest.raises(Conflict, match="there are 1000 bans; lift some"):
        queue.fleet.ban("host", "m2", why="x")
    queue.fleet.ban("host", "m1", why="y")


def test_session_that_was_being_opened_meanwhile_is_drained_by_the_keeper(
    dsn: str, queue: Client, postgres: Postgres
) -> None:
    """Neither the ban nor the session could see the other."""
    with psycopg.connect(dsn) as opening:
        opening.execute("select taskq.open_session('/c', gen_random_uuid(), p_host => 'n17')")
        assert queue.fleet.ban("host", "n17", why="x") == 0
        opening.commit()
    assert [agent.draining for agent in queue.agents()] == [False]
    keep(postgres)
    assert [agent.draining for agent in queue.agents()] == [True]


def test_ban_of_a_time_without_a_keeper_is_not_forgotten(
    dsn: str, queue: Client, postgres: Postgres
) -> None:
    """The audit finds who works on though a keeper had the time to tell; the first round does."""
    with psycopg.connect(dsn) as opening:
        opening.execute("select taskq.open_session('/c', gen_random_uuid(), p_host => 'n17')")
        queue.fleet.ban("host", "n17", why="x")
        opening.commit()
    postgres.execute("update taskq.keeper set until = clock_timestamp() - interval '1 h'")
    postgres.execute("update taskq.ban set banned_at = banned_at - interval '30 min'")
    assert list(queue.audit()) == []  # there was no keeper since
    postgres.execute("update taskq.keeper set until = clock_timestamp()")
    (violation,) = queue.audit()
    assert (violation.check, violation.rows["host"], violation.rows["kind"]) == (
        *("banned", "n17", "host"),
    )
    postgres.execute("update taskq.keeper set until = clock_timestamp() - interval '1 h'")
    keep(postgres)
    assert list(queue.audit()) == []


def test_keeper_looks_at_sessions_while_a_ban_is_new_only(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Later it costs a look at a few bans; it waits for nobody, and passes over locked sessions."""
    hire(host="n1")
    queue.fleet.ban("host", "n17", why="x")
    with watched(postgres) as seen:
        postgres.execute("select taskq.drain_banned()")
    assert seen.to("session").access_paths <= {"session by session_open", "session by None"}
    postgres.execute("update taskq.ban set banned_at = banned_at - interval '1 h'")
    with watched(postgres) as seen:
        postgres.execute("select taskq.drain_banned()")
    assert seen.to("session").accesses == []


def test_banned_host_is_no_other_to_wait_for(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """A task that failed elsewhere does not wait for agents that claim no more."""
    campaign.seed([{"n": 1}])
    first = hire(host="n1")
    hire(host="n2")
    first.fail(first.claim()[0])
    postgres.execute("update taskq.task set due_at = clock_timestamp()")
    value(postgres, "select taskq.promote_delayed()")
    assert first.claim() == []
    queue.fleet.ban("host", "n2", why="x")
    first.forget_position()
    assert len(first.claim()) == 1


def test_two_bans_and_heartbeats_at_a_time_end_well(queue: Client, hire: Hire) -> None:
    """Nobody waits in a circle."""
    agents = [hire(host=f"n{n % 3}") for n in range(12)]

    def ban_all(_: Event) -> None:
        for n in range(3):
            queue.fleet.ban("host", f"n{n}", why="x")
            queue.fleet.unban("host", f"n{n}")

    with meanwhile(*[ban_all] * 3):
        for agent in agents * 3:
            agent.heartbeat(None)
    assert all(agent.draining for agent in queue.agents())


@pytest.mark.parametrize(
    ("name", "why", "until"),
    [
        ("", "x", None),
        ("n" * 201, "x", None),
        ("n1", "", None),
        ("n1", "  ", None),
        ("n1", "x" * 501, None),
        ("n1", "x", timedelta(0)),
        ("n1", "x", timedelta(days=4_000)),
        ("n1", "x", datetime(2020, 1, 1, tzinfo=timezone.utc)),
        ("n1", "x", datetime(2120, 1, 1)),  # noqa: DTZ001  # what is refused
    ],
)
def test_ban_that_makes_no_sense_is_refused(
    name: str, why: str, until: datetime | timedelta | None, queue: Client
) -> None:
    """Nothing is changed."""
    with pytest.raises(UsageError):
        queue.fleet.ban("host", name, why=why, until=until)
    assert queue.fleet.bans() == []


def test_bans_are_few(queue: Client, postgres: Postgres) -> None:
    """Anyone who starts an agent reads them."""
    postgres.execute(
        "insert into taskq.ban (kind, name, why, login, banned_at)"
        " select 'host', 'h' || n, 'x', 'me', clock_timestamp()"
        "  from generate_series(1, 1000) n"
    )
    with pytest.raises(Conflict, match="there are 1000 bans"):
        queue.fleet.ban("site", "one more", why="x")
    assert queue.fleet.ban("host", "h7", why="again") == 0
    with watched(postgres) as seen:
        postgres.execute("select taskq.banned('h7', 'nowhere', '/c')")
    assert seen.to("ban").access_paths <= {"ban by ban_pkey"}


def test_command_bans_lists_and_lifts(dsn: str, hire: Hire) -> None:
    """Several at a time; agents show why they leave."""
    taskq = CommandLine(dsn)
    hire(host="n1")
    hire(host="n2")
    ban = ("hosts", "ban", "n1", "n3", "--why", "hot", "--until", "12h")
    code, error = taskq.refused(*ban)
    assert (code, "No agent has lately been at the host n3. Ban it?" in error) == (2, True), error
    assert taskq.out(*ban, "--dry-run") == (
        "2 hosts would be banned, with 1 agent, n3 unknown so far; nothing was changed.\n"
    )
    assert taskq.json("hosts", "--banned") == []
    assert taskq.out(*ban, "--yes") == "2 hosts banned; 1 agent ordered to leave.\n"
    assert taskq.json(*ban)["agents"] == 0  # known by now
    banned = taskq.json("hosts", "--banned")
    assert [(record["name"], record["why"]) for record in banned] == [("n3", "hot"), ("n1", "hot")]
    listed = taskq.out("agents")
    assert listed.count("the host n1 is banned until 20") == 1
    assert " banned " in listed
    agents = {agent["host"]: agent["banned"] for agent in taskq.json("agents")}
    assert agents["n2"] is None
    assert agents["n1"].endswith("Z: hot")
    assert taskq("sites", "list", "--banned").stderr == "There are none.\n"
    assert taskq.json("hosts", "unban", "n1", "n3", "n4") == {"hosts": ["n1", "n3"]}
    assert taskq.refused("hosts", "unban", "n1")[0] == 3
    assert taskq.json("sites", "ban", "here", "--why", "moving") == {"sites": ["here"], "agents": 1}
    assert taskq.refused("hosts", "ban", "n1", "--why", "x", "--until", "2001-01-01")[0] == 2
