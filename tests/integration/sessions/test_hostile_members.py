"""Gathered exchanges of which some are hostile: nobody who shares a statement pays for them."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from taskq import Campaign, Client, Seed
from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from taskq.dispatch.fair_queue import PART_REPORTS, PART_TASKS
from taskq.dispatch.fair_share import Scope
from taskq_agent.errors import Refused
from taskq_agent.protocol import (
    ACCEPTED,
    DONE,
    DUPLICATE,
    FAILED,
    RELEASED,
    SUPERSEDED,
    UNKNOWN,
    Answer,
    Report,
    Request,
    Task,
)
from tests.helpers.batched_agents import (
    SERVING,
    BatchedAgents,
    claimed,
    done,
    together,
    verdicts,
)
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, assert_counts_are_true, value


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that agents may choose, without tasks."""
    return servable(queue)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a batcher that has served somebody for busy, however slow the machine is."""
    monkeypatch.setattr("taskq.dispatch.batching.BUSY_S", 1e9)


def said(task: Task, outcome: str, **details: Any) -> Report:
    """Return a report on a task."""
    return Report(task.campaign, task.task, task.lease, outcome, **details)


def made_up(campaign: int, task: int = 1) -> Report:
    """Return a report on an attempt that never was."""
    return Report(campaign, task, str(uuid.uuid4()), DONE)


async def test_sessions_that_claim_under_one_lease_id_get_a_task_each(
    campaign: Campaign, database: Database, statements: Counter[str], postgres: Postgres
) -> None:
    """And the campaign stays open to all others of the same serving."""
    campaign.seed({"n": n} for n in range(8))
    members = BatchedAgents(database, 4)
    async with Batcher(database) as batcher:
        lease = members.lease_ids()
        hostile = [Request(members.sessions[number], want=1, lease=lease) for number in (0, 1)]
        answers = await together(batcher, *hostile, members.claim(2))
        assert [len(answer.tasks) for answer in answers] == [1, 1, 1]
        assert len({answer.tasks[0].task for answer in answers}) == 3
        again = await together(batcher, *hostile, members.claim(3))
        assert [answer.tasks for answer in again[:2]] == [answer.tasks for answer in answers[:2]]
        assert len(again[2].tasks) == 1
        assert statements["servable"] == 1
        own = await together(
            batcher,
            *(
                Request(members.sessions[number], reports=(done(answers[number].tasks[0]),))
                for number in (0, 1)
            ),
        )
        assert [verdicts(answer) for answer in own] == [[ACCEPTED], [ACCEPTED]]
    owners = value(postgres, "select count(distinct session_id) from taskq.state where attempt > 0")
    assert owners == 4


async def test_payload_that_cannot_be_read_keeps_no_other_from_its_task(
    campaign: Campaign, database: Database, postgres: Postgres
) -> None:
    """It fails for good and says why; who got it gets another."""
    campaign.seed([Seed({}, "unread", 9), *({"n": n} for n in range(2))])
    stored = "update taskq.spec set payload = %s where key = 'unread'"
    postgres.execute(stored, ['{"n": 1e5000}'])
    members = BatchedAgents(database, 3)
    async with Batcher(database) as batcher:
        claims = (batcher.exchange(members.claim(number), SERVING) for number in range(3))
        tasks = [task for answer in await asyncio.gather(*claims) for task in answer.tasks]
        assert sorted(task.payload["n"] for task in tasks) == [0, 1]
    (attempt,) = campaign.attempts("unread")
    assert (attempt.outcome, attempt.error_class) == ("failed", "payload-unreadable")
    assert [task.key for task in campaign.tasks("failed")] == ["unread"]


async def handed_back(batcher: Batcher, members: BatchedAgents, want: int) -> Request:
    """Let the first member claim tasks and hand them back; return its claim."""
    claim = members.claim(0, want)
    tasks = (await batcher.exchange(claim, SERVING)).tasks
    assert len(tasks) == want
    back = Request(members.sessions[0], reports=tuple(said(task, RELEASED) for task in tasks))
    assert set(verdicts(await batcher.exchange(back, SERVING))) == {ACCEPTED}
    return claim


async def test_spent_lease_id_strikes_no_campaign_off(
    campaign: Campaign, database: Database, statements: Counter[str]
) -> None:
    """Who claims under one that its task has had gets nothing; all others get their tasks."""
    campaign.seed([{"n": 1}])
    members = BatchedAgents(database, 2)
    async with Batcher(database) as batcher:
        claim = await handed_back(batcher, members, 1)
        statements.clear()
        spent = await batcher.exchange(claim, SERVING)
        assert spent.tasks == ()
        assert spent.orders.claim_after_s, "it is asked to wait with its next claim"
        assert statements.total() == statements["exchange"] == 1, "it was tried again"
        assert len((await batcher.exchange(members.claim(1), SERVING)).tasks) == 1
        assert not statements["servable"]


async def test_claim_under_a_spent_lease_id_keeps_no_task_from_other_claims(
    campaign: Campaign, database: Database
) -> None:
    """In the same statement."""
    campaign.seed({"n": n} for n in range(3))
    members = BatchedAgents(database, 3)
    async with Batcher(database) as batcher:
        claim = await handed_back(batcher, members, 3)
        answers = await together(
            batcher, replace(claim, want=1), members.claim(1), members.claim(2)
        )
        assert [len(answer.tasks) for answer in answers] == [0, 1, 1]


async def test_of_two_reports_on_one_attempt_one_is_accepted(
    campaign: Campaign, database: Database, postgres: Postgres
) -> None:
    """The other gets the verdict of any second report: in one exchange, and in two."""
    campaign.seed({"n": n} for n in range(4))
    members = BatchedAgents(database, 4)
    async with Batcher(database) as batcher:
        tasks = await claimed(batcher, members, 4)
        reports = [
            report
            for task, second in zip(tasks, (FAILED, DONE, RELEASED), strict=False)
            for report in (said(task, DONE, result={"n": 1}), said(task, second))
        ]
        unlike = [
            await batcher.exchange(
                Request(members.sessions[number], reports=tuple(reports[2 * number :][:2])), SERVING
            )
            for number in range(3)
        ]
        assert [verdicts(answer) for answer in unlike] == [
            [ACCEPTED, SUPERSEDED],
            [ACCEPTED, DUPLICATE],
            [ACCEPTED, SUPERSEDED],
        ]
        answers = await together(
            batcher,
            *(
                Request(members.sessions[number], reports=(said(tasks[3], outcome),))
                for number, outcome in ((3, FAILED), (0, DONE))
            ),
        )
        assert sorted(map(verdicts, answers)) == [[ACCEPTED], [SUPERSEDED]]
    assert value(postgres, "select count(*) from taskq.attempt") == 4
    assert_counts_are_true(postgres)


@pytest.mark.usefixtures("busy")
async def test_reports_on_campaigns_that_are_none_cost_few_statements(
    campaign: Campaign,
    database: Database,
    statements: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One for each part: all are unknown, and an agent that claims next to them waits for none."""
    # On a slow machine the order of campaigns would be read anew: one statement more.
    monkeypatch.setattr("taskq.dispatch.exchange.FRESH_S", 1e9)
    campaign.seed({"n": n} for n in range(8))
    members = BatchedAgents(database, 2)
    async with Batcher(database) as batcher:
        await batcher.exchange(members.claim(1), SERVING)
        statements.clear()
        hostile = Request(
            members.sessions[0], reports=tuple(made_up(10**12 + n) for n in range(1_000))
        )
        answers = await together(batcher, hostile, members.claim(1))
        assert set(verdicts(answers[0])) == {UNKNOWN}
        assert len(answers[0].acks) == 1_000
        assert len(answers[1].tasks) == 1
        assert statements == {"settle_many": 1_000 / PART_REPORTS, "exchange": 1}


