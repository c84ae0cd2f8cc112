"""What a gateway remembers of tokens, and of those to whom it has handed out tasks."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from taskq import Client
from taskq.db.connections import Database
from taskq.dispatch.endings import cancel
from taskq.gateway.auth import Manager, TokenCache
from taskq.gateway.bindings import Bindings
from taskq.gateway.statement_pool import StatementPool
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import until


def test_identity_is_not_cached_if_another_server_took_over_meanwhile(queue: Client) -> None:
    """The server that was asked may not be the one that serves now."""
    token, _ = queue.tokens.create("manager", "m", ["/"])
    timeline = 1

    async def asked() -> list[Manager]:
        nonlocal timeline
        lines = StatementPool(queue.database, 1)
        identities = TokenCache(lines, lambda: timeline)

        async def known() -> Manager:
            found = await identities.identify(token)
            assert isinstance(found, Manager)
            return found

        first = asyncio.create_task(known())
        for _ in range(2):  # until the statement is under way
            await asyncio.sleep(0)
        timeline = 2
        assert identities.agent("of another agent") is None
        found = [await first, await known(), await known()]
        await lines.close()
        return found

    early, anew, remembered = asyncio.run(asked())
    assert anew is not early
    assert remembered is anew


WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"


@pytest.mark.thorough
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
