"""The core when the queue refuses an exchange that carries reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from taskq_agent.core import events as ev
from taskq_agent.core.reports import fence
from taskq_agent.errors import Refused, SessionLost, TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import (
    DONE,
    FAILED,
    MAX_ERROR_CHARS,
    RELEASED,
    Answer,
    Hello,
    Report,
    Request,
    Welcome,
)
from tests.helpers.core_harness import CoreHarness
from tests.helpers.memory_queue import ANSWER_LOST, MemoryQueue

LEASE = "00000000-0000-7000-8000-000000000000"
REASON = "422 refused: numeric overflow"


class PickyQueue(MemoryQueue):
    """Refuses exchanges with a report that it does not like, and anything else on demand."""

    def __init__(self, count: int, dislikes: Callable[[Report], bool]) -> None:
        super().__init__({} for _ in range(count))
        self.dislikes = dislikes
        self.reason = REASON
        self.refuses_claims = False
        self.refuses_sessions = False

    def open(self, hello: Hello) -> Welcome:
        """Open a session, or not."""
        if self.refuses_sessions:
            raise Refused(self.reason)
        return super().open(hello)

    def exchange(self, request: Request) -> Answer:
        """Report and claim, or not."""
        disliked = any(map(self.dislikes, request.reports))
        if disliked or (self.refuses_claims and request.want):
            self.requests.append(request)
            raise Refused(self.reason)
        return super().exchange(request)


def disliked_tasks(*tasks: int) -> Callable[[Report], bool]:
    """Refuse reports on these tasks, except those that say that a report cannot be stored."""
    return lambda report: report.task in tasks and report.error_class != "report-refused"


def hopeless_tasks(*tasks: int) -> Callable[[Report], bool]:
    """Dislike all reports on these tasks."""
    return lambda report: report.task in tasks


def reporting_world(
    dislikes: Callable[[Report], bool], count: int = 9, recipe: int | None = None, **settings: Any
) -> CoreHarness:
    """Return an agent that has its reports on the tasks 1 to 3 in the air."""
    queue = PickyQueue(count, lambda _: False)
    queue.campaign = replace(queue.campaign, recipe=recipe)
    harness = CoreHarness(queue, **{"slots": 4, "ahead_s": 0, **settings})
    harness.deliver()
    harness.deliver()
    harness.end(3)
    for slot in range(3):
        harness.end(slot, Ended(DONE, result={"score": -7.5}, tail="tail"))
    harness.deliver()
    assert [report.task for report in harness.request().reports] == [1, 2, 3]
    queue.requests.clear()
    queue.dislikes = dislikes
    return harness


def picky(harness: CoreHarness) -> PickyQueue:
    assert isinstance(harness.queue, PickyQueue)
    return harness.queue


def reported_tasks(harness: CoreHarness) -> list[list[int]]:
    """Return which tasks the exchanges so far have reported on."""
    return [[report.task for report in request.reports] for request in harness.queue.requests]


def inherited(*tasks: int) -> list[Report]:
    """Return reports that an earlier process has left."""
    return [Report(1, task, LEASE, DONE, result={}) for task in tasks]


def test_reports_of_a_refused_exchange_go_one_at_a_time() -> None:
    """Without a claim, so that nothing but the report can be what is refused."""
    harness = reporting_world(disliked_tasks(2))
    harness.deliver_all()
    assert reported_tasks(harness)[:5] == [[1, 2, 3], [1], [2], [2], [3]]
    assert [request.want for request in harness.queue.requests[1:5]] == [0, 0, 0, 0]


def test_refused_report_is_replaced_by_one_that_says_so() -> None:
    """Of the same attempt, without anything that the task itself has brought forth."""
    harness = reporting_world(disliked_tasks(2), recipe=3)
    picky(harness).reason = "\x1b[31mno\0 " + "x" * 10_000
    harness.deliver_all()
    (report,) = harness.queue.tasks[2].accepted
    assert (report.outcome, report.retry, report.error_class) == (FAILED, False, "report-refused")
    assert (report.result, report.tail, report.phases, report.recipe) == (None, None, {}, 3)
    assert report.error is not None
    assert report.error.startswith("no xxx")
    assert len(report.error) == MAX_ERROR_CHARS


def test_other_reports_count_and_the_agent_goes_on() -> None:
    """With all reports in one exchange again, and with claims."""
    harness = reporting_world(disliked_tasks(2))
    harness.deliver_all()
    assert [harness.queue.outcomes(task) for task in (1, 3, 4)] == [[DONE], [DONE], [DONE]]
    assert not harness.spool
    assert len(harness.running) == 4
    for slot in list(harness.running):
        harness.end(slot)
    harness.deliver()
    assert len(harness.request().reports) == 3
    assert harness.exit is None


def test_single_report_is_tried_without_the_claim_first() -> None:
    """It may be the claim that is refused: a result is not given up for that."""
    queue = PickyQueue(1, lambda _: False)
    harness = CoreHarness(queue, slots=1)
    harness.deliver()
    harness.deliver()
    harness.end(0)
    queue.refuses_claims = True
    harness.deliver()
    assert harness.request().want == 0
    harness.deliver_all()
    assert queue.outcomes(1) == [DONE]
    assert harness.exit == ev.Exit(77, f"the queue refuses to serve it: {REASON}")


def test_reports_that_come_meanwhile_wait_for_the_end_of_the_search() -> None:
    harness = reporting_world(disliked_tasks(2))
    harness.deliver()
    (slot,) = harness.running
    harness.end(slot)
    harness.deliver_all()
    assert reported_tasks(harness)[1:6] == [[1], [2], [2], [3], [5]]
    assert harness.queue.requests[5].want == 4


def test_every_refused_report_of_an_exchange_is_found() -> None:
    harness = reporting_world(disliked_tasks(1, 3))
    harness.deliver_all()
    outcomes = [harness.queue.outcomes(task) for task in (1, 2, 3)]
    assert outcomes == [[FAILED], [DONE], [FAILED]]
    assert not harness.spool


def test_inherited_report_that_is_refused_does_not_stop_the_agent() -> None:
    """Nor the next one of this node: it is gone from the spool."""
    harness = CoreHarness(PickyQueue(3, disliked_tasks(2)), slots=1, inherited=inherited(1, 2, 3))
    harness.deliver_all()
    assert not harness.spool
    assert harness.running
    assert harness.core.totals().failed == 0, "it was not this agent's attempt"


def test_report_is_kept_as_it_is_until_its_substitute_is_accepted() -> None:
    """A queue that refuses all reports costs no result: the next agent tries again."""
    harness = reporting_world(disliked_tasks(2))
    kept = dict(harness.spool)
    while harness.request().reports[0].error_class is None:
        harness.deliver()
    assert harness.spool == {held: kept[held] for held in harness.spool}
    assert any(held.task == 2 for held in harness.spool)
    harness.deliver(ANSWER_LOST)
    assert any(held.task == 2 for held in harness.spool)
    harness.tick(30)
    harness.deliver()
    assert all(held.task != 2 for held in harness.spool)
    assert harness.queue.outcomes(2) == [FAILED]


def test_report_whose_substitute_is_refused_too_is_dropped() -> None:
    """As soon as the queue answers another exchange, which shows that it is the report's fault."""
    harness = CoreHarness(PickyQueue(1, hopeless_tasks(7)), slots=1, inherited=inherited(7))
    harness.deliver()
    for _ in range(3):
        assert harness.request().reports
        harness.deliver()
    assert len(harness.spool) == 1
    assert harness.core.undelivered() == 1
    harness.deliver()
    assert not harness.spool
    assert harness.core.undelivered() == 0
    assert harness.running
    assert "the report on task 7 is dropped" in harness.logged


