"""Steps of operators, submitters and keepers in the model of the queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from taskq import Seed
from taskq.ingest.key_conflicts import ON_CONFLICT, OnConflict
from taskq.model.campaign_spec import LATE_RESULTS
from taskq.model.errors import Conflict, KeyConflict
from taskq_agent.protocol import DONE
from tests.helpers.postgres import value
from tests.property.queue_model import Place
from tests.property.queue_scene import (
    ERROR_CLASSES,
    HOSTS,
    INDEX,
    PLACES,
    POLICY,
    RETRIED_CLASSES,
    SITES,
    QueueScene,
    pick,
)
from tests.property.queue_tasks import DELAYED, Task


class QueueOperators(QueueScene):
    """Each step is done to the queue and to the model."""

    @rule(
        late=st.sampled_from(LATE_RESULTS),
        never=st.sets(ERROR_CLASSES, max_size=1),
        nodes=st.integers(1, 3),
    )
    def change(self, late: str, never: set[str], nodes: int) -> None:
        """Change what counts late, what is not tried again, and what is poison."""
        self.model.salvages = late == "salvage"
        self.model.never_retry, self.model.max_lost_hosts = never, nodes
        policy = replace(POLICY, never_retry=tuple(never), max_lost_hosts=nodes)
        self.change_to(retry=policy, late_results=late)

    @rule(count=st.integers(1, 5), priorities=st.lists(st.integers(-1, 1), min_size=5, max_size=5))
    def seed(self, count: int, priorities: list[int]) -> None:
        """Add tasks, and the last one again."""
        begin = max(0, self.seeded - 1)
        seeds = [
            Seed({"n": n}, f"k{n}", priorities[n - begin]) for n in range(begin, begin + count)
        ]
        if "cancelled" in self.model.states:
            self._must_conflict(lambda: self.campaign.seed(seeds))
            return
        self.campaign.seed(seeds)
        assert self.model.seed([(str(seed.key), seed.payload["n"]) for seed in seeds], "fail") == 0
        self.seeded = begin + count
        self._learn()

    @precondition(lambda self: self.model.tasks and "cancelled" not in self.model.states)
    @rule(
        drawn=st.lists(st.tuples(INDEX, st.integers(0, 3)), min_size=1, max_size=4),
        on_conflict=st.sampled_from(ON_CONFLICT),
        single=st.booleans(),
    )
    def seed_other_payloads(
        self, drawn: list[tuple[int, int]], on_conflict: OnConflict, single: bool
    ) -> None:
        """Seed payloads, some of them others, under keys that are there, or submit one."""
        keys = list(self.model.payloads)
        records = [(pick(keys, which), payload) for which, payload in drawn]
        seeds = [Seed({"n": payload}, key) for key, payload in records]
        if single:
            records, seeds = records[:1], seeds[:1]
        before = len(self.model.payloads)
        conflicts = self.model.seed(records, on_conflict)
        added = len(self.model.payloads) - before
        try:
            if single:
                seed = seeds[0]
                new = self.campaign.add(seed, on_conflict=on_conflict)
                assert (conflicts is not None, new) == (True, added == 1)
            else:
                count = self.campaign.seed(seeds, on_conflict=on_conflict)
                assert (count.conflicts, count.added) == (conflicts, added)
        except KeyConflict as error:
            assert error.count > 0  # noqa: PT017  # not every choice raises
            assert conflicts is None
        self._learn()

    def _learn(self) -> None:
        """See that there are the tasks that the model wants; take the new ones into it."""
        views = list(self.campaign.tasks())
        assert {view.key: view.payload["n"] for view in views} == self.model.payloads
        for view in views:
            if view.task_id not in self.model.tasks:
                self.model.tasks[view.task_id] = Task(
                    view.task_id, view.key, view.priority, view.priority
                )
        assert len(self.model.tasks) == len(self.model.payloads)

    @precondition(lambda self: any(t.status == DELAYED for t in self.model.tasks.values()))
    @rule(which=INDEX)
    def promote(self, which: int) -> None:
        """Let a delayed task come due."""
        task = pick([task for task in self.model.tasks.values() if task.status == DELAYED], which)
        self.postgres.execute(
            "update taskq.task set due_at = clock_timestamp() where task_id = %s", [task.task]
        )
        assert value(self.postgres, "select taskq.promote_delayed()") == 1
        self.model.promote(task)

    @precondition(lambda self: self.fences)
    @rule(which=INDEX, own=st.booleans())
    def hedge(self, which: int, own: bool) -> None:
        """Let a second attempt be made next to one that is at work, or was."""
        tasks = self.model.tasks
        at_work = [
            fence for fence in self.fences if not self.model.is_late(tasks[fence[0]], fence[1])
        ]
        number, lease = pick(at_work if own and at_work else self.fences, which)
        values = [self.campaign.campaign_id, number, lease]
        hedged = value(self.postgres, "select taskq.hedge_task(%s, %s, %s, 'slow')", *values)
        assert hedged == self.model.hedge(tasks[number], lease)

    @rule(status=st.sampled_from(["open", "open", "paused", "cancelled"]), above=st.booleans())
    def set_status(self, status: str, above: bool) -> None:
        """Open, pause or cancel the campaign or the one above it; no task is moved yet."""
        path = self.above.path if above else self.campaign.path
        if status == "paused" and (self.model.above if above else self.model.state) == "cancelled":
            with pytest.raises(psycopg.DatabaseError, match="is cancelled"):
                self.postgres.execute("select taskq.set_status(%s, %s)", [path, status])
            return
        changed = value(self.postgres, "select taskq.set_status(%s, %s)", path, status)
        if above:
            assert changed == (self.model.above != status)
            self.model.above = status
        else:
            assert changed == (self.model.state != status)
            self.model.state = status

    @precondition(lambda self: "cancelled" in self.model.states)
    @rule(limit=st.integers(1, 5))
    def cancel_all(self, limit: int) -> None:
        """Do the rest of cancelling a campaign, some spans and some rows at a time."""
        moved, last = 0, 0
        while last is not None:
            query = "select moved, last from taskq.cancel(%s, null, %s, %s)"
            row = self.postgres.execute(query, [self.campaign.campaign_id, last, limit]).fetchone()
            assert row is not None
            moved, last = moved + row["moved"], row["last"]
        assert moved == self.model.cancel(self.model.tasks.values())

    @rule(which=st.lists(INDEX, max_size=3))
    def cancel_some(self, which: list[int]) -> None:
        """Cancel single tasks."""
        if not self.model.tasks:
            return
        tasks = {
            (task := pick(list(self.model.tasks.values()), index)).key: task for index in which
        }
        assert self.campaign.cancel(tasks) == self.model.cancel(tasks.values())

    @rule(which=st.lists(INDEX, max_size=3), priority=st.integers(-2, 2))
    def prioritise(self, which: list[int], priority: int) -> None:
        """Change the priorities of single tasks, whatever they do."""
        if not self.model.tasks:
            return
        tasks = {
            (task := pick(list(self.model.tasks.values()), index)).key: task for index in which
        }
        outcome = self.campaign.prioritise(dict.fromkeys([*tasks, "unknown"], priority))
        changed, unchanged = self.model.prioritise(tasks.values(), priority)
        assert (outcome.changed, outcome.unchanged, outcome.unknown) == (changed, unchanged, 1)
        assert outcome.not_waiting == len(tasks) - changed - unchanged

    @rule(priority=st.integers(-2, 2), below=st.integers(-2, 2))
    def set_priority(self, priority: int, below: int) -> None:
        """Change the priorities of all tasks that have a lower one."""
        tasks = [task for task in self.model.tasks.values() if task.priority < below]
        moved = self.campaign.set_priority(priority, where=f"priority < {below}")
        assert moved == self.model.prioritise(tasks, priority)[0]

    @rule(
        status=st.sampled_from(["failed", "cancelled", "delayed", "done"]),
        error_class=st.none() | RETRIED_CLASSES,
    )
    def retry(self, status: str, error_class: str | None) -> None:
        """Give tasks another chance; done ones have no class."""
        error_class = None if status == DONE else error_class
        if "cancelled" in self.model.states:
            self._must_conflict(lambda: self.campaign.retry(status=status))
            return
        would = self.campaign.retry(status=status, error_class=error_class, dry_run=True)
        moved = self.campaign.retry(status=status, error_class=error_class)
        assert would == moved == self.model.retry(status, error_class)

    @rule(which=st.lists(INDEX, max_size=3))
    def retry_some(self, which: list[int]) -> None:
        """Give some cancelled tasks another chance; the others of their span stay cancelled."""
        if not self.model.tasks or "cancelled" in self.model.states:
            return
        numbers = {pick(list(self.model.tasks), index) for index in which}
        keys = [self.model.tasks[number].key for number in numbers]
        would = self.campaign.retry(status="cancelled", keys=keys, dry_run=True)
        moved = self.campaign.retry(status="cancelled", keys=keys)
        chosen = self.model.retry("cancelled", None, lambda task: task.task in numbers)
        assert would == moved == chosen

    @rule(failures=st.integers(1, 2), losses=st.integers(1, 2))
    def cancel_matching(self, failures: int, losses: int) -> None:
        """Cancel the tasks that match a filter, wherever they stand."""
        where = f"failures >= {failures} or losses >= {losses}"
        matching = [
            task
            for task in self.model.tasks.values()
            if task.against[0] >= failures or task.against[1] >= losses
        ]
        would = self.campaign.cancel(where=where, dry_run=True)
        assert would == self.campaign.cancel(where=where) == self.model.cancel(matching)

    @rule(
        status=st.sampled_from(["failed", "cancelled", "delayed", "done"]),
        error_class=st.none() | RETRIED_CLASSES,
        attempts=st.integers(0, 3),
    )
    def retry_matching(self, status: str, error_class: str | None, attempts: int) -> None:
        """Give those tasks another chance that match a filter."""
        error_class = None if status == DONE else error_class

        def matches(task: Task) -> bool:
            return task.attempt >= attempts

        words = {"status": status, "error_class": error_class, "where": f"attempts >= {attempts}"}
        if "cancelled" in self.model.states:
            if self.model.retriable(status, error_class, matches):
                self._must_conflict(lambda: self.campaign.retry(**words))
            return
        would = self.campaign.retry(**words, dry_run=True)
        moved = self.campaign.retry(**words)
        assert would == moved == self.model.retry(status, error_class, matches)

    @rule(place=PLACES, host=HOSTS, site=SITES)
    def ban(self, place: Place, host: str, site: str) -> None:
        """Keep agents away from a host or site: no task is moved, and nobody is let in."""
        self.queue.fleet.ban(*place, why="model")
        self.model.ban(place)
        kind, name = place
        self.try_in_vain(*((name, site) if kind == "host" else (host, name)))
        draining = {
            agent.session_id for agent in self.queue.agents(self.campaign.path) if agent.draining
        }
        assert draining == self.model.draining & self.model.live

    @precondition(lambda self: self.model.banned)
    @rule(place=PLACES)
    def unban(self, place: Place) -> None:
        """Let agents of a host or site come again; those with the order to leave keep it."""
        assert self.queue.fleet.unban(*place) == (place in self.model.banned)
        self.model.banned.discard(place)

    @rule()
    def fold(self) -> None:
        """Fold counts, which nobody can see."""
        self.postgres.execute("select taskq.fold()")

    def _must_conflict(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Conflict:
            return
        raise AssertionError("the campaign is cancelled, and yet this was done")
