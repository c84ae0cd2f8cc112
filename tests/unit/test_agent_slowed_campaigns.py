"""An agent whose host is suspected goes on with the campaigns that work there."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from taskq_agent.core import events as ev
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import (
    DONE,
    FAILED,
    RELEASED,
    Answer,
    CampaignTerms,
    Orders,
    Request,
    Task,
)
from taskq_agent.throttle import COMPARED_ATTEMPTS
from tests.helpers.core_harness import CoreHarness
from tests.helpers.memory_queue import MemoryQueue

WORKS, FAILS = 1, 2
WHY = "12 of 13 first attempts failed here, 1 of 31 on other hosts"


class TwoCampaigns(MemoryQueue):
    """Gives tasks of two campaigns in turn; those with an even number are of the second."""

    def __init__(self, count: int) -> None:
        super().__init__({} for _ in range(count))

    def _exchange(self, request: Request) -> Answer:
        answer = super()._exchange(request)
        terms = [replace(self.campaign, campaign=number) for number in (WORKS, FAILS)]
        return replace(answer, campaigns=tuple(terms) if answer.tasks else ())

    def _claim(self, request: Request) -> tuple[Task, ...]:
        out = {campaign for campaign, _ in request.without}
        kept = [it for it in self._waiting if self._of(it) in out]
        self._waiting = type(self._waiting)(it for it in self._waiting if self._of(it) not in out)
        tasks = super()._claim(request)
        self._waiting.extendleft(reversed(kept))
        return tuple(replace(task, campaign=self._of(task.task)) for task in tasks)

    @staticmethod
    def _of(task: int) -> int:
        return FAILS if task % 2 == 0 else WORKS


def end_one(harness: CoreHarness, *, works_too: bool = True, broken: bool = True) -> int:
    """End what has run longest after some seconds; return its campaign."""
    slot, (task, _) = next(iter(harness.running.items()))
    fails = broken if task.campaign == FAILS else not works_too
    harness.tick(2.0)
    harness.end(slot, Ended(FAILED, error_class="exit-3", error="") if fails else None)
    harness.deliver_all()
    return task.campaign


def suspected_world(slots: int = 4, *, works_too: bool = True) -> CoreHarness:
    """Return an agent that has made some attempts of both campaigns, and is suspected now."""
    harness = CoreHarness(TwoCampaigns(4_000), slots=slots)
    harness.deliver_all()
    for _ in range(24):
        harness.wait_for_attempt()
        end_one(harness, works_too=works_too)
    answer(harness, WHY)
    return harness


def answer(harness: CoreHarness, suspect: str) -> None:
    """Have a heartbeat answered."""
    session = harness.heartbeat().session
    harness.feed(ev.HeartbeatAnswered(session, Orders(), suspect=suspect))
    harness.deliver_all()


def running(harness: CoreHarness) -> Counter[int]:
    """Return how many tasks of each campaign run."""
    return Counter(task.campaign for task, _ in harness.running.values())


@pytest.mark.parametrize("slots", [1, 4, 16])
def test_campaign_that_works_goes_on_in_all_slots(slots: int) -> None:
    """Of the other one attempt runs at a time, and ever more seldom."""
    harness = suspected_world(slots)
    for _ in range(slots):  # what ran when the suspicion came
        end_one(harness)
    ended: Counter[int] = Counter()
    for _ in range(40 * slots):
        assert running(harness)[FAILS] <= 1
        assert sum(running(harness).values()) == slots
        ended[end_one(harness)] += 1
    assert harness.heartbeat().trouble is None
    assert 0 < ended[FAILS] <= 12
    assert ended[WORKS] >= 40 * slots - 12


def test_failing_campaign_is_reported_for_as_long_as_it_is_suspected() -> None:
    """The successes of others do not make the queue forget how it fails here."""
    harness = suspected_world()
    before = {it.campaign: it for it in harness.heartbeat().tally}[FAILS]
    for _ in range(10 * COMPARED_ATTEMPTS):
        end_one(harness)
    after = {it.campaign: it for it in harness.heartbeat().tally}
    assert after[FAILS].failed >= before.failed
    assert (after[WORKS].done, after[WORKS].failed) == (COMPARED_ATTEMPTS, 0)


def test_host_on_which_nothing_works_is_slowed_in_all_campaigns() -> None:
    """One attempt over all, as where there is one campaign."""
    harness = suspected_world(works_too=False)
    for _ in range(6):
        harness.wait_for_attempt()
        assert len(harness.running) == 1
        end_one(harness, works_too=False)
    assert harness.heartbeat().trouble is not None


def test_campaign_comes_back_when_the_queue_suspects_nothing_more() -> None:
    """At once, in all slots."""
    harness = suspected_world()
    for _ in range(30):
        end_one(harness)
    answer(harness, "")
    shares = Counter[int]()
    for _ in range(40):
        shares[end_one(harness, broken=False)] += 1
    assert shares[FAILS] >= 12


def test_changed_campaign_is_tried_at_once() -> None:
    """The pause is one of the old revision."""
    harness = suspected_world()
    for _ in range(30):
        end_one(harness)
    terms = harness.queue.campaign
    harness.queue.campaign = CampaignTerms(**{**vars(terms), "revision": 2})
    harness.deliver_all()
    for _ in range(8):
        end_one(harness, broken=False)
    assert any(report.campaign == FAILS and report.outcome == DONE for report in harness.reported)


@pytest.mark.parametrize("seed", range(6))
def test_few_tasks_are_handed_back_whatever_the_campaigns_do(seed: int) -> None:
    """Drawn shares of failures of both: no claim is repeated for tasks that must not run."""
    drawn = random.Random(seed)
    harness = CoreHarness(TwoCampaigns(600), slots=drawn.choice([1, 2, 8]))
    harness.deliver_all()
    shares = {WORKS: drawn.random() * 0.2, FAILS: 0.3 + 0.7 * drawn.random()}
    for number in range(120):
        if number % 15 == 0:
            answer(harness, WHY if drawn.random() < 0.7 else "")
        harness.wait_for_attempt()
        slot, (task, _) = next(iter(harness.running.items()))
        harness.tick(20 * drawn.random())
        fails = drawn.random() < shares[task.campaign]
        harness.end(slot, Ended(FAILED, error_class="exit-3", error="") if fails else None)
        harness.deliver_all()
    back = sum(report.outcome == RELEASED for report in harness.reported)
    assert back < 160
    assert len(harness.queue.requests) < 600