def test_queue_that_refuses_everything_costs_no_report() -> None:
    """Rights that were taken away, say: the agent leaves, its reports stay for another one."""
    harness = reporting_world(lambda _: True)
    picky(harness).refuses_claims = True
    spool = dict(harness.spool)
    harness.deliver_all()
    for slot in list(harness.running):
        harness.end(slot)
        harness.deliver_all()
    assert harness.exit == ev.Exit(77, f"the queue refuses to serve it: {REASON}")
    assert spool.items() <= harness.spool.items()
    assert harness.core.undelivered() == len(harness.spool)
    assert sum(map(len, reported_tasks(harness))) <= 3 * len(harness.spool), (
        "it does not knock for ever"
    )


def test_refused_session_makes_the_agent_leave() -> None:
    """Whatever it has to report."""
    queue = PickyQueue(1, lambda _: False)
    queue.refuses_sessions = True
    harness = CoreHarness(queue, slots=1, inherited=inherited(1))
    harness.deliver()
    assert harness.exit == ev.Exit(77, f"the queue refuses to serve it: {REASON}")
    assert len(harness.spool) == 1


def test_search_goes_on_after_a_failure_and_in_another_session() -> None:
    """What failed is repeated as it is; a lost session does not bring the culprit back."""
    harness = reporting_world(disliked_tasks(2))
    harness.deliver()
    suspect = harness.request().reports
    harness.fail(TransportFailed("down"))
    harness.tick(30)
    assert harness.request().reports == suspect
    harness.fail(SessionLost("expired"))
    harness.tick(30)
    harness.deliver()
    assert (harness.request().reports, harness.request().want) == (suspect, 0)
    harness.deliver_all()
    assert not harness.spool


