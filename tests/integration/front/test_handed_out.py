"""Looks of a gateway after those to whom it has handed out tasks from the front."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from taskq.db.connections import Database
from taskq.dispatch.group_commit import cancel
from taskq.gateway.fronted import Bindings
from taskq.gateway.pace import StatementPool
from tests.fixtures.queues import Hire
from tests.helpers.front_harness import until
from tests.helpers.postgres import Postgres, value

pytestmark = pytest.mark.thorough

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"


@pytest.mark.usefixtures("campaign")
async def test_ended_session_is_found_though_it_was_served_while_others_were_looked_up(
    hire: Hire, database: Database, dsn: str, postgres: Postgres
) -> None:
    """None is passed over, whenever it claims."""
    living, ended = hire(), hire()
    ended.leave()
    lines = StatementPool(database, 1)
    handed_out = Bindings(lines)
    keeping = asyncio.create_task(handed_out.keep())
    with psycopg.connect(dsn) as other:
        other.execute("lock table taskq.session")
        handed_out.note(living.session, ())
        await until(lambda: value(postgres, WAITING))
        handed_out.note(ended.session, ())
    await until(lambda: handed_out.has_ended(ended.session))
    assert not handed_out.has_ended(living.session)
    await cancel([keeping])
    await lines.close()
