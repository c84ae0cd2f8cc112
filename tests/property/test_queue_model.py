"""The queue against a model of it, under any order of what agents, operators and keepers do.

`--hypothesis-profile=soak` goes on for much longer.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg.rows import dict_row

from taskq import CampaignSpec, Client, RetryPolicy, Seed
from taskq.campaign import LATE_RESULTS
from taskq.database import Database
from taskq.errors import Conflict
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.agent_double import AgentDouble, Claimed
from tests.audited import assert_audit_is_clean
from tests.backstage import assert_counts_are_true, expire, silence, value
from tests.property.queue_model import (
    DELAYED,
    MAX_ATTEMPTS,
    MAX_LOSSES,
    QueueModel,
    Task,
)

Fence = tuple[int, str]

# A delay is over when the test says so.
POLICY = RetryPolicy(MAX_ATTEMPTS, MAX_LOSSES, backoff_s=86_400, backoff_max_s=864_000)
ERROR_CLASSES = st.sampled_from(["Disk", "Memory"])
RETRIED_CLASSES = st.sampled_from(["Disk", "Memory", "agent-lost", "poison"])
HOSTS = st.sampled_from(["node1", "node2"])
WANTS = st.integers(1, 4)
INDEX = st.integers(0, 10_000)

_TASKS = """
    select task_id, status::text, attempt, failures, losses
      from taskq.task where campaign_id = %s order by task_id
"""
_ATTEMPTS = """
    select task_id, attempt, lease_id::text, outcome::text, error_class
      from taskq.attempt where campaign_id = %s order by task_id, attempt
