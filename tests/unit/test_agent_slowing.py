"""A node where everything fails at once: its agent holds itself back, says so, and comes back."""

from __future__ import annotations

from typing import Any

import pytest

from taskq_agent.campaign_news import CampaignOutcomes
from taskq_agent.core import events as ev
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, FAILED, RELEASED, Orders, Trouble
from taskq_agent.throttle import COMPARED_ATTEMPTS, COMPARED_S, FAILURES, FAST_S
from tests.helpers.core_harness import CoreHarness, queue_of, started_harness

BROKEN = Ended(FAILED, error_class="no-scratch", error="")


def slowed_world(**settings: Any) -> CoreHarness:
    """Return an agent that has just been slowed, with all its reports delivered."""
    harness = started_harness(10_000, **settings)
    harness.run_quickly(0.01, FAILURES, BROKEN)
    return harness


def tried_world() -> CoreHarness:
    """Return an agent of a queue whose tasks have failed before."""
    queue = queue_of(100)
    for entry in queue.tasks.values():
        entry.attempt = 1
    harness = CoreHarness(queue, slots=1)
    harness.deliver()
    harness.deliver()
    return harness


def test_agent_is_slowed_after_some_fast_failures_in_a_row() -> None:
    """It claims nothing for a while, and tells why."""
    harness = slowed_world(slots=1)
    assert not harness.running
    assert harness.heartbeat().trouble == Trouble(FAILURES, "no-scratch", 5.0)
    assert any("slowing down" in line for line in harness.logged)
    harness.tick(4.9)
    assert harness.in_flight is None
    assert harness.core.due() - harness.now == pytest.approx(0.1)


def test_pause_doubles_with_each_further_fast_failure() -> None:
    """Up to ten minutes."""
    harness = slowed_world(slots=1)
    pauses = []
    for _ in range(9):
        pauses.append(harness.wait_for_attempt())
        harness.end(0, BROKEN)
        harness.deliver_all()
    assert pauses == pytest.approx([5, 10, 20, 40, 80, 160, 320, 600, 600], abs=0.5)
    trouble = harness.heartbeat().trouble
    assert trouble is not None
    assert trouble.failures == FAILURES + 9


def answered(harness: CoreHarness, suspect: str = "") -> None:
    """Have a heartbeat answered."""
    heartbeat = harness.heartbeat()
    harness.feed(ev.HeartbeatAnswered(heartbeat.session, Orders(), suspect=suspect))


def test_exceptions_of_payload_code_slow_no_agent() -> None:
    """However many there are: they are the campaign's, and hosts are not compared by them."""
    harness = started_harness(10_000, slots=1)
    raised = Ended(FAILED, error_class="ValueError", error="", raised=True)
    harness.run_quickly(0.01, 10 * FAILURES, raised)
    assert harness.running
    assert harness.heartbeat().trouble is None
    assert harness.heartbeat().tally == ()


def test_campaign_that_fails_elsewhere_as_well_slows_the_agent_once() -> None:
    """When the queue knows of the row and suspects nothing, the agent goes on as usual."""
    harness = slowed_world(slots=1)
    answered(harness)
    harness.tick(COMPARED_S - 0.1)
    answered(harness)
    assert harness.heartbeat().trouble is not None
    harness.tick(0.1)
    answered(harness)
    harness.deliver_all()
    assert any("the queue does not blame this host" in line for line in harness.logged)
    assert harness.heartbeat().trouble is None
    harness.run_quickly(0.01, 10 * FAILURES, BROKEN)
    assert harness.running


def test_agent_stays_slowed_while_the_queue_suspects_its_host() -> None:
    """Its answers end no row then; and what was thought of a campaign before is forgotten."""
    harness = slowed_world(slots=1)
    for _ in range(3):
        answered(harness, "8 of 8 failed here, 0 of 30 elsewhere")
        harness.tick(COMPARED_S)
    assert harness.heartbeat().trouble is not None


