"""The queue against its model while transactions are open: who sees what, passes over, or waits."""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Callable
from typing import Any, ClassVar

import psycopg
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
from taskq.database import Database
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.agent_double import AgentDouble
from tests.backstage import Backstage, assert_counts_are_true, silence
from tests.property.open_lines import Line, Lock, OpenLines
from tests.property.queue_model import (
    CANCELLED,
    DELAYED,
    MAX_ATTEMPTS,
    MAX_LOSSES,
    WAITING,
    WORKING,
    QueueModel,
    Task,
)

log = logging.getLogger(__name__)

Fence = tuple[int, str]

POLICY = RetryPolicy(MAX_ATTEMPTS, MAX_LOSSES, backoff_s=86_400, backoff_max_s=864_000)
LONG_S = 86_400.0
LINES = 3
INDEX = st.integers(0, 10_000)
LINE = st.integers(0, LINES - 1)
HOLD = COMMIT = st.booleans()

_EXCHANGE = """
    select acks, tasks, refused
      from taskq.exchange(%(campaign)s, %(reports)s, %(sessions)s, %(leases)s::uuid[], %(wants)s)
"""
_TASKS = """
    select task_id, status::text, attempt, failures, losses
      from taskq.task where campaign_id = %s order by task_id
"""
_ATTEMPTS = """
    select task_id, attempt, lease_id::text, outcome::text
      from taskq.attempt where campaign_id = %s order by task_id, attempt
"""
_DUE = """
    update taskq.task set due_at = clock_timestamp()
     where (campaign_id, task_id) in (
           select campaign_id, task_id from taskq.task
            where campaign_id = %s and status = 'delayed'
              for update skip locked)
"""
_LIVE_ON = "update taskq.session set lease_s = %s, heartbeat_at = now() where session_id = %s"


