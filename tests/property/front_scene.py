"""A stage for the model of a queue with a front: who is there, and what must hold at any moment."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Coroutine, Iterable
from typing import Any, ClassVar, Final, cast

import msgspec
import psycopg
from hypothesis.stateful import RuleBasedStateMachine, invariant
from psycopg.rows import dict_row

from taskq import Campaign, Client, RetryPolicy
from taskq.db.connections import Database
from taskq.front.address import FrontAddress
from taskq.front.entries import open_entry
from taskq_agent.protocol import DONE
from taskq_agent.protocol import Task as Handed
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.campaigns import servable
from tests.helpers.postgres import assert_counts_are_true, silence
from tests.helpers.scripted_agent import ScriptedAgent
from tests.property.front_actors import GatewayDouble, Stage, Statement, SteppedRefiller
from tests.property.front_model import (
    MAX_ATTEMPTS,
    MAX_LOSSES,
    POOL,
    WAITING,
    WORKING,
    Fence,
    FrontModel,
)
from tests.property.front_vandal import Vandal

# A delay is over when the test says so.
POLICY: Final = RetryPolicy(
    max_attempts=MAX_ATTEMPTS, max_losses=MAX_LOSSES, backoff_s=86_400, backoff_max_s=864_000
)
#: Of sessions and terms that end only when the test says so.
LONG_S: Final = 86_400.0
POOL_S: Final = 120.0
KEEPER: Final = "00000000-0000-4000-8000-000000000001"

_TASKS = """
    select task_id, status::text, attempt, failures, losses,
           case when status = 'working' then session_id end as session,
           case when status = 'working' then lease_id::text end as lease
      from taskq.state where campaign_id = any (%s) order by task_id
"""
_ATTEMPTS = """
    select task_id, attempt, lease_id::text, session_id, outcome::text
      from taskq.attempt where campaign_id = any (%s) order by task_id, attempt
