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
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from taskq.compute.result_folder import ResultFolder
from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq.files.folder_store import FolderBlobs
from taskq.model.errors import TaskqError
from taskq.model.version import VERSION
from taskq.upkeep.keeper import keeping
from taskq_agent import reaper, streams
from taskq_agent.core.reports import fence
from taskq_agent.handlers import RunnerSettings
from taskq_agent.loop import agent_of_processes
from taskq_agent.protocol import ACCEPTED, DONE, Answer, Report, Request
from taskq_agent.settings import AgentSettings
from taskq_agent.wire import dumps

#: The variable with the address of the queue; anybody can read a command line.
DSN: Final = "TASKQ_DSN"
#: Longest pause before an idle agent asks again: somebody waits for the value of a single call.
POLL_S: Final = 0.1
#: What the program writes to standard input: there are new calls; end with the grace; without.
WAKE: Final = b"+"
IN_TIME: Final = b"end"
AT_ONCE: Final = b"now"
#: The line by which agents make the program look for ends of calls that no line names.
LOOK: Final = b"\n"
#: Seconds between checks whether the program still lives.
LOOK_S: Final = 1.0
#: First pause of a campaign that cannot run here: the waiting program should soon see why.
CAMPAIGN_BACKOFF_S: Final = 1.0
SECOND_SIGNAL_S: Final = 0.2
#: Bytes read at once: calls that are submitted together wake once.
_READ: Final = 4_096


class ReportingTransport(DirectTransport):
    """Tells the program which calls have ended, and leaves large results for it.

    reports: the end of a pipe. A line is `[campaign, task, result]` of an accepted result. An empty
    one stands for other ends, and for long results. The kernel writes up to `PIPE_BUF` bytes
    entirely or not at all.
    """

    def __init__(self, database: Database, reports: int, results: ResultFolder) -> None:
        super().__init__(database)
        self._reports = reports
        self._results = results

    def exchange(self, request: Request) -> Answer:
        """Report and claim; see `DirectTransport`."""
        answer = super().exchange(request)
        if request.reports:
            # Full: the program is awake, and looks after a while. Closed: it has ended.
            with suppress(OSError):
                for text in ends(request.reports, answer):
                    os.write(self._reports, text)
        return answer

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store a blob; also leave it for the program, unless the store is a folder."""
        super().write_blob(digest, data)
        if not isinstance(self._blobs, FolderBlobs):
            self._results.leave(digest, data)


def ends(reports: Sequence[Report], answer: Answer) -> Iterator[bytes]:
    """Yield the lines about reports, as many together as can be written at once."""
    accepted = {fence(ack) for ack in answer.acks if ack.verdict == ACCEPTED}
    text, others = b"", b""
    for report in reports:
        line = LOOK
        if report.outcome == DONE and fence(report) in accepted:
            line = f"{dumps([report.campaign, report.task, report.result])}\n".encode()
        if line == LOOK or len(line) > select.PIPE_BUF - len(LOOK):
            others = LOOK
        elif len(text) + len(line) > select.PIPE_BUF - len(LOOK):
            yield text
            text = line
        else:
            text += line
    yield text + others


def main() -> None:
    """Run an agent with the options of the first argument, and exit with its code."""
    options = json.loads(sys.argv[1])
    os.set_inheritable(options["reports"], False)
    os.set_blocking(options["reports"], False)
    streams.log_to_stderr(streams.LineFormatter(), verbose=False, quiet=True)
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    reaper.shared().add("folder", options["results"])
    wakers: list[Callable[[], None]] = []
    threading.Thread(target=_listen, args=(options["parent"], wakers), daemon=True).start()
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
            results = ResultFolder(options["results"])
            transport = ReportingTransport(database, options["reports"], results)
            local = agent_of_processes(transport, agent, runner)
            wakers += [transport.look_again, local.wake]
            summary = local.run()
    except (TaskqError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
    if summary.exit_code:
        sys.stderr.write(f"{summary.reason}\n")
    sys.exit(summary.exit_code)


def _listen(parent: int, wakers: list[Callable[[], None]]) -> None:
    """Wake the agent when its parent submits; end it when the parent says so or is gone."""
    words = WAKE
    while os.getppid() == parent and not words.strip(WAKE):
        if not select.select([0], [], [], LOOK_S)[0]:
            continue
        # Not by sys.stdin, whose lock may be held when the interpreter ends.
        words = os.read(0, _READ)
        if not words:
            break
        for wake in wakers:
            with suppress(Exception):  # this thread must see the end of the parent
                wake()
    os.kill(os.getpid(), signal.SIGTERM)
    if words.strip(WAKE) == AT_ONCE:
        time.sleep(SECOND_SIGNAL_S)  # two pending signals of a kind become one
        os.kill(os.getpid(), signal.SIGTERM)  # without the grace
