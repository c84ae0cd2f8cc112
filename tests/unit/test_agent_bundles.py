"""Short calls of functions go to a slot together, and stay tasks of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from taskq_agent.core import events as ev
from taskq_agent.core.reports import fence
from taskq_agent.protocol import DONE, RELEASED, STOP
from tests.helpers.core_harness import CoreHarness, queue_of


def calling_harness(count: int, **terms: Any) -> CoreHarness:
    """Return a harness of two slots that has learnt that the calls take a millisecond."""
    queue = queue_of(count)
    queue.campaign = replace(queue.campaign, handler={"kind": "function"}, **terms)
    harness = CoreHarness(queue, slots=2, ahead_s=1.0)
    harness.deliver_all()
    harness.run_quickly(0.001, 2)
    while not any(harness.behind.values()) and harness.queue.counts().get("open"):
        harness.run_quickly(0.001, 1)
    return harness


def bundled_slot(harness: CoreHarness) -> int:
    """Return a slot with several calls."""
    return next(slot for slot, behind in harness.behind.items() if behind)


def test_short_calls_go_to_a_slot_together() -> None:
    """Each is reported on its own; none is lost, none runs twice; messages are few."""
    harness = calling_harness(2_000)
    starts = 0
    while harness.running:
        for slot in list(harness.running):
            starts += 1
            harness.end_calls(slot, 1 + len(harness.behind[slot]))
        harness.deliver_all()
    assert harness.queue.counts() == {DONE: 2_000}
    assert len(harness.started) == len(set(harness.started)) == 2_000
    assert starts <= 100


def test_calls_that_have_not_begun_go_to_an_idle_slot() -> None:
    """Those behind a slow one; the heartbeat names each of them once meanwhile."""
    harness = calling_harness(200)
    slot = bundled_slot(harness)
    other = 1 - slot
    behind = len(harness.behind[slot])
    held = harness.heartbeat().held
    assert len(held) == len(set(held))
    if other in harness.running:
        harness.end_calls(other, 1 + len(harness.behind[other]))
    harness.running.pop(slot), harness.behind.pop(slot)
    harness.feed(ev.CallsEnded(slot, (), behind))
    assert other in harness.running
    assert set(held) <= set(harness.heartbeat().held) | {
        fence(report) for report in harness.reported
    }


@pytest.mark.parametrize(
    "terms",
    [
        {"handler": {"kind": "python", "target": "a:b"}},
        {"on_disconnect": STOP},
        {"checkpoint_bytes": 1_000},
        {"output_bytes": 1_000},
        {"memory": (1_000,)},
    ],
    ids=lambda terms: next(iter(terms)),
)
def test_tasks_with_more_than_a_result_start_one_by_one(terms: dict[str, Any]) -> None:
    """As do those of other handlers."""
    queue = queue_of(200)
    queue.campaign = replace(queue.campaign, **{"handler": {"kind": "function"}, **terms})
    harness = CoreHarness(queue, slots=2, ahead_s=1.0)
    harness.deliver_all()
    for _ in range(50):
        harness.run_quickly(0.001, 1)
        assert not any(harness.behind.values())


def test_campaign_that_is_to_be_kept_apart_is() -> None:
    """Its calls leave files, say; until it is changed."""
    harness = calling_harness(500)
    slot = bundled_slot(harness)
    harness.end_calls(slot, 1, unbegun=len(harness.behind[slot]), apart=True)
    for number in list(harness.running):
        if harness.behind[number]:
            harness.end_calls(number, 1 + len(harness.behind[number]))
    harness.deliver_all()
    while harness.running:
        assert not any(harness.behind.values())
        harness.run_quickly(0.001, 1)
    assert harness.queue.counts() == {DONE: 500}


def test_agent_that_leaves_takes_back_what_has_not_begun() -> None:
    """The calls at work may end within the grace."""
    harness = calling_harness(200)
    slot = bundled_slot(harness)
    behind = len(harness.behind[slot])
    harness.feed(ev.TermSignal())
    assert slot in harness.asked_back
    harness.behind[slot].clear()
    harness.feed(ev.CallsEnded(slot, (), behind))
    back = [report for report in harness.reported if report.outcome == RELEASED]
    assert len(back) >= behind
    assert not any(report.started for report in back)
    assert harness.stopped_slots == []


def test_revoked_call_behind_another_is_not_reported() -> None:
    """The others are."""
    harness = calling_harness(200)
    slot = bundled_slot(harness)
    calls = [fence(harness.running[slot][0]), *map(fence, harness.behind[slot])]
    before = len(harness.reported)
    harness.feed(ev.StopOrdered(calls[-1]))
    harness.end_calls(slot, len(calls))
    assert [fence(report) for report in harness.reported[before:]] == calls[:-1]
