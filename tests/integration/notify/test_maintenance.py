"""Maintenance windows: no message about what is expected, no judgement by time, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from taskq import Campaign, Client
from taskq.api.aio import AsyncClient
from taskq.db.connections import Database
from taskq.model.errors import Conflict, NotFound, UsageError
from taskq.upkeep.notifications import Notifications
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, silence
from tests.integration.notify.support import look

TARGET = "webhook:here"
HOUR = timedelta(hours=1)
Codes = Callable[[], set[str]]


@pytest.fixture
def codes(campaign: Campaign) -> Codes:
    """Give a function that returns the codes of the reasons of /c."""
    return lambda: {reason.code for reason in campaign.explain().reasons}


@pytest.fixture
def lost(campaign: Campaign, hire: Hire, postgres: Postgres) -> None:
    """Let the host n1 of the site here be lost while tasks wait."""
    campaign.seed({"n": n} for n in range(40))
    hire("/c", host="n0").claim()
    hire("/c", host="n1")
    postgres.execute("update taskq.session set ended_at = now(), expired = true where host = 'n1'")


@pytest.mark.usefixtures("lost")
@pytest.mark.parametrize(
    "where",
    [{"hosts": ["n1"]}, {"sites": ["here"]}, {"path": "/c"}, {"hosts": ["n1"], "path": "/c"}],
)
def test_capacity_that_is_repaired_is_not_judged_as_lost(
    where: dict[str, Any], queue: Client, codes: Codes
) -> None:
    """The views say why. With the end of the window it is judged as before."""
    assert "capacity-lost" in codes()
    window = queue.maintenance.start(until=HOUR, why="new disks", **where)
    assert {"capacity-lost", "maintenance"} & codes() == {"maintenance"}
    (reason,) = (it for it in queue.campaign("/c").explain().reasons if it.code == "maintenance")
    assert "new disks. No message goes out" in reason.text
    assert list(reason.commands) == [f"taskq maintenance end {window}"]
    assert queue.maintenance.end(window)
    assert not queue.maintenance.end(window)
    assert {"capacity-lost", "maintenance"} & codes() == {"capacity-lost"}


@pytest.mark.usefixtures("lost")
@pytest.mark.parametrize("where", [{"hosts": ["n2"]}, {"sites": ["there"]}, {"path": "/d"}])
def test_window_of_something_else_hides_nothing(
    where: dict[str, Any], queue: Client, codes: Codes
) -> None:
    """Another host, another site, another campaign."""
    queue.create_campaign("/d")
    queue.maintenance.start(until=HOUR, why="new disks", **where)
    assert "capacity-lost" in codes()


def test_expected_trouble_is_listed_and_sends_no_message_before_the_window_ends(
    queue: Client,
    campaign: Campaign,
    rules: Notifications,
    database: Database,
    postgres: Postgres,
) -> None:
    """What still holds then is reported, also if it began in the window."""
    rules.add("r", "/c", ["no-agents"], TARGET, after_s=0)
    campaign.seed([{"n": 1}])
    window = queue.maintenance.start(path="/c", until=HOUR, why="moving")
    assert look(database, postgres) == 0
    (trouble,) = queue.troubles.list("/c").troubles
    assert (trouble.code, trouble.state) == ("no-agents", "maintenance")
    assert trouble.known.startswith("expected in maintenance until 20")
    assert queue.troubles.list("/c").open == []
    queue.maintenance.end(window)
    assert look(database, postgres) == 1
    assert [it.code for it in queue.troubles.list("/c").open] == ["no-agents"]


@pytest.fixture
def absent(
    request: pytest.FixtureRequest, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Let those who serve /c be away: as the parameter says."""
    campaign.seed([{"n": 1}, {"n": 2}, {"n": 3}])
    if request.param == "never":
        return
    agents = [hire("/c", host=host) for host in ("n1", "n2")]
    for agent in agents:
        agent.report(agent.claim(1)[0], "done")
        if request.param == "silent":
            silence(postgres, agent.session)
        else:
            agent.leave()
    if request.param == "long ago":
        postgres.execute("update taskq.session set ended_at = now() - interval '2 h'")


