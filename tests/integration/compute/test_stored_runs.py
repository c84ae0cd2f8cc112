"""Where calls are stored, and how another program finds them, without their functions."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from http.cookies import Morsel
from pathlib import Path

import pytest

import taskq
from taskq import Client
from taskq.api.aio import AsyncClient
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import Conflict, Forbidden, InvalidPath, NotFound, ResultNotTrusted
from tests.fixtures.gateways import GatewayProcess
from tests.payloads import called
from tests.payloads.called import BadLigand

WAIT_S = 120.0


def test_run_is_attached_to_by_its_name(served_queue: Client, name: str) -> None:
    """Its values come in the order of seeding, its exceptions as themselves."""
    served_queue.map(called.refuse, [4, 2, 1], name=name)
    served_queue.map(called.refuse, [0, 1], name=name)
    run = served_queue.run(name)
    assert (run.name, run.path, len(run)) == ("refuse", name, 4)
    assert run.wait(WAIT_S).done == 3
    outcomes = list(run.outcomes())
    assert [outcome.argument for outcome in outcomes] == [4, 2, 1, 0]
    assert [outcome.value for outcome in outcomes if outcome.ok] == [4, 2, 0]
    assert isinstance(outcomes[2].error, BadLigand)
    assert sorted(outcome.index for outcome in run.as_completed(WAIT_S)) == [0, 1, 2, 3]
    with pytest.raises(BadLigand):
        run.result(WAIT_S)
    assert [failure.key for failure in run.failures()] == [outcomes[2].key]
    assert run.retry() == 1
    assert run.wait(WAIT_S).failed == 1
    assert run.status() == served_queue.campaign(name).status(below=False)
    assert list(served_queue.map(called.same, run.best(by="value", n=1), name=f"{name}/b")) == [0]


def test_calls_by_value_come_back_and_need_the_same_trust(served_queue: Client, name: str) -> None:
    """Attaching trusts no more than `map` does."""

    def call(_: int) -> object:
        return Morsel

    served_queue.map(call, [1], name=name).wait(WAIT_S)
    (outcome,) = served_queue.run(name).outcomes(WAIT_S)
    assert isinstance(outcome.error, ResultNotTrusted)
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
    assert {run.path for run in queue.runs()} >= {first.path, second.path}
    with pytest.raises(NotFound):
        queue.runs(f"{name}/missing")


@pytest.mark.thorough
def test_calls_are_cancelled_by_another_program(queue: Client, name: str) -> None:
    """And pages of more than one statement are whole."""
    made = queue.map(called.square, range(2_500), name=name)
    run = queue.run(name)
    assert len(run) == 2_500
    assert run.cancel() == 2_500
    assert queue.run(name).status().cancelled == 2_500
    with pytest.raises(CancelledError):
        made.result(WAIT_S)
    alone = queue.submit(called.same, 1)
    assert alone.task  # it is stored now
    assert len(queue.run(alone.campaign.path)) == 1


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


@pytest.mark.thorough
def test_twin_attaches_too(served_queue: Client, name: str) -> None:
    """With `async for` over what its run yields."""

    async def work() -> list[int]:
        twin = AsyncClient(served_queue)
        await twin.map(called.square, [1, 2], name=name)
        run = await twin.run(name)
        return [outcome.value async for outcome in run.outcomes(WAIT_S)]

    assert asyncio.run(work()) == [1, 4]


def test_unknown_settings_are_errors_of_the_call(queue: Client, name: str) -> None:
    """As of any wrong argument, with what was meant, before anything is stored."""
    with pytest.raises(TypeError, match=r"setting wieght is unknown; did you mean 'weight'\?"):
        queue.map(abs, [1], name=name, wieght=2.0)
    with pytest.raises(TypeError, match="setting handler is unknown; known are: archive_first, "):
        taskq.Executor(queue, path=name, handler=None)
    assert queue.runs() == []


@pytest.mark.thorough
def test_calls_of_several_arguments_go_where_they_are_sent(served_queue: Client, name: str) -> None:
    """Tuples spread, in order and each once; a single call in a campaign that is named."""
    run = served_queue.starmap(called.square, [(2, 3), (3,), (2, 3)], name=name)
    assert run.result(WAIT_S) == [8, 9, 8]
    again = served_queue.starmap(called.square, ([n, 3] for n in (2, 4)), name=name)
    assert again.result(WAIT_S) == [8, 64]
    assert served_queue.campaign(name).status().total == 4
    future = served_queue.submit(called.square, 2, power=3, path=f"{name}/one")
    assert (future.campaign.path, future.result(WAIT_S)) == (f"{name}/one", 8)
    with pytest.raises(taskq.FunctionChanged):
        served_queue.submit(called.same, 2, path=f"{name}/one")
    assert served_queue.submit(called.echo, path="mine").result(WAIT_S) == "mine"


@pytest.mark.thorough
def test_calls_go_where_the_token_is_for(dsn: str, queue: Client, tmp_path: Path) -> None:
    """By default below its first campaign; errors name what gets the right."""
    queue.create_campaign("/b")
    queue.create_campaign("/a")
    gateway = GatewayProcess(dsn, tmp_path)
    try:
        for kind in ("submitter", "pickler", "manager"):
            token, _ = queue.tokens.create(kind, kind, ["/b", "/a"])
            with Client(GatewayQueries(gateway.url, token)) as far:
                if kind == "pickler":
                    assert far.submit(lambda: 1).campaign.path.startswith("/a/calls/lambda-")
                    with taskq.Executor(far) as executor:
                        assert executor.path.startswith("/a/executor/")
                    continue
                ask = "taskq token create NAME --kind pickler --campaign /a"
                with pytest.raises(Forbidden, match=ask):
                    far.submit(lambda: 2)
                with pytest.raises(Forbidden, match=ask):
                    taskq.Executor(far)
                with pytest.raises(Forbidden, match=r"not for /c.*at or below /a or /b"):
                    far.map(called.same, [1], name="/c")
                if kind == "manager":
                    with pytest.raises(Forbidden, match="NAME --kind submitter --campaign /a"):
                        far.submit(called.square, 1)
                else:
                    assert far.submit(called.same, 1).campaign.path.startswith("/a/calls/same-")
    finally:
        gateway.kill()


@pytest.mark.both_transports
def test_notebook_shows_runs_by_path_and_state(queue: Client, name: str) -> None:
    """Nothing of it can break the page, or ends in an error."""
    run = queue.map(called.square, [1, 2], name=name, description="<b>")
    future = queue.submit(called.square, 1, path=f"{name}/one")
    with taskq.Executor(queue) as executor:
        assert repr(executor) == f"<Executor {executor.path}: 0 calls pending>"
    assert repr(executor) == f"<Executor {executor.path}: shut down>"
    assert repr(future) == f"<TaskFuture {name}/one {future.key}: pending>"
    assert repr(run.best(by="value", n=3)) == f"<BestCalls of {name}: 3 by result.value>"
    assert repr(run.campaign) == f"<Campaign {name}>"
    assert repr(queue) == f"<Client of {queue.queries.server}>"
    assert f"<b>{name}</b> 0 of 2 done, 2 waiting" in queue._repr_html_()
    assert "2 waiting" in run._repr_html_()
    with pytest.raises(NotImplementedError):
        run._ipython_display_()  # IPython then shows it by `_repr_html_`
    queue.close()
    assert "Error" not in repr(run)
    assert queue.queries.server in queue._repr_html_()
