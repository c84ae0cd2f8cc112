"""Tasks that become claimable elsewhere wake agents at once, and notify nobody where none waits."""

from __future__ import annotations

from taskq import Campaign
from taskq.db.connections import Database
from taskq.dispatch.long_poll import LongPoll
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import until
from tests.integration.sessions.test_waking import (  # noqa: F401  # fixtures, for all tests here
    ONE,
    OTHER,
    _working,
    campaign,
    polled,
    waiters,
)


async def listening(postgres: Postgres, count: int) -> None:
    """Wait until so many sessions listen."""
    statement = """
        select count(*) from pg_locks l join pg_database d on d.oid = l.database
         where l.locktype = 'advisory' and d.datname = current_database()
           and l.classid::bigint = hashtext('taskq.listen_for_tasks')::bigint & 4294967295"""
    await until(lambda: value(postgres, statement) == count)


async def test_tasks_from_elsewhere_are_seen_long_before_the_next_turn(
    campaign: Campaign,  # noqa: F811  # the fixture
    database: Database,
    postgres: Postgres,
    hire: Hire,
) -> None:
    """Seeded directly, or by another gateway, whether or not agents wait there too."""
    async with polled(database, poll_s=60) as here, LongPoll(database, 60) as there:
        (first,) = waiters(here, ONE, 1)
        await listening(postgres, 1)
        campaign.seed([{"n": 1}])
        assert await first is True
        assert len(hire(campaign.path).claim(9)) == 1
        (second,) = waiters(here, ONE, 1)
        postgres.execute('select taskq.submit(\'/c\', \'[{"key": "a", "payload": {}}]\')')
        there.poll_soon()
        assert await second is True
        assert len(hire(campaign.path).claim(9)) == 1
        (third,) = waiters(here, ONE, 1)
        waiters(there, OTHER, 1, seconds=30)
        await listening(postgres, 2)
        postgres.execute('select taskq.submit(\'/c\', \'[{"key": "b", "payload": {}}]\')')
        there.poll_soon()
        assert await third is True


async def test_nobody_is_notified_where_nobody_waits(
    campaign: Campaign,  # noqa: F811  # the fixture
    database: Database,
    postgres: Postgres,
) -> None:
    """A gateway listens for a while after its last agent; its own session does not count."""
    async with polled(database, poll_s=60) as waker:
        (future,) = waiters(waker, ONE, 1)
        await listening(postgres, 1)
        row = await waker._rows("announce_tasks")  # noqa: SLF001 - as it announces
        assert row == [{"announce_tasks": False}]
        assert value(postgres, "select taskq.announce_tasks()") is True
        campaign.seed([{"n": 1}])
        assert await future is True
        await listening(postgres, 0)
        assert value(postgres, "select taskq.announce_tasks()") is False


async def test_login_that_holds_the_lock_of_announcements_holds_up_no_gateway(
    campaign: Campaign,  # noqa: F811  # the fixture
    database: Database,
    postgres: Postgres,
    hire: Hire,
) -> None:
    """Any login can take it: gateways find tasks by their turns, and listen once it is free."""
    statement = "select pg_advisory_{}(hashtext('taskq.listen_for_tasks'), 0)"
    postgres.execute(statement.format("lock").encode())
    assert database.row("listen_for_tasks", listening=True) == {"listen_for_tasks": False}
    async with polled(database, poll_s=0.1) as waker:
        (future,) = waiters(waker, ONE, 1)
        campaign.seed([{"n": 1}])
        assert await future is True
        assert len(hire(campaign.path).claim(9)) == 1
        waiters(waker, ONE, 1, seconds=30)
        postgres.execute(statement.format("unlock").encode())
        await listening(postgres, 1)


async def test_lost_connection_listens_again(
    campaign: Campaign,  # noqa: F811  # the fixture
    database: Database,
    postgres: Postgres,
) -> None:
    """From the next turn on."""
    async with polled(database, poll_s=60) as waker:
        (future,) = waiters(waker, ONE, 1)
        await listening(postgres, 1)
        statement = """
            select count(pg_terminate_backend(l.pid))
              from pg_locks l join pg_database d on d.oid = l.database
             where l.locktype = 'advisory' and d.datname = current_database()"""
        assert value(postgres, statement) == 1
        await listening(postgres, 0)
        waker.poll_soon()
        await listening(postgres, 1)
        campaign.seed([{"n": 1}])
        assert await future is True