@pytest.mark.parametrize(
    ("absent", "where", "expected"),
    [
        ("left", {"sites": ["here"]}, True),
        ("long ago", {"sites": ["here"]}, True),
        ("silent", {"sites": ["here"]}, True),
        ("left", {"hosts": ["n1", "n2"]}, True),
        ("silent", {"hosts": ["n1", "n2"]}, True),
        ("left", {"hosts": ["n1"]}, False),
        ("silent", {"hosts": ["n1"]}, False),
        ("long ago", {"sites": ["there"]}, False),
        ("never", {"sites": ["here"]}, False),
        ("never", {"path": "/c"}, True),
    ],
    indirect=["absent"],
)
@pytest.mark.usefixtures("absent")
def test_campaign_without_agents_is_expected_where_all_of_them_are_repaired(
    where: dict[str, Any],
    expected: bool,
    queue: Client,
    rules: Notifications,
    database: Database,
    postgres: Postgres,
) -> None:
    """A window of a site speaks for campaigns that were served from there, and only from there."""
    rules.add("r", "/c", ["no-agents"], TARGET, after_s=0)
    queue.maintenance.start(until=HOUR, why="new disks", **where)
    assert look(database, postgres) == (not expected)
    (trouble,) = (it for it in queue.troubles.list("/c").troubles if it.blocks)
    assert trouble.code in {"no-agents", "silent"}
    assert trouble.state == ("maintenance" if expected else "now")


def test_campaign_whose_sites_are_repaired_in_windows_of_their_own_is_expected_to_stand(
    queue: Client, campaign: Campaign, hire: Hire
) -> None:
    """Until the first of them ends."""
    campaign.seed([{"n": 1}])
    for site in ("east", "west"):
        hire("/c", host=site, site=site).leave()
    first = queue.maintenance.start(until=HOUR, why="new disks", sites=["east"])
    (reason,) = (it for it in campaign.explain().reasons if it.code == "no-agents")
    assert reason.maintenance is None
    queue.maintenance.start(until=2 * HOUR, why="new disks", sites=["west"])
    (reason,) = (it for it in campaign.explain().reasons if it.code == "no-agents")
    assert reason.maintenance == first


def test_window_ends_by_itself(
    queue: Client, campaign: Campaign, codes: Codes, postgres: Postgres
) -> None:
    """Nobody has to think of it."""
    campaign.seed([{"n": 1}])
    queue.maintenance.start(until=HOUR, why="moving")
    assert "maintenance" in codes()
    postgres.execute("update taskq.maintenance set begins = begins - interval '2 h', ends = now()")
    assert "maintenance" not in codes()
    (window,) = queue.maintenance.list()
    assert (window.state, window.ended_by) == ("ended", None)


def test_planned_window_counts_from_its_beginning(
    queue: Client, campaign: Campaign, codes: Codes, postgres: Postgres
) -> None:
    """It can be ended before it has begun."""
    campaign.seed([{"n": 1}])
    window = queue.maintenance.start(until=2 * HOUR, begins=HOUR, why="moving")
    assert "maintenance" not in codes()
    assert [it.state for it in queue.maintenance.list()] == ["to come"]
    postgres.execute("update taskq.maintenance set begins = now()")
    assert "maintenance" in codes()
    assert queue.maintenance.end(window)
    assert "maintenance" not in codes()


def test_window_of_the_whole_queue_hides_no_lost_work(
    queue: Client,
    campaign: Campaign,
    rules: Notifications,
    hire: Hire,
    database: Database,
    postgres: Postgres,
) -> None:
    """Neither a database that was set back nor failed tasks."""
    rules.add("r", "/", ["trouble"], TARGET, after_s=0)
    campaign.seed({"n": n} for n in range(3))
    agent = hire("/c")
    agent.report(agent.claim(1)[0], "failed", error_class="Boom", retry=False)
    postgres.execute("insert into taskq.set_back values (now(), now() - interval '1 h', now(), 1)")
    queue.maintenance.start(until=HOUR, why="all is rebuilt")
    assert look(database, postgres) == 2
    assert {event.event for event in rules.events("r")} == {"set-back", "failed"}


