"""A node where everything fails at once: its agent holds itself back, says so, and comes back."""

from __future__ import annotations

from typing import Any

import pytest

from taskq_agent.core import events as ev
from taskq_agent.core.throttle import COMPARED_ATTEMPTS, FAILURES, FAST_S
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, FAILED, RELEASED, CampaignOutcomes, Orders, Trouble
from tests.helpers.core_harness import World, queue_of, world_of

BROKEN = Ended(FAILED, error_class="no-scratch", error="")


def slowed_world(**settings: Any) -> World:
    """Return an agent that has just been slowed, with all its reports delivered."""
    world = world_of(10_000, **settings)
    world.run_briskly(0.01, FAILURES, BROKEN)
    return world


def wait_for_attempt(world: World) -> float:
    """Let time pass until an attempt begins; return how long it took."""
    began = world.now
    while not world.running:
        world.tick(0.25)
        world.deliver_all()
        assert world.now - began < 1_000
    return world.now - began


def test_agent_is_slowed_after_some_fast_failures_in_a_row() -> None:
    """It claims nothing for a while, and tells why."""
    world = slowed_world(slots=1)
    assert not world.running
    assert world.heartbeat().trouble == Trouble(FAILURES, "no-scratch", 5.0)
    assert any("slowing down" in line for line in world.said)
    world.tick(4.9)
    assert world.air is None
    assert world.core.due() - world.now == pytest.approx(0.1)


def test_pause_doubles_with_each_further_fast_failure() -> None:
    """Up to ten minutes."""
    world = slowed_world(slots=1)
    pauses = []
    for _ in range(9):
        pauses.append(wait_for_attempt(world))
        world.end(0, BROKEN)
        world.deliver_all()
    assert pauses == pytest.approx([5, 10, 20, 40, 80, 160, 320, 600, 600], abs=0.5)
    trouble = world.heartbeat().trouble
    assert trouble is not None
    assert trouble.failures == FAILURES + 9


def test_tasks_that_have_failed_before_make_no_pause_longer() -> None:
    """They may fail on any node, and good ones that wait behind them are soon reached."""
    queue = queue_of(100)
    for entry in queue.tasks.values():
        entry.attempt = 1
    world = World(queue, slots=1)
    world.deliver()
    world.deliver()
    world.run_briskly(0.01, FAILURES, BROKEN)
    for _ in range(5):
        assert wait_for_attempt(world) == pytest.approx(5, abs=0.5)
        world.end(0, BROKEN)
        world.deliver_all()


@pytest.mark.parametrize(("uniform", "pause_s"), [(0.0, 3.75), (1.0, 6.25)])
def test_pauses_of_agents_that_failed_together_differ(uniform: float, pause_s: float) -> None:
    """By a quarter, either way."""
    world = world_of(100, slots=1, uniform=uniform)
    world.run_briskly(0.01, FAILURES, BROKEN)
    assert wait_for_attempt(world) == pytest.approx(pause_s, abs=0.25)


def test_slowed_agent_makes_one_attempt_at_a_time() -> None:
    """All its slots together, whatever was running or had been claimed when that began."""
    world = world_of(10_000, slots=4)
    world.run_briskly(0.01, FAILURES, BROKEN)
    # What ran beside the last of them does not make the pause longer.
    assert len(world.running) == 3
    for slot in list(world.running):
        world.end(slot, BROKEN)
    world.deliver_all()
    assert wait_for_attempt(world) == pytest.approx(5, abs=0.5)
    world.tick(1)
    world.deliver_all()
    assert len(world.running) == len(world.heartbeat().held) == 1


def test_tasks_claimed_ahead_are_handed_back_by_a_slowed_agent() -> None:
    """Others may have more luck with them."""
    world = world_of(10_000, slots=1, ahead_s=1.0)
    world.run_briskly(0.01, 50)
    assert len(world.heartbeat().held) > 20
    # What is claimed ahead would fail as well, one by one.
    for _ in range(FAILURES):
        world.end(0, BROKEN)
    world.deliver_all()
    assert world.heartbeat().held == ()
    assert world.reported[-1].outcome == RELEASED
    assert not world.reported[-1].started


def test_answer_to_a_claim_made_before_is_handed_back() -> None:
    """A claim in the air when the agent is slowed may bring as many tasks as it has slots."""
    world = world_of(10_000, slots=3)
    world.run_briskly(0.01, FAILURES - 2, BROKEN)
    world.end(0, BROKEN)
    world.end(1, BROKEN)
    world.end(2, BROKEN)
    assert not world.running
    world.deliver_all()
    assert world.heartbeat().held == ()


