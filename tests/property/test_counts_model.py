"""Counts under any order of beginning, moving, committing, rolling back, folding and looking."""

from __future__ import annotations

import itertools
from typing import ClassVar

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
)
from psycopg.rows import dict_row

from taskq import Client
from taskq.db.connections import Database
from tests.helpers.postgres import Postgres, assert_counts_are_true, value
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.variants import rest_thorough
from tests.property.exploring import explore

WRITER = st.integers(0, 2)
READER = st.integers(0, 1)

CLAIM = "select taskq.exchange(%s, null, %s, array[gen_random_uuid()], %s)"
REPORT = """
    select taskq.exchange(%(campaign)s, (
        select jsonb_agg(jsonb_build_object(
                   'task', t.task_id, 'lease', t.lease_id, 'outcome', 'done'))::text
          from (select * from (
                    select task_id, lease_id from taskq.task
                     where campaign_id = %(campaign)s and status = 'working'
                     limit %(count)s for update skip locked) one
                 union all
                select unnest(b.tasks), b.lease_id from (
                    select tasks, lease_id from taskq.bundle
                     where campaign_id = %(campaign)s
                     limit 1 for update skip locked) b
                 limit %(count)s) t), null, null, null)
"""


class CountsMachine(RuleBasedStateMachine):
    """Three writers whose transactions stay open for a while, two readers with old snapshots."""

    numbers = itertools.count()

    database: ClassVar[Database]

    def __init__(self) -> None:
        super().__init__()
        database = self.database
        path = f"/n{next(self.numbers)}"
        campaign = Client(database).create_campaign(path)
        campaign.seed({"n": n} for n in range(40))
        self.agent = ScriptedAgent(database, path)
        self.writers = [self._connect(database) for _ in range(3)]
        self.readers = [self._connect(database) for _ in range(2)]
        for reader in self.readers:
            reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self.keeper = self._connect(database)
        self.keeper.autocommit = True

    @staticmethod
    def _connect(database: Database) -> Postgres:
        return psycopg.connect(database.dsn, row_factory=dict_row)

    def teardown(self) -> None:
        """Close the connections."""
        for connection in (*self.writers, *self.readers, self.keeper):
            connection.close()
        self.agent.close()

    @rule(writer=WRITER, count=st.integers(1, 4))
    def claim(self, writer: int, count: int) -> None:
        """Claim in a transaction that stays open."""
        words = [self.agent.campaign, [self.agent.session], [count]]
        self.writers[writer].execute(CLAIM, words)

    @rule(writer=WRITER, count=st.integers(1, 4))
    def report(self, writer: int, count: int) -> None:
        """Report what nobody else is reporting, in a transaction that stays open."""
        words = {"campaign": self.agent.campaign, "count": count}
        self.writers[writer].execute(REPORT, words)

    @rule(writer=WRITER)
    def commit(self, writer: int) -> None:
        """Let what a transaction did count from now on."""
        self.writers[writer].commit()

    @rule(writer=WRITER)
    def roll_back(self, writer: int) -> None:
        """Undo what a transaction did."""
        self.writers[writer].rollback()

    @rule()
    def fold(self) -> None:
        """Fold for all to see."""
        value(self.keeper, "select taskq.fold()")

    @rule(writer=WRITER)
    def fold_in_a_transaction(self, writer: int) -> None:
        """Fold in a transaction that stays open, as an exchange may do."""
        value(self.writers[writer], "select taskq.fold()")

    @rule(reader=READER)
    def look_anew(self, reader: int) -> None:
        """Let a reader take a new snapshot."""
        self.readers[reader].rollback()

    @invariant()
    def every_snapshot_counts_right(self) -> None:
        """Compare in old ones, the newest, and those of transactions that are under way."""
        for connection in (*self.readers, self.keeper, *self.writers):
            assert_counts_are_true(connection, self.agent.path)


@pytest.mark.parametrize("examples", rest_thorough([4, 20]))
def test_counts_are_true_in_every_snapshot(database: Database, examples: int) -> None:
    """However late a transaction commits, and whatever is folded meanwhile."""
    CountsMachine.database = database
    explore(CountsMachine, examples)
