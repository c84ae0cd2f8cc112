"""A campaign that cannot be run here: the agent leaves it out, tries again, and stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskq_agent.core import events as ev
from taskq_agent.core.campaign_backoff import CampaignBackoff
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import FAILED, MAX_WITHOUT, RELEASED, Unservable
from tests.helpers.core_harness import World, queue_of, world_of

REFUSED = Ended(RELEASED, error_class="prepare-failed", error="no receptor", refused=True)
LEFT_OUT = ((1, 1),)


def wait_for_attempt(world: World) -> float:
    """Let time pass until an attempt begins; return how long it took."""
    began = world.now
    while not world.running:
        world.tick(0.25)
        world.deliver_all()
        assert world.now - began < 2_000
    return world.now - began


def test_refused_campaign_is_left_out_of_the_next_claim_and_the_agent_stays() -> None:
    """The attempt is reported with its class, what had not begun goes back, and it is said once."""
    world = world_of(10, slots=2)
    world.end(0, REFUSED)
    report = world.reported[0]
    assert (report.outcome, report.refused, report.started) == (RELEASED, True, True)
    assert report.error_class == "prepare-failed"
    assert world.request().without == LEFT_OUT
    world.end(1, REFUSED)
    world.deliver_all()
    assert not world.running
    assert sum("cannot be run here" in line for line in world.said) == 1
    assert world.exit is None
    assert world.core.totals().failed == 0


def test_pause_doubles_and_one_task_is_tried_when_it_is_over() -> None:
    """Whatever number of slots there is; up to sixty times the first pause."""
    world = world_of(100, slots=8, campaign_backoff_s=10)
    for slot in list(world.running):
        world.end(slot, REFUSED)
    pauses = []
    for _ in range(8):
        world.deliver_all()
        pauses.append(wait_for_attempt(world))
        assert len(world.running) == 1
        world.end(next(iter(world.running)), REFUSED)
    assert pauses == pytest.approx([10, 20, 40, 80, 160, 320, 600, 600], abs=6)


def test_no_further_task_is_claimed_while_one_is_tried() -> None:
    """It may prepare for long, and others can use the tasks meanwhile."""
    world = world_of(100, slots=8)
    for slot in list(world.running):
        world.end(slot, REFUSED)
    world.deliver_all()
    wait_for_attempt(world)
    world.deliver_all()
    released = world.core.totals().released
    for _ in range(100):
        world.tick(1)
        if world.air is not None:
            assert world.request().without == LEFT_OUT
        world.deliver_all()
    assert len(world.running) == 1
    assert world.core.totals().released == released


@pytest.mark.parametrize("ended", [None, Ended(FAILED, error_class="Boom", error="boom")])
def test_task_that_runs_makes_all_well_again(ended: Ended | None) -> None:
    """Also one that fails: the campaign can be run."""
    world = world_of(100, slots=2, ahead_s=0)
    for slot in list(world.running):
        world.end(slot, REFUSED)
    world.deliver_all()
    wait_for_attempt(world)
    world.end(next(iter(world.running)), ended)
    world.deliver_all()
    world.tick(5)
    world.deliver_all()
    assert len(world.running) == 2
    for slot in list(world.running):
        world.end(slot, REFUSED)
    world.deliver_all()
    assert wait_for_attempt(world) == pytest.approx(10, abs=6)


def test_changed_campaign_is_tried_at_once() -> None:
    """The change may be the repair; the pause is for the revision that was refused."""
    world = world_of(10, slots=1)
    world.end(0, REFUSED)
    world.deliver_all()
    world.queue.campaign = replace(world.queue.campaign, revision=2)
    assert wait_for_attempt(world) < 6


def test_stopped_attempt_refuses_nothing() -> None:
    """That it could not prepare was this agent's own doing."""
    world = world_of(10, slots=1)
    world.feed(ev.TermSignal())
    world.feed(ev.TermSignal())
    assert world.told_to_stop == [0]
    world.end(0, REFUSED)
    assert not world.reported[-1].refused


def test_agent_says_why_it_leaves() -> None:
    """And with which code."""
    world = world_of(1, slots=1, until_empty=True)
    world.end(0)
    world.deliver_all()
    assert world.exit is not None
    assert world.queue.farewells == [(1, "nothing is left to do", 0)]


def test_only_what_cannot_be_run_is_left() -> None:
    """With --until-empty the agent ends with a code of its own and the reason; else it says so."""
    said = "/orphan has no handler"
    for until_empty in (True, False):
        queue = queue_of(2)
        queue.unservable = Unservable(2, (said,))
        queue.campaign = replace(queue.campaign, time_limit_s=100.0)
        world = World(queue, slots=1, until_empty=until_empty, max_seconds=50)
        for _ in range(20):
            world.deliver_all()
            world.tick(1)
        lines = [line for line in world.said if said in line]
        assert len(lines) == 1
        if until_empty:
            assert world.exit is not None
            assert (world.exit.code, said in world.exit.reason) == (3, True)
        else:
            assert world.exit is None


def test_claim_names_a_bounded_number_of_campaigns() -> None:
    """Those that are left out longest; the others' tasks go back when they come."""
    backoff = CampaignBackoff(10.0, lambda: 0.5)
    for campaign in range(MAX_WITHOUT + 5):
        backoff.refused(campaign, 1, 0.0, float(campaign))
    named = backoff.without((), 9.0)
    assert [campaign for campaign, _ in named] == list(range(5, MAX_WITHOUT + 5))
    assert backoff.excludes(0, 1, (), 9.0)
