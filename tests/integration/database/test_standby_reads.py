"""Reading from a hot standby: what it says of its age, and when the primary is read instead."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from psycopg.conninfo import make_conninfo

import taskq
from taskq import Campaign, CampaignSpec, Client, Handler, RetryPolicy
from taskq.db import standby
from taskq.model.errors import NotFound, Unavailable, UsageError
from taskq.model.seed import Seed
from tests.fixtures.gateways import opened
from tests.fixtures.replicas import Pair, pair  # noqa: F401  # a fixture, for the tests here
from tests.helpers.command_line import CommandLine
from tests.helpers.meanwhile import meanwhile
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import free_port, wait_until

TASKS = 5
LATER_S = 100.0
#: No less than a first look can find, whatever the machine does meanwhile.
ALWAYS_S = 1e6
READING: list[list[str]] = [
    ["status", "/c"],
    ["status", "/later"],
    ["explain", "/later"],
    ["ls", "/"],
    ["tree", "/"],
    ["tasks", "/c"],
    ["tasks", "/c", "--where", "payload.n > 0"],
    ["tasks", "/c", "--key", "1"],
    ["history", "/c", "1"],
    ["logs", "/c", "1"],
    ["explain", "/c"],
    ["explain", "/c", "1"],
    ["failures", "/c"],
    ["failures", "/c", "--judge", "host"],
    ["failures", "/c", "--each"],
    ["hosts", "list", "/c"],
    ["sites", "list", "/c"],
    ["sites", "list", "--banned"],
    ["agents", "list", "/c"],
    ["results", "/c"],
    ["results", "/c", "--where", "payload.n > 0"],
    ["results", "/c", "--best", "2", "--by", "result.score", "--lowest"],
    ["export", "/c"],
    ["export", "/c", "-o", "sdf"],
]


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    """Give two servers with a campaign of which some tasks are done, one has failed."""
    both = Pair()
    try:
        fill(both)
        yield both
    finally:
        both.close()


def fill(servers: Pair) -> None:
    """Seed a campaign of which a task fails for good, two are done; and one with a delayed task."""
    with opened(servers.primary_dsn) as queue:
        spec = CampaignSpec("/c", handler=Handler("command", argv=("x",)))
        _finish(queue.create_campaign(spec), queue)
        later = queue.create_campaign(CampaignSpec("/later", retry=RetryPolicy(backoff_s=3_600)))
        later.submit({}, "a")
        with closing(ScriptedAgent(queue.database, later.path)) as agent:
            agent.fail(agent.claim(1)[0])


def _finish(campaign: Campaign, queue: Client) -> None:
    campaign.seed(Seed({"n": n}, str(n)) for n in range(TASKS))
    with closing(ScriptedAgent(queue.database, campaign.path)) as agent:
        first, second, third = agent.claim(3)
        agent.fail(first, retry=False)
        agent.done(second, {"score": 2.0})
        agent.done(third, {"score": 1.0})


@contextmanager
def reader(servers: Pair, most_behind_s: float = ALWAYS_S) -> Iterator[tuple[Client, list[str]]]:
    """Give a client that reads from the standby, and its messages."""
    said: list[str] = []
    with taskq.connect_to_read(
        servers.standby_dsn, servers.primary_dsn, most_behind_s=most_behind_s, say=said.append
    ) as client:
        yield client, said


def line(servers: Pair, dsn: str) -> CommandLine:
    """Return the command line of the queue at an address, reading from the standby."""
    address = {"TASKQ_DSN": dsn, "TASKQ_READ_DSN": servers.standby_dsn}
    return CommandLine(dsn, address=address)


def nowhere() -> str:
    """Return an address where nobody listens."""
    return f"postgresql://127.0.0.1:{free_port()}/none"


@pytest.mark.parametrize("words", rest_thorough(READING, 4), ids=map(" ".join, READING))
def test_commands_that_read_need_no_primary(servers: Pair, words: list[str]) -> None:
    """And say how far the standby is behind."""
    servers.catch_up()
    done = line(servers, nowhere())(*words, *(() if words[0] == "export" else ("-o", "json")))
    assert done.exit_code == 0, done.stderr
    assert re.search(r"Read from a standby, at most .* behind\.\n$", done.stderr), done.stderr


def test_standby_answers_like_the_primary(servers: Pair) -> None:
    """In the same words, except for the age of the data."""
    servers.catch_up()
    queue, direct = line(servers, nowhere()), CommandLine(servers.primary_dsn)
    for words in (("ls", "/"), ("tasks", "/c"), ("results", "/c"), ("failures", "/c", "--each")):
        assert queue.json(*words) == direct.json(*words)
    assert queue.json("status", "/c")["behind_s"] >= 0
    assert queue.json("explain", "/c")["behind_s"] >= 0
    assert direct.json("status", "/c")["behind_s"] is None


def test_how_far_tasks_are_is_known_on_the_primary_only(servers: Pair) -> None:
    """A standby lists them all the same: it has no such table, which is not logged."""
    with opened(servers.primary_dsn) as queue:
        campaign = queue.create_campaign("/working")
        campaign.submit({}, "a")
        with closing(ScriptedAgent(queue.database, campaign.path)) as agent:
            (task,) = agent.claim()
            fenced = {"campaign": task.campaign, "task": task.task, "lease": task.lease}
            update = {"session": agent.session, **fenced, "fraction": 0.5}
            queue.database.rows("note_updates", updates=json.dumps([update]))
            assert campaign.task("a").progress == 0.5
            servers.catch_up()
            with reader(servers) as (client, said):
                found = client.campaign(campaign.path).task("a")
            assert (found.status, found.progress, said) == ("working", None, [])


@pytest.mark.thorough
def test_pages_say_how_old_they_are(servers: Pair) -> None:
    """At their foot, whatever page it is."""
    pytest.importorskip("jinja2")
    servers.catch_up()
    words = ("web", "--listen", "127.0.0.1:0", "--read-behind", "1d")
    with line(servers, servers.primary_dsn).process(*words) as pages:
        assert pages.stdout is not None
        address, _, secret = pages.stdout.readline().strip().partition("?secret=")
        for page in ("", "campaign?path=/c", "campaign?path=/later", "hosts?path=/c"):
            asked = urllib.request.Request(address + page)  # noqa: S310
            asked.add_header("authorization", f"Bearer {secret}")
            with urllib.request.urlopen(asked, timeout=LATER_S) as reply:  # noqa: S310
                text = reply.read().decode()
            assert re.search(r"Read from a standby, [^<]* behind at most", text), text


@pytest.mark.thorough
def test_standby_that_is_behind_is_left_with_a_word(servers: Pair) -> None:
    """What is read is then exact; within the bound its age is reported."""
    queue = line(servers, servers.primary_dsn)
    with opened(servers.primary_dsn) as owner, servers.replay_paused():
        before = queue.json("status", "/c")["waiting"]
        owner.campaign("/c").submit({"n": "late"}, key="late")
        assert queue.json("status", "/c", "--read-behind", "1d")["waiting"] == before
        wait_until(lambda: is_behind(servers), timeout_s=LATER_S)
        done = queue("status", "/c", "-o", "json", "--read-behind", "0.01")
        assert f'"waiting": {before + 1}' in done.stdout
        assert re.fullmatch(
            r"Warning: the standby, .* is .* s behind; reading from the primary\.\n", done.stderr
        )
    servers.catch_up()


def is_behind(servers: Pair) -> bool:
    """Return whether the last commit that the standby shows is more than a moment old."""
    age = "select clock_timestamp() - pg_last_xact_replay_timestamp() > interval '0.1 s'"
    return bool(servers.seen_by_standby(age))


@pytest.mark.thorough
def test_standby_of_a_primary_that_writes_nothing_is_not_behind(servers: Pair) -> None:
    """Though nothing was replayed for longer than is allowed."""

    def is_known() -> bool:
        with reader(servers, most_behind_s=1e-6) as (client, said):
            client.campaign("/c")
            return client.behind_s is not None and not said

    wait_until(is_known, timeout_s=LATER_S)


def test_new_campaign_is_found_before_the_standby_knows_it(servers: Pair) -> None:
    """The primary is asked if the standby does not know it."""
    with opened(servers.primary_dsn) as owner, reader(servers) as (client, said):
        with servers.replay_paused():
            owner.create_campaign("/new")
            assert client.campaign("/new").status().total == 0
            with pytest.raises(NotFound):
                client.campaign("/none")
        assert said == []
        owner.campaign("/new").remove()
    servers.catch_up()


@pytest.mark.thorough
def test_end_is_waited_for_at_the_primary(servers: Pair) -> None:
    """A standby may show the end of tasks before others were seeded."""
    with opened(servers.primary_dsn) as owner, reader(servers) as (client, _):
        campaign = owner.create_campaign("/waited")
        servers.catch_up()
        with servers.replay_paused():
            campaign.submit({"n": 1}, key="1")
            seen = client.campaign("/waited")
            assert seen.status().unfinished == 0
            with pytest.raises(TimeoutError):
                seen.wait(timeout_s=0)
        campaign.remove()
    servers.catch_up()


def test_reader_changes_nothing(servers: Pair) -> None:
    """It says so, before anything is asked of a server."""
    with reader(servers) as (client, _):
        campaign = client.campaign("/c")
        for change in (campaign.cancel, campaign.pause, campaign.retry, campaign.remove):
            with pytest.raises(UsageError, match="for reading"):
                change()
        with pytest.raises(UsageError):
            campaign.submit({"n": 1}, key="not this")


@pytest.mark.thorough
def test_many_threads_read(servers: Pair) -> None:
    """At a time, through one client."""
    counts: list[int] = []
    with reader(servers) as (client, said):
        campaign = client.campaign("/c")
        with meanwhile(*[lambda _: counts.append(campaign.status().done)] * 8):
            pass
        assert (counts, said) == ([2] * 8, [])


@pytest.mark.thorough
def test_standby_that_dies_under_an_export_is_left_with_one_word(
    pair: Pair,  # noqa: F811  # the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each result comes once; a statement that it did not answer is asked of the primary."""
    monkeypatch.setattr(standby, "REST_S", 0.0)  # looked at again each time
    monkeypatch.setattr("taskq.db.access.PAGE", 1)
    fill(pair)
    pair.catch_up()
    with reader(pair) as (client, said):
        found = client.campaign("/c").results()
        keys = [next(found).key]
        assert client.behind_s is not None
        pair.kill_standby()
        keys += [result.key for result in found]
        assert client.behind_s is None
    assert sorted(keys) == ["1", "2"]
    assert len(said) == 1
    assert said[0].endswith("; reading from the primary")
    done = line(pair, pair.primary_dsn)("status", "/c")
    assert done.exit_code == 0
    assert done.stderr.count("\n") == 1
    assert "reading from the primary" in done.stderr
    pair.kill_primary()
    assert line(pair, pair.primary_dsn)("status", "/c").exit_code == Unavailable.exit_code


def test_bad_addresses_are_refused_without_their_secrets(servers: Pair) -> None:
    """As those of the server are."""
    queue = CommandLine(servers.primary_dsn)
    for dsn in ("https://gw.example.org", "postgresql://me:12/secret@h/q", "host=h password='sec"):
        code, text = queue.refused("status", "--read-dsn", dsn)
        assert code == UsageError.exit_code
        assert "sec" not in text.replace("second", "")
    wrong = make_conninfo(servers.standby_dsn, user="nobody", password="secret")  # noqa: S106  # of nobody
    done = queue("status", "--read-dsn", wrong)
    assert done.exit_code == 0
    assert "reading from the primary" in done.stderr
    assert "secret" not in done.stderr
    gateway = CommandLine("", address={"TASKQ_URL": "https://gw.example.org"})
    assert "not that of a gateway" in gateway.refused("status", "--read-dsn", "host=h")[1]
