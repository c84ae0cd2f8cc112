"""Arguments too large for a payload are blobs. A program sends, and a node fetches, each once."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

import taskq
from taskq import Client, Executor
from taskq.compute import functions, pickling
from taskq.files.blob_store import BlobStore
from taskq.model.errors import Conflict, InvalidTask, TaskFailed
from taskq_agent.handlers.calls import LARGE
from tests.payloads import called

np: Any = pytest.importorskip("numpy")

WAIT_S = 120.0
#: Of 5 MB.
ARRAY = np.arange(655_360, dtype="f8")


class Table:
    """An object that goes as a pickle."""

    def __init__(self, rows: list[str]) -> None:
        self.rows = rows


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the sizes of the blobs that this program has sent."""
    sizes: list[int] = []
    send = BlobStore.put_named

    def noting(store: BlobStore, digest: str, data: bytes) -> None:
        sizes.append(len(data))
        send(store, digest, data)

    monkeypatch.setattr(BlobStore, "put_named", noting)
    return sizes


def payload_of(client: Client, future: taskq.TaskFuture[Any]) -> dict[str, Any]:
    """Return the stored payload of a call."""
    assert future.task
    return dict(client.campaign(future.campaign.path).task(future.key).payload)


@pytest.mark.thorough
def test_array_is_sent_once_for_many_calls(served_queue: Client, sent: list[int]) -> None:
    """Functions by name and by value, arrays by position and by name. Equal calls share a task."""
    futures = [served_queue.submit(np.dot, ARRAY, n) for n in range(4)]
    for n, future in enumerate(futures):
        assert np.array_equal(future.result(WAIT_S), ARRAY * n)
    assert len(sent) == 1
    again = served_queue.submit(np.dot, ARRAY.copy(), 3)
    assert again.key == futures[3].key
    assert again.result(WAIT_S)[1] == 3
    factor = 2
    run = served_queue.map(lambda array: float(array.sum()) * factor, [ARRAY, -ARRAY], name="/sums")
    assert run.result(WAIT_S) == [2 * ARRAY.sum(), -2 * ARRAY.sum()]
    assert [outcome.argument for outcome in run.outcomes(WAIT_S)] == ["<large>", "<large>"]
    named = served_queue.submit(called.echo, path="x" * 100_000)
    assert named.result(WAIT_S) == "x" * 100_000
    assert payload_of(served_queue, named)["kwargs"]["path"].keys() == {LARGE}


def test_executor_sends_what_its_calls_share_once(served_queue: Client, sent: list[int]) -> None:
    """Calls share an object within a `functools.partial` or as an argument, and may change it."""
    table = Table([f"row {n}" for n in range(20_000)])

    def take(number: int, rows: Table) -> str:
        return rows.rows.pop(number)

    with Executor(served_queue) as executor:
        before = len(sent)
        last = functools.partial(take, rows=table)
        assert list(executor.map(last, [-1] * 5)) == ["row 19999"] * 5
        assert len(sent) == before + 1
        assert executor.submit(take, 0, table).result(WAIT_S) == "row 0"
        assert executor.submit(abs, -1).result(WAIT_S) == 1
        path = executor.path
    assert served_queue.queries.row("campaign", path=path) is None


