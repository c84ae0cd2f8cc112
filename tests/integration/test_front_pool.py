"""Claims from the front: instant while it works, and in PostgreSQL at once when it does not."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from taskq import Campaign, CampaignSpec, Client, Handler
from taskq.choice import Serving
from taskq.database import Database
from taskq.front.address import FrontAddress
from taskq.front.keys import Keys
from taskq.front.link import ANSWER_S
from taskq.front.outlook import STATE_S
from taskq.front.pool import Pool
from taskq.front.sieve import MOST_FORGED
from taskq_agent.protocol import Task
from tests.backstage import Backstage, task_row, value
from tests.fixtures.redis_servers import RedisServer
from tests.pool_double import PoolDouble

NEVER_RUN = Handler("command", argv=("true",))
ALL = Serving("/")
PATIENCE_S = 30.0
#: For so long a busy machine may leave a test alone.
STALL_S = 2.0

_leases = (f"00000000-0000-4000-8000-{number:012d}" for number in itertools.count())


class Front:
    """A front that a test stocks by hand."""

    def __init__(self, database: Database, server: RedisServer, campaign: Campaign) -> None:
        self.server = server
        self.campaign = campaign.campaign_id
        self.double = PoolDouble(database, self.campaign)
        self.keys = Keys(self.double.state["name"])
        self.begin()

    def begin(self) -> None:
        """Tell Redis the epoch, as if everything else had been emptied."""
        self.server.admin.hset(self.keys.state, "epoch", self.double.state["epoch"])

    def stock(self, most: int) -> list[bytes]:
        """Lease some tasks ahead and push their entries; return these."""
        entries = [entry.encode() for entry in self.double.entries(most)]
        self.push(*entries)
        return entries

    def push(self, *entries: bytes, campaign: int | None = None) -> None:
        """Push what may be entries."""
        self.server.admin.rpush(self.keys.tasks(campaign or self.campaign), *entries)

    def left(self) -> int:
        """Return how many are in the list."""
        return int(self.server.admin.llen(self.keys.tasks(self.campaign)))


class Desk:
    """A pool, and what a gateway would ask of it."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    async def stocked(self, serving: Serving = ALL) -> None:
        """Wait until claims are to be made here."""
        await until(lambda: self.pool.stocked(serving))

    def ask(
        self, session: int = 1, want: int = 1, lease: str = "", serving: Serving = ALL
    ) -> asyncio.Future[list[Task]]:
        """Claim; the outcome is what was told, which is nothing if it is to be made elsewhere."""
        told: asyncio.Future[list[Task]] = asyncio.get_running_loop().create_future()
        if not self.pool.submit(session, lease or next(_leases), want, serving, told.set_result):
            told.set_result([])
        return told

    async def claim(self, session: int = 1, want: int = 1, lease: str = "") -> list[Task]:
        """Claim, and wait for what is told."""
        return await self.ask(session, want, lease)