def test_tasks_that_have_failed_before_make_no_pause_longer() -> None:
    """They may fail on any node, and good ones that wait behind them are soon reached."""
    harness = tried_world()
    harness.run_quickly(0.01, FAILURES, BROKEN)
    for _ in range(5):
        assert harness.wait_for_attempt() == pytest.approx(5, abs=0.5)
        harness.end(0, BROKEN)
        harness.deliver_all()


@pytest.mark.parametrize(("uniform", "pause_s"), [(0.0, 3.75), (1.0, 6.25)])
def test_pauses_of_agents_that_failed_together_differ(uniform: float, pause_s: float) -> None:
    """By a quarter, either way."""
    harness = started_harness(100, slots=1, uniform=uniform)
    harness.run_quickly(0.01, FAILURES, BROKEN)
    assert harness.wait_for_attempt() == pytest.approx(pause_s, abs=0.25)


def test_slowed_agent_makes_one_attempt_at_a_time() -> None:
    """All its slots together, whatever was running or had been claimed when that began."""
    harness = started_harness(10_000, slots=4)
    harness.run_quickly(0.01, FAILURES, BROKEN)
    # What ran next to the last of them does not make the pause longer.
    assert len(harness.running) == 3
    for slot in list(harness.running):
        harness.end(slot, BROKEN)
    harness.deliver_all()
    assert harness.wait_for_attempt() == pytest.approx(5, abs=0.5)
    harness.tick(1)
    harness.deliver_all()
    assert len(harness.running) == len(harness.heartbeat().held) == 1


def test_tasks_claimed_ahead_are_handed_back_by_a_slowed_agent() -> None:
    """Others may have more luck with them."""
    harness = started_harness(10_000, slots=1, ahead_s=1.0)
    harness.run_quickly(0.01, 50)
    assert len(harness.heartbeat().held) > 20
    # What is claimed ahead would fail as well, one by one.
    for _ in range(FAILURES):
        harness.end(0, BROKEN)
    harness.deliver_all()
    assert harness.heartbeat().held == ()
    assert harness.reported[-1].outcome == RELEASED
    assert not harness.reported[-1].started


def test_answer_to_a_claim_made_before_is_handed_back() -> None:
    """A claim in the air when the agent is slowed may bring as many tasks as it has slots."""
    harness = started_harness(10_000, slots=3)
    harness.run_quickly(0.01, FAILURES - 2, BROKEN)
    harness.end(0, BROKEN)
    harness.end(1, BROKEN)
    harness.end(2, BROKEN)
    assert not harness.running
    harness.deliver_all()
    assert harness.heartbeat().held == ()


@pytest.mark.parametrize(
    ("ended", "seconds"), [(Ended(DONE, result={}), 0.01), (BROKEN, FAST_S)], ids=["done", "slow"]
)
def test_attempt_that_goes_well_or_takes_long_readmits_the_agent(
    ended: Ended, seconds: float
) -> None:
    """At once, and with all its slots."""
    harness = slowed_world(slots=2)
    harness.end(next(iter(harness.running)), BROKEN)
    harness.deliver_all()
    harness.wait_for_attempt()
    harness.run_quickly(seconds, 1, ended)
    assert len(harness.running) == 2
    assert harness.heartbeat().trouble is None
    assert any("claiming as usual" in line for line in harness.logged)
    # Counted from zero again, and with the first pause.
    harness.run_quickly(0.01, FAILURES - 1, BROKEN)
    assert harness.heartbeat().trouble is None
    harness.run_quickly(0.01, 1, BROKEN)
    assert harness.heartbeat().trouble == Trouble(FAILURES, "no-scratch", 5.0)