@pytest.mark.usefixtures("campaign")
async def test_reports_on_many_campaigns_are_one_statement(
    queue: Client,
    database: Database,
    statements: Counter[str],
    postgres: Postgres,
) -> None:
    """Each gets the verdict that it gets alone: its own, another's, what is not there."""
    paths = [f"/c/{n}" for n in range(6)]
    for path in paths:
        servable(queue, path).seed([{"n": 1}, {"n": 2}])
    members = BatchedAgents(database, 2)
    async with Batcher(database) as batcher:
        tasks = []
        for path in paths:
            answer = await batcher.exchange(members.claim(0), Scope(path))
            tasks += answer.tasks
        statements.clear()
        reports = [said(task, DONE, result={"n": 1}) for task in tasks[:5]]
        reports += [said(tasks[5], FAILED, error_class="Boom"), made_up(tasks[0].campaign, 999_999)]
        reports += [said(tasks[1], FAILED), made_up(10**12)]
        answer = await batcher.exchange(
            Request(members.sessions[0], reports=tuple(reports)), SERVING
        )
        assert verdicts(answer) == [ACCEPTED] * 6 + [UNKNOWN, SUPERSEDED, UNKNOWN]
        assert [ack.campaign for ack in answer.acks] == [report.campaign for report in reports]
        assert statements.total() == 1, statements
    assert_counts_are_true(postgres)


async def test_exchange_that_makes_statements_fail_does_so_for_others_once(
    campaign: Campaign, database: Database, statements: Counter[str]
) -> None:
    """What fails is done again in halves; what the same session sends then goes apart."""
    campaign.seed({"n": n} for n in range(100))
    members = BatchedAgents(database, 9)
    async with Batcher(database) as batcher:
        (task,) = (await batcher.exchange(members.claim(0), SERVING)).tasks
        wrong = Report(task.campaign, task.task, "no uuid", DONE)
        sent = []
        for _ in range(3):
            statements.clear()
            answers = await asyncio.gather(
                batcher.exchange(Request(members.sessions[0], reports=(wrong,)), SERVING),
                *(batcher.exchange(members.claim(number), SERVING) for number in range(1, 9)),
                return_exceptions=True,
            )
            assert isinstance(answers[0], Refused)
            assert all(
                isinstance(answer, Answer) and len(answer.tasks) == 1 for answer in answers[1:]
            )
            sent.append(statements["exchange"] + statements["exchange_one"])
        assert sent[0] > 4
        assert sent[1:] == [2, 2]