def test_attempts_on_a_host_that_is_repaired_are_not_overdue(
    queue: Client, campaign: Campaign, hire: Hire, codes: Codes, postgres: Postgres
) -> None:
    """Others are."""
    campaign.seed({"n": n} for n in range(30))
    agent, stuck = hire("/c", host="n1"), hire("/c", host="n2")
    tasks = agent.claim(20)
    stuck.claim()
    for task in tasks:
        agent.done(task)
    postgres.execute("update taskq.task set claimed_at = claimed_at - interval '1 h'")
    postgres.execute("update taskq.bundle set claimed_at = claimed_at - interval '1 h'")
    assert "overdue" in codes()
    queue.maintenance.start(hosts=["n1"], until=HOUR, why="new disks")
    assert "overdue" in codes()
    queue.maintenance.start(hosts=["n2"], until=HOUR, why="new disks")
    assert "overdue" not in codes()


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"until": timedelta(days=8)}, "for 1 s to 7 days"),
        ({"until": timedelta(seconds=-1)}, "for 1 s to 7 days"),
        ({"until": HOUR, "begins": 2 * HOUR}, "for 1 s to 7 days"),
        ({"until": timedelta(days=33), "begins": timedelta(days=31)}, "within 30 days"),
        ({"until": timedelta(days=3_650)}, "for 1 s to 7 days"),
        ({"until": datetime.now()}, "time zone"),  # noqa: DTZ005  # it has none
        ({"until": HOUR, "why": " "}, "reason of 1 to 500"),
        ({"until": HOUR, "hosts": [""]}, "1 to 200 characters"),
        ({"until": HOUR, "hosts": [str(n) for n in range(1_001)]}, "1,000 sites and hosts"),
    ],
)
def test_window_has_an_end_and_a_reason(how: dict[str, Any], error: str, queue: Client) -> None:
    """None lasts for ever, and none ends before it begins."""
    with pytest.raises(UsageError, match=error):
        queue.maintenance.start(**{"why": "moving"} | how)


def test_number_of_windows_is_bounded(queue: Client, postgres: Postgres) -> None:
    """Those that have ended make room, and are forgotten after three days."""
    for _ in range(100):
        queue.maintenance.start(until=HOUR, why="moving")
    with pytest.raises(Conflict, match="100 maintenance windows"):
        queue.maintenance.start(until=HOUR, why="moving")
    postgres.execute(
        "update taskq.maintenance set begins = now() - interval '5 d',"
        " ends = now() - interval '4 d'"
    )
    assert queue.maintenance.start(until=HOUR, why="moving") == 101
    assert [it.maintenance_id for it in queue.maintenance.list()] == [101]
    with pytest.raises(NotFound, match="no maintenance window 7"):
        queue.maintenance.end(7)
    with pytest.raises(NotFound):
        queue.maintenance.start(path="/nowhere", until=HOUR, why="moving")


@pytest.mark.usefixtures("campaign")
def test_command_line_announces_lists_and_ends(taskq: CommandLine) -> None:
    """Also in the time zone of the reader."""
    until = (datetime.now(timezone.utc) + HOUR).isoformat()
    made = taskq.json(
        "maintenance", "start", "/c", "--host", "n1", "--until", until, "--why", "a\x1b[2Jb"
    )
    taskq.out("maintenance", "start", "--site", "s", "--begin", "1d", "--until", "2d", "--why", "x")
    table = taskq.out("maintenance")
    assert "\x1b" not in table
    assert "host n1 for /c" in table
    assert "to come" in table
    taskq.out("maintenance", "end", made["maintenance_id"])
    states = {it["maintenance_id"]: it["state"] for it in taskq.json("maintenance")}
    assert states == {made["maintenance_id"]: "ended", 2: "to come"}


def test_asynchronous_twin_announces_and_ends(queue: Client) -> None:
    """It has the calls of its original."""

    async def ended() -> tuple[int, bool]:
        windows = AsyncClient(queue).maintenance
        window = await windows.start(until=HOUR, why="moving")
        return len(await windows.list()), await windows.end(window)

    assert asyncio.run(ended()) == (1, True)