class ConcurrentMachine(RuleBasedStateMachine):
    """Each step is one function in a transaction of its own, which may stay open for a while."""

    numbers = itertools.count()

    database: ClassVar[Database]
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        database = self.database
        self.lines = OpenLines(database, LINES)
        self.queue = Client(database)
        self.backstage = psycopg.connect(database.dsn, autocommit=True, row_factory=dict_row)
        path = f"/i{next(self.numbers)}"
        self.campaign = self.queue.create_campaign(
            CampaignSpec(path, retry=POLICY, late_results="reject")
        )
        self.agents: list[AgentDouble] = []
        self.fences: list[Fence] = []  # of attempts whose claim has ended, committed or not
        self.claims: list[tuple[AgentDouble, str]] = []

    def teardown(self) -> None:
        """End what is open; leave no session that might fall silent."""
        self.lines.close()
        for agent in self.agents:
            agent.leave()
            agent.close()
        self.backstage.close()

    # How transactions end

    @precondition(lambda self: self.lines.open_lines())
    @rule(which=INDEX, commit=COMMIT)
    def end(self, which: int, commit: bool) -> None:
        """Commit a transaction, or undo it."""
        self.lines.end(pick(self.lines.open_lines(), which), commit=commit)

    def _do(
        self,
        line: Line,
        act: Callable[[Backstage], Any],
        needs: set[Lock] | None = None,
        *,
        commit: bool = True,
    ) -> Any:
        """Act on a line; see OpenLines.run()."""
        type(self).steps += 1
        return self.lines.run(line, act, needs or set(), commit=commit)

    def _done(self, line: Line, model: QueueModel, *, hold: bool) -> None:
        """Note what came of it; hold: leave the transaction open."""
        self.lines.changed(line, model)
        if not hold:
            self.lines.end(line, commit=True)

    # Agents

    @initialize()
    def begin(self) -> None:
        """Begin with some tasks and two agents."""
        self.campaign.seed(Seed({}, f"k{n}", priority=n % 2) for n in range(5))
        for view in self.campaign.tasks():
            task = Task(view.task_id, view.key, view.priority)
            self.lines.model.tasks[view.task_id] = task
        self.come()
        self.come()

    @precondition(lambda self: len(self.lines.model.live) < 3)
    @rule()
    def come(self) -> None:
        """Open a session."""
        agent = AgentDouble(self.queue.database, self.campaign.path, lease_s=LONG_S, host="node1")
        self.agents.append(agent)
        self.lines.model.open(agent.session, "node1")

    @rule(number=LINE, which=INDEX, want=st.integers(1, 3), again=HOLD, hold=HOLD, commit=COMMIT)
    def claim(
        self, number: int, which: int, want: int, again: bool, hold: bool, commit: bool
    ) -> None:
        """Claim, or repeat a claim, be it under way or answered long ago."""
        line = self.lines.begin(number)
        agent, lease = pick(self.agents, which), ""
        if again and self.claims:
            agent, lease = pick(self.claims, which)
        lease = lease or agent.draw_lease()
        self.claims.append((agent, lease))
        words = {
            "campaign": agent.campaign,
            "reports": None,
            "sessions": [agent.session],
            "leases": [lease],
            "wants": [want],
        }
        answer = self._do(line, fetch(_EXCHANGE, words), {("lease", lease)}, commit=commit)
        got = [one.task for one in agent.claimed(answer)]
        model = self.lines.free()
        if agent.session not in model.live:
            assert (answer["refused"], got) == ([agent.session], [])
        elif before := self.lines.model.held(agent.session, lease):
            assert got == sorted(task.task for task in before)
        else:
            waiting = {task.task for task in model.waiting()}
            claimable = {task.task for task in model.claimable(lease)}
            assert set(got) <= claimable
            assert (claimable == waiting and min(1, len(waiting))) <= len(got) <= want
            for task in got:
                model.claim(model.tasks[task], agent.session, lease)
            fences = [(task, lease) for task in got]
            line.at_end.append(lambda _: self.fences.extend(fences))
            # It has locked what it then did not take.
            hold = hold and claimable == waiting
        self._done(line, model, hold=hold)

    @precondition(lambda self: self.fences)
    @rule(
        number=LINE,
        words=st.lists(
            st.tuples(INDEX, st.sampled_from([DONE, FAILED, RELEASED]), st.booleans()),
            min_size=1,
            max_size=3,
        ),
        hold=HOLD,
        commit=COMMIT,
    )
    def report(
        self, number: int, words: list[tuple[int, str, bool]], hold: bool, commit: bool
    ) -> None:
        """Report about attempts, in time, late or again."""
        line = self.lines.begin(number)
        said = {
            pick(self.fences, index): {"outcome": outcome, "retry": flag, "started": flag}
            for index, outcome, flag in words
        }
        reports = [{"task": task, "lease": lease, **word} for (task, lease), word in said.items()]
        needs = {
            ("task", task)
            for task, lease in said
            if (self.lines.model.tasks[task].status, self.lines.model.tasks[task].lease)
            == (WORKING, lease)
        }
        values = {
            "campaign": self.campaign.campaign_id,
            "reports": json.dumps(reports),
            "sessions": None,
            "leases": None,
            "wants": None,
        }
        answer = self._do(line, fetch(_EXCHANGE, values), needs, commit=commit)
        model = self.lines.copy()
        assert answer["acks"] == [
            model.report(model.tasks[task], lease, error_class=None, **word)
            for (task, lease), word in said.items()
        ]
        self._done(line, model, hold=hold)

    @rule(number=LINE, which=INDEX, named=st.lists(INDEX, max_size=4), hold=HOLD, commit=COMMIT)
    def beat(self, number: int, which: int, named: list[int], hold: bool, commit: bool) -> None:
        """Name some attempts, own or not."""
        line = self.lines.begin(number)
        agent = pick(self.agents, which)
        fences = {pick(self.fences, index) for index in named} if self.fences else set()
        drawn = agent.drawn or agent.draw_lease()
        held = [(agent.campaign, task, lease) for task, lease in fences]
        beat = {"session": agent.session, "held": held, "pending": [], "drawn": drawn}
        needs: set[Lock] = set()
        if agent.session in self.lines.model.live:
            needs.add(("session", agent.session))
        act = fetch_all("select * from taskq.beat(%(beats)s)", {"beats": json.dumps([beat])})
        rows = self._do(line, act, needs, commit=commit)
        model = self.lines.free()
        if agent.session in model.live:
            # What somebody else has locked stays as it is, and is the session's until that commits.
            void = self.lines.copy().beat(agent.session, fences, [], drawn)
            assert {task for row in rows for _, task, _ in row["stop"] or ()} == void
            free = [fence for fence in fences if fence[0] in model.tasks]
            model.beat(agent.session, free, [], drawn)
        else:
            assert [row["ended"] for row in rows] == [True]
        self._done(line, model, hold=hold)

    @rule(number=LINE, which=INDEX, hold=HOLD, commit=COMMIT)
    def leave(self, number: int, which: int, hold: bool, commit: bool) -> None:
        """End a session, perhaps again."""
        line = self.lines.begin(number)
        session = pick(self.agents, which).session
        needs: set[Lock] = {("session", session)} if session in self.lines.model.live else set()
        act = fetch("select taskq.end_session(%(session)s) as n", {"session": session})
        row = self._do(line, act, needs, commit=commit)
        model = self.lines.free()
        if session in model.live:
            line.gone[session] = False
        assert row["n"] == model.leave(session)
        self._done(line, model, hold=hold)

    # Keepers and operators

    @rule(number=LINE, which=st.none() | INDEX, hold=HOLD)
    def expire(self, number: int, which: int | None, hold: bool) -> None:
        """Look for silent sessions, one of which has just fallen silent."""
        line = self.lines.begin(number)
        quiet = [
            session
            for session in sorted(self.lines.model.live)
            if not self.lines.is_locked(("session", session))
        ]
        silent = pick(quiet, which) if quiet and which is not None else None
        needs: set[Lock] = set()
        if silent is not None:
            silence(self.backstage, silent)
            needs.add(("session", silent))
            line.gone[silent] = True
            line.at_end.append(lambda done: self._live_on(silent, unless=done))
        row = self._do(line, fetch("select taskq.expire() as n", {}), needs)
        model = self.lines.free()
        lost = 0
        for session, expired in {**self.lines.gone, **line.gone}.items():
            if expired:
                lost += model.expire(session)
            else:
                model.leave(session)
        assert row["n"] == lost
        self._done(line, model, hold=hold)

    def _live_on(self, session: int, *, unless: bool) -> None:
        """Let a session not be silent any more, as soon as nobody has it locked."""
        if unless:
            return
        for line in self.lines.open_lines():
            if ("session", session) in line.locks:  # it has waited, and has it now
                line.at_end.append(lambda _: self._live_on(session, unless=False))
                return
        self.backstage.execute(_LIVE_ON, [LONG_S, session])

    @rule(number=LINE, hold=HOLD)
    def promote(self, number: int, hold: bool) -> None:
        """Let delayed tasks come due."""
        line = self.lines.begin(number)
        self.backstage.execute(_DUE, [self.campaign.campaign_id])
        row = self._do(line, fetch("select taskq.promote() as n", {}))
        model = self.lines.free()
        due = [task for task in model.tasks.values() if task.status == DELAYED]
        for task in due:
            model.promote(task)
        assert row["n"] == len(due)
        self._done(line, model, hold=hold)

    @rule(number=LINE, which=st.lists(INDEX, min_size=1, max_size=3), hold=HOLD, commit=COMMIT)
    def cancel(self, number: int, which: list[int], hold: bool, commit: bool) -> None:
        """Cancel single tasks."""
        line = self.lines.begin(number)
        tasks = {pick(sorted(self.lines.model.tasks), index) for index in which}
        found = {
            task
            for task in tasks
            if self.lines.model.tasks[task].status in {WAITING, DELAYED, WORKING}
        }
        act = fetch(
            "select moved from taskq.cancel(%(campaign)s, %(tasks)s, 0, 10)",
            {"campaign": self.campaign.campaign_id, "tasks": sorted(tasks)},
        )
        row = self._do(line, act, {("task", task) for task in found}, commit=commit)
        model = self.lines.copy()
        assert row["moved"] == model.cancel([model.tasks[task] for task in found])
        self._done(line, model, hold=hold)

    @rule(number=LINE, status=st.sampled_from([FAILED, CANCELLED]), hold=HOLD, commit=COMMIT)
    def retry(self, number: int, status: str, hold: bool, commit: bool) -> None:
        """Give tasks another chance."""
        line = self.lines.begin(number)
        act = fetch(
            "select moved from taskq.retry("
            "%(campaign)s, %(status)s::taskq.task_status, null, null, 0, 1000)",
            {"campaign": self.campaign.campaign_id, "status": status},
        )
        row = self._do(line, act, {("campaign",)}, commit=commit)
        model = self.lines.free()
        assert row["moved"] == model.retry(status, None)
        self._done(line, model, hold=hold)

    @rule(number=LINE, hold=HOLD)
    def fold(self, number: int, hold: bool) -> None:
        """Fold counts, which nobody can see."""
        line = self.lines.begin(number)
        self._do(line, fetch("select taskq.fold() as n", {}))
        self._done(line, self.lines.free(), hold=hold)

    # What must hold after every step, whatever is open

    @invariant()
    def all_that_is_committed_is_as_the_model_says(self) -> None:
        """Compare tasks, attempts and counts."""
        tasks = self.lines.model.tasks
        campaign = [self.campaign.campaign_id]
        rows = self.backstage.execute(_TASKS, campaign).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (task.task, task.status, task.attempt, task.failures, task.losses)
            for task in tasks.values()
        ]
        rows = self.backstage.execute(_ATTEMPTS, campaign).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (task.task, one.attempt, one.lease, one.outcome)
            for task in tasks.values()
            for one in task.ended
        ]
        assert_counts_are_true(self.backstage, self.campaign.path)


def fetch(query: str, values: dict[str, Any]) -> Callable[[Backstage], Any]:
    """Return an act that returns the row of a query."""
    return lambda connection: connection.execute(query.encode(), values).fetchone()


def fetch_all(query: str, values: dict[str, Any]) -> Callable[[Backstage], Any]:
    """Return an act that returns the rows of a query."""
    return lambda connection: connection.execute(query.encode(), values).fetchall()


def pick(some: list[Any], index: int) -> Any:
    """Return an element; the index may be any number, so that it keeps its meaning in a list."""
    return some[index % len(some)]


def test_open_transactions_do_what_the_model_says(database: Database) -> None:
    """Whatever is under way, waits, commits or is undone."""
    ConcurrentMachine.database = database
    soak = settings.get_current_profile_name() == "soak"
    brief = settings(max_examples=40, stateful_step_count=30)
    begun = time.monotonic()
    try:
        run_state_machine_as_test(ConcurrentMachine, settings=settings.default if soak else brief)
    finally:
        log.info("%d steps in %.0f s", ConcurrentMachine.steps, time.monotonic() - begun)