@pytest.mark.usefixtures("busy")
def test_large_exchange_waits_through_the_pauses_of_a_busy_queue(
    campaign: Campaign, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A moment in which nobody asks is not one in which nobody will; the end answers it."""
    monkeypatch.setattr("taskq.dispatch.batching.REST_FACTOR", 1e9)
    campaign.seed({"n": n} for n in range(1_000))
    members = BatchedAgents(database, 3)

    async def run() -> Answer:
        async with Batcher(database) as batcher:
            await batcher.exchange(members.claim(2), SERVING)
            await batcher.exchange(members.claim(0, 300), SERVING)
            large = asyncio.create_task(batcher.exchange(members.claim(1, 300), SERVING))
            for _ in range(5):
                await asyncio.sleep(0.03)  # a pause
                assert (await batcher.exchange(members.claim(2), SERVING)).tasks
            assert not large.done()
        return await large

    assert len(asyncio.run(asyncio.wait_for(run(), 60)).tasks) == PART_TASKS


@pytest.mark.usefixtures("busy")
async def test_large_exchanges_take_turns_and_keep_nobody_waiting(
    campaign: Campaign, database: Database, statements: Counter[str]
) -> None:
    """Each has a statement of its own, for a part; what comes with them shares one."""
    campaign.seed({"n": n} for n in range(1_000))
    members = BatchedAgents(database, 8)
    async with Batcher(database) as batcher:
        await batcher.exchange(members.claim(0), SERVING)
        statements.clear()
        large = [members.claim(number, 300) for number in range(3)]
        answers = await together(
            batcher, *large, *(members.claim(number) for number in range(3, 8))
        )
        assert [len(answer.tasks) for answer in answers] == [PART_TASKS] * 3 + [1] * 5
        assert statements["exchange"] == 4


@pytest.mark.usefixtures("busy")
async def test_large_exchange_among_others_is_answered_as_one(
    campaign: Campaign, database: Database, statements: Counter[str], postgres: Postgres
) -> None:
    """It is done in parts, gets its verdicts in order, and a claim with what is left of it."""
    campaign.seed({"n": n} for n in range(1_000))
    members = BatchedAgents(database, 2)
    async with Batcher(database) as batcher:
        tasks = (await batcher.exchange(members.claim(0, 600), SERVING)).tasks
        assert len(tasks) == 600
        (other,) = (await batcher.exchange(members.claim(1), SERVING)).tasks
        statements.clear()
        reports = [done(task) for task in tasks[:300]]
        reports += [made_up(tasks[0].campaign, 10**12), said(other, DONE), done(tasks[0])]
        reports += [said(task, RELEASED, started=False) for task in tasks[300:]]
        reports += [said(tasks[1], FAILED)]
        claim = replace(members.claim(0, 1_000), reports=tuple(reports))
        answer = await batcher.exchange(claim, SERVING)
        assert verdicts(answer) == [
            *[ACCEPTED] * 300,
            *[UNKNOWN, ACCEPTED, DUPLICATE],
            *[ACCEPTED] * 300,
            SUPERSEDED,
        ]
        assert [ack.task for ack in answer.acks] == [report.task for report in reports]
        assert len(answer.tasks) == PART_TASKS
        assert answer.campaigns
        assert answer.timeline
        assert statements["exchange"] == -(-len(reports) // PART_REPORTS)
    assert value(postgres, "select count(*) from taskq.attempt where outcome = 'done'") == 301
    assert_counts_are_true(postgres)


@pytest.mark.usefixtures("busy")
async def test_large_exchange_that_nobody_waits_for_stops_after_a_part(
    campaign: Campaign, database: Database, statements: Counter[str], postgres: Postgres
) -> None:
    """What was not sent is sent again, to anyone who asks for it."""
    campaign.seed({"n": n} for n in range(400))
    members = BatchedAgents(database, 2)
    async with Batcher(database) as batcher:
        tasks = (await batcher.exchange(members.claim(0, 300), SERVING)).tasks
        await batcher.exchange(members.claim(1), SERVING)
        statements.clear()
        reports = tuple(done(task) for task in tasks)
        request = Request(members.sessions[0], reports=reports)
        gone = asyncio.create_task(batcher.exchange(request, SERVING))
        await asyncio.sleep(0)
        while batcher.waiting_apart:  # noqa: ASYNC110  # until its first part is under way
            await asyncio.sleep(0)
        gone.cancel()
        again = await batcher.exchange(request, SERVING)
        known = verdicts(again).count(DUPLICATE)
        assert known in {PART_REPORTS, 2 * PART_REPORTS}
        assert verdicts(again)[known:] == [ACCEPTED] * (300 - known)
        assert statements["exchange"] <= 300 // PART_REPORTS + 2
    assert_counts_are_true(postgres)