async def until(predicate: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not predicate():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s"
        await asyncio.sleep(0.01)


Scene = Callable[[Desk], Coroutine[Any, Any, None]]
Play = Callable[[Scene], None]


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that agents may choose, with more tasks than a test leases ahead."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=NEVER_RUN))
    campaign.seed({"n": number} for number in range(1_001))
    return campaign


@pytest.fixture
def front(database: Database, redis_server: RedisServer, campaign: Campaign) -> Front:
    """Give a front that has begun, without entries."""
    return Front(database, redis_server, campaign)


@pytest.fixture
def play(database: Database, redis_server: RedisServer) -> Play:
    """Give a function that runs a coroutine with a pool in a loop of its own."""

    def run(scene: Scene) -> None:
        async def whole() -> None:
            pool = Pool(database, FrontAddress.parsed(redis_server.url))
            await pool.start()
            try:
                await scene(Desk(pool))
            finally:
                await pool.close()

        asyncio.run(asyncio.wait_for(whole(), 60))

    return run


def test_claim_gives_a_task_that_is_leased_already(
    front: Front, play: Play, backstage: Backstage
) -> None:
    """Who has popped an entry holds a lease that PostgreSQL knows, with all that an agent needs."""
    front.stock(10)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        (task,) = await desk.claim()
        row = task_row(backstage, task.task)
        assert (row["status"], row["session_id"]) == ("working", 0)
        assert str(row["lease_id"]) == task.lease
        assert (task.campaign, task.attempt) == (front.campaign, 1)
        assert msgspec.json.decode(msgspec.json.encode(task.payload)) == {"n": 0}
        assert desk.pool.tally.hits == 1

    play(scene)


def test_claims_that_arrive_together_share_a_pop(front: Front, play: Play) -> None:
    """A command for each would cost a gateway most of what it has."""
    front.stock(200)

    def scripts_run() -> int:
        stats: dict[str, Any] = front.server.admin.info("commandstats")
        return int(stats["cmdstat_evalsha"]["calls"])

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        before = scripts_run()
        told = await asyncio.gather(*(desk.ask(session) for session in range(100)))
        assert scripts_run() == before + 1
        tasks = [task.task for one in told for task in one]
        assert tasks == sorted(set(tasks)), "each task once, in order"
        assert len(tasks) == 100

    play(scene)


def test_claims_get_no_more_than_they_want_and_than_there_is(front: Front, play: Play) -> None:
    """First come, first served; who gets nothing is told so, to ask PostgreSQL."""
    front.stock(8)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        told = await asyncio.gather(*(desk.ask(session, want=3) for session in range(4)))
        assert [len(one) for one in told] == [3, 3, 2, 0]
        assert not desk.pool.stocked(ALL)
        assert await desk.claim() == []
        assert (desk.pool.tally.hits, desk.pool.tally.misses) == (3, 2)

    play(scene)


def test_many_claims_are_answered_out_of_the_hand_and_the_rest_goes_back(
    front: Front, play: Play, backstage: Backstage
) -> None:
    """Where many claim, most wait for no pop; when they stop, nothing is kept from the others."""
    front.stock(1_000)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        at_once = claims = 0
        tasks: list[int] = []

        def is_popped_ahead() -> bool:
            return desk.pool.tally.popped > len(tasks)

        while not (is_popped_ahead() and at_once):
            told = desk.ask(claims)
            claims += 1
            at_once += told.done()
            tasks += [task.task for task in await told]
            assert claims < 1_000
        assert len(tasks) == len(set(tasks)) == claims
        held = "select count(*) from taskq.task where status = 'working'"
        await until(lambda: value(backstage, held) == claims + front.left())
        waiting = "select min(attempt) from taskq.task where status = 'waiting'"
        assert value(backstage, waiting) == 0, "it was no attempt"

    play(scene)


def test_large_claims_do_not_make_a_pop_too_large(front: Front, play: Play) -> None:
    """A thousand tasks at a time is the limit, as for a claim in PostgreSQL."""
    front.stock(1_000)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        told = await asyncio.gather(*(desk.ask(session, want=400) for session in range(3)))
        assert [len(one) for one in told] == [400, 400, 200]

    play(scene)


def test_repeated_claim_gets_the_same_tasks_again(front: Front, play: Play) -> None:
    """An answer that is lost on its way to the agent costs nothing."""
    front.stock(10)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        lease = next(_leases)
        first, again = await asyncio.gather(desk.ask(1, 2, lease), desk.ask(1, 2, lease))
        assert len(first) == 2
        assert again == first, "while it is under way"
        assert _plain(await desk.claim(1, 2, lease)) == _plain(first)
        assert front.left() == 8
        assert await desk.claim(1, 2) != first, "another lease id is another claim"
        assert _plain(await desk.claim(1, 2, lease)) != _plain(first), "that one was superseded"

    play(scene)


def test_claim_that_got_nothing_is_served_when_it_is_repeated(front: Front, play: Play) -> None:
    """PostgreSQL may be away; what it handed out under this lease id, the next beat gives back."""

    async def scene(desk: Desk) -> None:
        lease = next(_leases)
        assert await desk.claim(1, 1, lease) == []
        front.stock(10)
        await desk.stocked()
        assert len(await desk.claim(1, 1, lease)) == 1
        assert front.left() == 9

    play(scene)


def test_list_that_is_filled_is_noticed(front: Front, play: Play) -> None:
    """A campaign that is asked for in vain is made known to the refiller, and looked at again."""

    async def scene(desk: Desk) -> None:
        assert not desk.pool.stocked(ALL)
        wanted = str(front.campaign).encode()

        def is_wanted() -> bool:
            assert not desk.pool.stocked(ALL)
            return bool(front.server.admin.smembers(front.keys.wanted) == {wanted})

        await until(is_wanted)
        assert front.server.admin.llen(front.keys.wake) == 1
        front.stock(10)
        await desk.stocked()
        assert desk.pool.depth == 10
        assert len(await desk.claim()) == 1

    play(scene)


def test_agent_gets_tasks_of_campaigns_that_it_serves_only(
    queue: Client, front: Front, play: Play
) -> None:
    """Each serving has its campaigns; an entry that was moved to another list is not handed out."""
    other = queue.create_campaign(CampaignSpec("/other", handler=NEVER_RUN))
    other.seed({"n": number} for number in range(10))
    moved = front.stock(2)
    front.server.admin.delete(front.keys.tasks(front.campaign))
    front.push(moved[0], campaign=other.campaign_id)

    async def scene(desk: Desk) -> None:
        serving = Serving("/other")
        await desk.stocked(serving)
        assert not desk.pool.stocked(Serving("/c"))
        assert await desk.ask(serving=serving) == []
        assert desk.pool.tally.forged == 1

    play(scene)


def test_old_entries_are_not_handed_out(front: Front, play: Play, backstage: Backstage) -> None:
    """In the second half of the pool's time the agent could not make the lease its own in time."""
    front.double.begin(pool_s=2 * STALL_S)
    front.begin()
    front.stock(3)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        assert len(await desk.claim()) == 1
        age = "select extract(epoch from clock_timestamp() - min(claimed_at)) from taskq.task"
        await until(lambda: value(backstage, age) > STALL_S + 0.1)
        assert await desk.claim(want=2) == []
        assert desk.pool.tally.stale == 2
        assert desk.pool.breaker.closed, "they are genuine: nobody has done wrong"

    play(scene)


def test_garbage_in_the_lists_is_dropped_and_leaves_claims_to_postgresql(
    front: Front, play: Play
) -> None:
    """Who can write into Redis can slow the queue down and do nothing else."""
    front.stock(1)
    garbage = [b"", b"x", b"\xff" * 64, b"0" * 32 + b"[1,2,3]", front.stock(1)[0][:-1] + b" "]
    front.server.admin.delete(front.keys.tasks(front.campaign))
    front.push(*garbage * 20)

    async def claim_in_vain(desk: Desk) -> None:
        await desk.stocked()
        while desk.pool.breaker.closed:
            assert await desk.claim(want=5) == []
            await asyncio.sleep(0)

    async def scene(desk: Desk) -> None:
        await claim_in_vain(desk)
        assert desk.pool.tally.forged >= MOST_FORGED
        left = front.left()
        assert await desk.claim() == []
        assert front.left() == left > 0, "it is left alone for a while"
        await claim_in_vain(desk)
        assert 0 < front.left() < left, "again and again"
        front.server.admin.delete(front.keys.tasks(front.campaign))
        front.stock(1)
        await desk.stocked()
        assert len(await desk.claim()) == 1, "a genuine entry counts all the same"

    play(scene)


@pytest.mark.parametrize("trouble", ["killed", "hanging", "wrong type", "read-only"])
def test_claims_go_on_without_the_front_and_return_to_it(
    front: Front, play: Play, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No error and no long wait, whatever happens to Redis; and nobody has to do anything."""
    caplog.set_level(logging.WARNING, "taskq.front")
    admin, tasks = front.server.admin, front.keys.tasks(front.campaign)
    entries = front.stock(10)

    def begin_trouble() -> None:
        if trouble == "killed":
            front.server.kill()
        elif trouble == "hanging":
            front.server.freeze()
        elif trouble == "wrong type":
            admin.delete(tasks)
            admin.set(tasks, "no list")
        else:
            admin.replicaof("127.0.0.1", 1)

    def end_trouble() -> None:
        if trouble == "killed":
            front.server.start()
            front.begin()
            front.push(*entries[1:])
        elif trouble == "hanging":
            front.server.thaw()  # it runs the pop, whose answer nobody takes
            admin.delete(tasks)
            front.push(*entries[1:])
        elif trouble == "wrong type":
            admin.delete(tasks)
            front.push(*entries[1:])
        else:
            admin.replicaof("NO", "ONE")

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        assert len(await desk.claim()) == 1
        begin_trouble()
        began = time.monotonic()
        told = await asyncio.gather(*(desk.ask(session) for session in range(50)))
        took_s = time.monotonic() - began
        assert not any(told)
        assert took_s < ANSWER_S + STALL_S
        assert not desk.pool.stocked(ALL)
        at_once = desk.ask()
        assert at_once.done(), "nobody waits for what is known to be gone"
        assert await at_once == []
        await until(lambda: desk.pool.tally.errors >= 2 or desk.pool.stocked(ALL))
        assert await desk.claim() == []
        end_trouble()
        await desk.stocked()
        assert len(await desk.claim()) == 1

    play(scene)
    fails = [record for record in caplog.records if "fails" in record.getMessage()]
    assert len(fails) >= 1
    assert len(fails) <= 3, "it is told when it changes, not at each claim"


def test_front_that_begins_after_the_gateway_is_found_soon(
    database: Database,
    redis_server: RedisServer,
    campaign: Campaign,
    play: Play,
    backstage: Backstage,
) -> None:
    """A gateway may well be started before the refiller; it asks each second then."""
    asked = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and query ~ 'servable'"
    )

    async def scene(desk: Desk) -> None:
        assert not desk.pool.stocked(ALL)
        await until(lambda: value(backstage, asked))  # and has asked for the front before
        begun_at = time.monotonic()
        Front(database, redis_server, campaign).stock(1)
        await desk.stocked()
        assert time.monotonic() - begun_at < STATE_S - 1
        assert len(await desk.claim()) == 1

    play(scene)


def test_flushed_front_is_used_again_once_it_has_begun_anew(front: Front, play: Play) -> None:
    """FLUSHALL at any moment costs time only: a new epoch is learned by itself."""
    front.stock(10)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        front.server.admin.flushall()
        assert await desk.claim() == []
        assert not desk.pool.stocked(ALL)
        assert desk.pool.breaker.closed, "the server is well"
        old = front.double.entries(1)[0].encode()
        front.double.begin()
        front.begin()
        (new,) = front.double.entries(1)
        front.push(old, new.encode())
        await desk.stocked()
        (task,) = await desk.claim(want=2)
        assert task.task == front.double.read(new).task
        assert desk.pool.tally.forged == 1, "an entry of the old epoch is none"
        assert desk.pool.tally.refused > 0

    play(scene)


def test_claims_go_on_from_the_front_while_postgresql_is_away(
    front: Front, play: Play, server_dsn: str, database: Database
) -> None:
    """Until the pool is empty, nobody notices that the database restarts."""
    front.stock(10)
    name = sql.Identifier(conninfo_to_dict(database.dsn)["dbname"])

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        with psycopg.connect(server_dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("alter database {} allow_connections false").format(name))
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = %s and pid <> pg_backend_pid()",
                [conninfo_to_dict(database.dsn)["dbname"]],
            )
            gone_at = time.monotonic()
            try:
                while time.monotonic() < gone_at + 2.5:
                    assert desk.pool.stocked(ALL)
                    await asyncio.sleep(0.05)
                assert len(await desk.claim()) == 1
            finally:
                admin.execute(sql.SQL("alter database {} allow_connections true").format(name))

    play(scene)


def test_defect_of_one_claimant_harms_no_other(
    front: Front, play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    """Those who share a pop have nothing to do with one another."""
    front.stock(10)

    def broken(tasks: list[Task]) -> None:
        raise ValueError(f"cannot take {len(tasks)} tasks")

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        desk.pool.submit(1, next(_leases), 1, ALL, broken)
        assert len(await desk.claim(2)) == 1
        assert desk.pool.breaker.closed

    play(scene)
    assert "cannot take 1 tasks" in caplog.text


def test_closing_leaves_nobody_waiting(front: Front, play: Play) -> None:
    """Whoever claims while a gateway stops is told, and goes to PostgreSQL."""
    front.stock(10)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        under_way = desk.ask(1)
        await asyncio.sleep(0)
        late = desk.ask(2)
        await desk.pool.close()
        assert under_way.done()
        assert late.done()
        after = desk.ask(3)
        assert await after == []

    play(scene)


def test_queue_without_a_front_makes_no_claim_wait(
    database: Database, campaign: Campaign, play: Play
) -> None:
    """Before the first epoch, and for servings of which nothing is known, claims go elsewhere."""
    assert campaign.campaign_id

    async def scene(desk: Desk) -> None:
        for serving in (ALL, Serving("/no/such"), Serving("/c", ("gpu",), 60.0)):
            assert not desk.pool.stocked(serving)
            assert await desk.ask(serving=serving) == []
        assert database.value("front") is not None

    play(scene)


def _plain(tasks: list[Task]) -> list[tuple[int, str]]:
    return [(task.task, task.lease) for task in tasks]
