"""Sorts all tasks of a history into ok, lost, duplicated and phantom, and finds what cannot be.

After `total-queue` of Jepsen (https://github.com/jepsen-io/jepsen, namespace jepsen.checker): what
went in must come out, once, and nothing else. Here that is: a key whose seeding was acknowledged
has one accepted outcome; one whose seeding got no answer may be there (recovered) or not. That
payload code runs twice is no anomaly, since an agent may die before its report.

Pure: it reads a history and nothing else.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.chaos.history import Attempt, History, Order, Sweep, Task

FINAL = frozenset({"done", "failed", "cancelled"})
REPORTED = frozenset({"done", "failed"})

LOST = "lost"
DUPLICATED = "duplicated"
PHANTOM = "phantom"
OVERLAP = "overlap"
FOREIGN = "foreign"
GAP = "gap"
VANISHED = "vanished"
INTRUDER = "intruder"
STALE = "stale"

#: The time of a claim is that of its beginning, and it may see what is done right after that.
_CLAIM_S = 1.0


@dataclass(frozen=True)
class Anomaly:
    """What cannot be. kind: one of the names above."""

    kind: str
    key: str
    text: str


@dataclass
class Verdict:
    """What became of the tasks; clean if `anomalies` is empty.

    recovered: of those that are ok, the ones whose seeding was never acknowledged. executions: how
    often payload code began; again: in an attempt in which it had begun before, as when a start of
    many tasks is divided; goings_on: from a checkpoint. sweeps: how many sets of tasks were
    cancelled or retried. withdrawn: how many results were. bans: how many there were.
    """

    tasks: int = 0
    ok: int = 0
    recovered: int = 0
    executions: int = 0
    again: int = 0
    sweeps: int = 0
    withdrawn: int = 0
    bans: int = 0
    goings_on: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)

    def count(self, kind: str) -> int:
        """Return for how many keys there is an anomaly of a kind."""
        return len({anomaly.key for anomaly in self.anomalies if anomaly.kind == kind})


def check(history: History) -> Verdict:
    """Return what became of each task."""
    looked = _Looked(history)
    anomalies = [
        *looked.of_seeding(),
        *looked.of_executions(),
        *looked.of_ends(),
        *looked.of_leases(),
        *looked.of_results(),
        *looked.of_checkpoints(),
        *looked.of_answers(),
        *looked.of_orders(),
        *looked.of_sweeps(),
        *looked.of_withdrawals(),
        *looked.of_looks(),
        *looked.of_bans(),
    ]
    bad = {anomaly.key for anomaly in anomalies}
    good = [task.key for task in history.tasks if task.key not in bad]
    return Verdict(
        tasks=len(history.tasks),
        ok=len(good),
        recovered=sum(key not in history.seeded for key in good),
        executions=len(history.executions),
        again=len(history.executions)
        - len(
            {
                (execution.agent, execution.key, execution.attempt)
                for execution in history.executions.values()
            }
        ),
        sweeps=sum(sweep.ended < math.inf for sweep in history.sweeps),
        withdrawn=sum(attempt.outcome == "withdrawn" for attempt in history.attempts),
        bans=len(history.bans),
        goings_on=sum(checkpoint.step > 0 for checkpoint in history.restored.values()),
        anomalies=anomalies,
    )


class _Looked:
    """A history with indexes; each method yields the anomalies of one sort."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._keys = {task.task: task.key for task in history.tasks}
        self._attempts: dict[int, list[Attempt]] = defaultdict(list)
        for attempt in sorted(
            history.attempts, key=lambda attempt: (attempt.task, attempt.attempt)
        ):
            self._attempts[attempt.task].append(attempt)

    def of_seeding(self) -> Iterator[Anomaly]:
        """Find what went in and is not there, is there twice, or did not go in."""
        there = Counter(task.key for task in self._history.tasks)
        for key in sorted(self._history.seeded.keys() - there.keys()):
            yield Anomaly(LOST, key, "its seeding was acknowledged, and it is not there")
        for key, count in there.items():
            if count > 1:
                yield Anomaly(DUPLICATED, key, f"there are {count} tasks of this key")
            if key not in self._history.seeding:
                yield Anomaly(PHANTOM, key, "it is there, and nobody has seeded it")

    def of_executions(self) -> Iterator[Anomaly]:
        """Find what ran although nobody had seeded it by then."""
        for name, execution in self._history.executions.items():
            seeding = self._history.seeding.get(execution.key)
            if seeding is None or execution.began < seeding:
                yield Anomaly(PHANTOM, execution.key, f"execution {name} began before any seeding")

    def of_ends(self) -> Iterator[Anomaly]:
        """Find tasks that are not final, or whose attempts say something else."""
        for task in self._history.tasks:
            attempts = self._attempts[task.task]
            if task.status not in FINAL:
                yield Anomaly(LOST, task.key, f"it is still {task.status}")
            done = [attempt for attempt in attempts if attempt.outcome == "done"]
            if len(done) > 1:
                numbers = [attempt.attempt for attempt in done]
                yield Anomaly(DUPLICATED, task.key, f"attempts {numbers} are all done")
            elif done:
                yield from self._after_the_result(task.key, done[0])
            yield from self._of_numbers(task, [attempt.attempt for attempt in attempts])
            last = attempts[-1].outcome if attempts else None
            if (task.status == "done") != bool(done):
                yield Anomaly(GAP, task.key, f"it is {task.status}, its last attempt {last}")
            if task.status == "failed" and last not in {"failed", "lost"}:
                yield Anomaly(GAP, task.key, f"it is failed, its last attempt {last}")

    def _after_the_result(self, key: str, done: Attempt) -> Iterator[Anomaly]:
        """Find what went on after a result; what is salvaged ends what others had begun by then."""
        for attempt in self._attempts[done.task]:
            if attempt.attempt > done.attempt and not (
                done.salvaged and attempt.ended <= done.ended
            ):
                text = f"attempt {attempt.attempt} goes on after {done.attempt}, which is done"
                yield Anomaly(DUPLICATED, key, text)

    @staticmethod
    def _of_numbers(task: Task, numbers: list[int]) -> Iterator[Anomaly]:
        if task.status in FINAL and numbers != list(range(1, task.attempt + 1)):
            text = f"it has had {task.attempt} attempts, and these are recorded: {numbers}"
            yield Anomaly(GAP, task.key, text)

    def of_leases(self) -> Iterator[Anomaly]:
        """Find tasks that had two live leases."""
        for task, attempts in self._attempts.items():
            key = self._keys.get(task, str(task))
            for attempt in attempts:
                if attempt.ended < attempt.claimed:
                    yield Anomaly(OVERLAP, key, f"attempt {attempt.attempt} ends before it begins")
            for attempt, next_one in pairwise(attempts):
                # When the lease of a salvaged one ended is not known any more.
                if next_one.claimed < attempt.ended and not attempt.salvaged:
                    text = f"attempt {next_one.attempt} begins before {attempt.attempt} ends"
                    yield Anomaly(OVERLAP, key, text)
            if len({attempt.lease for attempt in attempts}) < len(attempts):
                yield Anomaly(OVERLAP, key, "two attempts have one lease")

    def of_results(self) -> Iterator[Anomaly]:
        """Find what was accepted and not produced by an execution under that lease."""
        for task, attempts in self._attempts.items():
            key = self._keys.get(task, str(task))
            for attempt in attempts:
                if attempt.reported == "done" or attempt.execution is not None:
                    wrong = self._not_of(attempt, key)
                    if wrong:
                        yield Anomaly(FOREIGN, key, f"attempt {attempt.attempt}: {wrong}")

    def _not_of(self, attempt: Attempt, key: str) -> str:
        execution = self._history.executions.get(attempt.execution or "")
        if execution is None:
            return f"nobody has seen execution {attempt.execution}"
        if (execution.key, execution.attempt) != (key, attempt.attempt):
            return f"its result is that of {execution.key}, attempt {execution.attempt}"
        if execution.outcome != attempt.reported:
            return f"it is {attempt.outcome}, and the execution has {execution.outcome}"
        leases = self._history.leases.get((execution.agent, attempt.task, attempt.attempt), set())
        if attempt.lease not in leases:
            return f"{execution.agent} has executed it and never had lease {attempt.lease}"
        return ""

    def of_checkpoints(self) -> Iterator[Anomaly]:
        """Find what went on from another's checkpoint, or from an older one than was saved."""
        executions = self._history.executions
        last_saved: dict[tuple[str, int], int] = defaultdict(int)
        for saved in self._history.saved:
            made_by = executions[saved.execution]
            fence = made_by.key, made_by.attempt
            last_saved[fence] = max(last_saved[fence], saved.step)
            leases = self._history.leases[made_by.agent, saved.task, made_by.attempt]
            if saved.lease not in leases or saved.step > self._history.kept[saved.execution]:
                yield Anomaly(
                    FOREIGN, made_by.key, f"a checkpoint is saved that is not its: {saved}"
                )
        for name, found in self._history.restored.items():
            execution, made_by = executions[name], executions.get(found.execution)
            kept = self._history.kept.get(found.execution, 0)
            earlier = made_by is not None and made_by.attempt < execution.attempt
            if found.step and not (earlier and made_by.key == execution.key and found.step <= kept):
                yield Anomaly(
                    FOREIGN, execution.key, f"attempt {execution.attempt} goes on from {found}"
                )
            most = max(
                (last_saved[execution.key, earlier] for earlier in range(1, execution.attempt)),
                default=0,
            )
            if found.step < most:
                at = f"attempt {execution.attempt} goes on from step {found.step}"
                text = f"{at}, and {most} was saved"
                yield Anomaly(STALE, execution.key, text)

    def of_answers(self) -> Iterator[Anomaly]:
        """Find reports that are not there though acknowledged, or there though refused."""
        rows = {(attempt.task, attempt.lease): attempt for attempt in self._history.attempts}
        accepted: set[tuple[int, str]] = set()
        for answer in self._history.answers:
            fence = answer.task, answer.lease
            key = self._keys.get(answer.task, str(answer.task))
            if answer.outcome not in REPORTED:
                continue
            row = rows.get(fence)
            there = (
                row is not None
                and row.reported == answer.outcome
                and answer.execution in {None, row.execution}
            )
            if answer.verdict in {"accepted", "duplicate"} and not there:
                text = f"a report of {answer.outcome} was {answer.verdict}, and there is {row}"
                yield Anomaly(VANISHED, key, text)
            # A late success may count once the result that was better is withdrawn.
            free = any(attempt.outcome == "withdrawn" for attempt in self._attempts[answer.task])
            if answer.verdict == "superseded" and there and answer.execution and not free:
                yield Anomaly(VANISHED, key, f"a report was superseded, and there is {row}")
            if answer.verdict == "accepted":
                if fence in accepted:
                    yield Anomaly(DUPLICATED, key, f"lease {answer.lease} was accepted twice")
                accepted.add(fence)

    def of_orders(self) -> Iterator[Anomaly]:
        """Find cancelled tasks that went on, and retried ones that did not."""
        tasks = {task.key: task for task in self._history.tasks}
        by_key: dict[str, list[Order]] = defaultdict(list)
        for order in self._history.orders:
            by_key[order.key].append(order)
        for key, orders in by_key.items():
            last = orders[-1]
            task = tasks.get(key)
            if task is None or not last.moved:
                continue
            newest = max((attempt.claimed for attempt in self._attempts[task.task]), default=0.0)
            if last.verb == "cancel" and task.status != "cancelled":
                yield Anomaly(VANISHED, key, f"it was cancelled, and is {task.status}")
            if last.verb == "retry" and newest < last.began - _CLAIM_S and not self._swept(last):
                yield Anomaly(VANISHED, key, f"it was retried, and is {task.status} since before")

    def _swept(self, order: Order) -> bool:
        """Return whether a task may have been cancelled with others after an order."""
        return any(
            sweep.verb == "cancel" and sweep.word in order.key and sweep.ended > order.began
            for sweep in self._history.sweeps
        )

    def of_sweeps(self) -> Iterator[Anomaly]:
        """Find what went on after all like it were cancelled, or not after all were retried."""
        failed = {
            (answer.task, answer.lease): answer.at
            for answer in self._history.answers
            if answer.outcome == "failed" and answer.verdict == "accepted"
        }
        for sweep in self._history.sweeps:
            if sweep.ended == math.inf:
                continue
            for task in self._history.tasks:
                if sweep.word not in task.key:
                    continue
                last = (self._attempts[task.task] or [None])[-1]
                if last is None or self._history.seeded.get(task.key, math.inf) > sweep.began:
                    continue
                reported = failed.get((task.task, last.lease), math.inf)
                if sweep.verb == "cancel" and last.claimed > sweep.ended:
                    if not self._retried(task.key, sweep):
                        text = f"attempt {last.attempt} begins after all like it were cancelled"
                        yield Anomaly(VANISHED, task.key, text)
                elif task.status == "failed" and reported < sweep.began and sweep.verb == "retry":
                    text = "it is as it was before all that had failed were retried"
                    yield Anomaly(VANISHED, task.key, text)

    def _retried(self, key: str, sweep: Sweep) -> bool:
        """Return whether a task may have been retried, or its result withdrawn, since a sweep."""
        retries = [order for order in self._history.orders if order.key == key]
        others = [sweep for sweep in self._history.sweeps if sweep.word in key]
        return any(
            value.verb == "retry" and value.ended > sweep.began for value in (*retries, *others)
        ) or any(
            withdrawal.key == key and withdrawal.ended > sweep.began
            for withdrawal in self._history.withdrawals
        )

    def of_withdrawals(self) -> Iterator[Anomaly]:
        """Find results that are withdrawn and nobody asked for it, or not; or that count again."""
        asked: dict[str, list[bool | None]] = defaultdict(list)
        for withdrawal in self._history.withdrawals:
            asked[withdrawal.key].append(withdrawal.moved)
        for task in self._history.tasks:
            attempts = self._attempts[task.task]
            gone = [attempt for attempt in attempts if attempt.outcome == "withdrawn"]
            least = asked[task.key].count(True)
            most = least + asked[task.key].count(None)
            if not least <= len(gone) <= most:
                text = f"{least} to {most} of its results were withdrawn, and {len(gone)} are"
                yield Anomaly(VANISHED, task.key, text)
            last = max((attempt.ended for attempt in gone), default=-math.inf)
            for withdrawal in attempts:
                if withdrawal.outcome == "done" and withdrawal.ended <= last:
                    text = f"attempt {withdrawal.attempt} is done, and a later result was withdrawn"
                    yield Anomaly(DUPLICATED, task.key, text)

    def of_looks(self) -> Iterator[Anomaly]:
        """Find what a reader with a cursor was given twice, or not, or never had and learns of."""
        has: dict[str, int] = {}
        for look in self._history.looks:
            for key, attempt in look.gone:
                if has.pop(key, None) != attempt:
                    text = (
                        f"a reader learns that attempt {attempt} is withdrawn, and did not have it"
                    )
                    yield Anomaly(PHANTOM, key, text)
            for key, attempt in look.given:
                if key in has:
                    text = f"a reader that has attempt {has[key]} is given {attempt}"
                    yield Anomaly(DUPLICATED, key, text)
                has[key] = attempt
        if not self._history.looks:
            return
        for task in self._history.tasks:
            done = [
                attempt.attempt
                for attempt in self._attempts[task.task]
                if attempt.outcome == "done"
            ]
            if has.get(task.key) not in (done or [None]):
                text = f"a reader has attempt {has.get(task.key)} at the end, and {done} are done"
                yield Anomaly(LOST, task.key, text)

    def of_bans(self) -> Iterator[Anomaly]:
        """Find agents that were let in while their host or site was banned."""
        for ban in self._history.bans:
            for session in self._history.sessions.values():
                place = session.host if ban.kind == "host" else session.site
                if place == ban.name and ban.since < session.asked < session.opened < ban.until:
                    text = f"an agent was let in, and its {ban.kind} {ban.name} was banned"
                    yield Anomaly(INTRUDER, session.host, text)
