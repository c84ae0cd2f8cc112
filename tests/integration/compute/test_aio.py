"""The twins for asyncio do what their originals do, and nobody who is cancelled leaves a thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import taskq
from taskq import Client, TaskFailed
from taskq.api import aio
from taskq.api.aio import AsyncClient
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until
from tests.payloads import called
from tests.payloads.called import BadLigand

WAIT_S = 90.0


def threads() -> int:
    """Return how many threads work for twins."""
    return sum(thread.name == "taskq-aio" for thread in threading.enumerate())


@pytest.mark.thorough
@pytest.mark.usefixtures("served_queue")
def test_first_calls_at_once_share_a_campaign(near_queue: Client, name: str) -> None:
    """With one archive, which is there as soon as the campaign is, and stays."""

    def call(n: int) -> tuple[str, int]:
        return name, n

    with ThreadPoolExecutor(50) as pool:
        futures = list(pool.map(lambda n: near_queue.submit(call, n), range(100)))
    assert [future.result(WAIT_S) for future in futures] == [(name, n) for n in range(100)]
    campaign = futures[0].campaign
    handler = campaign.spec().handler
    assert handler is not None
    assert handler.archive == campaign.inputs()["taskq-function.zip"].digest
    assert {future.campaign.path for future in futures} == {campaign.path}


async def test_calls_are_awaited(served_queue: Client) -> None:
    """Many at a time; exceptions come as themselves."""
    queue = AsyncClient(served_queue)
    values = await asyncio.gather(*(queue.submit(called.square, n) for n in range(20)))
    assert values == [n * n for n in range(20)]
    with pytest.raises(BadLigand):
        await queue.submit(called.refuse, 3)


@pytest.mark.thorough
async def test_runs_and_campaigns_have_twins(served_queue: Client, name: str) -> None:
    """What iterates is iterated, what returns is awaited, what is one of them is a twin."""
    queue = AsyncClient(served_queue)
    run = await queue.map(called.square, range(5), name=f"{name}/squares")
    assert (len(run), run.path) == (5, f"{name}/squares")
    assert {outcome.value async for outcome in run.as_completed(WAIT_S)} == {0, 1, 4, 9, 16}
    assert [value async for value in run] == await run.result() == [0, 1, 4, 9, 16]
    assert (await run.wait()).done == (await run.status()).done == 5
    refined = await queue.map(called.square, await run.best(by="value", n=2), name=f"{name}/2")
    assert await refined.result(WAIT_S) == [0, 1]
    campaign = await queue.create_campaign(f"{name}/plain")
    assert (await campaign.seed([{"n": 1}])).added == 1
    assert [task.payload async for task in campaign.tasks()] == [{"n": 1}]
    above = await queue.campaign(name)
    assert [await child.cancel() for child in await above.children()] == [0, 1, 0]
    with pytest.raises(taskq.UnknownCampaign):
        await queue.campaign(f"{name}/none")


async def test_cancelled_coroutine_stops_waiting_and_leaves_its_tasks(
    queue: Client, name: str, dsn: str
) -> None:
    """No thread stays, nothing blocks the loop, and the tasks wait on."""
    async with await aio.connect(dsn) as twin:
        run = await twin.map(called.square, [1], name=name)

        async def all_of() -> None:
            async for _ in run.as_completed():
                pass

        for waiting in (run.wait(), all_of(), run.campaign.wait()):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waiting, 0.2)
    wait_until(lambda: not threads())
    assert queue.campaign(name).status().waiting == 1


@pytest.mark.thorough
async def test_stop_iteration_is_an_exception_as_any_other(served_queue: Client, name: str) -> None:
    """No future of asyncio takes it."""
    queue = AsyncClient(served_queue)
    with pytest.raises(TaskFailed, match="StopIteration"):
        await queue.submit(called.take_the_first, [])
    run = await queue.map(called.take_the_first, [[]], name=name)
    with pytest.raises(TaskFailed, match="StopIteration"):
        await run.result(WAIT_S)


@pytest.mark.parametrize("begun", [True, False])
async def test_cancelling_a_call_waits_for_no_statement(
    queue: Client, dsn: str, postgres: Postgres, begun: bool
) -> None:
    """Not for the one that cancels the task, nor for the one that adds it: both happen later."""
    first = queue.submit(called.square, 20)
    campaign = first.campaign
    assert first.task
    async with await aio.connect(dsn) as twin:
        call = asyncio.create_task(twin.submit(called.square, 21))
        if begun:
            await asyncio.to_thread(wait_until, lambda: campaign.status().waiting == 2)
        with postgres.transaction():
            postgres.execute("lock table taskq.spec, taskq.task in access exclusive mode")
            await asyncio.sleep(0.05)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await asyncio.to_thread(wait_until, lambda: not threads())
    assert campaign.status().waiting == 1  # the other was cancelled, or never added
