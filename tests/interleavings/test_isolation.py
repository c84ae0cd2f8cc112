"""A login or database whose transactions are repeatable read unless they say otherwise.

What a lock was waited for is then not seen: a seed goes into a campaign that was cancelled
meanwhile, and a claim that is repeated gets other tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.model.errors import Conflict
from tests.helpers.postgres import Postgres, statuses, value
from tests.helpers.scripted_agent import ScriptedAgent
from tests.interleavings.meeting import calling, claiming, in_turn, meet

#: What the first of two says of itself, so that it is as usual.
USUAL = "-c default_transaction_isolation=read\\ committed"
ISOLATIONS = ["repeatable read", "serializable"]


@pytest.fixture(params=ISOLATIONS)
def other(
    request: pytest.FixtureRequest, campaign: Campaign, dsn: str, postgres: Postgres
) -> Iterator[Database]:
    """Give the queue's database as it is seen where another isolation is usual."""
    assert campaign.path == "/c"
    name = value(postgres, "select current_database()")
    usual = sql.SQL("alter database {} set default_transaction_isolation = {}")
    postgres.execute(usual.format(sql.Identifier(name), sql.Literal(request.param)))
    database = Database(dsn).open()
    yield database
    database.close()


def test_seed_that_meets_a_cancellation_adds_nothing(
    other: Database, campaign: Campaign, dsn: str, postgres: Postgres
) -> None:
    """It begins before the cancellation has committed, and ends behind it."""
    number = campaign.campaign_id
    cancel = in_turn(
        calling("select moved from taskq.cancel(%s, null, 0, 1000)", number),
        calling("select taskq.set_status('/c', 'cancelled')"),
    )
    seeding = Client(other).campaign("/c")

    def seed(_: Postgres) -> str:
        with pytest.raises(Conflict) as refused:
            seeding.seed([{"n": 1}])
        return str(refused.value)

    met = meet(make_conninfo(dsn, options=USUAL), cancel, seed)
    assert met.waited
    assert "cancelled: /c" in met.second
    assert statuses(postgres) == {}


def test_claim_that_is_repeated_gets_the_same_tasks(
    other: Database, campaign: Campaign, dsn: str
) -> None:
    """While its first asking is under way elsewhere."""
    campaign.seed({"n": n} for n in range(20))
    agent = ScriptedAgent(other)
    lease = agent.draw_lease()
    claim = claiming(agent, 3, lease)
    met = meet(make_conninfo(dsn, options=USUAL), claim, lambda _: agent.claim(3, lease=lease))
    assert met.waited
    assert [task.task for task in met.second] == [task.task for task in met.first]
    agent.close()


@pytest.mark.usefixtures("other")
def test_transactions_of_others_are_refused(
    campaign: Campaign, dsn: str, agent: ScriptedAgent
) -> None:
    """With what to do; nothing is done."""
    number = campaign.campaign_id
    verbs = [
        f"select taskq.claim('/c', {agent.session}, '{agent.draw_lease()}')",
        f"select taskq.heartbeat({agent.session})",
        "select taskq.submit('/c', '[]')",
        f"select taskq.seed_begin({number})",
        f"select taskq.cancel({number}, null, 0, 1)",
        f"select taskq.retry({number}, 'failed', null, null, 0, 1)",
        "select taskq.create_campaign('/d')",
    ]
    with psycopg.connect(dsn, autocommit=True) as stranger:
        for verb in verbs:
            with pytest.raises(psycopg.Error, match=r"alter role .* set default") as refused:
                stranger.execute(verb.encode())
            assert refused.value.sqlstate == "TQ400", verb


def test_connections_for_asyncio_are_as_usual(other: Database, agent: ScriptedAgent) -> None:
    """As those of gateways."""

    async def beaten() -> int:
        line = other.dedicated_async_connection()
        rows = await line.rows("beat", beats=f'[{{"session": {agent.session}}}]')
        await line.close()
        return len(rows)

    assert asyncio.run(beaten()) == 0
