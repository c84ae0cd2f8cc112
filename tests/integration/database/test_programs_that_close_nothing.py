"""A program that ends without closing its queue ends at once, and what it submitted is stored."""

from __future__ import annotations

import os
import subprocess
import sys

from taskq import Client
from tests.helpers.command_line import CommandLine

#: What is registered first runs last.
PROGRAM = """
import atexit
atexit.register(lambda: print(queue.database.is_closed, future.key, flush=True))
import taskq
queue = taskq.connect()
future = taskq.Executor(queue, path="/submitted").submit(abs, -1)
print("ends", flush=True)
"""


def test_queue_that_a_program_leaves_open_is_closed_at_its_end(queue: Client) -> None:
    """Python 3.13 waits 5 s for each thread of a pool that is not (psycopg's issue 954)."""
    environment = {**os.environ, **CommandLine(queue.database.dsn).environment}
    argv = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    said = ran.stdout.split()
    assert said[:2] == ["ends", "True"], ran.stderr
    assert ran.stderr == ""
    assert [task.key for task in queue.campaign("/submitted").tasks()] == said[2:]
