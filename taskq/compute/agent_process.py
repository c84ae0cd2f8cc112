"""The process of `local_agents`: an agent with a connection of its own, and a keeper.

Its standard input is a pipe from the program that started it. The agent leaves when that program
says so or ends, however it ends: no process is left behind. The pipe alone does not show the end: a
forked child of the program holds its other end too, for as long as it lives.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import sys
import threading
import time
from typing import Final

from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq.model.errors import TaskqError
from taskq.model.version import VERSION
from taskq.upkeep.keeper import keeping
from taskq_agent import streams
from taskq_agent.handlers import RunnerSettings
from taskq_agent.loop import run_agent
from taskq_agent.settings import AgentSettings

#: The variable with the address of the queue; anybody can read a command line.
DSN: Final = "TASKQ_DSN"
#: Longest pause before an idle agent asks again: somebody waits for the value of a single call.
POLL_S: Final = 0.1
#: What the program writes to standard input for an end with the grace, and without.
IN_TIME: Final = b"end"
AT_ONCE: Final = b"now"
#: Seconds between checks whether the program still lives.
LOOK_S: Final = 1.0
#: First pause of a campaign that cannot run here: the waiting program should soon see why.
CAMPAIGN_BACKOFF_S: Final = 1.0
SECOND_SIGNAL_S: Final = 0.2


def main() -> None:
    """Run an agent with the options of the first argument, and exit with its code."""
    options = json.loads(sys.argv[1])
    streams.log_to_stderr(verbose=False, quiet=True)
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    parent = options["parent"]
    threading.Thread(target=_leave_with_parent, args=(parent,), daemon=True).start()
    agent = AgentSettings(
        campaign=options["path"],
        name="local",
        release=VERSION,
        slots=options["slots"],
        grace_s=options["grace_s"],
        poll_s=POLL_S,
        campaign_backoff_s=CAMPAIGN_BACKOFF_S,
    )
    runner = RunnerSettings(python_path=tuple(options["python_path"]))
    try:
        database = Database(os.environ[DSN]).open()
        database.note_installed()
        with keeping(database):
            transport = DirectTransport(database)
            summary = run_agent(transport, agent, runner)
    except (TaskqError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
    if summary.exit_code:
        sys.stderr.write(f"{summary.reason}\n")
    sys.exit(summary.exit_code)


def _leave_with_parent(parent: int) -> None:
    """End this process when its parent says so or is gone; it may be gone already."""
    word = b""
    while os.getppid() == parent:
        if select.select([0], [], [], LOOK_S)[0]:
            # Not by sys.stdin, whose lock may be held when the interpreter ends.
            word = os.read(0, len(AT_ONCE))
            break
    os.kill(os.getpid(), signal.SIGTERM)
    if word == AT_ONCE:
        time.sleep(SECOND_SIGNAL_S)  # two pending signals of a kind become one
        os.kill(os.getpid(), signal.SIGTERM)  # without the grace