@pytest.mark.thorough
def test_agents_of_a_node_fetch_an_argument_once(
    queue: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in their cache, where later agents find it even if the queue has lost it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with taskq.local_agents(queue, 2, "/"):
        futures = [queue.submit(np.dot, ARRAY, n, path="/dot") for n in range(1, 5)]
        assert [future.result(WAIT_S)[1] for future in futures] == [1, 2, 3, 4]
    (folder,) = tmp_path.iterdir()
    assert [path.stat().st_size > 5_000_000 for path in folder.iterdir()] == [True]
    with queue.database.connection() as statements:
        statements.script("delete from taskq.blob_part")
    with taskq.local_agents(queue, 1, "/"):
        assert queue.submit(np.dot, ARRAY, 6, path="/dot").result(WAIT_S)[1] == 6


HOSTILE: tuple[Any, ...] = (
    "/etc/passwd",
    {"digest": "../../etc/passwd", "size": 1},
    {"digest": "0" * 64, "size": 1},
    {"digest": "0" * 64, "size": -1},
    {"digest": "0" * 64, "size": 2**40},
    {"digest": "0" * 64, "size": 1, "path": "/etc/passwd"},
    [],
)


@pytest.mark.thorough
def test_payload_names_no_file_and_no_blob_that_is_none(served_queue: Client, name: str) -> None:
    """A forged payload fails its own attempt only. The agent works on."""
    run = served_queue.map(called.same, [0], name=name)
    run.wait(WAIT_S)
    campaign = run.campaign
    campaign.seed({"args": [{LARGE: value}], "n": n} for n, value in enumerate(HOSTILE))
    campaign.seed([{"args": [[{LARGE: HOSTILE[2]}]]}])
    wanted = len(HOSTILE) + 1
    campaign.wait(WAIT_S)
    assert campaign.status().failed == wanted
    classes = campaign.failure_classes()
    assert classes == {"argument-missing": len(HOSTILE), "ValueError": 1}
    assert served_queue.map(called.same, [0, 1], name=name).result(WAIT_S) == [0, 1]


@pytest.mark.thorough
def test_pickle_in_a_blob_needs_the_seal_too(
    served_queue: Client, near_queue: Client, name: str
) -> None:
    """The agent refuses a forged pickle, which would run a program, and works on after bad JSON."""
    run = served_queue.map(lambda n: n, [0], name=name)
    run.wait(WAIT_S)
    large = functions.LargeArguments(near_queue.queries, name)
    hostile = json.dumps({"$pickle": ["Y29zCnN5c3RlbQooUydmYWxzZScKdFIu", "0" * 64]}).encode()
    datas = (hostile, b"[" * 100_000, b"\xff")
    run.campaign.seed({"args": [large.keep(data)]} for data in datas)
    run.campaign.wait(WAIT_S)
    assert run.status().failed == len(datas)
    errors = [failure.error for failure in run.failures()]
    assert "without the campaign's seal" in str(errors[0])
    assert served_queue.map(lambda n: n, [0], name=name).result(WAIT_S) == [0]


def test_arguments_count_for_their_owner_and_go_with_their_campaign(queue: Client) -> None:
    """A call beyond the quota of bytes adds no task. Sweeps remove only unused blobs."""
    future = queue.submit(called.same, "x" * 100_000, path="/c")
    assert future.task
    database, campaign = queue.database, queue.campaign("/c")
    owner = queue.owners.list("/")[0]
    assert owner.bytes > 100_000
    queue.owners.set_quota(owner.owner, {"max_bytes": owner.bytes + 50_000})
    with pytest.raises(Conflict, match="no room"):
        queue.submit(called.same, "y" * 100_000, path="/c")
    assert queue.submit(called.same, "x" * 100_000, path="/c").task == future.task
    assert queue.submit(called.same, "small", path="/c").task

    def unused() -> int:
        return int(database.value("remove_unused_blobs", limit=100, age_s=0.0, dry_run=False))

    assert unused() == 1  # what was refused
    future.cancel()
    campaign.remove()
    assert unused() == 1
    assert queue.owners.list("/")[0].bytes == 0


def test_content_that_is_too_large_is_refused(
    queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names `inputs=` as the way; other calls are not affected."""
    monkeypatch.setattr(functions, "MAX_BLOB_BYTES", 90_000)
    monkeypatch.setattr(pickling, "MAX_ARGUMENT_BYTES", 80_000)
    with Executor(queue) as executor:
        for value in ("x" * 100_000, Table(["x" * 100_000])):
            with pytest.raises(InvalidTask, match="inputs="):
                executor.submit(called.same, value)
        future = executor.submit(called.same, "x" * 80_000)
        assert future.task
        assert future.cancel()


@pytest.mark.thorough
def test_lost_argument_is_the_failure_of_its_call(
    queue: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent goes on with other calls."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lost = queue.submit(called.same, "x" * 100_000)
    assert lost.task
    with queue.database.connection() as statements:
        statements.script("delete from taskq.blob")
    with taskq.local_agents(queue, 1, "/"):
        with pytest.raises(TaskFailed, match="cannot be fetched"):
            lost.result(WAIT_S)
        assert queue.submit(called.same, 1).result(WAIT_S) == 1
