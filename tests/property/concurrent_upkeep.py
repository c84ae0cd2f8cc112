"""Steps of keepers and operators in transactions that may stay open."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from taskq_agent.protocol import FAILED
from tests.helpers.postgres import silence
from tests.property.concurrent_scene import (
    COMMIT,
    CONNECTION,
    HOLD,
    INDEX,
    LONG_S,
    ConcurrentScene,
    fetch,
)
from tests.property.queue_scene import pick
from tests.property.queue_tasks import CANCELLED, DELAYED, WAITING, WORKING
from tests.property.tracked_connections import Lock

_DUE = """
    update taskq.task set due_at = clock_timestamp()
     where (campaign_id, task_id) in (
           select campaign_id, task_id from taskq.task
            where campaign_id = %s and status = 'delayed'
              for update skip locked)
"""
_LIVE_ON = "update taskq.session set lease_s = %s, heartbeat_at = now() where session_id = %s"


class ConcurrentUpkeep(ConcurrentScene):
    """A keeper, an operator, and time, which is turned by hand."""

    priority = 1  # the highest yet

    @rule(number=CONNECTION, which=st.none() | INDEX, hold=HOLD)
    def expire(self, number: int, which: int | None, hold: bool) -> None:
        """Look for silent sessions, one of which has just fallen silent."""
        connection = self.connections.begin(number)
        quiet = [
            session
            for session in sorted(self.connections.model.live)
            if not self.connections.is_locked(("session", session))
        ]
        busy = [session for session in quiet if self.connections.model.held(session)]
        silent = pick(busy or quiet, which) if quiet and which is not None else None
        needs: set[Lock] = set()
        if silent is not None:
            silence(self.postgres, silent)
            needs.add(("session", silent))
            connection.gone[silent] = True
            connection.at_end.append(lambda done: self._live_on(silent, unless=done))
        row = self.do(connection, fetch("select taskq.expire() as n", {}), needs)
        model = self.connections.free()
        lost = 0
        for session, expired in {**self.connections.gone, **connection.gone}.items():
            if expired:
                lost += model.expire(session)
            else:
                model.leave(session)
        assert row["n"] == lost
        self.done(connection, model, hold=hold)

    def _live_on(self, session: int, *, unless: bool) -> None:
        """Let a session not be silent any more, as soon as nobody has it locked."""
        if unless:
            return
        for connection in self.connections.open():
            if ("session", session) in connection.locks:  # it has waited, and has it now
                connection.at_end.append(lambda _: self._live_on(session, unless=False))
                return
        self.postgres.execute(_LIVE_ON, [LONG_S, session])

    @rule(number=CONNECTION, which=INDEX, hold=HOLD)
    def hedge(self, number: int, which: int, hold: bool) -> None:
        """Let a second attempt be made next to one that is at work, or was, unless it is locked."""
        if not self.fences:
            return
        connection = self.connections.begin(number)
        campaign: Lock = ("campaign's row",)
        locked = self.connections.is_locked(campaign)
        task, lease = pick(self.fences, which)
        values = {"campaign": self.campaign.campaign_id, "task": task, "lease": lease}
        act = fetch(
            "select taskq.hedge_task(%(campaign)s, %(task)s, %(lease)s, 'slow') as b", values
        )
        row = self.do(connection, act)
        model = self.connections.free()
        found = None if locked else model.tasks.get(task)
        assert row["b"] == (found is not None and model.hedge(found, lease))
        if not locked:
            connection.locks.add(campaign)
        self.done(connection, model, hold=hold)

    def promote(self, number: int, _: int, hold: bool, __: bool) -> None:
        """Let delayed tasks come due."""
        connection = self.connections.begin(number)
        self.postgres.execute(_DUE, [self.campaign.campaign_id])
        row = self.do(connection, fetch("select taskq.promote_delayed() as n", {}))
        model = self.connections.free()
        due = [task for task in model.tasks.values() if task.status == DELAYED]
        for task in due:
            model.promote(task)
        assert row["n"] == len(due)
        self.done(connection, model, hold=hold)

    @rule(
        number=CONNECTION, which=st.lists(INDEX, min_size=1, max_size=3), hold=HOLD, commit=COMMIT
    )
    def cancel(self, number: int, which: list[int], hold: bool, commit: bool) -> None:
        """Cancel single tasks."""
        connection = self.connections.begin(number)
        tasks = {pick(sorted(self.connections.model.tasks), index) for index in which}
        found = {
            task
            for task in tasks
            if self.connections.model.tasks[task].status in {WAITING, DELAYED, WORKING}
        }
        act = fetch(
            "select moved from taskq.cancel(%(campaign)s, %(tasks)s, 0, 10)",
            {"campaign": self.campaign.campaign_id, "tasks": sorted(tasks)},
        )
        row = self.do(connection, act, {("task", task) for task in found}, commit=commit)
        model = self.connections.copy()
        assert row["moved"] == model.cancel([model.tasks[task] for task in found])
        self.done(connection, model, hold=hold)

    @rule(
        number=CONNECTION, which=st.lists(INDEX, min_size=1, max_size=3), hold=HOLD, commit=COMMIT
    )
    def prioritise(self, number: int, which: list[int], hold: bool, commit: bool) -> None:
        """Give single tasks a priority that none has."""
        connection = self.connections.begin(number)
        tasks = {pick(sorted(self.connections.model.tasks), index) for index in which}
        found = {
            task
            for task in tasks
            if self.connections.model.tasks[task].status in {WAITING, DELAYED}
        }
        self.priority += 1
        act = fetch(
            "select changed from taskq.prioritise(%(campaign)s, %(tasks)s, %(priorities)s)",
            {
                "campaign": self.campaign.campaign_id,
                "tasks": sorted(tasks),
                "priorities": [self.priority] * len(tasks),
            },
        )
        row = self.do(connection, act, {("task", task) for task in found}, commit=commit)
        model = self.connections.copy()
        changed, _ = model.prioritise([model.tasks[task] for task in found], self.priority)
        assert row["changed"] == changed
        self.done(connection, model, hold=hold)

    @rule(number=CONNECTION, status=st.sampled_from([FAILED, CANCELLED]), hold=HOLD, commit=COMMIT)
    def retry(self, number: int, status: str, hold: bool, commit: bool) -> None:
        """Give tasks another chance; those that are done have no row until it commits."""
        connection = self.connections.begin(number)
        campaign: Lock = ("campaign",)
        waits = self.connections.is_locked(campaign)
        found = self._with(status)
        act = fetch(
            "select moved from taskq.retry("
            "%(campaign)s, %(status)s::taskq.task_status, null, null, 0, 1000)",
            {"campaign": self.campaign.campaign_id, "status": status},
        )
        needs = {campaign, *(("task", task) for task in found)}
        row = self.do(connection, act, needs, first=campaign, commit=commit)
        if waits:  # it has looked only after that
            connection.locks -= needs
            found = self._with(status)
        connection.locks |= {campaign, *(("task", task) for task in found)}
        model = self.connections.copy()
        model.tasks = {task: model.tasks[task] for task in found}
        assert row["moved"] == model.retry(status, None)
        self.done(connection, model, hold=hold)

    def _with(self, status: str) -> list[int]:
        return [
            task.task for task in self.connections.model.tasks.values() if task.status == status
        ]

    def fold(self, number: int, _: int, hold: bool, __: bool) -> None:
        """Fold counts, which nobody can see."""
        connection = self.connections.begin(number)
        self.do(connection, fetch("select taskq.fold() as n", {}))
        self.done(connection, self.connections.free(), hold=hold)
