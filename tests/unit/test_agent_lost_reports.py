"""The core when something on the way lets heartbeats through, and not what some exchanges hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskq_agent import exit_codes
from taskq_agent.core import events as ev
from taskq_agent.core.delivery import MOST_WITHHELD
from taskq_agent.errors import LostOnTheWay, TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import (
    DONE,
    RELEASED,
    Answer,
    Heartbeat,
    Held,
    Report,
    Request,
)
from taskq_agent.warning_words import REPORTS_WITHHELD
from tests.helpers.core_harness import CoreHarness
from tests.helpers.memory_queue import MemoryQueue

WHY = "413 from nginx, not from a gateway"


class Walled(MemoryQueue):
    """Behind a wall that lets an exchange through or not. Nothing of the others arrives."""

    def __init__(self, count: int) -> None:
        super().__init__({} for _ in range(count))
        self.stops: Callable[[Request], bool] = lambda _: False
        self.tried: list[Request] = []

    def exchange(self, request: Request) -> Answer:
        """Report and claim, if the wall lets it through."""
        self.tried.append(request)
        if self.stops(request):
            raise LostOnTheWay(WHY)
        return super().exchange(request)


def stops_tasks(*tasks: int) -> Callable[[Request], bool]:
    """Return a wall for requests with a report on these tasks."""
    return lambda request: any(report.task in tasks for report in request.reports)


def world(count: int = 9, **settings: Any) -> tuple[Walled, CoreHarness]:
    """Return an agent that is about to report on the tasks 1 to 3."""
    queue = Walled(count)
    harness = CoreHarness(queue, **{"slots": 4, "ahead_s": 0, **settings})
    harness.deliver()
    harness.deliver()
    harness.end(3)
    for slot in range(3):
        harness.end(slot, Ended(DONE, result={"score": -7.5}))
    harness.deliver()
    queue.tried.clear()
    return queue, harness


def hear(harness: CoreHarness) -> None:
    """Let a heartbeat be answered."""
    beat = harness.core.heartbeat()
    assert isinstance(beat, Heartbeat)
    answer = harness.queue.heartbeat(beat)
    harness.feed(ev.HeartbeatAnswered(beat.session, answer.orders, answer.timeline))


def go_on(harness: CoreHarness, seconds: float) -> None:
    """Let calls be answered or lost for so long, with a heartbeat every 10 s."""
    for passed in range(int(seconds)):
        if passed % 10 == 0:
            hear(harness)
        if harness.in_flight is not None:
            harness.deliver()
        harness.tick(1)


def reported(queue: Walled) -> list[list[int]]:
    return [[report.task for report in request.reports] for request in queue.tried]


def test_report_that_is_lost_on_the_way_keeps_no_other_back() -> None:
    """It stays in the spool, unchanged, and work goes on."""
    queue, harness = world()
    queue.stops = stops_tasks(2)
    go_on(harness, 40)
    assert not any(queue.tasks[2].accepted)
    assert all(queue.tasks[task].accepted for task in (1, 3))
    assert [report.task for report in harness.spool.values()] == [2]
    assert any(request.want for request in queue.tried if not stops_tasks(2)(request))
    assert harness.running, "the slots have other tasks"
    queue.stops = lambda _: False
    go_on(harness, 130)
    (report,) = queue.tasks[2].accepted
    assert (report.outcome, report.result) == (DONE, {"score": -7.5})
    assert not any(report.task == 2 for report in harness.spool.values())


def test_outage_is_no_reason_to_send_reports_one_at_a_time() -> None:
    """Nothing comes through then, heartbeats neither: the same request is repeated."""
    queue, harness = world()
    queue.stops = lambda _: True
    for _ in range(60):
        if harness.in_flight is not None:
            harness.deliver()
        harness.tick(1)
    assert {tuple(row) for row in reported(queue)} == {(1, 2, 3)}
    assert len({request.lease for request in queue.tried}) == 1


def test_failure_that_the_gateway_itself_states_is_none_of_the_way() -> None:
    """Such as that its database does not answer, while heartbeats are."""
    queue, harness = world()
    for _ in range(60):
        hear(harness)
        if harness.in_flight is not None:
            harness.fail(TransportFailed("503 unavailable: the database does not answer now"))
        harness.tick(1)
    harness.deliver()
    assert reported(queue) == [[1, 2, 3]]


def test_claim_whose_tasks_never_come_through_is_given_up() -> None:
    """As if its answer could not be read: the next heartbeat hands the tasks back."""
    queue, harness = world()
    harness.deliver_all()
    queue.tried.clear()
    queue.stops = lambda request: request.want > 1
    for slot in list(harness.running):
        harness.end(slot)
    go_on(harness, 60)
    assert any(request.want == 1 for request in queue.tried), (
        "one task after the other comes through"
    )
    assert not any(report.task in (1, 2, 3) for report in harness.spool.values())


def test_heartbeats_say_that_reports_are_withheld_and_why() -> None:
    queue, harness = world()
    queue.stops = stops_tasks(1, 2, 3)
    go_on(harness, 60)
    beat = harness.core.heartbeat()
    assert beat is not None
    assert beat.trouble is not None
    assert (beat.trouble.warnings, beat.trouble.cause) == ((REPORTS_WITHHELD,), WHY)
    queue.stops = lambda _: False
    go_on(harness, 130)
    beat = harness.core.heartbeat()
    assert beat is not None
    assert beat.trouble is None


def test_agent_claims_no_more_while_too_many_reports_are_withheld() -> None:
    """It could only pile up results; it claims again once they come through."""
    queue, harness = world(100)
    queue.stops = lambda request: bool(request.reports)
    for _ in range(300):
        for slot in list(harness.running):
            harness.end(slot)
        go_on(harness, 10)
        if harness.core.undelivered() >= MOST_WITHHELD and not harness.running:
            break
    go_on(harness, 60)
    assert MOST_WITHHELD <= harness.core.undelivered() < MOST_WITHHELD + harness.settings.slots * 2
    queue.tried.clear()
    go_on(harness, 30)
    assert not any(request.want for request in queue.tried)
    queue.stops = lambda _: False
    go_on(harness, 700)
    assert harness.running
    assert len(harness.spool) == 0


@pytest.mark.parametrize("spool", [None, Path("spool")])
def test_withheld_report_outlives_its_agent(spool: Path | None) -> None:
    """It is tried once more at the end, and stays in the spool for the next agent.

    With a spool the session is not closed: that would hand its task out before that agent reports.
    """
    queue, harness = world(spool_dir=spool)
    queue.stops = stops_tasks(2)
    go_on(harness, 60)
    queue.tried.clear()
    harness.feed(ev.TermSignal())
    harness.feed(ev.TermSignal())
    for slot in list(harness.running):
        harness.end(slot)
    for _ in range(120):
        if harness.exit is not None:
            break
        if harness.in_flight is not None:
            harness.deliver()
        harness.tick(1)
    assert harness.exit is not None
    assert harness.exit.code == exit_codes.UNDELIVERED
    assert [2] in reported(queue)
    left: list[Report] = list(harness.spool.values())
    assert [(report.task, report.outcome) for report in left] == [(2, DONE)]
    assert bool(queue.opened) is (spool is not None)


KEPT = Held(1, 5, new_lease())


@pytest.mark.parametrize("refusal", [None, "no room"])
def test_report_waits_until_its_result_is_stored(refusal: str | None) -> None:
    """The others go; and if the result never can be stored, the task is handed back."""
    ready = Report(1, 6, new_lease(), DONE, result={})
    waiting = Report(1, KEPT.task, KEPT.lease, DONE, result={"taskq_blob": {}}, recipe=3)
    queue = Walled(1)
    harness = CoreHarness(queue, inherited=[ready, waiting], kept={KEPT: "not yet"}, slots=1)
    harness.deliver()
    harness.deliver()
    assert reported(queue)[0] == [6]
    assert not any(KEPT.task in tasks for tasks in reported(queue))
    beat = harness.core.heartbeat(news=True)
    assert beat is not None
    assert beat.trouble is not None
    assert beat.trouble.cause == "not yet"
    harness.feed(ev.ResultStored(KEPT, refusal))
    for slot in list(harness.running):
        harness.end(slot)
    for _ in range(20):
        if harness.in_flight is not None:
            harness.deliver()
        harness.tick(1)
    reports = {report.task: report for request in queue.tried for report in request.reports}
    assert reports[KEPT.task].outcome == (DONE if refusal is None else RELEASED)
    assert reports[KEPT.task].recipe == 3
    assert KEPT not in harness.spool


def test_exchanges_become_as_small_as_the_way_wants_them() -> None:
    """A limit that each report keeps alone costs its time once, not with each exchange."""
    queue, harness = world(1_000, slots=16)
    large = Ended(DONE, result={"x": "y" * 200_000})
    queue.stops = lambda request: len(request.reports) > 4

    def lost() -> int:
        return sum(map(queue.stops, queue.tried))

    for _ in range(8):
        for slot in list(harness.running):
            harness.end(slot, large)
        go_on(harness, 60)
    before = lost()
    assert before, "the first ones were too large"
    for _ in range(8):
        for slot in list(harness.running):
            harness.end(slot, large)
        go_on(harness, 20)
    assert lost() == before
    assert not harness.spool
