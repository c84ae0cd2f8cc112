"""A farm whose agents are jobs of a pilot: real processes, which two loops submit by turns.

Each job hits its wall after some seconds, as in a batch system: SIGTERM to all of it, a little
later SIGKILL. Its agent knows when that will be. Tasks keep checkpoints.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from taskq import CampaignSpec, Handler, RetryPolicy
from taskq.embedded import Server
from taskq.pilots.settings import PilotSettings
from tests.chaos.farm import CAMPAIGN, LEASE_S, ROOT, Ground, scratch
from tests.helpers.waiting import free_port, wait_until

PILOT = "hpc"
MAX_JOBS = 3
SLOTS = 2
WALL_S = 12
LOOPS = 2

_READY_S = 60.0
_LOOK_S = 0.1
_WALKER = ROOT / "tests" / "payloads" / "walker.py"
_RETRY = RetryPolicy(max_attempts=3, max_losses=50, max_out_of_time=50, backoff_s=0.2)
_AGENT = ("--stop=2", "--payload-grace=1", "--farewell=2", "--grace=1")
# The agent of taskq as it is, with somebody next to it, instead of the file that the job names.
_PYTHON = """\
#!/bin/sh
shift
exec {python} -m tests.chaos.witness http "$@"
"""
# What a batch system does; the number of this shell is that of its process group.
_SETUP = f"""\
TASKQ_END_TIME=$(($(date +%s) + {WALL_S})); export TASKQ_END_TIME
(trap '' TERM; sleep {WALL_S}; kill -TERM -$$; sleep 3; kill -KILL -$$) > /dev/null 2>&1 &
"""


@dataclass(frozen=True)
class Job:
    """A job that has begun. pid: of its shell, and of its process group; since: when that began."""

    name: str
    pid: int
    since: str

    @property
    def is_alive(self) -> bool:
        """Whether its shell is there."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        state, *fields = stat.rpartition(") ")[2].split()
        return fields[18] == self.since and state not in "ZX"

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes, if it is there."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


class PilotedFarm(Ground):
    """A gateway, a keeper, two loops, and the jobs that these submit."""

    def __init__(self, server: Server, database: object, folder: Path, stack: ExitStack) -> None:
        super().__init__(server, database, folder, stack)
        self._jobs = folder / "jobs"
        handler = Handler(
            "command", argv=(sys.executable, str(_WALKER), "{steps}", "{pace_s}", "{leg}")
        )
        self.campaign = self.client.create_campaign(
            CampaignSpec(
                CAMPAIGN,
                handler=handler,
                retry=_RETRY,
                checkpoint_bytes=20_000,
                checkpoint_every_s=1.0,
            )
        )
        self.clients_campaign = self.campaign
        token, _ = self.client.tokens.create("site", "farm", [CAMPAIGN])
        port = free_port()
        settings = PilotSettings(
            folder=str(self._jobs),
            cores=SLOTS,
            time_limit=60.0,
            max_jobs=MAX_JOBS,
            backlog=MAX_JOBS,
            least_work=0.5,
            idle_timeout=3.0,
            gateways=(f"http://127.0.0.1:{port}",),
            token_file=str(self._secret("token", token)),
            python=str(self._interpreter()),
            setup=_SETUP,
            agent_options=(*_AGENT, f"--spool={folder / 'spool'}"),
        )
        self.client.pilots.create(PILOT, "local", CAMPAIGN, settings)
        self.keeper = self._part("keeper", ["keeper"], self.dsn("keeper"))
        words = [
            "gateway",
            "--listen",
            f"127.0.0.1:{port}",
            "--lease",
            f"{LEASE_S:g}",
            "--drain",
            "0",
        ]
        gateway = self._part("gateway", [*words, "--no-keeper"], self.dsn("gateway"))
        self.gateways = [gateway]
        self.loops = [self._loop(f"loop-{number}") for number in range(LOOPS)]
        self.parts = [self.keeper, gateway, *self.loops]
        stack.callback(self._end_jobs)

    def start(self) -> None:
        """Start all parts."""
        for part in self.parts:
            part.start()
        wait_until(
            lambda: self.client.pilots.pilot(PILOT).looked_ago_s is not None, timeout_s=_READY_S
        )

    def jobs(self) -> list[Job]:
        """Return all jobs that have ever begun."""
        found = []
        for file in self._jobs.glob("*.job/process"):
            words = file.read_text().split()
            if len(words) == 2:  # else it is being written
                found.append(Job(file.parent.name.removesuffix(".job"), int(words[0]), words[1]))
        return found

    def submitted(self) -> set[str]:
        """Return the names of all jobs that were ever submitted."""
        return {folder.name.removesuffix(".job") for folder in self._jobs.glob("*.job")}

    def _loop(self, name: str) -> object:
        return self._part(
            name,
            ["pilots", "run", PILOT, "--interval", "0.3"],
            self.dsn(name),
            program=(sys.executable, "-m", "tests.chaos.pilot_loop"),
            PYTHONPATH=str(ROOT),
            CHAOS_HISTORY=str(self.history),
        )

    def _interpreter(self) -> Path:
        file = self.folder / "python"
        file.write_text(_PYTHON.format(python=sys.executable))
        file.chmod(0o755)
        return file

    def _end_jobs(self) -> None:
        for job in self.jobs():
            job.signal(signal.SIGKILL)


class Census(threading.Thread):
    """Counts jobs. most: of how many it is certain that they ran at one moment."""

    def __init__(self, farm: PilotedFarm) -> None:
        super().__init__()
        self._farm = farm
        self._over = threading.Event()
        self.most = 0

    def run(self) -> None:
        """Count until it gets the order to stop.

        Between two looks all those ran that were seen by both.
        """
        before: set[Job] = set()
        while not self._over.wait(_LOOK_S):
            self.most = max(self.most, sum(job.is_alive for job in before))
            before = {job for job in self._farm.jobs() if job.is_alive}

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self.join()


@contextmanager
def piloted_farm(server: Server, folder: Path) -> Iterator[PilotedFarm]:
    """Give such a farm, on a new database of a server that is up."""
    with scratch(server) as database, ExitStack() as stack:
        built = PilotedFarm(server, database, folder, stack)
        built.start()
        yield built
