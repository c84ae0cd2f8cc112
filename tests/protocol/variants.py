"""Protocols with one mistake each, most of them met in other queues. Each must break a rule."""

from __future__ import annotations

from typing import NamedTuple

from tests.protocol import rules
from tests.protocol.queue import Fence, Queue, ended, is_ahead, locked
from tests.protocol.state import (
    CANCELLED,
    DONE,
    DUPLICATE,
    EXPIRED,
    FAILED,
    HEDGED,
    LIVE,
    LOST,
    OUT_OF_TIME,
    POOL,
    REFUSED,
    SUPERSEDED,
    WAITING,
    WORKING,
    Beat,
    Bounds,
    Claim,
    Report,
    Row,
    State,
    Task,
    end,
    put,
)


class Unfenced(Queue):
    """A report counts whatever its lease, as long as somebody works on the task."""

    def fenced(self, task: Task, report: Report) -> bool:
        return task.status == WORKING

    def may_report(self, state: State, session: int, owner: int) -> bool:
        return True


class FencedByNumber(Queue):
    """The number of the attempt is the fence; it is used again for what was handed back."""

    def fenced(self, task: Task, report: Report) -> bool:
        return task.status == WORKING and task.attempt == report.attempt

    def may_report(self, state: State, session: int, owner: int) -> bool:
        return True


class LeaseAlone(Queue):
    """Whether the task is still working is not looked at: its last lease is the fence."""

    def fenced(self, task: Task, report: Report) -> bool:
        return task.lease == report.lease


class ExpiredReports(Queue):
    """A report of an expired attempt is believed until somebody else has claimed."""

    def fenced(self, task: Task, report: Report) -> bool:
        return task.status in {WORKING, WAITING} and task.lease == report.lease


class StaleRescue(Queue):
    """The keeper writes what it decided when it looked."""

    def expire(self, state: State, session: int, looked: tuple[Fence, ...] = ()) -> State:
        state = end(state, session, EXPIRED)
        for number, _ in looked:
            if not locked(state, number):
                state = put(state, number, self.lost(state.tasks[number], session))
        return state


class SweptOnce(Queue):
    """The keeper looks through the sessions that it ends, and not again."""

    def left_behind(self, state: State, session: int) -> list[int]:
        if state.sessions[session].status == LIVE:
            return super().left_behind(state, session)
        return []

    def expire(self, state: State, session: int, looked: tuple[Fence, ...] = ()) -> State:
        for number in self.left_behind(state, session):
            state = put(state, number, self.lost(state.tasks[number], session))
        return end(state, session, EXPIRED)


class CountedTwice(Queue):
    """An agent that is lost counts twice against its task."""

    def lost(self, task: Task, session: int) -> Task:
        task = super().lost(task, session)
        return task._replace(losses=task.losses + 1)


class NewAnswer(Queue):
    """A claim that is repeated is a new one."""

    def answered(self, state: State, claim: Claim) -> int | None:
        return None


class OldLeaseAgain(Queue):
    """A request that comes very late gets a task under a lease that the task had before."""

    def claimable(self, state: State, number: int, task: Task, lease: int) -> bool:
        return task.status == WAITING and not locked(state, number)


class ClaimsAtOnce(Queue):
    """A claim that is repeated while it is under way elsewhere does not wait for its end."""

    def waits(self, state: State, claim: Claim) -> bool:
        return False


class BeatKnowsAll(Queue):
    """A beat takes back all that it does not name, also what was claimed since it was written."""

    def unheard_of(self, state: State, lease: int, beat: Beat) -> bool:
        return lease != beat.pending


class BeatForgetsPending(Queue):
    """A beat takes back what its agent is still asking for."""

    def unheard_of(self, state: State, lease: int, beat: Beat) -> bool:
        return lease <= beat.drawn


class BeatTakesNothing(Queue):
    """What was given by an answer that got lost stays with a session that lives."""

    def unheard_of(self, state: State, lease: int, beat: Beat) -> bool:
        return False


class BeatIgnoresAge(Queue):
    """A beat takes back what its agent has just got from the front."""

    def unheard_of(self, state: State, lease: int, beat: Beat) -> bool:
        return is_ahead(lease) or super().unheard_of(state, lease, beat)


class StopByTask(Queue):
    """An order to stop is about a task, and hits whatever attempt of it runs."""

    def stops(self, fence: Fence, task: int, lease: int) -> bool:
        return fence[0] == task


class SalvagedTwice(Queue):
    """A late result wins, also where another was accepted."""

    def salvageable(self, task: Task, row: Row, report: Report) -> bool:
        return (row.outcome, report.outcome) == (LOST, DONE)


class SalvagedAfterFailure(Queue):
    """A late result wins over the failures that have ended the task."""

    def salvageable(self, task: Task, row: Row, report: Report) -> bool:
        return super().salvageable(task._replace(failures=0), row, report)


