"""Agents that come, or leave, together: one statement for many, and each has its own answer."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from threading import Barrier
from typing import Any

import pytest

from taskq import Campaign
from taskq.db.connections import AsyncConnection, Database, Row
from taskq.db.tokens import Tokens, hashed, session_token
from taskq.dispatch.group_commit import MOST_TOGETHER, GroupCommit
from taskq.gateway import enrolments
from taskq.gateway.enrolments import (
    OPENED_AT_ONCE,
    OPENED_PER_S,
    Departures,
    Enrolments,
)
from taskq.gateway.http.errors import Busy
from taskq.gateway.messages import SessionEndMessage
from taskq.model.errors import Forbidden, NotFound, Unauthorized, UsageError
from taskq_agent.protocol import Hello
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, value
from tests.integration.sessions.tokens.support import identify

HERE = "192.0.2.7"


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the number of agents in each statement that is sent."""
    sizes: list[int] = []
    rows = AsyncConnection.rows

    async def counting(line: AsyncConnection, name: str, /, **values: Any) -> list[Row]:
        come = name == "enrol_many"
        sizes.append(len(json.loads(values["hellos"]) if come else values["sessions"]))
        return await rows(line, name, **values)

    monkeypatch.setattr(AsyncConnection, "rows", counting)
    return sizes


@asynccontextmanager
async def enrolling(database: Database) -> AsyncIterator[Enrolments]:
    """Give enrolments."""
    opening = Enrolments(database, 120.0, lambda: 10)
    try:
        yield opening
    finally:
        await opening.close()


def said(
    opening: Enrolments, token: str, path: str = "/c", *, address: str = HERE, **members: Any
) -> asyncio.Task[Row]:
    """Say hello with a token."""
    key = members.pop("key", None) or str(uuid.uuid4())
    hello = Hello(key, path, "a", "n1", 1, "", 1, "", **members)
    session = session_token(token, hello.key)
    return asyncio.create_task(opening.open(token, session, hello, address))


async def test_hellos_that_wait_together_share_statements(
    site: str, database: Database, postgres: Postgres, statements: list[int]
) -> None:
    """Each opens a session of its own, though all agents have one name."""
    async with enrolling(database) as opening:
        rows = await asyncio.gather(*(said(opening, site) for _ in range(3 * MOST_TOGETHER)))
        assert len({row["session_id"] for row in rows}) == 3 * MOST_TOGETHER
        assert statements == [MOST_TOGETHER] * 3
        await said(opening, site)
        assert statements[3:] == [1], "nobody is left waiting for others to come"
    assert value(postgres, "select count(*) from taskq.session") == 3 * MOST_TOGETHER + 1
    assert value(postgres, "select count(distinct agent) from taskq.session") == 1


