"""What notification rules tell of: each event once, when it has been so for long enough."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.upkeep.notifications import EVENTS, Notifications
from taskq.upkeep.sender import nearly_full
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, keep, promote, silence
from tests.helpers.scripted_agent import report_of
from tests.integration.notify.support import look, pass_by

TARGET = "webhook:here"
Look = Callable[[], list[tuple[str, str]]]


@pytest.fixture
def found(database: Database, postgres: Postgres, rules: Notifications) -> Look:
    """Give a function that looks, and returns event and campaign of what it noted first."""
    seen: set[Any] = set()

    def looked() -> list[tuple[str, str]]:
        number = look(database, postgres)
        events = [event for rule in rules.list() for event in rules.events(rule.name)]
        new = [event for event in events if event.event_id not in seen]
        seen.update(event.event_id for event in new)
        assert len(new) == number
        return sorted((event.event, event.subject) for event in new)

    return looked


@pytest.fixture
def every(rules: Notifications, campaign: Campaign) -> None:
    """Let there be a rule for all that happens to /c, told at once."""
    rules.add("all", campaign.path, EVENTS, TARGET, after_s=0)


@pytest.mark.usefixtures("every")
def test_end_of_a_campaign_is_told_once_and_again_after_it_went_on(
    campaign: Campaign, found: Look, hire: Hire
) -> None:
    """No event concerns a campaign without tasks, nor while one is left."""
    agent = hire()
    assert found() == []
    campaign.seed({"n": n} for n in range(2))
    agent.done(agent.claim(1)[0])
    assert found() == []
    agent.done(agent.claim(1)[0])
    assert found() == [("finished", "/c")]
    assert found() == []
    campaign.seed([{"n": 9}])
    assert found() == []
    agent.done(agent.claim(1)[0])
    assert found() == [("finished", "/c")]


def test_a_campaign_has_finished_with_all_below_it(
    queue: Client, campaign: Campaign, rules: Notifications, found: Look, hire: Hire
) -> None:
    """Campaigns next to it send nothing."""
    queue.create_campaign("/c/below").seed([{"n": 1}])
    queue.create_campaign("/c-beside").seed([{"n": 1}])
    campaign.seed([{"n": 1}])
    rules.add("one", "/c", ["finished"], TARGET, after_s=0)
    one, other = hire("/c"), hire("/c/below")
    one.done(one.claim(1)[0])
    assert found() == []
    other.done(other.claim(1)[0])
    assert found() == [("finished", "/c")]


def test_pauses_are_told_of_the_campaign_and_those_above_and_below(
    queue: Client, campaign: Campaign, rules: Notifications, found: Look, postgres: Postgres
) -> None:
    """By somebody or by itself; each once, until it is open again."""
    below, beside = queue.create_campaign("/c/below"), queue.create_campaign("/d")
    rules.add("p", campaign.path, ["paused"], TARGET)
    for one in (below, beside):
        one.pause()
    assert found() == [("paused", "/c/below")]
    queue.campaign("/").pause()
    postgres.execute(
        "update taskq.campaign set status = 'paused', paused_why = '97 of 100 failed'"
        " where path = '/c'"
    )
    assert found() == [("paused", "/"), ("paused", "/c")]
    assert [one.figures["why"] for one in rules.events("p", limit=2)] == [None, "97 of 100 failed"]
    below.resume()
    assert found() == []
    below.pause()
    assert found() == [("paused", "/c/below")]


@pytest.mark.usefixtures("every")
def test_tasks_that_no_agent_serves_are_told(
    queue: Client, campaign: Campaign, found: Look, hire: Hire, postgres: Postgres
) -> None:
    """Agents that are silent, leave, or serve another campaign are none."""
    queue.create_campaign("/c/a")
    other = hire("/c/a")
    campaign.seed([{"n": 1}])
    assert found() == [("no-agents", "/c")]
    agent = hire("/c")
    assert found() == []
    pass_by(postgres, 601)
    assert found() == []
    silence(postgres, agent.session)
    assert found() == [("no-agents", "/c")]
    hire("/")
    assert found() == []
    pass_by(postgres, 601)
    assert found() == []
    queue.drain_agents("/")
    assert found() == [("no-agents", "/c")]
    assert other.leave() == 0


@pytest.mark.usefixtures("every")
def test_nobody_needs_agents_for_a_paused_campaign(campaign: Campaign, found: Look) -> None:
    """What waits there waits for its being opened."""
    campaign.seed([{"n": 1}])
    campaign.pause()
    assert found() == [("paused", "/c")]


@pytest.mark.usefixtures("every")
def test_what_comes_back_within_ten_minutes_is_not_told_again(
    campaign: Campaign, found: Look, hire: Hire, postgres: Postgres
) -> None:
    """Agents that come and go make one message."""
    campaign.seed([{"n": 1}])
    assert found() == [("no-agents", "/c")]
    hire()
    assert found() == []
    pass_by(postgres, 599)
    postgres.execute("update taskq.session set drain = true")
    assert found() == []
    postgres.execute("update taskq.session set drain = false")
    assert found() == []
    pass_by(postgres, 601)
    assert found() == []
    postgres.execute("update taskq.session set drain = true")
    assert found() == [("no-agents", "/c")]


def test_what_does_not_last_is_not_told(
    campaign: Campaign, rules: Notifications, found: Look, hire: Hire, postgres: Postgres
) -> None:
    """By default a campaign without agents is reported after five minutes, its end after one."""
    rules.add("one", "/c", EVENTS, TARGET)
    campaign.seed([{"n": 1}])
    assert found() == []
    pass_by(postgres, 299)
    agent = hire()
    assert found() == []
    postgres.execute("update taskq.session set drain = true")
    assert found() == []
    pass_by(postgres, 299)
    assert found() == []
    pass_by(postgres, 2)
    assert found() == [("no-agents", "/c")]
    postgres.execute("update taskq.session set drain = false")
    agent.done(agent.claim(1)[0])
    assert found() == []
    pass_by(postgres, 61)
    assert found() == [("finished", "/c")]


def test_failing_campaign_is_told_by_its_window(
    queue: Client, rules: Notifications, found: Look, hire: Hire, postgres: Postgres
) -> None:
    """More than half of at least 20 first attempts, of the campaign that fails; once in a while."""
    for path in ("/c/good", "/c/bad", "/d"):
        queue.create_campaign(path).seed({"n": n} for n in range(100))
    rules.add("f", "/c", ["failing"], TARGET)

    def work(path: str, *, done: int = 0, failed: int = 0) -> None:
        agent = hire(path)
        tasks = agent.claim(done + failed)
        reports = [report_of(task, "done", result={}) for task in tasks[:done]]
        reports += [report_of(task, "failed", error_class="Boom") for task in tasks[done:]]
        assert set(agent.exchange(reports)["acks"]) == {"accepted"}
        keep(postgres)

    work("/c/bad", failed=1, done=1)
    work("/c/bad", failed=18)
    work("/c/good", failed=10, done=20)
    work("/d", failed=30)
    assert found() == []
    work("/c/bad", failed=10)
    assert found() == [("failing", "/c/bad")]
    figures = rules.events("f", limit=1)[0].figures  # type: ignore[index]
    assert figures["failures"] == 29
    assert found() == []


def test_campaign_that_has_become_slow_is_told_while_tasks_wait(
    campaign: Campaign, rules: Notifications, found: Look, hire: Hire, postgres: Postgres
) -> None:
    """Less than a third of what was usual ended; but not if nothing waits or it is paused."""
    rules.add("s", "/c", ["slow"], TARGET, after_s=0)
    campaign.seed({"n": n} for n in range(10))
    agent = hire()
    for task in agent.claim(7):
        agent.done(task)

    def earlier(ended: int) -> None:
        """Let so many have ended from 135 to 15 minutes ago, in eight times the last window."""
        postgres.execute("delete from taskq.trend")
        postgres.execute(
            "insert into taskq.trend (campaign_id, minute, done, failed, failures, unfinished,"
            " working, agents)"
            " select %s, floor(extract(epoch from clock_timestamp()) / 60) - w.age, w.done, 0, 0,"
            " 10, 0, 0 from (values (500, 0), (135, -%s), (15, 0)) w (age, done)",
            [campaign.campaign_id, ended],
        )

    for ended in (8 * 19, 8 * 21, 8 * 20 - 1):
        earlier(ended)
        assert found() == []
    earlier(8 * 22)
    assert found() == [("slow", "/c")]
    (event,) = rules.events("s")
    assert event.figures == {"ended": 7, "usual": 22}
    assert found() == []
    campaign.pause()
    assert found() == []
    pass_by(postgres, 601)
    assert found() == []
    campaign.resume()
    assert found() == [("slow", "/c")]
    for task in agent.claim(3):
        agent.done(task)
    pass_by(postgres, 601)
    assert found() == []
    assert found() == []
    campaign.seed([{"n": 99}])
    assert found() == []


def test_disk_that_is_nearly_full_is_told_once_by_whichever_keeper(
    campaign: Campaign, rules: Notifications, database: Database, postgres: Postgres
) -> None:
    """Keepers that see other disks look in between."""
    rules.add("d", campaign.path, ["disk", "paused"], TARGET)
    rules.add("p", "/", ["paused"], TARGET)
    disk = {"disk": "db1:/var/lib", "free": 10**9, "size": 10**12}
    assert look(database, postgres) == 0
    assert look(database, postgres, disk) == 1
    (event,) = rules.events("d")
    assert (event.subject, event.figures) == ("db1:/var/lib", {"free": 10**9, "size": 10**12})
    assert look(database, postgres) == 0
    assert look(database, postgres, disk) == 0
    assert look(database, postgres, disk | {"disk": "x" * 10_000}) == 1
    assert look(database, postgres, *({"disk": str(n)} for n in range(30))) == 20


def test_keeper_sees_how_full_a_disk_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that has gone is none."""
    there, gone = str(tmp_path), str(tmp_path / "gone")
    monkeypatch.setattr("taskq.upkeep.sender.FREE_SHARE", 0.0)
    assert nearly_full([there, gone]) == []
    monkeypatch.setattr("taskq.upkeep.sender.FREE_SHARE", 1.1)
    monkeypatch.setattr("taskq.upkeep.sender.FREE_BYTES", 10**18)
    (found,) = nearly_full([there, gone])
    assert found["disk"].endswith(f":{there}")
    assert 0 < found["free"] <= found["size"]