"""


class FrontScene(RuleBasedStateMachine):
    """Two campaigns, agents, two refillers, two gateways, a vandal; and the model of it all.

    statements: of the refillers, since they were last compared with the model. fences: all that
    were ever handed to somebody, holders: to whom last. popped: claims that the front has served:
    at which gateway, whose, under which lease id, with what.
    """

    numbers = itertools.count()

    database: ClassVar[Database]
    server: ClassVar[RedisServer]

    def __init__(self) -> None:
        super().__init__()
        self.model = FrontModel()
        self.queue = queue = Client(self.database)
        self.postgres = psycopg.connect(self.database.dsn, autocommit=True, row_factory=dict_row)
        self.server.admin.flushall()
        self.database.row("begin_front", pool_s=POOL_S)
        self.top = f"/m{next(self.numbers)}"
        self.campaigns: list[Campaign] = [
            servable(queue, f"{self.top}/{name}", retry=POLICY) for name in "ab"
        ]
        self.ids = [campaign.campaign_id for campaign in self.campaigns]
        self.stage = Stage()
        self.address = FrontAddress.parsed(self.server.url)
        self.statements: list[Statement] = []
        self.refillers = [self.new_refiller(), self.new_refiller()]
        self.gateways = [GatewayDouble(self.database, self.address, self.stage) for _ in self.ids]
        keys = self.gateways[0].state.keys
        self.vandal = Vandal(self.server.admin, keys, self.ids)
        self.agents: list[ScriptedAgent] = []
        queue.create_campaign(f"{self.top}x")
        self.outsider = ScriptedAgent(self.database, f"{self.top}x", lease_s=LONG_S)
        self.fences: list[Fence] = []
        self.holders: dict[Fence, ScriptedAgent] = {}
        self.popped: list[tuple[int, ScriptedAgent, str, list[Fence]]] = []
        self.seeded = 0

    def teardown(self) -> None:
        """See what is left when Redis is gone, if all went well so far; close the connections."""
        try:
            if sys.exc_info()[0] is None:
                assert_audit_is_clean(self.queue, self.top)
                self._finish()
        finally:
            for agent in (*self.agents, self.outsider):
                agent.close()
            for refiller in self.refillers:
                self.stage.play(refiller.crash())
            for gateway in self.gateways:
                self.stage.play(gateway.link.close())
            self.stage.close()
            self.postgres.close()

    def new_refiller(self) -> SteppedRefiller:
        """Return one that has not done anything yet."""
        return SteppedRefiller(self.database, self.address, self.stage, self.statements.append)

    def turned(self, agent: ScriptedAgent, side: int) -> ScriptedAgent:
        """Return an agent that speaks of the tasks of one of the campaigns."""
        agent.campaign = self.ids[side]
        return agent

    def take(self, tasks: Iterable[Handed], campaign: int, agent: ScriptedAgent) -> list[Fence]:
        """Take over what a gateway hands out: nothing but what PostgreSQL has leased ahead."""
        fences: list[Fence] = []
        for task in tasks:
            fence = task.task, task.lease
            assert fence in self.model.leased, "nobody has leased this ahead"
            known = self.model.tasks[task.task]
            payload = msgspec.json.decode(cast("msgspec.Raw", task.payload))
            assert task.campaign == known.campaign == campaign
            assert task.attempt == self.model.leased[fence]
            assert (task.key, payload) == (known.key, {"key": known.key})
            fences.append(fence)
        self.note(fences, agent)
        return fences

    def note(self, fences: Iterable[Fence], agent: ScriptedAgent) -> None:
        """Remember who was handed what."""
        for fence in fences:
            self.fences.append(fence)
            self.holders[fence] = agent

    def play(self, refiller: SteppedRefiller, scene: Coroutine[Any, Any, None]) -> None:
        """Let a refiller act, and take in what it has done to the tasks."""
        self.stage.play(scene)
        assert refiller.defects == []
        for statement in self.statements:
            if statement.name == "lease_ahead":
                self._leased(statement)
            elif statement.name == "return_ahead":
                tasks, leases = (
                    statement.values[name].strip("{}").split(",") for name in ("tasks", "leases")
                )
                fences = zip(map(int, tasks), leases, strict=True)
                assert statement.rows[0]["return_ahead"] == self.model.give_back(fences)
            elif statement.name == "keep_front" and statement.rows[0]["acting"]:
                stocked = {campaign for campaign, _, _ in json.loads(statement.values["stocked"])}
                closed = set(statement.rows[0]["closed"] or ())
                assert closed == stocked & self.model.closed
        self.statements.clear()

    def _leased(self, statement: Statement) -> None:
        """Compare what was leased ahead with what was waiting."""
        values, state = statement.values, statement.state
        assert state is not None
        opened = [open_entry(entry.encode(), state) for entry in statement.rows[0]["entries"] or ()]
        leased = [entry.task for entry in opened if entry is not None]
        assert len(leased) == len(opened)
        got = [self.model.tasks[task.task] for task in leased]
        waiting = self.model.poolable(values["campaign"])
        if values["epoch"] != (self.database.row("front_state") or {})["epoch"]:
            waiting = []
        least = min(1, len(waiting))
        if values["before"] is not None:
            waiting = [task for task in waiting if -task.priority < values["before"]]
            # What was attempted before may wait for claims of all ranks, see pick_again().
            least = min(values["most"], sum(not task.ended for task in waiting))
        # Those that were attempted before come first when the connection's hint is dropped, else
        # after the others, see pick_again(): each kind is in order.
        for again in (False, True):
            kind = [task for task in waiting if bool(task.ended) is again]
            assert [task for task in got if task in kind] == [task for task in kind if task in got]
        assert all(task in waiting for task in got)
        assert least <= len(got) <= values["most"]
        for task, other_task in zip(got, leased, strict=True):
            self.model.claim(task, POOL, other_task.lease)
            assert other_task.attempt == task.attempt

    # What must hold after every step

    @invariant()
    def tasks_stand_where_the_model_says(self) -> None:
        """Compare status, attempt, what counts against a task, and whose lease it is under."""
        rows = self.postgres.execute(_TASKS, [self.ids]).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (
                *(task.task, task.status, task.attempt, *task.against),
                *((task.session, task.lease) if task.status == WORKING else (None, None)),
            )
            for task in sorted(self.model.tasks.values(), key=lambda task: task.task)
        ]

    @invariant()
    def attempts_ended_as_the_model_says(self) -> None:
        """Compare all attempts: none is forgotten, none ends twice, none is made up."""
        rows = self.postgres.execute(_ATTEMPTS, [self.ids]).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (task.task, end.attempt, end.lease, end.session, end.outcome)
            for task in sorted(self.model.tasks.values(), key=lambda task: task.task)
            for end in task.ended
        ]

    @invariant()
    def attempts_count_up_by_one(self) -> None:
        """No number is left out or used twice, whatever was leased in vain in between."""
        for task in self.model.tasks.values():
            numbers = [end.attempt for end in task.ended]
            assert numbers == list(range(1, len(numbers) + 1))
            assert [end.outcome for end in task.ended].count(DONE) <= 1

    @invariant()
    def counts_are_true(self) -> None:
        """Compare with the model, and with a recount."""
        for campaign in self.campaigns:
            status = campaign.status()
            expected = self.model.counts(campaign.campaign_id)
            for name in ("waiting", "delayed", "working", "done", "failed", "cancelled"):
                assert getattr(status, name) == expected[name], name
        assert_counts_are_true(self.postgres, self.top)

    def _finish(self) -> None:
        """Let everybody and everything be gone: each task can be done, and is done once."""
        self.server.admin.flushall()
        for session in sorted(self.model.live):
            silence(self.postgres, session)
            self.model.expire(session)
        for campaign in self.campaigns:
            campaign.resume()
        self.model.closed.clear()
        self.postgres.execute("update taskq.task set due_at = now() where status = 'delayed'")
        self.model.promote()
        self.postgres.execute("select pg_sleep(0.002)")
        self.postgres.execute("update taskq.front set pool_s = 0")
        self.database.rows("keep", holder=KEEPER, term_s=LONG_S)
        self.model.pass_deadline()
        self.tasks_stand_where_the_model_says()
        last = ScriptedAgent(self.database, self.top, lease_s=LONG_S)
        self.agents.append(last)
        self.model.live.add(last.session)
        left = self.model.counts(self.ids[0])[WAITING] + self.model.counts(self.ids[1])[WAITING]
        for side in range(len(self.ids)):
            agent = self.turned(last, side)
            while tasks := agent.claim(1_000):  # one by one those that were lost
                for task in tasks:
                    assert agent.done(task) == "accepted"
                left -= len(tasks)
        assert left == 0
        statuses = {row["status"] for row in self.postgres.execute(_TASKS, [self.ids])}
        assert statuses <= {"done", "failed", "cancelled"}
        assert_counts_are_true(self.postgres, self.top)
        assert_audit_is_clean(self.queue, self.top)
