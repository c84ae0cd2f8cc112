"""A program finds the runs that another one made, without their functions."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from http.cookies import Morsel

import pytest

import taskq
from taskq import Client
from taskq.api.aio import AsyncTwin
from taskq.model.errors import Conflict, InvalidPath, NotFound, ResultNotTrusted
from tests.payloads import called
from tests.payloads.called import BadLigand

WAIT_S = 120.0


def test_a_run_is_attached_to_by_its_name(served_queue: Client, name: str) -> None:
    """Its values come in the order of seeding, its exceptions as themselves."""
    served_queue.map(called.refuse, [4, 2, 1], name=name)
    served_queue.map(called.refuse, [0, 1], name=name)
    run = served_queue.run(name)
    assert (run.name, run.path, len(run)) == ("refuse", name, 4)
    assert run.wait(WAIT_S).done == 3
    outcomes = list(run.outcomes())
    assert [one.argument for one in outcomes] == [4, 2, 1, 0]
    assert [one.value for one in outcomes if one.ok] == [4, 2, 0]
    assert isinstance(outcomes[2].error, BadLigand)
    assert sorted(one.index for one in run.as_completed(WAIT_S)) == [0, 1, 2, 3]
    with pytest.raises(BadLigand):
        run.result(WAIT_S)
    assert [one.key for one in run.failures()] == [outcomes[2].key]
    assert run.retry() == 1
    assert run.wait(WAIT_S).failed == 1
    assert run.status() == served_queue.campaign(name).status(below=False)
    assert list(served_queue.map(called.same, run.best(by="value", n=1), name=f"{name}/b")) == [0]


def test_calls_by_value_come_back_and_need_the_same_trust(served_queue: Client, name: str) -> None:
    """Attaching trusts no more than `map` does."""

    def call(_: int) -> object:
        return Morsel

    served_queue.map(call, [1], name=name).wait(WAIT_S)
    (one,) = served_queue.run(name).outcomes(WAIT_S)
    assert isinstance(one.error, ResultNotTrusted)
    assert served_queue.run(name, trust=[Morsel]).result(WAIT_S) == [Morsel]
    (listed,) = served_queue.runs(name)
    assert listed.function == "call"


def test_runs_are_listed_with_their_counts(queue: Client, name: str) -> None:
    """Those at and below a path, and no other campaigns."""
    queue.map(called.square, [1, 2], name=f"{name}/a", description="two squares")
    queue.map(called.same, [1], name=f"{name}/a/b")
    queue.create_campaign(f"{name}/none")
    first, second = queue.runs(name)
    assert (first.path, first.function, first.description) == (
        f"{name}/a",
        "square",
        "two squares",
    )
    assert (first.status.total, second.status.total) == (2, 1)
    assert (second.path, second.function, second.description) == (f"{name}/a/b", "same", "")
    assert queue.runs(f"{name}/none") == []
    assert {one.path for one in queue.runs()} >= {first.path, second.path}
    with pytest.raises(NotFound):
        queue.runs(f"{name}/missing")


def test_calls_are_cancelled_by_another_program(queue: Client, name: str) -> None:
    """And pages of more than one statement are whole."""
    made = queue.map(called.square, range(2_500), name=name)
    run = queue.run(name)
    assert len(run) == 2_500
    assert run.cancel() == 2_500
    assert queue.run(name).status().cancelled == 2_500
    with pytest.raises(CancelledError):
        made.result(WAIT_S)
    assert len(queue.run(queue.submit(called.same, 1).campaign.path)) == 1


def test_errors_say_what_to_do(queue: Client, name: str) -> None:
    """No such run, and a campaign that is none."""
    with pytest.raises(NotFound, match=rf"no run {name}: `queue.runs\(\)` lists .*name='{name}'"):
        queue.run(name)
    queue.create_campaign(
        taskq.CampaignSpec(name, handler=taskq.Handler("command", argv=("true",)))
    )
    with pytest.raises(Conflict, match=rf"{name} is a campaign that holds no calls"):
        queue.run(name)
    with pytest.raises(InvalidPath):
        queue.run("no path")


def test_the_twin_attaches_too(served_queue: Client, name: str) -> None:
    """With `async for` over what its run yields."""

    async def work() -> list[int]:
        twin = AsyncTwin(served_queue)
        await twin.map(called.square, [1, 2], name=name)
        run = await twin.run(name)
        return [outcome.value async for outcome in run.outcomes(WAIT_S)]

    assert asyncio.run(work()) == [1, 4]


def test_unknown_settings_are_errors_of_the_call(queue: Client, name: str) -> None:
    """As of any wrong argument, with what was meant, before anything is stored."""
    with pytest.raises(TypeError, match=r"setting wieght is unknown; did you mean 'weight'\?"):
        queue.map(abs, [1], name=name, wieght=2.0)
    with pytest.raises(TypeError, match="setting handler is unknown; known are: best, "):
        taskq.Executor(queue, path=name, handler=None)
    assert queue.runs() == []
