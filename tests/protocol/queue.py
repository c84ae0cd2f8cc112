"""The queue's part of the protocol, as docs/task-life.md tells it: what each function does to rows.

A function is a transaction and happens at once. Where the real one looks first and acts later, the
model has two steps, see `claim_slowly` and `look`. What is small here is a place where a protocol
can be wrong: the variants override it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.state import (
    ACCEPTED,
    CANCELLED,
    DELAYED,
    DONE,
    DUPLICATE,
    EXPIRED,
    FAILED,
    HEDGED,
    LEFT,
    LIVE,
    LOST,
    NONE,
    NOT_BEGUN,
    OUT_OF_TIME,
    POOL,
    REFUSED,
    RELEASED,
    SALVAGED,
    SUPERSEDED,
    TOO_LONG,
    UNKNOWN,
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
    with_session,
)

Fence = tuple[int, int]


class Queue:
    """The protocol as it is shipped."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds

    # Claims

    def claim(self, state: State, claim: Claim) -> Iterator[tuple[State, int | None]]:
        """Give a waiting task; which one is open, since claims pass over what others have locked.

        The task is None where there is nothing for the claim.
        """
        if state.sessions[claim.session].status != LIVE or self.waits(state, claim):
            return
        again = self.answered(state, claim)
        if again is not None:
            yield state, again
            return
        found = [
            number
            for number, task in enumerate(state.tasks)
            if self.claimable(state, number, task, claim.lease)
            and self.may_take(state, task, claim.session)
        ]
        for number in found:
            yield put(state, number, self.taken(state.tasks[number], claim)), number
        if not found:
            yield state, None

    def waits(self, state: State, claim: Claim) -> bool:
        """Return whether this very claim is under way."""
        return state.slow is not None and state.slow[:2] == claim

    def answered(self, state: State, claim: Claim) -> int | None:
        """Return the task that this very claim was given before."""
        for number, task in enumerate(state.tasks):
            if (task.status, task.lease, task.session) == (WORKING, claim.lease, claim.session):
                return number
        return None

    def claimable(self, state: State, number: int, task: Task, lease: int) -> bool:
        """Return whether a task can be claimed: it waits, and nobody has it locked.

        A request that comes very late must not get a task that had this lease before: a report
        of that attempt would count for this one too.
        """
        if task.status != WAITING or locked(state, number):
            return False
        return all(row.lease != lease for row in task.rows)

    def may_take(self, state: State, task: Task, session: int) -> bool:
        """Return whether a task never failed on a session's host; others are not leased ahead."""
        return not task.avoids or (session != POOL and self.host(state, session) not in task.avoids)

    def host(self, state: State, session: int) -> int:
        """Return the host of a session's agent."""
        return self.bounds.hosts[state.sessions[session].agent]

    def taken(self, task: Task, claim: Claim) -> Task:
        """Return a task as it is once it was claimed."""
        return task._replace(
            status=WORKING, attempt=task.attempt + 1, lease=claim.lease, session=claim.session
        )

    def lease_ahead(self, state: State, number: int, lease: int) -> State:
        """Claim a task for the pool."""
        return put(state, number, self.taken(state.tasks[number], Claim(POOL, lease)))

    # Reports

    def report(self, state: State, report: Report) -> tuple[State, str]:
        """Take a report in; return its verdict."""
        task = state.tasks[report.task]
        if self.fenced(task, report) and self.may_report(state, report.session, task.session):
            settled = self.settled(task, report)
            if report.outcome == FAILED and self.bounds.hosts:
                by = report.session if task.session == POOL else task.session
                settled = settled._replace(avoids=self.avoiding(task, self.host(state, by)))
            return put(state, report.task, settled), ACCEPTED
        mine = [row for row in task.rows if row.lease == report.lease]
        owner = mine[0].session if mine else task.session
        if not self.may_report(state, report.session, owner):
            return state, UNKNOWN
        if any(self.same(row, report) for row in mine):
            return state, DUPLICATE
        if mine and self.salvageable(task, mine[0], report):
            return put(state, report.task, self.salvaged(task, mine[0])), ACCEPTED
        return state, SUPERSEDED

    def fenced(self, task: Task, report: Report) -> bool:
        """Return whether the report is about the lease that is the task's."""
        return task.status == WORKING and task.lease == report.lease

    def may_report(self, state: State, session: int, owner: int) -> bool:
        """Return whether a session may speak of what is another's."""
        if owner == POOL:
            return state.sessions[session].status == LIVE
        return owner != NONE and state.sessions[session].agent == state.sessions[owner].agent

    def same(self, row: Row, report: Report) -> bool:
        """Return whether an attempt was reported so before."""
        became = {(SALVAGED, DONE), (TOO_LONG, OUT_OF_TIME)}
        return row.outcome == report.outcome or (row.outcome, report.outcome) in became

    def settled(self, task: Task, report: Report) -> Task:
        """Return a task after the end of its attempt."""
        by = report.session if task.session == POOL else task.session
        if report.outcome == RELEASED:
            return self.unclaimed(task)
        owner = NONE if task.session == POOL else task.session
        if report.outcome == OUT_OF_TIME:
            return self.out_of_time(task, by)
        task = ended(task, report.outcome, by)
        if report.outcome == REFUSED:
            return task._replace(status=WAITING, session=owner, refused=task.refused + 1)
        if report.outcome == DONE:
            return task._replace(status=DONE)
        failures = task.failures + 1
        status = FAILED if failures >= self.bounds.max_attempts else DELAYED
        return task._replace(status=status, failures=failures, session=owner)

    def out_of_time(self, task: Task, by: int) -> Task:
        """Return a task whose agent had no time left: it waits, or was given up as too long."""
        owner = NONE if task.session == POOL else task.session
        outcomes = [row.outcome for row in task.rows]
        since = len(outcomes) - [*outcomes[::-1], TOO_LONG].index(TOO_LONG)
        if outcomes[since:].count(OUT_OF_TIME) + 1 >= self.bounds.max_out_of_time:
            task = ended(task, TOO_LONG, by)
            return task._replace(status=FAILED, failures=task.failures + 1, session=owner)
        return ended(task, OUT_OF_TIME, by)._replace(status=WAITING, session=owner)

    def avoiding(self, task: Task, host: int) -> tuple[int, ...]:
        """Return the hosts on which a task has failed, with one more."""
        return tuple(sorted({*task.avoids, host}))

    def unclaimed(self, task: Task) -> Task:
        """Return a task whose attempt has not begun: it uses the number again."""
        return task._replace(status=WAITING, attempt=task.attempt - 1)

    # Late results

    def salvageable(self, task: Task, row: Row, report: Report) -> bool:
        """Return whether a late result wins."""
        return (
            self.bounds.salvage
            and row.outcome in {LOST, HEDGED, NOT_BEGUN}
            and report.outcome == DONE
            and (
                task.status in {WAITING, DELAYED, WORKING}
                or (task.status == FAILED and task.failures < self.bounds.max_attempts)
            )
        )

    def salvaged(self, task: Task, row: Row) -> Task:
        """Return a task that is done by an attempt that was taken for lost."""
        if task.status == WORKING and task.session == POOL:
            task = self.unclaimed(task)
        elif task.status == WORKING:
            task = ended(task, CANCELLED, task.session)
        rows = tuple(
            attempt._replace(outcome=SALVAGED) if attempt == row else attempt
            for attempt in task.rows
        )
        return task._replace(status=DONE, rows=rows)

    # Beats

    def beat(self, state: State, beat: Beat) -> tuple[State, tuple[Fence, ...]]:
        """Square what a session holds with what it names; return what it is to stop."""
        if self.bounds.batch:
            said = tuple((*fence, fence in beat.begun) for fence in beat.held)
            state = with_session(state, beat.session, said=said)
        for fence in beat.held:
            state = self.name(state, beat.session, fence)
        for number, task in enumerate(state.tasks):
            if (
                (task.status, task.session) == (WORKING, beat.session)
                and not locked(state, number)
                and (number, task.lease) not in beat.held
                and self.unheard_of(state, task.lease, beat)
            ):
                state = put(state, number, self.unclaimed(task))
        stop = [
            (number, lease)
            for number, lease in beat.held
            if not self.holds(state.tasks[number], lease, beat.session)
            and not self.may_win(state.tasks[number], lease)
        ]
        return state, tuple(stop)

    def unheard_of(self, state: State, lease: int, beat: Beat) -> bool:
        """Return whether a lease that the heartbeat does not name came with a lost answer."""
        if is_ahead(lease):
            return lease in state.old
        return lease != beat.pending and lease <= beat.drawn

    def holds(self, task: Task, lease: int, session: int) -> bool:
        """Return whether an attempt is the session's, or may yet be."""
        return (task.status, task.lease) == (WORKING, lease) and task.session in {session, POOL}

    def may_win(self, task: Task, lease: int) -> bool:
        """Return whether a success under a lease that is no longer the task's would count."""
        word = Report(NONE, NONE, lease, NONE, DONE)
        return any(row.lease == lease and self.salvageable(task, row, word) for row in task.rows)

    def name(self, state: State, session: int, fence: Fence) -> State:
        """Give a session what was leased ahead and has come to it."""
        number, lease = fence
        task = state.tasks[number]
        if not self.nameable(task, lease) or state.sessions[session].status != LIVE:
            return state
        return put(state, number, task._replace(session=session))

    def nameable(self, task: Task, lease: int) -> bool:
        """Return whether the lease is still nobody's."""
        return (task.status, task.lease, task.session) == (WORKING, lease, POOL)

    # Upkeep

    def expire(self, state: State, session: int, looked: tuple[Fence, ...] = ()) -> State:
        """End a silent session, and hand out its tasks again.

        looked: the attempts that it had when the keeper looked, where that was before.
        """
        del looked  # what counts is what it has now
        return self.sweep(end(state, session, EXPIRED), session)

    def sweep(self, state: State, session: int) -> State:
        """Hand out what a session that has ended still has, be it by a claim that came late."""
        left = self.left_behind(state, session)
        spared = self.spared(state, session, left) if self.bounds.batch else ()
        for number in left:
            task = state.tasks[number]
            if state.sessions[session].status != EXPIRED:
                after = handed_back(task)
            elif number in spared:
                after = ended(task, NOT_BEGUN, session)._replace(status=WAITING)
            else:
                after = self.lost(task, session)
            state = put(state, number, after)
        return state

    def spared(self, state: State, session: int, left: list[int]) -> list[int]:
        """Return what says nothing about the loss of its agent: it had not begun.

        If that is all, what was spared the last time is charged, too.
        """
        said, tasks = state.sessions[session].said, state.tasks
        spared = [number for number in left if (number, tasks[number].lease, False) in said]
        if spared == left:
            spared = [number for number in left if not was_spared(tasks[number])]
        return spared

    def left_behind(self, state: State, session: int) -> list[int]:
        """Return what a session has, except what somebody has locked."""
        return [
            number
            for number, task in enumerate(state.tasks)
            if (task.status, task.session) == (WORKING, session) and not locked(state, number)
        ]

    def lost(self, task: Task, session: int) -> Task:
        """Return a task whose agent was lost."""
        losses = task.losses + 1
        status = FAILED if losses >= self.bounds.max_losses else WAITING
        return ended(task, LOST, session)._replace(status=status, losses=losses)

    def hedgeable(self, task: Task) -> bool:
        """Return whether a task may get a second attempt, which the first one does not end."""
        return (
            task.status == WORKING
            and task.session != POOL
            and task.failures + 1 < self.bounds.max_attempts
            and all(row.outcome != HEDGED for row in task.rows)
        )

    def hedged(self, state: State, task: Task) -> Task:
        """Return a task whose attempt goes on while it waits for a second one."""
        if self.bounds.hosts:
            task = task._replace(avoids=self.avoiding(task, self.host(state, task.session)))
        return ended(task, HEDGED, task.session)._replace(status=WAITING)

    def leave(self, state: State, session: int) -> State:
        """End a session in good order."""
        return self.sweep(end(state, session, LEFT), session)

    def past_deadline(self, state: State, task: Task) -> bool:
        """Return whether what was leased ahead has not been named for too long."""
        return (task.status, task.session) == (WORKING, POOL) and task.lease in state.old

    def unnamed(self, task: Task) -> Task:
        """Return a task that nobody has named in time; it is not leased ahead again."""
        return self.unclaimed(task)

    # Operators

    def cancel(self, task: Task) -> Task:
        """Return a task that was cancelled."""
        if task.status == WORKING and task.session == POOL:
            task = self.unclaimed(task)
        elif task.status == WORKING:
            task = ended(task, CANCELLED, task.session)
        return task._replace(status=CANCELLED)

    def retry(self, task: Task) -> Task:
        """Return a task that gets another chance."""
        return task._replace(status=WAITING, failures=0, losses=0, since=len(task.rows), avoids=())

    # Agents obey

    def stops(self, fence: Fence, task: int, lease: int) -> bool:
        """Return whether an order is about this attempt."""
        return fence == (task, lease)


def was_spared(task: Task) -> bool:
    """Return whether the attempt before the present one waited in an agent that was lost."""
    return any(row[0] == task.attempt - 1 and row.outcome == NOT_BEGUN for row in task.rows)


def ended(task: Task, outcome: str, session: int) -> Task:
    """Return a task with its attempt recorded."""
    row = Row(task.attempt, task.lease, session, outcome)
    return task._replace(rows=(*task.rows, row))


def handed_back(task: Task) -> Task:
    """Return a task that its session has left in good order."""
    return ended(task, RELEASED, task.session)._replace(status=WAITING)


def locked(state: State, number: int) -> bool:
    """Return whether a claim that has not committed has a task locked."""
    return state.slow is not None and state.slow[2] == number


def is_ahead(lease: int) -> bool:
    """Tell a lease of the pool from one that an agent has drawn."""
    return lease >= FIRST_AHEAD


#: Agents number their leases from 10, 20 and so on; the pool from here.
FIRST_AHEAD = 90