class TwoLeases(Queue):
    """Both attempts of a task that is hedged hold a lease, and each may say what it likes."""

    def fenced(self, task: Task, report: Report) -> bool:
        is_hedged = (report.lease, HEDGED) in {(row.lease, row.outcome) for row in task.rows}
        return super().fenced(task, report) or (task.status == WORKING and is_hedged)

    def may_report(self, state: State, session: int, owner: int) -> bool:
        return True


class HedgedFails(Queue):
    """A failure of the first attempt counts while the second one runs."""

    def report(self, state: State, report: Report) -> tuple[State, str]:
        after, verdict = super().report(state, report)
        task = after.tasks[report.task]
        is_hedged = (report.lease, HEDGED) in {(row.lease, row.outcome) for row in task.rows}
        if is_hedged and (verdict, report.outcome) == (SUPERSEDED, FAILED):
            after = put(after, report.task, task._replace(failures=task.failures + 1))
        return after, verdict


class HedgedStops(Queue):
    """An agent whose attempt is hedged gets the order to stop."""

    def may_win(self, task: Task, lease: int) -> bool:
        return False


class HedgedLast(Queue):
    """A task is hedged although one failure more ends it, and its first attempt then loses."""

    def hedgeable(self, task: Task) -> bool:
        return super().hedgeable(task._replace(failures=-1))


class HedgedAgain(Queue):
    """A second attempt is hedged by a third one."""

    def hedgeable(self, task: Task) -> bool:
        return super().hedgeable(task._replace(rows=()))


class HedgedWinsTwice(Queue):
    """The first attempt wins although the second one has."""

    def salvageable(self, task: Task, row: Row, report: Report) -> bool:
        return (row.outcome, report.outcome) == (HEDGED, DONE) or super().salvageable(
            task, row, report
        )


class NotCovered(Queue):
    """Anyone who has an entry may report on it, also after its session has ended."""

    def may_report(self, state: State, session: int, owner: int) -> bool:
        return owner == POOL or super().may_report(state, session, owner)


class NamedAgain(Queue):
    """What was leased ahead becomes anyone who's names it last."""

    def nameable(self, task: Task, lease: int) -> bool:
        return (task.status, task.lease) == (WORKING, lease)


class NoDeadline(Queue):
    """What was leased ahead and got lost stays leased."""

    def past_deadline(self, state: State, task: Task) -> bool:
        return False


class LostByPool(Queue):
    """What was leased ahead and got lost was an attempt, and a loss."""

    def unnamed(self, task: Task) -> Task:
        return self.lost(task, POOL)


class RetryForgets(Queue):
    """An operator's retry counts the attempts anew."""

    def retry(self, task: Task) -> Task:
        return super().retry(task)._replace(attempt=0)


class CancelForgets(Queue):
    """A task that is cancelled keeps its attempt open, and its agent may still report."""

    def cancel(self, task: Task) -> Task:
        return task._replace(status=CANCELLED)

    def fenced(self, task: Task, report: Report) -> bool:
        return task.status in {WORKING, CANCELLED} and task.lease == report.lease


class RefusalFails(Queue):
    """A refusal is a failure of the task."""

    def settled(self, task: Task, report: Report) -> Task:
        after = super().settled(task, report)
        return after._replace(failures=task.failures + (report.outcome != DONE))


class RefusedAgain(Queue):
    """A refusal is noted whenever its report comes."""

    def report(self, state: State, report: Report) -> tuple[State, str]:
        after, verdict = super().report(state, report)
        task = after.tasks[report.task]
        if (verdict, report.outcome) == (DUPLICATE, REFUSED):
            after = put(after, report.task, task._replace(refused=task.refused + 1))
        return after, verdict


class AvoidedLate(Queue):
    """A failure that comes too late still tells the task which host to avoid."""

    def report(self, state: State, report: Report) -> tuple[State, str]:
        after, verdict = super().report(state, report)
        task = after.tasks[report.task]
        if (verdict, report.outcome) == (SUPERSEDED, FAILED):
            avoids = self.avoiding(task, self.host(state, report.session))
            after = put(after, report.task, task._replace(avoids=avoids))
        return after, verdict


class LeasedAheadForAll(Queue):
    """What is leased ahead may have failed on the host that gets it."""

    def may_take(self, state: State, task: Task, session: int) -> bool:
        return session == POOL or super().may_take(state, task, session)


class HandedBackForEver(Queue):
    """A task whose agents have no time left goes back, however often."""

    def out_of_time(self, task: Task, by: int) -> Task:
        return ended(task, OUT_OF_TIME, by)._replace(status=WAITING)


