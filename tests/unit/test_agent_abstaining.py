"""A campaign that cannot be run here: the agent leaves it out, tries again, and stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskq_agent.backoff import CampaignBackoff
from taskq_agent.core import events as ev
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import FAILED, MAX_WITHOUT, RELEASED, Unservable
from tests.helpers.core_harness import CoreHarness, queue_of, started_harness

REFUSED = Ended(RELEASED, error_class="prepare-failed", error="no receptor", refused=True)
LEFT_OUT = ((1, 1),)


def test_refused_campaign_is_left_out_of_the_next_claim_and_the_agent_stays() -> None:
    """The attempt is reported with its class, tasks not begun go back, and the log has it once."""
    harness = started_harness(10, slots=2)
    harness.end(0, REFUSED)
    report = harness.reported[0]
    assert (report.outcome, report.refused, report.started) == (RELEASED, True, True)
    assert report.error_class == "prepare-failed"
    assert harness.request().without == LEFT_OUT
    harness.end(1, REFUSED)
    harness.deliver_all()
    assert not harness.running
    assert sum("cannot be run here" in line for line in harness.logged) == 1
    assert harness.exit is None
    assert harness.core.totals().failed == 0


def test_pause_doubles_and_one_task_is_tried_when_it_is_over() -> None:
    """Whatever number of slots there is; up to sixty times the first pause."""
    harness = started_harness(100, slots=8, campaign_backoff_s=10)
    for slot in list(harness.running):
        harness.end(slot, REFUSED)
    pauses = []
    for _ in range(8):
        harness.deliver_all()
        pauses.append(harness.wait_for_attempt())
        assert len(harness.running) == 1
        harness.end(next(iter(harness.running)), REFUSED)
    assert pauses == pytest.approx([10, 20, 40, 80, 160, 320, 600, 600], abs=6)


def test_no_further_task_is_claimed_while_one_is_tried() -> None:
    """It may prepare for long, and others can use the tasks meanwhile."""
    harness = started_harness(100, slots=8)
    for slot in list(harness.running):
        harness.end(slot, REFUSED)
    harness.deliver_all()
    harness.wait_for_attempt()
    harness.deliver_all()
    released = harness.core.totals().released
    for _ in range(100):
        harness.tick(1)
        if harness.in_flight is not None:
            assert harness.request().without == LEFT_OUT
        harness.deliver_all()
    assert len(harness.running) == 1
    assert harness.core.totals().released == released


@pytest.mark.parametrize("ended", [None, Ended(FAILED, error_class="Boom", error="boom")])
def test_task_that_runs_makes_all_well_again(ended: Ended | None) -> None:
    """Also one that fails: the campaign can be run."""
    harness = started_harness(100, slots=2, ahead_s=0)
    for slot in list(harness.running):
        harness.end(slot, REFUSED)
    harness.deliver_all()
    harness.wait_for_attempt()
    harness.end(next(iter(harness.running)), ended)
    harness.deliver_all()
    harness.tick(5)
    harness.deliver_all()
    assert len(harness.running) == 2
    for slot in list(harness.running):
        harness.end(slot, REFUSED)
    harness.deliver_all()
    assert harness.wait_for_attempt() == pytest.approx(10, abs=6)


def test_changed_campaign_is_tried_at_once() -> None:
    """The change may be the repair; the pause is for the revision that was refused."""
    harness = started_harness(10, slots=1)
    harness.end(0, REFUSED)
    harness.deliver_all()
    harness.queue.campaign = replace(harness.queue.campaign, revision=2)
    assert harness.wait_for_attempt() < 6


def test_attempt_at_what_was_before_a_change_says_nothing_of_what_is() -> None:
    """One that takes long to refuse does not end the pause of the changed campaign."""
    backoff = CampaignBackoff(10, lambda: 0.5)
    assert backoff.refused(1, revision=2, begun=5, now=6) == 10
    assert backoff.refused(1, revision=1, begun=0, now=8) is None
    assert backoff.without((), now=9) == ((1, 2),)
    # A failover may have undone the change.
    assert backoff.refused(1, revision=1, begun=9, now=10) == 10
    assert backoff.without((), now=11) == ((1, 1),)


def test_stopped_attempt_refuses_nothing() -> None:
    """That it could not prepare was this agent's own doing."""
    harness = started_harness(10, slots=1)
    harness.feed(ev.TermSignal())
    harness.feed(ev.TermSignal())
    assert harness.stopped_slots == [0]
    harness.end(0, REFUSED)
    assert not harness.reported[-1].refused


def test_agent_says_why_it_leaves() -> None:
    """And with which code."""
    harness = started_harness(1, slots=1, until_empty=True)
    harness.end(0)
    harness.deliver_all()
    assert harness.exit is not None
    assert harness.queue.farewells == [(1, "nothing is left to do", 0)]


def test_only_what_cannot_be_run_is_left() -> None:
    """With --until-empty the agent ends with a code of its own and the reason; else it says so."""
    said = "/orphan has no handler"
    for until_empty in (True, False):
        queue = queue_of(2)
        queue.unservable = Unservable(2, (said,))
        queue.campaign = replace(queue.campaign, time_limit_s=100.0)
        harness = CoreHarness(queue, slots=1, until_empty=until_empty, max_seconds=50)
        for _ in range(20):
            harness.deliver_all()
            harness.tick(1)
        lines = [line for line in harness.logged if said in line]
        assert len(lines) == 1
        if until_empty:
            assert harness.exit is not None
            assert (harness.exit.code, said in harness.exit.reason) == (3, True)
        else:
            assert harness.exit is None


def test_claim_names_a_bounded_number_of_campaigns() -> None:
    """Those that are left out longest; the others' tasks go back when they come."""
    backoff = CampaignBackoff(10.0, lambda: 0.5)
    for campaign in range(MAX_WITHOUT + 5):
        backoff.refused(campaign, 1, 0.0, float(campaign))
    named = backoff.without((), 9.0)
    assert [campaign for campaign, _ in named] == list(range(5, MAX_WITHOUT + 5))
    assert backoff.excludes(0, 1, (), 9.0)
