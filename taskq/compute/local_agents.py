"""Agents on this machine, for as long as a block of a program runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from typing_extensions import Self

import taskq_agent
from taskq.compute import agent_process
from taskq.db.access import Queue
from taskq.db.connections import Database
from taskq.model.errors import AgentsDied, NotOverGateway, UsageError
from taskq_agent.paths import is_dir

#: Seconds that running tasks get to end after the block; then they are stopped.
GRACE_S: Final = 5.0
#: Seconds after which agents that do not end are killed.
END_S: Final = 30.0
_LAST_LINES: Final = 5
_READ: Final = 65_536

_BOOT: Final = (
    "import sys; sys.path[:] = [*filter(None, sys.path)]; "
    "from taskq_agent.import_path import put_own_first; put_own_first(); "
    "from taskq.compute.agent_process import main; main()"
)


class Computing(Queue, Protocol):
    """The parts of a `taskq.Client` that computing needs."""

    embedded: bool
    begun: set[str]
    local_agents: list[LocalAgents]

    @property
    def database(self) -> Database:
        """The connections to PostgreSQL."""
        ...


class Hearing(Protocol):
    """What waits for the ends of calls."""

    def hear(self, results: list[tuple[int, int, Any]], *, others: bool) -> None:
        """Take accepted results, as (campaign, task, result); others: more have ended."""


class LocalAgents:
    """An agent process with a number of slots, as a context manager; see `taskq.local_agents`."""

    def __init__(
        self,
        queue: Computing,
        slots: int | None = None,
        path: str | None = None,
        *,
        grace_s: float = GRACE_S,
    ) -> None:
        self.slots: Final = (os.cpu_count() or 1) if slots is None else slots
        if type(self.slots) is not int or self.slots < 1:
            raise UsageError(f"slots must be a whole number from 1, not {slots!r:.80}")
        self.path: Final = queue.campaign(_default_path(queue) if path is None else path).path
        self._queue = queue
        self._grace_s = grace_s
        self._log: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._parent = os.getpid()
        self._ending = False
        self._pipe = threading.Lock()
        #: Where large results are left for this program; see `ResultFolder`.
        self.result_folder = ""
        #: What hears of reports.
        self.watchers: weakref.WeakSet[Hearing] = weakref.WeakSet()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        why = self._why() if self.died else None
        self.stop(at_once=kind is not None)
        if why is not None and kind is None:
            raise AgentsDied(why)

    def start(self) -> None:
        """Start the process. It ends when this process ends, however that happens."""
        self.result_folder = tempfile.mkdtemp(prefix="taskq-results-")
        options = {
            "results": self.result_folder,
            "path": self.path,
            "slots": self.slots,
            "python_path": _import_folders(),
            "grace_s": self._grace_s,
            "parent": os.getpid(),
        }
        try:
            dsn = self._queue.database.dsn
        except NotOverGateway:
            raise NotOverGateway("local_agents") from None
        self._log = tempfile.TemporaryFile(prefix="taskq-agents-")  # noqa: SIM115  # until stop
        self._ending = False
        self._parent = os.getpid()
        reports, reported = os.pipe()
        try:
            self._process = subprocess.Popen(
                # Not -m, which searches the working folder before the standard library.
                [sys.executable, "-c", _BOOT, json.dumps(options | {"reports": reported})],
                pass_fds=[reported],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to this process, which then ends its agents
                env=os.environ | {agent_process.DSN: dsn, **_own_path()},
            )
        except BaseException:
            self._log.close()
            os.close(reports)
            shutil.rmtree(self.result_folder, ignore_errors=True)
            raise
        finally:
            os.close(reported)
        threading.Thread(
            target=self._hear, args=[reports], name="taskq-reports", daemon=True
        ).start()
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
        self._queue.local_agents.append(self)

    def wake(self) -> None:
        """Wake the agents for new calls; costs the queue nothing."""
        process = self._process
        if process is None or process.stdin is None or os.getpid() != self._parent:
            return
        # Full: they are awake. Closed: they leave, or have died.
        with self._pipe, suppress(OSError, ValueError):
            os.write(process.stdin.fileno(), agent_process.WAKE)

    def _hear(self, reports: int) -> None:
        """Tell those that wait what the agents write, until the agents have ended."""
        unread = b""
        with open(reports, "rb", buffering=0) as file:
            while chunk := file.read(_READ):
                *lines, unread = (unread + chunk).split(b"\n")
                if watchers := tuple(self.watchers):
                    results = [tuple(json.loads(line)) for line in lines if line]
                    for watcher in watchers:
                        watcher.hear(results, others=b"" in lines)

    def stop(self, *, at_once: bool = False) -> None:
        """End the agents: running tasks may end within the grace, then go back to the queue.

        A forked child of the program that started them leaves them alone, also at its exit.
        """
        if os.getpid() != self._parent:
            return
        process, self._ending = self._process, True
        with suppress(ValueError):
            self._queue.local_agents.remove(self)
        if process is None or process.stdin is None:
            return
        at_once = at_once or not self._grace_s
        with self._pipe:
            with suppress(OSError):  # it has died
                if not process.stdin.closed:
                    process.stdin.write(agent_process.AT_ONCE if at_once else agent_process.IN_TIME)
            with suppress(OSError):
                process.stdin.close()
        killer = threading.Timer(END_S + self._grace_s, process.kill)
        killer.daemon = True  # a second Ctrl-C ends the program, and it would wait for this thread
        killer.start()
        process.wait()
        killer.cancel()
        self._log.close()
        # Agents that ended before they could say so to their reaper leave it.
        shutil.rmtree(self.result_folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """The process id of the agent; 0 if it was not started."""
        return 0 if self._process is None else self._process.pid

    @property
    def died(self) -> bool:
        """Whether the agents have ended without an order to."""
        process = self._process
        if process is None or self._ending or os.getpid() != self._parent:
            return False  # only the parent hears of its end
        return process.poll() is not None

    def check(self) -> None:
        """Raise `AgentsDied`, with the end of their output, if they have ended without an order."""
        if self.died:
            raise AgentsDied(self._why())

    def _why(self) -> str:
        code = self._process.returncode if self._process is not None else None
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        said = ""
        with suppress(OSError, ValueError):
            self._log.seek(0)
            lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
            said = "".join(f"\n  {line}" for line in lines[-_LAST_LINES:])
        return f"the agents of this machine have ended with {how}{said}"

    def __repr__(self) -> str:
        state = "not started" if self._process is None else "ended" if self._ending else "at work"
        return f"<LocalAgents {self.path}: {self.slots} slots, {state}>"


def _default_path(queue: Computing) -> str:
    """Return the campaign to serve if none is named: the one that this program has begun.

    With an embedded server it is the root: all tasks there are this user's. Raise `UsageError` if
    the program has begun none or several.
    """
    if queue.embedded:
        return "/"
    paths = [path for path in sorted(queue.begun) if queue.queries.row("campaign", path=path)]
    tops = [path for path in paths if not any(path.startswith(f"{top}/") for top in paths)]
    if len(tops) == 1:
        return tops[0]
    begun = f"this program has begun {', '.join(tops)}" if tops else "this program has begun none"
    raise UsageError(
        "others may use this server too, and these agents would take their tasks: name the "
        f"campaign that they serve, as taskq.local_agents(queue, slots, '/mine'); {begun}"
    )


def _own_path() -> dict[str, str]:
    """Return the environment that lets another process import this taskq, installed or not."""
    taskq = Path(__file__).parents[2]
    homes = dict.fromkeys([str(taskq), str(Path(taskq_agent.__file__).parents[1])])
    own = [home for home in homes if not home.endswith("-packages")]
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return {"PYTHONPATH": os.pathsep.join([*given, *own])} if own else {}


def _import_folders() -> list[str]:
    """Return the folders of this program's own modules, not those of its Python installation."""
    installed = {Path(sys.prefix), Path(sys.base_prefix)}
    folders = []
    for name in dict.fromkeys(sys.path):
        folder = Path(name or ".").absolute()
        if is_dir(folder) and not installed & {folder, *folder.parents}:
            folders.append(str(folder))
    return folders
