"""A stage for the model of the queue: who is there, and what must hold after every step."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant
from psycopg.rows import dict_row

from taskq import CampaignSpec, Client, RetryPolicy
from taskq.db.connections import Database
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.postgres import assert_counts_are_true
from tests.helpers.scripted_agent import ScriptedAgent
from tests.property.queue_model import MAX_ATTEMPTS, MAX_LOSSES, MAX_OUT_OF_TIME, QueueModel

Fence = tuple[int, str]

# A delay is over when the test says so.
POLICY = RetryPolicy(
    max_attempts=MAX_ATTEMPTS,
    max_losses=MAX_LOSSES,
    backoff_s=86_400,
    backoff_max_s=864_000,
    max_out_of_time=MAX_OUT_OF_TIME,
)
ERROR_CLASSES = st.sampled_from(["Disk", "Memory"])
RETRIED_CLASSES = st.sampled_from(["Disk", "Memory", "agent-lost", "poison", "too-long"])
HOSTS = st.sampled_from(["node1", "node2"])
SITES = st.sampled_from(["here", "there"])
PLACES = st.tuples(st.just("host"), HOSTS) | st.tuples(st.just("site"), SITES)
WANTS = st.integers(1, 4)
INDEX = st.integers(0, 10_000)

_OPEN = """
    select taskq.open_session(%s, gen_random_uuid(), p_host => %s, p_site => %s,
                              p_offers => '{protocol=1}')
"""
_TASKS = """
    select task_id, status::text, attempt, failures, losses
      from taskq.state where campaign_id = %s order by task_id
"""
_ATTEMPTS = """
    select task_id, attempt, lease_id::text, outcome::text, error_class
      from taskq.attempt where campaign_id = %s order by task_id, attempt
"""


_CHECKPOINTS = """
    select task_id, digest, lease_id::text, attempt
      from taskq.checkpoint where campaign_id = %s order by task_id
"""


class QueueScene(RuleBasedStateMachine):
    """A campaign below another one, its agents, and the model of it all."""

    numbers = itertools.count()

    database: ClassVar[Database]
    #: Of each agent.
    slots: ClassVar[int] = 1
    model_of_queue: ClassVar[Callable[[], QueueModel]] = QueueModel

    def __init__(self) -> None:
        super().__init__()
        database = self.database
        self.model = type(self).model_of_queue()
        self.queue = Client(database)
        self.postgres = psycopg.connect(database.dsn, autocommit=True, row_factory=dict_row)
        top = f"/m{next(self.numbers)}"
        self.campaign = self.queue.create_campaign(
            CampaignSpec(f"{top}/c", retry=POLICY, checkpoint_bytes=20_000)
        )
        self.above = self.queue.campaign(top)
        self.agents: list[ScriptedAgent] = []
        self.fences: list[Fence] = []  # of every attempt that ever was
        self.claims: list[tuple[ScriptedAgent, str]] = []
        self.seeded = 0

    def change_to(self, **settings: object) -> None:
        """Change these settings of the campaign, and hedge it where the model does."""
        hedge = 0.5 if self.model.hedges else None
        self.campaign.change(replace(self.campaign.spec(), **settings, hedge=hedge))

    def try_in_vain(self, host: str, site: str) -> None:
        """See that nobody can open a session where it is banned."""
        refused = f"the {' '.join(self.model.kept_away(host, site) or ())} is banned: model"
        with pytest.raises(psycopg.DatabaseError, match=refused):
            self.postgres.execute(_OPEN, [self.campaign.path, host, site])

    def teardown(self) -> None:
        """Let the audit see what is left, if all went well so far; close the connections."""
        try:
            if sys.exc_info()[0] is None:
                assert_audit_is_clean(self.queue, self.above.path)
        finally:
            self._close()

    def _close(self) -> None:
        for place in self.model.banned:  # those of the next scene have the same names
            self.queue.fleet.unban(*place)
        for agent in self.agents:
            agent.close()
        self.postgres.close()

    @invariant()
    def tasks_stand_where_the_model_says(self) -> None:
        """Compare status, attempt number and what counts against a task."""
        rows = self.postgres.execute(_TASKS, [self.campaign.campaign_id]).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (task.task, task.status, task.attempt, *task.against)
            for task in self.model.tasks.values()
        ]

    @invariant()
    def attempts_ended_as_the_model_says(self) -> None:
        """Compare all attempts: none is forgotten, none ends twice, none is made up."""
        rows = self.postgres.execute(_ATTEMPTS, [self.campaign.campaign_id]).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (task.task, end.attempt, end.lease, end.outcome, end.error_class)
            for task in self.model.tasks.values()
            for end in task.ended
        ]

    @invariant()
    def checkpoints_are_those_of_the_model(self) -> None:
        """Compare whose the last one of each task is."""
        rows = self.postgres.execute(_CHECKPOINTS, [self.campaign.campaign_id]).fetchall()
        assert [tuple(row.values()) for row in rows] == [
            (task.task, f"{task.checkpoint[0]}" * 64, *task.checkpoint[1:])
            for task in self.model.tasks.values()
            if task.checkpoint is not None
        ]

    @invariant()
    def progress_is_of_the_attempts_at_work(self) -> None:
        """Compare how far tasks are shown to be."""
        if any(task.progress for task in self.model.tasks.values()):
            found = self.campaign.tasks(below=False)
            shown = {task.task_id: task.progress for task in found if task.progress is not None}
            assert shown == self.model.shown()

    @invariant()
    def counts_are_true(self) -> None:
        """Compare with the model, and with a recount."""
        status = self.campaign.status()
        expected = self.model.counts()
        for name in ("waiting", "delayed", "working", "done", "failed", "cancelled"):
            assert getattr(status, name) == expected[name], name
        assert_counts_are_true(self.postgres, self.above.path)


def pick(some: list[Any], index: int) -> Any:
    """Return an element; the index may be any number, so that it keeps its meaning in a list."""
    return some[index % len(some)]
