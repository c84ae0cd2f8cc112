"""Agents of this machine leave large results in files; the store of blobs has them too."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import taskq
from taskq import Client, ResultLost
from taskq.compute import result_folder
from taskq.compute.local_agents import LocalAgents
from taskq.compute.result_folder import ResultFolder, taken
from tests.payloads import called

WAIT_S = 120.0
SIZES = [300_000, 300_001, 300_002]


@pytest.fixture
def agents(queue: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalAgents]:
    """Give agents that serve the queue."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with taskq.local_agents(queue, 1, "/") as agents:
        yield agents


def of(size: int) -> str:
    """Return the name of the file with the result of `called.large`."""
    text = f'{{"value":"{"x" * size}"}}'
    return hashlib.sha256(text.encode()).hexdigest()


def test_program_reads_the_file_else_the_store(queue: Client, agents: LocalAgents) -> None:
    """A damaged or missing file costs nothing; a result that neither has is lost."""
    run = queue.map(called.large, SIZES, name="/large")
    run.wait(WAIT_S)
    folder = Path(agents.result_folder)
    assert {path.name for path in folder.iterdir()} == {of(size) for size in SIZES}
    (folder / of(SIZES[1])).write_bytes(b"damaged")
    (folder / of(SIZES[2])).unlink()
    assert [*map(len, run.results(WAIT_S))] == SIZES
    assert [*folder.iterdir()] == []

    others = queue.map(called.large, [size + 10 for size in SIZES[:2]], name="/others")
    others.wait(WAIT_S)
    (folder / of(SIZES[1] + 10)).write_bytes(b"damaged")
    with queue.database.connection() as statements:
        statements.script("delete from taskq.blob_part; delete from taskq.blob")
    found, lost = others.outcomes(WAIT_S)
    assert (found.error, len(found.value)) == (None, SIZES[0] + 10)
    assert isinstance(lost.error, ResultLost)


def test_futures_read_the_file_which_is_gone_then(queue: Client, agents: LocalAgents) -> None:
    """The folder goes with the agents."""
    folder = Path(agents.result_folder)
    assert len(queue.submit(called.large, SIZES[0]).result(WAIT_S)) == SIZES[0]
    assert [*folder.iterdir()] == []
    agents.stop()
    assert not folder.exists()
    assert len(queue.submit(called.large, SIZES[0]).result(WAIT_S)) == SIZES[0]


def test_agents_that_end_at_once_leave_no_folder(queue: Client) -> None:
    """Their reaper may not know of it yet."""
    agents = LocalAgents(queue, 1, "/", grace_s=0.0)
    agents.start()
    os.kill(agents.pid, signal.SIGKILL)
    agents.stop()
    assert not Path(agents.result_folder).exists()


@pytest.mark.thorough
def test_nothing_is_left_where_blobs_lie_in_a_folder(
    queue: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program reads that folder itself."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    monkeypatch.setenv("TASKQ_BLOBS", str(blobs))
    with taskq.local_agents(queue, 1, "/") as agents:
        run = queue.map(called.large, SIZES[:1], name="/large")
        run.wait(WAIT_S)
        assert [*Path(agents.result_folder).iterdir()] == []
        assert [*map(len, run)] == SIZES[:1]


def test_oldest_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may ever read them. A full disk, or a folder that is gone, harms nobody."""
    monkeypatch.setattr(result_folder, "MOST_BYTES", 10)
    results = ResultFolder(str(tmp_path))
    for name in ("a", "b", "c"):
        results.leave(name, name.encode() * 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]
    left = [taken([str(tmp_path)], name) for name in ("a", "b", "b")]
    assert left == [None, b"bbbb", None]
    ResultFolder(str(tmp_path / "gone")).leave("a", b"a")