"""


class QueueMachine(RuleBasedStateMachine):
    """Does each step to the queue and to the model, and compares all that can be seen of them."""

    numbers = itertools.count()

    database: ClassVar[Database]

    def __init__(self) -> None:
        super().__init__()
        database = self.database
        self.model = QueueModel()
        self.queue = Client(database)
        self.backstage = psycopg.connect(database.dsn, autocommit=True, row_factory=dict_row)
        top = f"/m{next(self.numbers)}"
        self.campaign = self.queue.create_campaign(CampaignSpec(f"{top}/c", retry=POLICY))
        self.above = self.queue.campaign(top)
        self.agents: list[AgentDouble] = []
        self.fences: list[Fence] = []  # of every attempt that ever was
        self.claims: list[tuple[AgentDouble, str]] = []
        self.seeded = 0

    def teardown(self) -> None:
        """Let the audit see what is left, if all went well so far; close the connections."""
        try:
            if sys.exc_info()[0] is None:
                assert_audit_is_clean(self.queue, self.above.path)
        finally:
            self._close()

    def _close(self) -> None:
        for agent in self.agents:
            agent.close()
        self.backstage.close()

    # Agents

    @initialize(late=st.sampled_from(LATE_RESULTS))
    def begin(self, late: str) -> None:
        """Begin with some tasks and an agent."""
        self.change(late, set(), 2)
        self.seed(3, [0, 1, 0])
        self.come("node1")

    @precondition(lambda self: len(self.model.live) < 3)
    @rule(host=HOSTS)
    def come(self, host: str) -> None:
        """Open a session, on a connection of its own."""
        # Silent for longer than that is only who must be.
        agent = AgentDouble(self.queue.database, self.campaign.path, lease_s=86_400, host=host)
        self.agents.append(agent)
        self.model.open(agent.session, host)

    @rule(which=INDEX, want=WANTS, from_the_start=st.booleans())
    def claim(self, which: int, want: int, from_the_start: bool) -> None:
        """Claim under a new lease."""
        agent = self._agent(which)
        self._claim(agent, agent.draw_lease(), want, from_the_start=from_the_start)

    def _agent(self, which: int) -> AgentDouble:
        """Return an agent, now and then one whose session has ended."""
        live = [one for one in self.agents if one.session in self.model.live]
        return pick(live if live and which % 8 else self.agents, which)

    @precondition(lambda self: self.claims)
    @rule(which=INDEX, want=WANTS)
    def claim_again(self, which: int, want: int) -> None:
        """Repeat a claim, be its answer lost or only late."""
        agent, lease = pick(self.claims, which)
        self._claim(agent, lease, want, from_the_start=False)

    def _claim(self, agent: AgentDouble, lease: str, want: int, *, from_the_start: bool) -> None:
        if from_the_start:
            agent.forget_position()
        answer = agent.exchange(want=want, lease=lease)
        self._check_claim(agent, lease, want, answer, exact=from_the_start)

    def _check_claim(
        self, agent: AgentDouble, lease: str, want: int, answer: dict[str, Any], *, exact: bool
    ) -> None:
        self.claims.append((agent, lease))
        got = [task.task for task in agent.claimed(answer)]
        if agent.session not in self.model.live:
            assert (answer["refused"], got) == ([agent.session], [])
            return
        assert answer["refused"] is None
        before = self.model.held(agent.session, lease)
        if before:
            assert got == sorted(task.task for task in before)
        elif self.model.states != {"open"}:
            assert got == []
        else:
            waiting = [task.task for task in self.model.waiting()]
            claimable = [task.task for task in self.model.claimable(lease)]
            if exact:
                assert got == sorted(waiting[:want])
            assert set(got) <= set(claimable)
            assert (claimable == waiting and min(1, len(waiting))) <= len(got) <= want
            for number in got:
                self.model.claim(self.model.tasks[number], agent.session, lease)
                self.fences.append((number, lease))
        for task in agent.claimed(answer):
            assert task.attempt == self.model.tasks[task.task].attempt
            assert task.key == self.model.tasks[task.task].key

    @precondition(lambda self: self.fences)
    @rule(
        which=INDEX,
        words=st.lists(
            st.tuples(INDEX, st.sampled_from([DONE, FAILED, RELEASED]), st.booleans()),
            min_size=1,
            max_size=4,
            unique_by=lambda word: word[0],
        ),
        error_class=ERROR_CLASSES,
        want=st.integers(0, 2),
    )
    def report(
        self, which: int, words: list[tuple[int, str, bool]], error_class: str, want: int
    ) -> None:
        """Report about attempts, in time, late or again; claim in the same breath."""
        said = {
            pick(self.fences, index): {
                "outcome": outcome,
                "error_class": error_class if outcome == FAILED else None,
                "retry": flag,
                "started": flag,
            }
            for index, outcome, flag in words
        }
        self._report(pick(self.agents, which), said, want)

    @precondition(lambda self: self.model.lost())
    @rule(which=INDEX, late=INDEX, others=st.lists(INDEX, max_size=2), want=st.integers(0, 2))
    def finish_late(self, which: int, late: int, others: list[int], want: int) -> None:
        """Report success of an attempt that was given up, beside others."""
        fences = [pick(self.model.lost(), late), *(pick(self.fences, index) for index in others)]
        word = {"outcome": DONE, "error_class": None, "retry": True, "started": True}
        self._report(pick(self.agents, which), dict.fromkeys(fences, word), want)

    def _report(self, agent: AgentDouble, said: dict[Fence, dict[str, Any]], want: int) -> None:
        reports = [{"task": number, "lease": held, **word} for (number, held), word in said.items()]
        lease = agent.draw_lease()
        answer = agent.exchange(reports, want, lease=lease)
        verdicts: dict[Fence, str] = {}
        tasks = self.model.tasks
        for number, held in sorted(said, key=lambda one: self.model.is_late(tasks[one[0]], one[1])):
            verdicts[number, held] = self.model.report(tasks[number], held, **said[number, held])
        assert answer["acks"] == [verdicts[fence] for fence in said]
        if want:
            self._check_claim(agent, lease, want, answer, exact=False)

    @precondition(lambda self: self.model.live)
    @rule(
        which=INDEX,
        named=st.lists(INDEX, max_size=5),
        all_named=st.booleans(),
        pending=st.lists(INDEX, max_size=1),
        age=st.integers(0, 2),
    )
    def beat(
        self, which: int, named: list[int], all_named: bool, pending: list[int], age: int
    ) -> None:
        """Name some attempts, own or not, in a beat that may be older than the last claims."""
        agent = pick([one for one in self.agents if one.session in self.model.live], which)
        fences = {pick(self.fences, index) for index in named} if self.fences else set()
        if all_named:
            fences |= {(task.task, task.lease) for task in self.model.held(agent.session)}
        leases = [lease for one, lease in self.claims if one is agent]
        drawn = sorted(leases)[-1 - age] if len(leases) > age else agent.draw_lease()
        waited_for = [pick(leases, index) for index in pending] if leases else []
        stop = self.model.beat(agent.session, fences, waited_for, drawn)
        campaign = self.campaign.campaign_id
        held = [Claimed(campaign, number, lease, 0, "", {}) for number, lease in fences]
        assert agent.beat(held, pending=waited_for, drawn=drawn) == stop

    @precondition(lambda self: self.model.live)
    @rule(which=INDEX)
    def fall_silent(self, which: int) -> None:
        """Be gone for longer than a lease, and let the keeper look: rather who has tasks."""
        live = sorted(self.model.live)
        self._fall_silent(pick([one for one in live if self.model.held(one)] or live, which))

    @precondition(lambda self: len(self.agents) < 12)
    @rule(hosts=st.lists(HOSTS, min_size=1, max_size=3))
    def lose(self, hosts: list[str]) -> None:
        """Lose one agent after the other, each with the first task that waits."""
        for host in hosts:
            self.come(host)
            agent = self.agents[-1]
            self._claim(agent, agent.draw_lease(), 1, from_the_start=True)
            self._fall_silent(agent.session)

    def _fall_silent(self, session: int) -> None:
        silence(self.backstage, session)
        assert expire(self.backstage) == self.model.expire(session)

    @precondition(lambda self: len(self.model.live) != 1)
    @rule(which=INDEX)
    def leave(self, which: int) -> None:
        """End a session, perhaps again."""
        agent = pick(self.agents, which)
        assert agent.leave() == self.model.leave(agent.session)

    # Operators and keepers

    @rule(
        late=st.sampled_from(LATE_RESULTS),
        never=st.sets(ERROR_CLASSES, max_size=1),
        nodes=st.integers(1, 3),
    )
    def change(self, late: str, never: set[str], nodes: int) -> None:
        """Change what counts late, what is not tried again, and what is poison."""
        policy = replace(POLICY, never_retry=tuple(never), max_lost_nodes=nodes)
        self.campaign.change(CampaignSpec(self.campaign.path, retry=policy, late_results=late))
        self.model.salvages = late == "salvage"
        self.model.never_retry, self.model.max_lost_nodes = never, nodes

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
        known = {task.key for task in self.model.tasks.values()}
        for view in self.campaign.tasks():
            if view.key not in known:
                self.model.tasks[view.task_id] = Task(view.task_id, view.key, view.priority)
        self.seeded = begin + count
        assert len(self.model.tasks) == self.seeded

    @precondition(lambda self: any(t.status == DELAYED for t in self.model.tasks.values()))
    @rule(which=INDEX)
    def promote(self, which: int) -> None:
        """Let a delayed task come due."""
        task = pick([one for one in self.model.tasks.values() if one.status == DELAYED], which)
        self.backstage.execute(
            "update taskq.task set due_at = clock_timestamp() where task_id = %s", [task.task]
        )
        assert value(self.backstage, "select taskq.promote()") == 1
        self.model.promote(task)

    @rule(status=st.sampled_from(["open", "open", "paused", "cancelled"]), above=st.booleans())
    def set_status(self, status: str, above: bool) -> None:
        """Open, pause or cancel the campaign or the one above it; no task is moved yet."""
        path = self.above.path if above else self.campaign.path
        if status == "paused" and (self.model.above if above else self.model.state) == "cancelled":
            with pytest.raises(psycopg.DatabaseError, match="is cancelled"):
                self.backstage.execute("select taskq.set_status(%s, %s)", [path, status])
            return
        changed = value(self.backstage, "select taskq.set_status(%s, %s)", path, status)
        if above:
            assert changed == (self.model.above != status)
            self.model.above = status
        else:
            assert changed == (self.model.state != status)
            self.model.state = status

    @precondition(lambda self: "cancelled" in self.model.states)
    @rule()
    def cancel_all(self) -> None:
        """Do the rest of cancelling a campaign."""
        moved = value(
            self.backstage,
            "select moved from taskq.cancel(%s, null, 0, 1000)",
            self.campaign.campaign_id,
        )
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

    @rule(status=st.sampled_from(["failed", "cancelled"]), error_class=st.none() | RETRIED_CLASSES)
    def retry(self, status: str, error_class: str | None) -> None:
        """Give tasks another chance."""
        if "cancelled" in self.model.states:
            self._must_conflict(lambda: self.campaign.retry(status=status))
            return
        moved = self.campaign.retry(status=status, error_class=error_class)
        assert moved == self.model.retry(status, error_class)

    @rule()
    def fold(self) -> None:
        """Fold counts, which nobody can see."""
        self.backstage.execute("select taskq.fold()")

    def _must_conflict(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Conflict:
            return
        raise AssertionError("the campaign is cancelled, and yet this was done")

    # What must hold after every step

    @invariant()
    def tasks_stand_where_the_model_says(self) -> None:
        """Compare status, attempt number and what counts against a task."""
        rows = self.backstage.execute(_TASKS, [self.campaign.campaign_id]).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (task.task, task.status, task.attempt, task.failures, task.losses)
            for task in self.model.tasks.values()
        ]

    @invariant()
    def attempts_ended_as_the_model_says(self) -> None:
        """Compare all attempts: none is forgotten, none ends twice, none is made up."""
        rows = self.backstage.execute(_ATTEMPTS, [self.campaign.campaign_id]).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (task.task, one.attempt, one.lease, one.outcome, one.error_class)
            for task in self.model.tasks.values()
            for one in task.ended
        ]

    @invariant()
    def counts_are_true(self) -> None:
        """Compare with the model, and with a recount."""
        status = self.campaign.status()
        expected = self.model.counts()
        for name in ("waiting", "delayed", "working", "done", "failed", "cancelled"):
            assert getattr(status, name) == expected[name], name
        assert_counts_are_true(self.backstage, self.above.path)


def pick(some: list[Any], index: int) -> Any:
    """Return an element; the index may be any number, so that it keeps its meaning in a list."""
    return some[index % len(some)]


def test_queue_does_what_its_model_says(database: Database) -> None:
    """Whatever agents, operators and keepers do, in whatever order."""
    QueueMachine.database = database
    soak = settings.get_current_profile_name() == "soak"
    brief = settings(max_examples=80, stateful_step_count=30)
    run_state_machine_as_test(QueueMachine, settings=settings.default if soak else brief)
