"""Processes and folders that outlive a task or an agent: the agent, or the next one, ends them."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from taskq_agent import folders, strays
from taskq_agent.protocol import DONE
from tests.helpers.memory_gateway import gateway_of
from tests.helpers.memory_queue import MemoryQueue
from tests.helpers.slot_harness import processes_with
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import is_there, wait_until
from tests.helpers.worker_node import WorkerNode

OF_THE_TEST = "STRAYS_TEST"
LEAVE = "< /dev/null > /dev/null 2>&1 &"
SECONDS = f"600.{os.getpid()}"
NAP = f"sleep {SECONDS}"
AWAY = {
    "session": f"setsid {NAP} {LEAVE}",
    "twice": f"setsid sh -c 'setsid {NAP} {LEAVE}' {LEAVE}",
    "nothing known": f"env -i setsid sh -c 'cd / && exec {NAP}' {LEAVE}",
    "family": f"setsid sh -c '{NAP} & setsid {NAP} & wait' {LEAVE}",
}
COUNT = f"""exec {sys.executable} -c '
import pathlib
name = b"sleep" + bytes(1) + b"{SECONDS}"
print(sum(name in one.read_bytes() for one in pathlib.Path("/proc").glob("[0-9]*/cmdline")))
'"""
ZOMBIES = f"""exec {sys.executable} -c '
import os, pathlib
stats = [one.read_text() for one in pathlib.Path("/proc").glob("[0-9]*/stat")]
found = [text.rpartition(")")[2].split()[:2] for text in stats]
print(sum(state == "Z" and int(parent) == os.getppid() for state, parent in found))
'"""


def queue_with(*scripts: str) -> MemoryQueue:
    """Return a queue of shell scripts."""
    queue = MemoryQueue({"script": script} for script in scripts)
    handler = {"kind": "command", "argv": ["sh", "-c", "{script}"]}
    queue.campaign = replace(queue.campaign, handler=handler)
    return queue


def seen_by(queue: MemoryQueue, task: int) -> object:
    """Return what a task has printed."""
    result = queue.tasks[task].accepted[-1].result
    assert result is not None
    return result["stdout"]


def nappers() -> list[int]:
    """Return the processes that only payloads of this module start."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if file.read_bytes() == NAP.replace(" ", "\0").encode() + b"\0":
                found.append(int(file.parent.name))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", rest_thorough([*AWAY], 4))
def test_processes_left_by_a_successful_task_end_before_the_next_task(
    tmp_path: Path, name: str
) -> None:
    """By whatever way it has left the group of its task."""
    node, queue = WorkerNode(tmp_path), queue_with(*[f"{AWAY[name]} exit 0", COUNT] * 3)
    with gateway_of(queue) as gateway:
        result = node.run(gateway.url, until_empty=True, slots=1)
    assert (result.code, queue.counts()) == (0, {DONE: 6}), result.err
    assert {seen_by(queue, task) for task in (2, 4, 6)} == {"0"}
    assert nappers() == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", rest_thorough([*AWAY], 1))
def test_processes_left_by_tasks_of_several_slots_end_with_their_agent(
    tmp_path: Path, name: str
) -> None:
    """At the latest, if nothing shows which of the tasks has left it."""
    node, queue = WorkerNode(tmp_path), queue_with(*[f"{AWAY[name]} exit 0"] * 9)
    with gateway_of(queue) as gateway:
        result = node.run(gateway.url, until_empty=True, slots=3)
    assert (result.code, queue.counts()) == (0, {DONE: 9}), result.err
    assert nappers() == []


@pytest.mark.thorough
def test_agent_collects_the_orphans_that_end_by_themselves(tmp_path: Path) -> None:
    """It is their parent, so that it knows of them: they would stay as zombies."""
    node, queue = WorkerNode(tmp_path), queue_with(*["(sleep 0.01 &); exit 0"] * 9, ZOMBIES)
    with gateway_of(queue) as gateway:
        assert node.run(gateway.url, until_empty=True, slots=1).code == 0
    assert int(str(seen_by(queue, 10))) <= 1


@pytest.mark.thorough
def test_next_agent_ends_what_a_job_that_was_killed_whole_has_left(tmp_path: Path) -> None:
    """With the agent its reaper was killed; what had emptied its environment lived on."""
    node = WorkerNode(tmp_path)
    node.environment[OF_THE_TEST] = str(tmp_path)
    root = tmp_path / "scratch"
    script = f"setsid {NAP} {LEAVE} env -i setsid {NAP} {LEAVE} touch begun; exec {NAP}"
    with (
        gateway_of(queue_with(script)) as gateway,
        node.at_work(gateway.url, scratch=root) as agent,
    ):
        wait_until(lambda: is_there(root, "*/*/begun") and len(nappers()) == 3)
        own = processes_with(OF_THE_TEST, str(tmp_path), reapers=True)
        for pid in {*own} - {*nappers()}:
            os.kill(pid, signal.SIGSTOP)
        for pid in {*own} - {*nappers()}:
            os.kill(pid, signal.SIGKILL)
        agent.wait()
    kept = root / "taskq-kept-0-0-0-abcdefgh"
    kept.mkdir()
    assert len(nappers()) == 3
    with gateway_of(queue_with("exit 0")) as gateway:
        assert node.run(gateway.url, scratch=root, idle_timeout="2s").code == 0
    wait_until(lambda: not nappers() and [*root.iterdir()] == [kept])


def test_agents_that_live_keep_what_is_theirs(tmp_path: Path) -> None:
    """Another one starts on the same node, with the same folder, and finds nothing to remove."""
    node, root = WorkerNode(tmp_path), tmp_path / "scratch"
    with (
        gateway_of(queue_with(f"touch begun; exec {NAP}")) as gateway,
        node.at_work(gateway.url, scratch=root, grace="0s") as agent,
    ):
        wait_until(lambda: is_there(root, "*/*/begun") and len(nappers()) == 1)
        strays.kill_orphaned()
        folders.remove_leftovers(root)
        assert is_there(root, "*/*/begun")
        assert len(nappers()) == 1
        agent.terminate()
        assert agent.wait() == 0
