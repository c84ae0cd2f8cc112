"""Calls as users write them, for type checkers; lines that end in `# wrong` are errors to them."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

from typing_extensions import assert_type

import taskq
from taskq import aio


def area(side: int, other: int = 2, *, unit: str = "m") -> float:
    """Return a float, of three arguments."""
    return float(side * other) if unit else 0.0


def length(record: dict[str, str]) -> int:
    """Return a whole number, of a record."""
    return len(record)


def opened(path: str) -> bytes:
    """Return bytes; its argument has the name of an option."""
    return path.encode()


def single_calls(queue: taskq.Client) -> None:
    """Futures of the function's type; its arguments are checked."""
    future: Future[float] = queue.submit(area, 1, other=3)
    assert_type(queue.submit(area, 1, unit="cm").result(), float)
    assert_type(queue.submit(area, 1, path="/mine").result(5.0), float)
    assert_type(queue.submit(opened, path="/etc/hosts").result(), bytes)
    queue.submit(area, "1")  # wrong
    queue.submit(area, 1, third=3)  # wrong
    queue.submit(area)  # wrong
    future.cancel()


def runs(queue: taskq.Client) -> None:
    """Values, outcomes and settings."""
    run = queue.map(area, range(3), name="/areas", params={"other": 2}, time_limit_s=60)
    assert_type(run, taskq.Run[float])
    assert_type(run.result(), list[float])
    assert_type([outcome.value for outcome in run.as_completed()], list[float])
    assert_type(next(run.outcomes()), taskq.Outcome[float])
    assert_type(queue.starmap(area, [(1, 2)], name="/pairs").result(), list[float])
    assert_type(queue.map(length, taskq.smiles(Path("x.smi")), name="/smiles"), taskq.Run[int])
    assert_type(queue.map(length, run.best(by="value", n=2), name="/best"), taskq.Run[int])
    assert_type(queue.map(length, [taskq.Seed({"a": "b"}, "k")], name="/seeds"), taskq.Run[int])
    queue.map(area, range(3), name="/areas", retry=taskq.RetryPolicy(), cores=2, trust=[Path])
    queue.map(area, ["1"], name="/areas")  # wrong
    queue.map(area, range(3))  # wrong
    queue.map(area, range(3), name="/areas", time_limit=60)  # wrong
    queue.map(area, range(3), name="/areas", time_limit_s="60")  # wrong
    queue.map(area, range(3), name="/areas", on_change="forget")  # wrong
    queue.starmap(area, [(1, "2")], name="/pairs")  # wrong
    run.results(progress="no")  # wrong


def executors(queue: taskq.Client) -> None:
    """As those of the standard library."""
    with taskq.Executor(queue, 2, time_limit_s=5) as executor:
        assert_type(executor.submit(area, 1).result(), float)
        assert_type(list(executor.map(area, range(3))), list[float])
        executor.submit(area, "1")  # wrong
    taskq.Executor(queue, time_limit=5)  # wrong


def names() -> None:
    """Of the module and of settings."""
    taskq.connect("postgresql://h/d").close()
    taskq.conect()  # wrong
    taskq.connect(adress="postgresql://h/d")  # wrong
    taskq.CampaignSpec("/x", time_limit=5)  # wrong


async def awaited() -> None:
    """Twins have the signatures of their originals."""
    async with await aio.connect() as queue:
        assert_type(queue, aio.AsyncClient)
        assert_type(await queue.submit(area, 1, unit="cm"), float)
        run = await queue.map(area, range(3), name="/areas", weight=2.0)
        assert_type(run, aio.AsyncRun[float])
        assert_type([outcome.value async for outcome in run.as_completed(5.0)], list[float])
        assert_type([value async for value in run], list[float])
        assert_type(await run.wait(), taskq.Status)
        campaign = await queue.create_campaign("/demo", exist_ok=True)
        assert_type(campaign, aio.AsyncCampaign)
        assert_type((await campaign.children())[0], aio.AsyncCampaign)
        assert_type([task async for task in campaign.tasks("waiting")], list[taskq.TaskView])
        assert_type(await campaign.cancel(["a"], dry_run=True), int)
        await queue.submit(area, "1")  # wrong
        await queue.map(area, range(3), name="/areas", wait=2.0)  # wrong
        await queue.agents("/demo", limit="1")  # wrong
        await campaign.cancel(["a"], dry=True)  # wrong
        await campaign.remov()  # wrong
        await run.wait("5")  # wrong
        queue.agnts()  # wrong
