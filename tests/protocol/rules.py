"""Promises that hold in every state, said anew and without a look at how the queue keeps them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.queue import Queue
from tests.protocol.state import (
    ACCEPTED,
    DELAYED,
    DONE,
    DUPLICATE,
    FAILED,
    FINAL,
    HEDGED,
    LIVE,
    LOST,
    NONE,
    NOT_BEGUN,
    OUT_OF_TIME,
    POOL,
    REFUSED,
    SALVAGED,
    SUPERSEDED,
    TOO_LONG,
    UNKNOWN,
    WAITING,
    WORKING,
    Bounds,
    Report,
    Row,
    State,
    Step,
    Stop,
    Task,
)

ONE_OUTCOME = "exactly one outcome is accepted"
ONE_LEASE = "no task has two live leases"
ONE_WORD = "a lease of a task is given once and ends once"
COUNTED = "attempts count up by one; failures and losses are counted once"
NOBODY = "what nobody has named was no attempt"
FINAL_IS_FINAL = "nothing happens after a final state but retry and salvage"
VERDICT = "the verdict is right"
ONE_TASK = "a claim for one task holds no more than one"
SAME_ANSWER = "a claim that is repeated gets the same task"
KEPT = "a beat takes nothing from its agent that this has or asks for"
STOPPED = "only void leases are stopped"
MAY_WIN = "what was hedged is not stopped as long as it may win"
HEDGED_ONCE = "a task is hedged once, and never where the second attempt may be its last"
ONE_OWNER = "a lease is named once"
NOTED = "what is written of hosts and refusals agrees with the attempts"
ELSEWHERE = "what has failed on a host is not tried there again while another serves it"
NO_CIRCLE = "what is handed back for want of time is given up in the end"
BLAME = (
    "a lost agent charges what it has named only if that had begun, or nobody had, twice in a row"
)
FOUND = (
    "what had begun is charged; what always waits where agents are lost is charged the second time"
)
ENDS = "every task can still become final without further faults"


def broken_state(queue: Queue, state: State) -> Iterator[str]:
    """Yield the rules that a state breaks."""
    held = [(task.session, task.lease) for task in state.tasks if task.status == WORKING]
    if len(held) != len(set(held)):
        yield ONE_TASK
    for number, task in enumerate(state.tasks):
        yield from _broken_task(queue.bounds, task)
        if queue.bounds.hosts:
            yield from _broken_hosts(queue.bounds, state, task)
        if len(_live(queue, state, number)) > 1:
            yield ONE_LEASE


def _broken_task(bounds: Bounds, task: Task) -> Iterator[str]:
    outcomes = [row.outcome for row in task.rows]
    leases = [row.lease for row in task.rows]
    if task.status == WORKING:
        leases.append(task.lease)
    if sum(outcome in {DONE, SALVAGED} for outcome in outcomes) != (task.status == DONE):
        yield ONE_OUTCOME
    if len(leases) != len(set(leases)):
        yield ONE_WORD
    numbers = [row.attempt for row in task.rows]
    if numbers != list(range(1, len(numbers) + 1)) or task.attempt != len(leases):
        yield COUNTED
    counted = outcomes[task.since :]
    counts = counted.count(FAILED) + counted.count(TOO_LONG), counted.count(LOST)
    if task.status != DONE and counts != (task.failures, task.losses):
        yield COUNTED
    if any(row.session == POOL for row in task.rows):
        yield NOBODY
    if _circles(bounds, task):
        yield NO_CIRCLE


def _circles(bounds: Bounds, task: Task) -> bool:
    """Return whether a task was handed back for want of time as often as makes it too long."""
    row = 0
    for attempt in task.rows:
        row = 0 if attempt.outcome == TOO_LONG else row + (attempt.outcome == OUT_OF_TIME)
        if row >= bounds.max_out_of_time:
            return True
    return False


def _broken_hosts(bounds: Bounds, state: State, task: Task) -> Iterator[str]:
    tried = [*task.rows[task.since :]]
    if task.status == WORKING and task.session != POOL:
        tried.append(Row(task.attempt, task.lease, task.session, WORKING))
    hosts = [
        bounds.hosts[state.sessions[row.session].agent] for row in tried if row.session != NONE
    ]
    failed = set()
    for row, host in zip(tried, hosts, strict=False):  # the last may be the spare agent's
        if host in failed:
            yield ELSEWHERE
        if row.outcome in {FAILED, HEDGED}:
            failed.add(host)
    refused = sum(row.outcome == REFUSED for row in task.rows)
    # A task that is done has no row any more.
    noted = (bounds.hedge and task.status == DONE) or failed == set(task.avoids)
    if not noted or refused != task.refused:
        yield NOTED


def _live(queue: Queue, state: State, number: int) -> set[int]:
    """Return the leases under which agents work on a task and would be believed."""
    task = state.tasks[number]
    return {
        run.lease
        for agent in state.agents
        if agent.session != NONE
        for run in agent.hand
        if run.task == number
        and queue.fenced(task, Report(agent.session, number, run.lease, run.attempt, DONE))
        and queue.may_report(state, agent.session, task.session)
    }


def broken_step(bounds: Bounds, before: State, step: Step, after: State) -> Iterator[str]:
    """Yield the rules that a step breaks."""
    if step.kind == "fail over":
        return  # what the standby has not heard of has never been
    if before.tasks is not after.tasks:
        yield from _broken_moves(before, step, after)
    if step.kind == "report":
        task = before.tasks[step.task]
        if step.note not in _verdicts(bounds.salvage, before, task, step):
            yield VERDICT
    elif step.kind == "claim":
        under = [
            number
            for number, task in enumerate(before.tasks)
            if (task.status, task.lease, task.session) == (WORKING, step.lease, step.session)
        ]
        if under and step.task not in under:
            yield SAME_ANSWER
    elif step.kind == "stop":
        task = before.tasks[step.task]
        owned = task.session in {step.session, POOL}
        # A claim that a standby has not heard of may be answered again, after an order to stop.
        failed_over = bounds.failover and before.replica is None
        if (task.status, task.lease) == (WORKING, step.lease) and owned and not failed_over:
            yield STOPPED
    elif bounds.hedge:
        yield from _broken_hedge(bounds, before, step, after)


def _broken_hedge(bounds: Bounds, before: State, step: Step, after: State) -> Iterator[str]:
    if step.kind == "hedge":
        task = before.tasks[step.task]
        again = any(outcome == HEDGED for _, outcome in _ended(task))
        if again or task.failures + 1 >= bounds.max_attempts:
            yield HEDGED_ONCE
    elif step.kind == "square" and step.note == "stop":
        for order in after.sent - before.sent:
            if isinstance(order, Stop):
                task = after.tasks[order.task]
                if (order.lease, HEDGED) in _ended(task) and _wants_salvage(task):
                    yield MAY_WIN


def _broken_blame(before: State, step: Step, after: State) -> Iterator[str]:
    said = {(task, lease): begun for task, lease, begun in before.sessions[step.session].said}
    ends = {LOST: 0, NOT_BEGUN: 0}
    again, innocent, guilty = False, False, False
    for number, (was, now) in enumerate(zip(before.tasks, after.tasks, strict=True)):
        if was.rows == now.rows:
            continue
        row, last = now.rows[-1], was.rows[-1:]
        spared_before = [(row.attempt, row.outcome) for row in last] == [
            (row.attempt - 1, NOT_BEGUN)
        ]
        ends[row.outcome] = ends.get(row.outcome, 0) + 1
        fence = number, row.lease
        if row.outcome == LOST and fence in said and fence not in before.began:
            innocent = innocent or not spared_before or _blames_another(before, said)
        if row.outcome == NOT_BEGUN:
            guilty = guilty or said.get(fence, True)
            again = again or spared_before
    if innocent:
        yield BLAME
    if guilty or (again and not ends[LOST]):
        yield FOUND


def _blames_another(state: State, said: dict[tuple[int, int], bool]) -> bool:
    """Return whether a session still has what has begun, as it has said."""
    return any(
        begun and (state.tasks[task].status, state.tasks[task].lease) == (WORKING, lease)
        for (task, lease), begun in said.items()
    )


def _broken_moves(before: State, step: Step, after: State) -> Iterator[str]:
    if step.kind in {"expire", "sweep"}:
        yield from _broken_blame(before, step, after)
    for number, (was, now) in enumerate(zip(before.tasks, after.tasks, strict=True)):
        if was == now:
            continue
        if was.status in FINAL and step.kind != "retry" and not _is_salvage(was, now):
            yield FINAL_IS_FINAL
        if was.status == now.status == WORKING and was.lease == now.lease and was.session != POOL:
            yield ONE_OWNER
        if step.kind == "square" and was.status == WORKING and now.status != WORKING:
            agent = before.agents[step.agent]
            # What a killed process has left in the spool is not this one's.
            in_hand = (number, was.lease) in {
                (run.task, run.lease) for run in agent.hand if not run.inherited
            }
            if agent.session == step.session and (in_hand or agent.call == was.lease):
                yield KEPT


def _verdicts(salvage: bool, state: State, task: Task, step: Step) -> set[str]:
    """Return the verdicts that a report may get, by what has become of its lease."""
    rows = [row for row in task.rows if row.lease == step.lease]
    if rows:
        if not _same_token(state, step.session, rows[0].session):
            return {UNKNOWN}
        became = {(DONE, SALVAGED), (OUT_OF_TIME, TOO_LONG)}
        if step.said == rows[0].outcome or (step.said, rows[0].outcome) in became:
            return {DUPLICATE}
        late = salvage and step.said == DONE and rows[0].outcome in {LOST, HEDGED, NOT_BEGUN}
        return {ACCEPTED if late and _wants_salvage(task) else SUPERSEDED}
    if (task.status, task.lease) == (WORKING, step.lease):
        if task.session == POOL:
            live = state.sessions[step.session].status == LIVE
            return {ACCEPTED} if live else {UNKNOWN}
        return {ACCEPTED if _same_token(state, step.session, task.session) else UNKNOWN}
    # Handed back before it began, or never named: nothing tells whose it was.
    return {SUPERSEDED, UNKNOWN}


def _wants_salvage(task: Task) -> bool:
    """Return whether no other outcome was accepted and none will be missed."""
    failed = [row.outcome for row in task.rows[task.since :]]
    through_losses = task.status == FAILED and failed[-1:] == [LOST]
    return task.status in {WAITING, DELAYED, WORKING} or through_losses


def _ended(task: Task) -> set[tuple[int, str]]:
    """Return the leases under which attempts have ended, with their outcomes."""
    return {(row.lease, row.outcome) for row in task.rows}


def _is_salvage(was: Task, now: Task) -> bool:
    """Return whether a lost attempt became the one that counts, and all else stayed."""
    changed = [
        (row.outcome, other.outcome)
        for row, other in zip(was.rows, now.rows, strict=True)
        if row != other
    ]
    won = changed in [[(lost, SALVAGED)] for lost in (LOST, HEDGED, NOT_BEGUN)]
    return won and (was.status, now.status) == (FAILED, DONE)


def _same_token(state: State, number: int, other: int) -> bool:
    return other != NONE and state.sessions[number].agent == state.sessions[other].agent
