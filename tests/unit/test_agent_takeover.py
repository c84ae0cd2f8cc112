"""A standby takes over that lacks the last of what was acknowledged: it is reported again."""

from __future__ import annotations

import pytest

from taskq_agent.core import events as ev
from taskq_agent.core.delivery import KEPT_S, MOST_BYTES, MOST_REPORTS, FailoverReplay
from taskq_agent.core.reports import fence
from taskq_agent.errors import TransportFailed
from taskq_agent.protocol import ACCEPTED, DONE, DUPLICATE, NO_ORDERS, Report
from tests.helpers.core_harness import CoreHarness, started_harness


def reported(timeline: int = 1) -> CoreHarness:
    """Return an agent with two slots; its report on task 1 was accepted, 2 and 3 run."""
    harness = started_harness(3, slots=2, ahead_s=0)
    harness.queue.timeline = timeline
    harness.end(0)
    harness.deliver()
    assert harness.queue.outcomes(1) == [DONE]
    assert not harness.spool
    return harness


def hear(harness: CoreHarness) -> None:
    """Let a beat be answered."""
    beat = harness.heartbeat()
    answer = harness.queue.heartbeat(beat)
    harness.feed(ev.HeartbeatAnswered(beat.session, NO_ORDERS, answer.timeline))


def test_lost_report_is_sent_again_when_another_server_answers() -> None:
    """The lease is still the task's there, so the work counts, and is not done again."""
    harness = reported()
    harness.queue.fail_over(1)
    assert harness.queue.outcomes(1) == []
    harness.end(0)
    harness.deliver()
    assert [report.task for report in harness.request().reports] == [1]
    assert [report.task for report in harness.spool.values()] == [1]
    harness.deliver()
    assert harness.queue.outcomes(1) == [DONE]
    assert not harness.spool
    assert harness.logged[-1] == "another server has taken over: 1 reports are sent again"


def test_report_that_was_not_lost_is_a_duplicate() -> None:
    """Nothing changes; and it is not sent a third time."""
    harness = reported()
    harness.queue.timeline += 1
    hear(harness)
    harness.deliver_all()
    assert harness.queue.verdicts == {ACCEPTED: 1, DUPLICATE: 1}
    hear(harness)
    harness.end(0)
    harness.deliver_all()
    assert harness.queue.verdicts == {ACCEPTED: 2, DUPLICATE: 1}


def test_heartbeat_finds_the_other_server_and_gives_nothing_away() -> None:
    """It does not name what was reported, and a server that lost the report must not hand it on."""
    harness = reported()
    harness.queue.fail_over(1)
    hear(harness)
    assert not harness.queue.given_away
    assert {held.task for held in harness.heartbeat().held} == {1, 2, 3}
    hear(harness)
    harness.deliver_all()
    assert not harness.queue.given_away
    assert harness.queue.outcomes(1) == [DONE]


@pytest.mark.parametrize("outage_s", [0.0, 10 * KEPT_S])
def test_reports_of_the_last_minute_are_kept_however_long_the_outage(outage_s: float) -> None:
    """What counts is the time before the last answer."""
    harness = reported()
    harness.now += KEPT_S
    hear(harness)
    harness.end(0)
    harness.fail(TransportFailed("down"))
    harness.queue.fail_over(1)
    harness.tick(outage_s)
    hear(harness)
    harness.tick(30)
    harness.deliver_all()
    assert harness.queue.outcomes(1) == [DONE]


def test_older_reports_are_let_go() -> None:
    """A standby lags by moments, not by minutes."""
    harness = reported()
    harness.now += KEPT_S + 1
    hear(harness)
    harness.queue.timeline += 1
    hear(harness)
    assert harness.in_flight is None
    assert not harness.spool


def test_answers_of_two_servers_in_turn_repeat_nothing() -> None:
    """For a moment gateways disagree. What one of them accepts goes to the other, once."""
    harness = reported()
    old, harness.queue.timeline = harness.queue.timeline, 7
    hear(harness)
    harness.deliver_all()
    harness.queue.timeline = old
    harness.end(0)
    harness.deliver_all()
    assert harness.queue.verdicts == {ACCEPTED: 2, DUPLICATE: 1}
    for timeline in (7, old, 7, old):
        harness.queue.timeline = timeline
        hear(harness)
        harness.deliver_all()
        assert harness.queue.verdicts == {ACCEPTED: 2, DUPLICATE: 2}


def test_lost_report_is_sent_again_when_a_replaced_server_is_back() -> None:
    """Its timeline is lower: it took the place of its successor, whose work is undone."""
    harness = reported(timeline=7)
    harness.queue.fail_over(1)
    harness.queue.timeline = 6
    hear(harness)
    assert not harness.queue.given_away
    harness.deliver_all()
    assert harness.queue.outcomes(1) == [DONE]
    assert harness.queue.verdicts == {ACCEPTED: 2}
    hear(harness)
    assert harness.heartbeat().timeline == harness.queue.timeline


def test_agent_ignores_an_unknown_timeline() -> None:
    """Gateways of earlier releases do not send one."""
    harness = started_harness(3, slots=2, ahead_s=0)
    harness.queue.timeline = 0
    harness.end(0)
    harness.deliver_all()
    harness.queue.timeline = 5
    hear(harness)
    assert harness.in_flight is None
    assert not harness.spool


def report(task: int) -> Report:
    """Return a report."""
    return Report(1, task, "lease", DONE)


@pytest.mark.parametrize("size", [1, MOST_BYTES // 10])
def test_kept_reports_are_bounded(size: int) -> None:
    """In number and in bytes; the newest are kept."""
    replay = FailoverReplay()
    for task in range(2 * MOST_REPORTS):
        replay.keep(report(task), size, 1, 0.0)
    again = replay.saw_timeline(2, 0.0)
    assert len(again) == min(MOST_REPORTS, MOST_BYTES // size)
    assert [fence(value).task for value, _ in again][-1] == 2 * MOST_REPORTS - 1
    assert replay.saw_timeline(3, 0.0) == []