def test_attempt_is_held_while_its_report_is_in_doubt() -> None:
    """Nobody else gets a task while it is not settled how it has ended."""
    harness = reporting_world(disliked_tasks(2))
    while harness.in_flight is not None:
        assert set(harness.spool) <= set(harness.heartbeat().held)
        harness.deliver()


def test_tally_counts_delivered_reports_only() -> None:
    """A refused result counts as a failure; a dropped one does not count."""
    harness = reporting_world(disliked_tasks(2))
    harness.deliver_all()
    tally = harness.core.totals()
    assert (tally.done, tally.failed, tally.released, tally.superseded) == (3, 1, 0, 0)

    harness = reporting_world(hopeless_tasks(2))
    harness.deliver_all()
    tally = harness.core.totals()
    assert (tally.done, tally.failed, tally.released, tally.superseded) == (4, 0, 0, 1)


def test_leaving_agent_delivers_what_it_can() -> None:
    harness = reporting_world(disliked_tasks(2), count=4)
    harness.feed(ev.TermSignal())
    harness.deliver_all()
    assert harness.exit == ev.Exit(0, "it got a signal to stop")
    assert not harness.spool
    assert harness.queue.opened == set(), "the session is closed"


def test_leaving_agent_does_not_wait_for_a_hopeless_report() -> None:
    """It stays in the spool: nothing was answered since that could show whose fault it was."""
    harness = CoreHarness(PickyQueue(0, hopeless_tasks(7)), slots=1, inherited=inherited(7))
    harness.deliver()
    harness.feed(ev.TermSignal())
    harness.deliver_all()
    assert harness.exit == ev.Exit(75, "it got a signal to stop")
    assert [held.task for held in harness.spool] == [7]


def test_leaving_agent_searches_for_a_bounded_time() -> None:
    """With many reports and a slow queue the rest stays in the spool."""
    reports = inherited(*range(1, 201))
    harness = CoreHarness(PickyQueue(200, disliked_tasks(200)), farewell_s=10, inherited=reports)
    harness.deliver()
    harness.feed(ev.TermSignal())
    begun = harness.now
    while harness.exit is None:
        harness.deliver()
        harness.tick(1)
    assert harness.now - begun <= 12
    assert harness.exit.code == 75
    assert 0 < len(harness.spool) < 200


@pytest.mark.parametrize("ended", [Ended(FAILED, error_class="Boom"), Ended(RELEASED)])
def test_failures_and_tasks_handed_back_are_replaced_alike(ended: Ended) -> None:
    queue = PickyQueue(1, disliked_tasks(1))
    harness = CoreHarness(queue, slots=1)
    harness.deliver()
    harness.deliver()
    held = harness.held()
    harness.end(0, ended)
    harness.deliver_all()
    assert queue.outcomes(1) == [FAILED]
    assert {fence(report) for report in harness.reported} == held
    assert (harness.core.totals().failed, harness.core.totals().released) == (1, 0)
