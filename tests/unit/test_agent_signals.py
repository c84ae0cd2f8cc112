"""Signals that end a job, or warn of its end: each is a reason to leave in good order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from taskq_agent.protocol import RELEASED
from tests.helpers.memory_gateway import gateway_of
from tests.helpers.memory_queue import MemoryQueue
from tests.helpers.slot_harness import processes_with
from tests.helpers.threaded_agent import queue_of
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import is_there, wait_until
from tests.helpers.worker_node import TIMEOUT_S, WorkerNode

OF_THE_TEST = "SIGNAL_TEST"


def sleeping() -> MemoryQueue:
    """Return a queue with a task that runs until it is stopped."""
    queue = queue_of(1, heartbeat_s=0.5)
    argv = ["sh", "-c", "touch begun; exec sleep 600"]
    queue.campaign = replace(queue.campaign, handler={"kind": "command", "argv": argv})
    return queue


@pytest.mark.thorough
@pytest.mark.parametrize(
    "number",
    rest_thorough(
        [
            signal.SIGHUP,
            signal.SIGUSR1,
            signal.SIGUSR2,
            signal.SIGXCPU,
            signal.SIGALRM,
            signal.SIGQUIT,
            signal.SIGPWR,
            signal.SIGRTMIN + 3,
        ],
        2,
    ),
)
@pytest.mark.parametrize("to_all", rest_thorough([False, True], 2))
def test_agent_that_is_warned_hands_its_task_back(
    tmp_path: Path, number: int, to_all: bool
) -> None:
    """Batch systems let each site choose the signal, and may send it to all processes of a job.

    Then the payload is gone before the agent knows of the signal, which is not the task's fault,
    and the folders go all the same.
    """
    node, queue = WorkerNode(tmp_path), sleeping()
    node.environment[OF_THE_TEST] = str(tmp_path)
    scratch = tmp_path / "scratch"
    with (
        gateway_of(queue) as gateway,
        node.at_work(gateway.url, grace="0s", scratch=scratch) as agent,
    ):
        wait_until(lambda: is_there(scratch, "*/*/begun"))
        reached = processes_with(OF_THE_TEST, str(tmp_path), reapers=True) if to_all else []
        for pid in {*reached, agent.pid}:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        agent.communicate(timeout=TIMEOUT_S)
    assert (agent.returncode, queue.outcomes(1)) == (0, [RELEASED])
    wait_until(lambda: not any(scratch.iterdir()))


def test_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """`nohup` keeps the agent at work when the terminal closes; SIGTERM still ends it."""
    node, queue = WorkerNode(tmp_path), sleeping()
    words = ["run", "--grace", "0s", "--token-file", node.token, "--scratch", tmp_path / "scratch"]
    with gateway_of(queue) as gateway, (tmp_path / "log").open("wb") as log:
        agent = subprocess.Popen(
            ["nohup", sys.executable, node.agent, *words, "--gateway", gateway.url],
            env=node.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        wait_until(lambda: is_there(tmp_path, "scratch/*/*/begun"))
        beats = len(queue.beats)
        agent.send_signal(signal.SIGHUP)
        wait_until(lambda: len(queue.beats) > beats)
        assert agent.poll() is None
        agent.terminate()
        assert agent.wait(TIMEOUT_S) == 0
    assert queue.outcomes(1) == [RELEASED]