@pytest.mark.parametrize(
    ("ended", "seconds"), [(Ended(DONE, result={}), 0.01), (BROKEN, FAST_S)], ids=["done", "slow"]
)
def test_attempt_that_goes_well_or_takes_long_readmits_the_agent(
    ended: Ended, seconds: float
) -> None:
    """At once, and with all its slots."""
    world = slowed_world(slots=2)
    world.end(next(iter(world.running)), BROKEN)
    world.deliver_all()
    wait_for_attempt(world)
    world.run_briskly(seconds, 1, ended)
    assert len(world.running) == 2
    assert world.heartbeat().trouble is None
    assert any("claiming as usual" in line for line in world.said)
    # Counted from zero again, and with the first pause.
    world.run_briskly(0.01, FAILURES - 1, BROKEN)
    assert world.heartbeat().trouble is None
    world.run_briskly(0.01, 1, BROKEN)
    assert world.heartbeat().trouble == Trouble(FAILURES, "no-scratch", 5.0)


@pytest.mark.parametrize(
    "ended",
    [Ended(FAILED, retry=False, error_class="bad-input", error=""), Ended(RELEASED)],
    ids=["for good", "handed back"],
)
def test_what_says_nothing_about_the_node_does_not_slow_it(ended: Ended) -> None:
    """A handler that finds a task bad has looked at it."""
    world = world_of(10_000, slots=1)
    world.run_briskly(0.01, 5 * FAILURES, ended)
    assert world.heartbeat().trouble is None
    assert world.running
    # Nor does it speak for the node.
    world.run_briskly(0.01, FAILURES - 1, BROKEN)
    world.run_briskly(0.01, 1, ended)
    world.run_briskly(0.01, 1, BROKEN)
    assert world.heartbeat().trouble is not None


def test_claim_is_not_parked_until_trouble_and_its_end_were_told() -> None:
    """A claim that is parked stands for beats, and says nothing."""
    world = world_of(FAILURES + 1, slots=1, longest_wait_s=50)
    world.run_briskly(0.01, FAILURES, BROKEN)
    session = world.heartbeat().session
    world.feed(ev.HeartbeatAnswered(session, Orders()))
    while world.air is None:
        world.tick(0.25)
    assert world.request().wait_s == 0
    world.deliver_all()
    world.run_briskly(0.01, 1)
    while not (world.air and world.request().want):
        world.tick(0.25)
        if world.air and not world.request().want:
            world.deliver()
    assert world.request().wait_s == 0
    world.deliver()
    assert world.heartbeat().trouble is None
    world.feed(ev.HeartbeatAnswered(session, Orders()))
    while world.air is None:
        world.tick(0.25)
    assert world.request().wait_s > 0


def suspect(world: World, why: str) -> None:
    """Tell an agent what the queue says of its host."""
    world.feed(ev.HeartbeatAnswered(world.heartbeat().session, Orders(), suspect=why))


def test_suspicious_host_makes_one_attempt_at_a_time_however_long_it_takes() -> None:
    """What has not begun goes back; each failure makes the pause longer; a success ends that."""
    world = world_of(1_000, slots=4, ahead_s=60)
    world.run_briskly(1, 8)
    assert len(world.running) == 4
    suspect(world, "9 of 9 failed here")
    assert any("9 of 9 failed here: slowing down" in line for line in world.said)
    assert world.held() == {running.held for running in world.core._held_tasks.running.values()}  # noqa: SLF001
    pauses = []
    for _ in range(4):
        world.tick(FAST_S + 1)
        for slot in list(world.running):
            world.end(slot, BROKEN)
        world.deliver_all()
        pauses.append(wait_for_attempt(world))
        assert len(world.running) == 1
    assert pauses == pytest.approx([5, 10, 20, 40], abs=0.5)
    (slot,) = world.running
    world.end(slot)
    world.deliver_all()
    assert wait_for_attempt(world) < 1
    assert len(world.running) == 1, "until the queue has taken it back"
    suspect(world, "")
    world.deliver_all()
    assert any("claiming as usual" in line for line in world.said)
    assert world.heartbeat().trouble is None
    world.tick(1)
    world.deliver_all()
    assert len(world.running) == 4


def test_beats_tell_how_the_last_first_attempts_have_ended() -> None:
    """Not those of tasks that were tried before, nor what the handler has found bad."""
    world = world_of(1_000, slots=1)
    assert world.heartbeat().tally == ()
    world.run_briskly(1, 3)
    world.run_briskly(1, 2, BROKEN)
    world.run_briskly(1, 1, Ended(FAILED, error_class="bad-input", error="", retry=False))
    (campaign,) = {entry.campaign for entry in world.heartbeat().tally}
    assert world.heartbeat().tally == (CampaignOutcomes(campaign, 3, 2),)
    world.run_briskly(1, COMPARED_ATTEMPTS - 1)
    assert world.heartbeat().tally == (CampaignOutcomes(campaign, COMPARED_ATTEMPTS - 1, 1),)


def test_attempts_at_what_has_failed_before_are_not_told() -> None:
    """They fail on any host."""
    queue = queue_of(100)
    for entry in queue.tasks.values():
        entry.attempt = 1
    world = World(queue, slots=1)
    world.deliver()
    world.deliver()
    world.run_briskly(1, 3, BROKEN)
    assert world.heartbeat().tally == ()
