"""Logs that nobody reads: a pipe that is full, a terminal that is stopped, a disk that hangs."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from taskq_agent.protocol import DONE
from tests.helpers.memory_gateway import gateway_of
from tests.helpers.threaded_agent import FunctionRunner, ThreadedAgent, queue_of, until_stopped
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import TIMEOUT_S, WorkerNode


@contextmanager
def full_pipe() -> Iterator[tuple[int, int]]:
    """Give both ends of a pipe that takes no more."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    try:
        while True:
            os.write(into, b"." * 4096)
    except BlockingIOError:
        os.set_blocking(into, True)
    try:
        yield out, into
    finally:
        os.close(out)
        os.close(into)


@pytest.mark.thorough
@pytest.mark.parametrize("together", [False, True])
def test_agent_works_on_and_leaves_though_nobody_reads_its_log(
    tmp_path: Path, *, together: bool
) -> None:
    """With every detail, so that each step writes a line; also if its output goes there too."""
    node, queue = WorkerNode(tmp_path), queue_of(20)
    queue.campaign = replace(queue.campaign, handler={"kind": "command", "argv": ["true"]})
    with gateway_of(queue) as gateway, full_pipe() as (_, into):
        words = ["run", "--verbose", "--until-empty", "--token-file", node.token]
        agent = subprocess.run(
            [sys.executable, node.agent, *words, "--gateway", gateway.url],
            env=node.environment,
            stdout=into if together else subprocess.PIPE,
            stderr=into,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert agent.returncode == 0
    assert together or json.loads(agent.stdout)["undelivered"] == 0
    assert set(queue.counts()) == {DONE}


def test_reader_that_comes_back_learns_how_many_lines_it_has_missed() -> None:
    script = """
import logging, sys
from taskq_agent import streams
streams.take_over()
streams.log_to_stderr(streams.LineFormatter(), verbose=False, quiet=False)
for number in range(3 * streams.MOST_LINES):
    logging.info("line %d of the log", number)
sys.stdout.write("through\\n")
sys.stdout.flush()
sys.stdin.readline()
logging.info("end of the log")
"""
    with full_pipe() as (out, into):
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=into,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "through\n"
        text = bytearray()

        def read() -> None:
            while chunk := os.read(out, 65_536):
                text.extend(chunk)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        process.stdin.write("go on\n")
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0
        process.stdout.close()

        def known() -> int:
            lost = map(int, re.findall(rb"([0-9]+) lines are lost", text))
            return text.count(b" of the log\n") + sum(lost)

        wait_until(lambda: known() == 3_001, on_timeout=lambda: str(text[-300:]))


@pytest.mark.thorough
def test_watchdog_ends_an_agent_that_hangs_in_its_log(capfd: pytest.CaptureFixture[str]) -> None:
    """The loop waits for the log, and so would a thread that says so."""
    end_of_test = threading.Event()

    class Stuck(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert record
            end_of_test.wait(60)

    stuck, logger = Stuck(), logging.getLogger("taskq_agent.loop")

    class Loud(FunctionRunner):
        def stop(self) -> None:
            logger.addHandler(stuck)
            logger.error("the loop waits here")
            super().stop()

    agent_thread = ThreadedAgent(queue_of(1), until_stopped, slots=1, watchdog_s=1.0)
    agent_thread.runner_class = Loud
    try:
        with agent_thread.open():
            wait_until(lambda: agent_thread.runs[1])
            agent_thread.agent.terminate()
            agent_thread.agent.terminate()
            wait_until(lambda: agent_thread.abandoned)
            end_of_test.set()
    finally:
        end_of_test.set()
        logger.removeHandler(stuck)
    assert agent_thread.abandoned[0] == 70
    capfd.readouterr()
