"""Gathered exchanges: many agents, few statements, and each is answered as if it were alone."""

from __future__ import annotations

import asyncio
from collections import Counter

import psycopg
import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from taskq.dispatch.direct import DirectTransport
from taskq_agent.errors import Refused, SessionLost
from taskq_agent.protocol import (
    ACCEPTED,
    DONE,
    DUPLICATE,
    UNKNOWN,
    Answer,
    Report,
    Request,
)
from tests.helpers.batched_agents import SERVING, BatchedAgents, claimed, done, together
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, assert_counts_are_true, statuses, value

PAUSE_S = 0.05


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that agents may choose, without tasks."""
    return servable(queue)


@pytest.mark.thorough
async def test_each_task_of_many_agents_is_done_once(
    campaign: Campaign, database: Database, postgres: Postgres
) -> None:
    """A hundred agents, each with one task at a time, share few statements and no task."""
    campaign.seed({"n": n} for n in range(1_000))
    members = BatchedAgents(database, 100)
    executed: Counter[int] = Counter()

    async def work(batcher: Batcher, number: int) -> None:
        answer = await batcher.exchange(members.claim(number), SERVING)
        while answer.tasks or answer.unfinished:
            if not answer.tasks:  # others have held all that waits for a moment, on a busy machine
                await asyncio.sleep(PAUSE_S)
                answer = await batcher.exchange(members.claim(number), SERVING)
                continue
            (task,) = answer.tasks
            executed[task.payload["n"]] += 1
            request = Request(
                members.sessions[number],
                reports=(done(task),),
                want=1,
                lease=members.lease_ids(),
            )
            answer = await batcher.exchange(request, SERVING)
            assert [ack.verdict for ack in answer.acks] == [ACCEPTED]

    async with Batcher(database) as batcher:
        await asyncio.gather(*(work(batcher, number) for number in range(100)))
    assert executed == Counter(range(1_000))
    assert set(statuses(postgres).values()) == {"done"}
    assert_counts_are_true(postgres)
    moved = value(postgres, "select count(distinct claimed_at) from taskq.attempt")
    assert moved < 200, "claims were not gathered"


async def test_every_agent_gets_what_it_wants(campaign: Campaign, database: Database) -> None:
    """Each of several claims of unlike size in one statement gets its own tasks."""
    campaign.seed({"n": n} for n in range(100))
    members = BatchedAgents(database, 5)
    async with Batcher(database) as batcher:
        answers = await together(batcher, *(members.claim(n, n + 1) for n in range(5)))
        assert [len(answer.tasks) for answer in answers] == [1, 2, 3, 4, 5]
        assert all(answer.campaigns[0].path == "/c" for answer in answers)
        assert len({task.task for answer in answers for task in answer.tasks}) == 15


async def test_all_claims_without_tasks_get_the_number_of_unfinished_ones(
    campaign: Campaign, database: Database
) -> None:
    """Who gets nothing learns how many tasks are left with others."""
    campaign.seed({"n": n} for n in range(2))
    members = BatchedAgents(database, 4)
    async with Batcher(database) as batcher:
        answers = await together(batcher, *(members.claim(n) for n in range(4)))
        assert sorted(len(answer.tasks) for answer in answers) == [0, 0, 1, 1]
        assert {answer.unfinished for answer in answers if not answer.tasks} == {2}


async def test_nobody_is_sent_home_by_an_old_count(campaign: Campaign, database: Database) -> None:
    """What was seeded before the question is not finished, also if it cannot be claimed yet."""
    members = BatchedAgents(database, 2)
    async with Batcher(database) as batcher:
        assert (await batcher.exchange(members.claim(0), SERVING)).unfinished == 0
        campaign.seed([{"n": 1}])
        answer = await batcher.exchange(members.claim(1), SERVING)
        assert answer.tasks or answer.unfinished == 1


async def test_ended_session_in_a_batch_fails_alone(campaign: Campaign, database: Database) -> None:
    """The others of the same statement get their tasks."""
    campaign.seed({"n": n} for n in range(10))
    members = BatchedAgents(database, 3)
    transport = DirectTransport(database)
    transport.close(members.sessions[1])
    async with Batcher(database) as batcher:
        answers = await asyncio.gather(
            *(batcher.exchange(members.claim(n), SERVING) for n in range(3)),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [Answer, SessionLost, Answer]


async def test_exchange_repeated_gets_the_same_answer(
    campaign: Campaign, database: Database, postgres: Postgres
) -> None:
    """Also while its first copy is on the way: a session is in one statement once."""
    campaign.seed({"n": n} for n in range(10))
    members = BatchedAgents(database, 1)
    async with Batcher(database) as batcher:
        request = members.claim(0, 2)
        first, second = await together(batcher, request, request)
        assert sorted(task.task for task in first.tasks) == sorted(
            task.task for task in second.tasks
        )
        report = Request(members.sessions[0], reports=(done(first.tasks[0]),))
        verdicts = [(await batcher.exchange(report, SERVING)).acks[0].verdict for _ in range(2)]
        assert verdicts == [ACCEPTED, DUPLICATE]
        unknown = Report(campaign.campaign_id, 999_999, request.lease, DONE)
        answer = await batcher.exchange(Request(members.sessions[0], reports=(unknown,)), SERVING)
        assert answer.acks[0].verdict == UNKNOWN
    assert value(postgres, "select count(*) from taskq.attempt") == 1


async def test_lost_connection_is_made_anew_unnoticed(
    campaign: Campaign, database: Database, postgres: Postgres
) -> None:
    """An exchange may be repeated, so nobody need hear that its connection was cut."""
    campaign.seed({"n": n} for n in range(10))
    members = BatchedAgents(database, 4)
    async with Batcher(database) as batcher:
        await batcher.exchange(members.claim(0), SERVING)
        postgres.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        requests = [members.claim(number) for number in range(4)]
        for _ in range(2):
            answers = await together(batcher, *requests)
            assert [len(answer.tasks) for answer in answers] == [1, 1, 1, 1]
    assert value(postgres, "select count(*) from taskq.state where status = 'working'") == 5


async def test_exchange_that_nobody_waits_for_claims_nothing(
    campaign: Campaign, database: Database, postgres: Postgres, dsn: str
) -> None:
    """Who gives up before the statement went out leaves no task behind."""
    campaign.seed({"n": n} for n in range(10))
    members = BatchedAgents(database, 8)
    async with Batcher(database) as batcher:
        await batcher.exchange(members.claim(0), SERVING)
        with psycopg.connect(dsn) as other:
            # Claims of all connections wait for this, so that what comes later waits in line.
            other.execute("lock table taskq.task in access exclusive mode")
            stuck = [
                asyncio.ensure_future(batcher.exchange(members.claim(number), SERVING))
                for number in range(1, 8)
            ]
            await asyncio.sleep(0.2)
            late = asyncio.ensure_future(batcher.exchange(members.claim(0), SERVING))
            await asyncio.sleep(0)
            late.cancel()
            other.rollback()
        assert [len((await task).tasks) for task in stuck] == [1] * 7
    assert value(postgres, "select count(*) from taskq.state where status = 'working'") == 8


async def test_result_that_is_no_json_is_refused_alone(
    campaign: Campaign, database: Database
) -> None:
    """The others get their answers too."""
    campaign.seed({"n": n} for n in range(4))
    members = BatchedAgents(database, 2)
    async with Batcher(database) as batcher:
        first, second = await claimed(batcher, members, 2)
        wrong = Report(first.campaign, first.task, first.lease, DONE, result={"set": {1}})
        answers = await asyncio.gather(
            batcher.exchange(Request(members.sessions[0], reports=(wrong,)), SERVING),
            batcher.exchange(Request(members.sessions[1], reports=(done(second),)), SERVING),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [Refused, Answer]


async def test_closing_answers_what_was_asked(campaign: Campaign, database: Database) -> None:
    """An exchange that had not been sent yet is not left hanging."""
    campaign.seed({"n": n} for n in range(10))
    members = BatchedAgents(database, 5)
    batcher = Batcher(database, connections=1)
    asked = [
        asyncio.ensure_future(batcher.exchange(members.claim(number), SERVING))
        for number in range(5)
    ]
    await asyncio.sleep(0)
    await batcher.close()
    assert [len((await task).tasks) for task in asked] == [1] * 5