def test_several_rules_on_one_campaign_are_told_each_its_own(
    campaign: Campaign, rules: Notifications, found: Look, hire: Hire
) -> None:
    """Each has its own events; one that comes later reports the present state."""
    rules.add("a", "/c", ["finished", "paused"], TARGET, after_s=0)
    rules.add("b", "/", ["finished"], TARGET, after_s=0)
    campaign.seed([{"n": 1}])
    agent = hire()
    agent.done(agent.claim(1)[0])
    assert found() == [("finished", "/"), ("finished", "/c")]
    rules.add("later", "/c", ["finished"], TARGET, after_s=0)
    assert found() == [("finished", "/c")]


def test_rule_outlives_its_campaign(
    queue: Client, campaign: Campaign, rules: Notifications, found: Look
) -> None:
    """A campaign that is removed and made anew is watched again."""
    rules.add("p", "/c", ["paused"], TARGET)
    campaign.pause()
    assert found() == [("paused", "/c")]
    campaign.cancel()
    campaign.remove()
    assert found() == []
    queue.create_campaign("/c").pause()
    assert found() == [("paused", "/c")]


def test_one_looks_at_a_time_and_no_more_often_than_every_five_seconds(
    database: Database, postgres: Postgres, rules: Notifications, campaign: Campaign
) -> None:
    """A second keeper neither waits nor looks."""
    assert database.value("note_events", disks="[]", troubles=None) is None
    rules.add("p", campaign.path, ["paused"], TARGET)
    postgres.execute("update taskq.notify_watch set due_at = now()")
    with database.transaction() as slow:
        assert slow.value("note_events", disks="[]", troubles=None) == 0
        assert database.value("note_events", disks="[]", troubles=None) is None
    assert database.value("note_events", disks="[]", troubles=None) is None
    (left,) = (
        postgres.execute("select extract(epoch from due_at - now()) as s from taskq.notify_watch")
        .fetchone()
        .values()
    )  # type: ignore[union-attr]
    assert 0 < left <= 5