async def test_requests_that_trickle_in_share_a_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that is slower than its database gathers them nevertheless."""
    sizes: list[int] = []

    async def served(batch: Sequence[int]) -> Sequence[int | Exception]:
        sizes.append(len(batch))
        return batch

    group, loop, puts = GroupCommit(served), asyncio.get_running_loop(), []
    now = loop.time()
    with monkeypatch.context() as standing:
        standing.setattr(loop, "time", lambda: now)
        for n in range(5):
            puts.append(asyncio.create_task(group.put(n)))
            for _ in range(10):
                await asyncio.sleep(0)
        assert not sizes
    assert await asyncio.gather(*puts) == [*range(5)]
    assert sizes == [5]


@pytest.mark.thorough
async def test_agents_that_leave_together_share_statements(
    hire: Hire, campaign: Campaign, database: Database, postgres: Postgres, statements: list[int]
) -> None:
    """What some of them hold waits again, whether packed or in rows; nobody is refused."""
    campaign.seed({"n": n} for n in range(2 * MOST_TOGETHER))
    agents = [hire() for _ in range(2 * MOST_TOGETHER)]
    for task in agents[0].claim(20):
        agents[0].release(task, started=False)  # so it has a row of its own from now on
    assert all(agent.claim() for agent in agents[::2])
    leaving = Departures(database)
    ends = [
        leaving.end(agent.session, SessionEndMessage(f"why {agent.session}", 3))
        for agent in [*agents, agents[0]]  # whose answer was lost
    ]
    await asyncio.gather(*ends)
    await leaving.close()
    assert statements == [MOST_TOGETHER, MOST_TOGETHER, 1]
    assert campaign.status().waiting == 2 * MOST_TOGETHER
    ended = "select count(ended_at) from taskq.session where left_why = 'why ' || session_id"
    assert value(postgres, ended) == len(agents)


async def test_refused_hellos_change_nothing_for_others(
    site: str, tokens: Tokens, database: Database, postgres: Postgres, statements: list[int]
) -> None:
    """Each gets its own reason."""
    near, _ = tokens.create("site", "near", ["/c"], networks=["198.51.100.0/24"])
    theirs = str(uuid.uuid4())
    async with enrolling(database) as opening:
        await said(opening, site, key=theirs)
        statements.clear()
        refusals: list[tuple[asyncio.Task[Row], type[Exception], str]] = [
            (said(opening, "tqe_made-up"), Unauthorized, "the token is not valid"),
            (said(opening, site, "/d"), Forbidden, "not for /d, but for /c"),
            (said(opening, near), Forbidden, "the token near is not for agents at 192.0.2.7"),
            (said(opening, near, address="198.51.100.1", key=theirs), Forbidden, "somebody else"),
            (said(opening, site, "/c/nowhere"), NotFound, "/c/nowhere"),
            (said(opening, site, offers=("mem>=64",)), UsageError, "not well formed"),
        ]
        served = [said(opening, site, "/c/below", offers=("gpu",)) for _ in range(20)]
        for refused, kind, text in refusals:
            with pytest.raises(kind, match=text):
                await refused
        rows = await asyncio.gather(*served)
        assert {(row["path"], *row["offers"]) for row in rows} == {("/c/below", "gpu")}
        assert statements == [26]
    assert value(postgres, "select count(*) from taskq.session") == 21


async def test_hello_that_arrives_twice_at_once_opens_one_session(
    tokens: Tokens, database: Database, statements: list[int]
) -> None:
    """It counts as one use, and both get the session."""
    token, _ = tokens.create("site", "few", ["/c"], max_uses=2)
    first, second = (str(uuid.uuid4()) for _ in range(2))
    async with enrolling(database) as opening:
        rows = await asyncio.gather(
            *(said(opening, token, key=key) for key in (first, second, first))
        )
        assert statements == [3]
        assert rows[0]["session_id"] == rows[2]["session_id"] != rows[1]["session_id"]
        (found,) = identify(database, session_token(token, first))
        assert found["hash"] == hashed(session_token(token, first))
        assert found["session_id"] == rows[0]["session_id"]
        with pytest.raises(Forbidden, match="used up"):
            await said(opening, token)
    (seen,) = tokens.list()
    assert (seen.uses, seen.sessions) == (2, 2)


async def test_token_is_used_by_so_many_of_those_who_come_together(
    tokens: Tokens, database: Database
) -> None:
    """The others are refused, and leave nothing behind."""
    token, _ = tokens.create("site", "few", ["/c"], max_uses=3)
    async with enrolling(database) as opening:
        outcomes = await asyncio.gather(
            *(said(opening, token) for _ in range(10)), return_exceptions=True
        )
        assert Counter(type(outcome) for outcome in outcomes) == {dict: 3, Forbidden: 7}
    (seen,) = tokens.list()
    assert (seen.uses, seen.sessions) == (3, 3)


async def test_hello_that_only_the_database_finds_bad_is_refused_alone(
    site: str, database: Database, statements: list[int]
) -> None:
    """Should a gateway have overlooked something, it harms nobody else."""
    async with enrolling(database) as opening:
        some = [said(opening, site, address="nowhere" if n == 2 else HERE) for n in range(8)]
        outcomes = await asyncio.gather(*some, return_exceptions=True)
        assert [isinstance(outcome, UsageError) for outcome in outcomes] == [
            n == 2 for n in range(8)
        ]
        assert statements[:3] == [8, 4, 2]


async def test_hellos_that_wait_are_bounded(
    site: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that comes then learns when to come again, and those who wait are served."""
    monkeypatch.setattr(enrolments, "MOST_WAITING", 5)
    async with enrolling(database) as opening:
        served = [said(opening, site) for _ in range(5)]
        with pytest.raises(Busy) as refused:
            await said(opening, site)
        assert refused.value.after_s
        assert len(await asyncio.gather(*served)) == 5
        await said(opening, site)


async def test_sessions_that_a_token_opens_are_bounded_in_rate(
    site: str, tokens: Tokens, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are not kept waiting; what was refused does not count."""
    monkeypatch.setattr(enrolments, "OPENED_AT_ONCE", 3)
    monkeypatch.setattr(enrolments, "OPENED_PER_S", 0.0001)
    other, _ = tokens.create("site", "other", ["/c"])
    async with enrolling(database) as opening:
        for _ in range(5):
            with pytest.raises(Forbidden):
                await said(opening, site, "/elsewhere")
        for _ in range(3):
            await said(opening, site)
        with pytest.raises(Busy) as refused:
            await said(opening, site)
        assert refused.value.after_s
        await said(opening, other)


def test_site_of_20000_nodes_arrives_in_a_minute_and_once_more() -> None:
    """The limit is beyond that."""
    assert OPENED_AT_ONCE + 60 * OPENED_PER_S > 2 * 20_000


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("limited", "networks"), [(False, ()), (False, ("192.0.2.0/24",)), (True, ())]
)
def test_gateways_do_not_block_each_other(
    limited: bool,
    networks: Sequence[str],
    tokens: Tokens,
    database: Database,
    postgres: Postgres,
) -> None:
    """The same hellos in unlike order, or tokens whose uses are counted: there is no deadlock."""
    most = 10_000 if limited else None
    some = [
        tokens.create("site", name, ["/c"], max_uses=most, networks=networks)[0]
        for name in ("x", "y")
    ]
    ready = Barrier(2)

    async def gateway(number: int) -> None:
        async with enrolling(database) as opening:
            for turn in range(20):
                first = 1_000 * (2 * turn + limited * number)
                # Of one token, or in turn: the token that one gateway begins with ends the other.
                hellos = [
                    (some[limited * (n + number) % 2], str(uuid.UUID(int=first + n)))
                    for n in range(MOST_TOGETHER)
                ]
                await asyncio.to_thread(ready.wait, 30)
                order = reversed(hellos) if number else hellos
                await asyncio.gather(*(said(opening, token, key=key) for token, key in order))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: asyncio.run(gateway(number)), range(2)))
    opened = (1 + limited) * 20 * MOST_TOGETHER
    assert value(postgres, "select count(*) from taskq.session") == opened
    assert sum(token.uses for token in tokens.list()) == opened
