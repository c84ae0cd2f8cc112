"""An HTCondor of one node, of the user who runs the tests: no root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from tests.helpers.batch_commands import run_command
from tests.helpers.waiting import free_port, wait_until

CORES = 16
_SBIN = "/usr/sbin:/sbin"

_CONFIGURATION = """\
include : {stock}
LOCAL_CONFIG_DIR =
LOCAL_CONFIG_FILE =
LOCAL_DIR = {folder}
RUN = {folder}/run
LOG = {folder}/log
LOCK = {folder}/lock
SPOOL = {folder}/spool
EXECUTE = {folder}/execute
use role : CentralManager
use role : Submit
use role : Execute
CONDOR_HOST = 127.0.0.1
NETWORK_INTERFACE = 127.0.0.1
NO_DNS = true
DEFAULT_DOMAIN_NAME = localdomain
COLLECTOR_HOST = 127.0.0.1:{port}
USE_SHARED_PORT = false
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_NEGOTIATOR = *
ALLOW_ADMINISTRATOR = *
ALLOW_CONFIG = *
NUM_CPUS = {cores}
MEMORY = 8192
START = true
PREEMPT = false
SUSPEND = false
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 1
UPDATE_INTERVAL = 1
PERIODIC_EXPR_INTERVAL = 1
MAX_PERIODIC_EXPR_INTERVAL = 1
DISCARD_SESSION_KEYRING_ON_STARTUP = false
"""


class HTCondorPool:
    """Collector, negotiator, schedd and startd. environment: by which its commands find them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="taskq-htcondor-"))
        self.environment = {
            **os.environ,
            "PATH": f"{os.environ['PATH']}:{_SBIN}",
            "CONDOR_CONFIG": str(self.folder / "condor_config"),
        }
        self._master: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start all, and wait until the node takes jobs."""
        assert os.getuid() != 0, "HTCondor takes no jobs of root: run these tests as another user"
        for name in ("run", "log", "lock", "spool", "execute"):
            (self.folder / name).mkdir(mode=0o755)
        (self.folder / "condor_config").write_text(
            _CONFIGURATION.format(
                folder=self.folder,
                port=free_port(),
                cores=CORES,
                stock=os.environ.get("CONDOR_CONFIG", "/etc/condor/condor_config"),
            )
        )
        program = shutil.which("condor_master", path=self.environment["PATH"])
        assert program is not None, "condor_master is not installed: apt-get install condor"
        with (self.folder / "master.err").open("wb") as errors:
            self._master = subprocess.Popen(
                [program, "-f"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        wait_until(self._is_ready, timeout_s=90, on_timeout=self.logs)

    def stop(self) -> None:
        """End all jobs, then the daemons, and remove the folder."""
        self.run("condor_rm", "-all")
        if self._master is not None:
            self._master.send_signal(signal.SIGQUIT)  # fast: no waiting for jobs
            try:
                self._master.wait(30)
            except subprocess.TimeoutExpired:
                self._master.kill()
                self._master.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run one of HTCondor's commands."""
        return run_command(words, self.environment)

    def logs(self) -> str:
        """Return the ends of the daemons' logs."""
        files = [*self.folder.glob("log/*Log"), self.folder / "master.err"]
        return "\n".join(f"{file.name}: {file.read_text()[-2_000:]}" for file in files)

    def _is_ready(self) -> bool:
        said = self.run("condor_status", "-autoformat", "State").stdout
        return "Unclaimed" in said and self.run("condor_q").returncode == 0