class AllAreBlamed(Queue):
    """A lost agent charges all its tasks, also those that waited for others."""

    def spared(self, state: State, session: int, left: list[int]) -> list[int]:
        return []


class NobodyIsBlamed(Queue):
    """What no heartbeat has named as begun is never charged."""

    def spared(self, state: State, session: int, left: list[int]) -> list[int]:
        said = state.sessions[session].said
        return [number for number in left if (number, state.tasks[number].lease, False) in said]


class MarkedByTask(Queue):
    """What has begun once counts as begun in each later attempt."""

    def spared(self, state: State, session: int, left: list[int]) -> list[int]:
        began = {task for task, _ in state.began}
        return [number for number in super().spared(state, session, left) if number not in began]


class Variant(NamedTuple):
    """A protocol, where to look at it, and the rule that it breaks there."""

    queue: type[Queue]
    bounds: Bounds
    rule: str


BOUNDS = Bounds(leases=1)
ALONE = BOUNDS._replace(agents=1)
FRONT = BOUNDS._replace(ahead=1, outcomes=(DONE,))
SALVAGE = BOUNDS._replace(salvage=True)
HEDGE = SALVAGE._replace(hedge=True)
BATCH = Bounds(batch=True, outcomes=(DONE,))
HOSTS = BOUNDS._replace(hosts=(0, 1), outcomes=(DONE, FAILED, REFUSED))

#: Where each is looked at, and what it breaks there.
VARIANTS = [
    Variant(Unfenced, BOUNDS, rules.ONE_LEASE),
    Variant(FencedByNumber, FRONT, rules.VERDICT),
    Variant(FencedByNumber, BOUNDS._replace(failover=True), rules.ONE_LEASE),
    Variant(LeaseAlone, BOUNDS, rules.VERDICT),
    Variant(ExpiredReports, BOUNDS, rules.VERDICT),
    Variant(StaleRescue, BOUNDS._replace(look=True), rules.COUNTED),
    Variant(SweptOnce, ALONE._replace(slow=True), rules.ENDS),
    Variant(CountedTwice, BOUNDS, rules.COUNTED),
    Variant(NewAnswer, BOUNDS._replace(tasks=2), rules.SAME_ANSWER),
    Variant(ClaimsAtOnce, ALONE._replace(tasks=2, slow=True), rules.ONE_TASK),
    Variant(OldLeaseAgain, BOUNDS, rules.ONE_WORD),
    Variant(BeatKnowsAll, ALONE._replace(late=True), rules.KEPT),
    Variant(BeatForgetsPending, BOUNDS, rules.KEPT),
    Variant(BeatTakesNothing, ALONE, rules.ENDS),
    Variant(BeatIgnoresAge, FRONT._replace(agents=1, late=True), rules.KEPT),
    Variant(StopByTask, ALONE._replace(leases=2, words=2), rules.STOPPED),
    Variant(SalvagedTwice, SALVAGE, rules.FINAL_IS_FINAL),
    Variant(SalvagedAfterFailure, SALVAGE._replace(max_attempts=1), rules.VERDICT),
    Variant(TwoLeases, HEDGE, rules.ONE_LEASE),
    Variant(HedgedFails, HEDGE, rules.COUNTED),
    Variant(HedgedStops, HEDGE, rules.MAY_WIN),
    Variant(HedgedLast, HEDGE._replace(max_attempts=1), rules.HEDGED_ONCE),
    Variant(HedgedAgain, HEDGE, rules.HEDGED_ONCE),
    Variant(HedgedWinsTwice, HEDGE, rules.FINAL_IS_FINAL),
    Variant(NotCovered, FRONT, rules.VERDICT),
    Variant(NamedAgain, FRONT, rules.ONE_OWNER),
    Variant(NoDeadline, FRONT._replace(agents=1), rules.ENDS),
    Variant(LostByPool, FRONT, rules.NOBODY),
    Variant(RetryForgets, BOUNDS._replace(words=2), rules.COUNTED),
    Variant(CancelForgets, BOUNDS._replace(words=2), rules.COUNTED),
    Variant(RefusalFails, HOSTS, rules.COUNTED),
    Variant(RefusedAgain, HOSTS, rules.NOTED),
    Variant(AvoidedLate, HOSTS, rules.NOTED),
    Variant(AllAreBlamed, BATCH._replace(agents=1), rules.BLAME),
    Variant(NobodyIsBlamed, BATCH._replace(leases=1), rules.FOUND),
    Variant(MarkedByTask, BATCH._replace(leases=1, outcomes=(FAILED,)), rules.BLAME),
    Variant(HandedBackForEver, Bounds(outcomes=(OUT_OF_TIME,)), rules.NO_CIRCLE),
    Variant(LeasedAheadForAll, ALONE._replace(ahead=1, leases=2, hosts=(0,)), rules.ELSEWHERE),
]