@pytest.mark.thorough
def test_numbers_of_what_waits_are_bounded(
    queue: Client, rules: Notifications, found: Look, postgres: Postgres
) -> None:
    """Of 250 campaigns that pause, a message names 100; at most 200 events wait unsent."""
    for n in range(250):
        queue.create_campaign(f"/c/{n:03}").pause()
    rules.add("p", "/c", ["paused"], TARGET)
    assert len(found()) == 100
    assert found() == []
    for number in (100, 0):
        postgres.execute("delete from taskq.notify_condition")
        assert len(found()) == number
    assert rules.rule("p").waiting == 200


def test_events_that_nobody_sends_are_given_up_after_a_day(
    campaign: Campaign, rules: Notifications, found: Look, postgres: Postgres
) -> None:
    """And are shown as that."""
    rules.add("p", "/c", ["paused"], TARGET)
    campaign.pause()
    assert found() == [("paused", "/c")]
    postgres.execute("update taskq.notify_event set noted_at = now() - interval '25 h'")
    assert found() == []
    rule = rules.rule("p")
    assert (rule.waiting, rule.given_up) == (0, 1)


@pytest.mark.usefixtures("every")
def test_looking_reads_no_task_and_no_attempt(
    campaign: Campaign, postgres: Postgres, hire: Hire
) -> None:
    """Its cost grows with campaigns, sessions and rules only."""
    campaign.seed({"n": n} for n in range(3_000))
    agent = hire()
    for task in agent.claim(100):
        agent.fail(task)
    promote(postgres)
    keep(postgres)
    postgres.execute("update taskq.notify_watch set due_at = now() - interval '1 s'")
    with watched(postgres) as plans:
        postgres.execute("select taskq.note_events()")
    tables = {one.table for one in plans.accesses}
    assert {"notify_condition", "campaign", "counter", "session", "pulse"} <= tables
    assert not tables & {"task", "attempt", "spec", "span", "bundle"}
    assert plans.rows_met < 400


def test_event_ids_are_drawn(campaign: Campaign, rules: Notifications, found: Look) -> None:
    """So that no receiver takes one for another, of whatever queue."""
    rules.add("p", "/c", ["paused"], TARGET)
    campaign.pause()
    found()
    (event,) = rules.events("p")
    assert uuid.UUID(str(event.event_id)).version == 4
