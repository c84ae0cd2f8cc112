"""Events of notification rules: each is sent once, when it has held for long enough."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.diagnosis.events import BY_NAME
from taskq.upkeep.notifications import Notifications
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, keep, silence
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
    """Add a rule that sends all events of /c at once."""
    rules.add("all", campaign.path, [*BY_NAME], TARGET, after_s=0)


@pytest.mark.usefixtures("every")
def test_end_of_a_campaign_is_reported_once_and_again_after_it_went_on(
    campaign: Campaign, found: Look, hire: Hire
) -> None:
    """A campaign without tasks reports nothing, and neither does one with a task left."""
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


def test_campaign_has_finished_with_all_below_it(
    queue: Client, campaign: Campaign, rules: Notifications, found: Look, hire: Hire
) -> None:
    """Campaigns next to it send nothing."""
    servable(queue, "/c/below").seed([{"n": 1}])
    servable(queue, "/c-other").seed([{"n": 1}])
    campaign.seed([{"n": 1}])
    rules.add("one", "/c", ["finished"], TARGET, after_s=0)
    agent, other = hire("/c"), hire("/c/below")
    agent.done(agent.claim(1)[0])
    assert found() == []
    other.done(other.claim(1)[0])
    assert found() == [("finished", "/c")]


def test_pauses_of_a_campaign_and_of_those_above_and_below_are_reported(
    queue: Client, campaign: Campaign, rules: Notifications, found: Look, postgres: Postgres
) -> None:
    """By somebody or by itself; each once, until it is open again. What closes all comes first."""
    below, other = servable(queue, "/c/below"), servable(queue, "/d")
    rules.add("p", campaign.path, ["paused"], TARGET)
    for served in (below, other):
        served.pause()
    assert found() == [("paused", "/c/below")]
    postgres.execute(
        "update taskq.campaign set status = 'paused', paused_why = '97 of 100 failed'"
        " where path = '/c'"
    )
    assert found() == [("paused", "/c")]
    (event,) = rules.events("p", limit=1)
    assert "/c paused itself: 97 of 100 failed. Resume it when" in event.figures["text"]
    queue.campaign("/").pause()
    assert found() == [("paused", "/")]
    queue.campaign("/").resume()
    campaign.resume()
    below.resume()
    assert found() == []
    below.pause()
    assert found() == [("paused", "/c/below")]


def test_tasks_that_no_agent_can_claim_are_reported_with_the_code_of_explain(
    queue: Client,
    campaign: Campaign,
    rules: Notifications,
    found: Look,
    hire: Hire,
    postgres: Postgres,
) -> None:
    """Agents that are silent, leave, or serve another campaign do not count."""
    servable(queue, "/c/a")
    rules.add("n", "/c", ["no-agents"], TARGET, after_s=0)
    other = hire("/c/a")
    campaign.seed([{"n": 1}])
    assert found() == [("no-agents", "/c")]
    agent = hire("/c")
    assert found() == []
    silence(postgres, agent.session)
    assert found() == [("silent", "/c")]
    hire("/")
    assert found() == []
    queue.drain_agents("/")
    assert found() == [("draining", "/c")]
    pass_by(postgres, 601)
    agent.leave()
    assert found() == []
    assert other.leave() == 0


@pytest.mark.usefixtures("every")
def test_nobody_needs_agents_for_a_paused_campaign(campaign: Campaign, found: Look) -> None:
    """What waits there waits for its being opened."""
    campaign.seed([{"n": 1}])
    campaign.pause()
    assert found() == [("paused", "/c")]


@pytest.mark.usefixtures("every")
def test_event_that_recurs_within_ten_minutes_is_not_reported_again(
    campaign: Campaign, found: Look, hire: Hire, postgres: Postgres
) -> None:
    """Agents that come and go make one message."""
    campaign.seed([{"n": 1}])
    hire()
    drain = "update taskq.session set drain = true"
    stay = "update taskq.session set drain = false"
    postgres.execute(drain)
    assert found() == [("draining", "/c")]
    postgres.execute(stay)
    assert found() == []
    pass_by(postgres, 400)
    postgres.execute(drain)
    assert found() == []
    postgres.execute(stay)
    assert found() == []
    pass_by(postgres, 601)
    assert found() == []
    postgres.execute(drain)
    assert found() == [("draining", "/c")]


def test_event_that_does_not_last_is_not_reported(
    campaign: Campaign, rules: Notifications, found: Look, hire: Hire, postgres: Postgres
) -> None:
    """By default a campaign without agents is reported after five minutes, its end after one."""
    rules.add("one", "/c", [*BY_NAME], TARGET)
    campaign.seed([{"n": 1}])
    assert found() == []
    pass_by(postgres, 200)
    assert found() == []
    agent = hire()
    assert found() == []
    postgres.execute("update taskq.session set drain = true")
    assert found() == []
    pass_by(postgres, 200)
    assert found() == []
    pass_by(postgres, 100)
    assert found() == [("draining", "/c")]
    postgres.execute("update taskq.session set drain = false")
    agent.done(agent.claim(1)[0])
    assert found() == []
    pass_by(postgres, 61)
    assert found() == [("finished", "/c")]


def test_failing_campaign_is_reported_by_its_latest_attempts(
    queue: Client, rules: Notifications, found: Look, hire: Hire, postgres: Postgres
) -> None:
    """More than half of at least 20 first attempts, of the campaign that fails; once in a while."""
    for path in ("/c/good", "/c/bad", "/d"):
        servable(queue, path).seed({"n": n} for n in range(100))
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
    (event,) = rules.events("f", limit=1)
    assert (event.figures["failures"], event.figures["attempts"]) == (29, 30)
    assert event.figures["text"] == "29 of the latest 30 first attempts in /c/bad failed."
    assert found() == []


def test_campaign_that_has_become_slow_is_reported_while_tasks_wait(
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
    earlier(8 * 24)
    assert found() == [("slow", "/c")]
    (event,) = rules.events("s")
    assert event.figures["ended"] == 7
    assert event.figures["usual"] in {23, 24}, "a minute may have passed"
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


def test_each_rule_of_a_campaign_reports_its_own_events(
    campaign: Campaign, rules: Notifications, found: Look, hire: Hire
) -> None:
    """A rule that is added later reports the present state."""
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
    campaign.seed([{"n": 1}])
    campaign.pause()
    assert found() == [("paused", "/c")]
    campaign.cancel()
    campaign.remove()
    assert found() == []
    again = servable(queue, "/c")
    again.seed([{"n": 1}])
    again.pause()
    assert found() == [("paused", "/c")]


@pytest.mark.thorough
def test_numbers_of_what_waits_are_bounded(
    queue: Client, rules: Notifications, found: Look, postgres: Postgres
) -> None:
    """Of 250 campaigns that pause, a message names 100; at most 200 events wait unsent."""
    for n in range(250):
        campaign = servable(queue, f"/c/{n:03}")
        campaign.seed([{"n": 1}])
        campaign.pause()
    rules.add("p", "/c", ["paused"], TARGET)
    assert len(found()) == 100
    assert found() == []
    for number in (100, 0):
        postgres.execute("delete from taskq.notify_noted")
        assert len(found()) == number
    assert rules.rule("p").waiting == 200


def test_events_that_nobody_sends_are_given_up_after_a_day(
    campaign: Campaign, rules: Notifications, found: Look, postgres: Postgres
) -> None:
    """And are shown as that."""
    rules.add("p", "/c", ["paused"], TARGET)
    campaign.seed([{"n": 1}])
    campaign.pause()
    assert found() == [("paused", "/c")]
    postgres.execute("update taskq.notify_event set noted_at = now() - interval '25 h'")
    assert found() == []
    rule = rules.rule("p")
    assert (rule.waiting, rule.given_up) == (0, 1)


def test_event_ids_are_drawn(campaign: Campaign, rules: Notifications, found: Look) -> None:
    """So that no receiver takes one for another, of whatever queue."""
    rules.add("p", "/c", ["paused"], TARGET)
    campaign.seed([{"n": 1}])
    campaign.pause()
    found()
    (event,) = rules.events("p")
    assert uuid.UUID(str(event.event_id)).version == 4