@pytest.mark.parametrize(
    "ended",
    [Ended(FAILED, retry=False, error_class="bad-input", error=""), Ended(RELEASED)],
    ids=["for good", "handed back"],
)
def test_failures_found_by_a_handler_do_not_slow_the_node(ended: Ended) -> None:
    """A handler that finds a task bad has looked at it."""
    harness = started_harness(10_000, slots=1)
    harness.run_quickly(0.01, 5 * FAILURES, ended)
    assert harness.heartbeat().trouble is None
    assert harness.running
    # It does not speak for the node either.
    harness.run_quickly(0.01, FAILURES - 1, BROKEN)
    harness.run_quickly(0.01, 1, ended)
    harness.run_quickly(0.01, 1, BROKEN)
    assert harness.heartbeat().trouble is not None


def test_claim_does_not_wait_until_trouble_and_its_end_were_reported() -> None:
    """A waiting claim stands for heartbeats, and carries no tally."""
    harness = started_harness(FAILURES + 1, slots=1, longest_wait_s=50)
    harness.run_quickly(0.01, FAILURES, BROKEN)
    session = harness.heartbeat().session
    harness.feed(ev.HeartbeatAnswered(session, Orders()))
    while harness.in_flight is None:
        harness.tick(0.25)
    assert harness.request().wait_s == 0
    harness.deliver_all()
    harness.run_quickly(0.01, 1)
    while not (harness.in_flight and harness.request().want):
        harness.tick(0.25)
        if harness.in_flight and not harness.request().want:
            harness.deliver()
    assert harness.request().wait_s == 0
    harness.deliver()
    assert harness.heartbeat().trouble is None
    harness.feed(ev.HeartbeatAnswered(session, Orders()))
    while harness.in_flight is None:
        harness.tick(0.25)
    assert harness.request().wait_s > 0


def test_suspicious_host_makes_one_attempt_at_a_time_however_long_it_takes() -> None:
    """What has not begun goes back; each failure makes the pause longer; a success ends that."""
    harness = started_harness(1_000, slots=4, ahead_s=60)
    harness.run_quickly(1, 8)
    assert len(harness.running) == 4
    answered(harness, "9 of 9 failed here")
    assert any("9 of 9 failed here: slowing down" in line for line in harness.logged)
    assert harness.held() == {running.held for running in harness.core._held_tasks.running.values()}  # noqa: SLF001
    pauses = []
    for _ in range(4):
        harness.tick(FAST_S + 1)
        for slot in list(harness.running):
            harness.end(slot, BROKEN)
        harness.deliver_all()
        pauses.append(harness.wait_for_attempt())
        assert len(harness.running) == 1
    assert pauses == pytest.approx([5, 10, 20, 40], abs=0.5)
    (slot,) = harness.running
    harness.end(slot)
    harness.deliver_all()
    assert harness.wait_for_attempt() < 1
    assert len(harness.running) == 1, "until the queue has taken it back"
    answered(harness, "")
    harness.deliver_all()
    assert any("claiming as usual" in line for line in harness.logged)
    assert harness.heartbeat().trouble is None
    harness.tick(1)
    harness.deliver_all()
    assert len(harness.running) == 4


def test_heartbeats_report_how_the_latest_first_attempts_ended() -> None:
    """Not those of tasks that were tried before, nor what the handler has found bad."""
    harness = started_harness(1_000, slots=1)
    assert harness.heartbeat().tally == ()
    harness.run_quickly(1, 3)
    harness.run_quickly(1, 2, BROKEN)
    harness.run_quickly(1, 1, Ended(FAILED, error_class="bad-input", error="", retry=False))
    (campaign,) = {entry.campaign for entry in harness.heartbeat().tally}
    assert harness.heartbeat().tally == (CampaignOutcomes(campaign, 3, 2),)
    harness.run_quickly(1, COMPARED_ATTEMPTS - 1)
    assert harness.heartbeat().tally == (CampaignOutcomes(campaign, COMPARED_ATTEMPTS - 1, 1),)


def test_attempts_at_tasks_that_failed_before_are_not_counted() -> None:
    """They fail on any host."""
    harness = tried_world()
    harness.run_quickly(1, 3, BROKEN)
    assert harness.heartbeat().tally == ()
