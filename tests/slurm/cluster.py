"""A Slurm of two nodes on this machine, with munge, in a folder of its own: no root, no cgroups."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.helpers.batch_commands import run_command
from tests.helpers.waiting import free_port, wait_until

#: Of each node.
CORES = 16
#: Slurm wants devices, and believes that any are GPUs.
_DEVICES = ("/dev/null", "/dev/zero")
MEMORY_MIB = 64_000
SCRATCH_MIB = 200_000
NODES = ("node1", "node2")
_SBIN = "/usr/sbin:/sbin"

_CONFIGURATION = """\
ClusterName=taskq
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MpiDefault=none
ReturnToService=2
KillWait=15
MinJobAge=300
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class SlurmCluster:
    """Controller, nodes and munge. environment: by which Slurm's commands find them."""

    def __init__(self) -> None:
        # Short: sockets have a longest path. Not of a test: daemons outlive what they log.
        self.folder = Path(tempfile.mkdtemp(prefix="taskq-slurm-"))
        self.environment = {
            **os.environ,
            "PATH": f"{os.environ['PATH']}:{_SBIN}",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all, and wait until the nodes take jobs."""
        host = socket.gethostname().partition(".")[0]
        for name in ("munge", "state", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir(mode=0o700)
        key = self.folder / "munge/key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1_024))
        (self.folder / "slurm.conf").write_text(
            _CONFIGURATION.format(
                folder=self.folder,
                host=host,
                user=pwd.getpwuid(os.getuid()).pw_name,
                controller_port=free_port(),
                nodes="\n".join(
                    f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} "
                    f"CPUs={CORES} RealMemory={MEMORY_MIB} TmpDisk={SCRATCH_MIB} "
                    f"Gres=gpu:{len(_DEVICES)} State=UNKNOWN"
                    for node in NODES
                ),
            )
        )
        munge = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log"}
        munge["seed-file"] = "seed"
        gpus = "".join(f"Name=gpu File={device}\n" for device in _DEVICES)
        (self.folder / "gres.conf").write_text(gpus)
        files = [f"--{option}={self.folder}/munge/{file}" for option, file in munge.items()]
        self._daemon("munged", "--foreground", "--force", *files)
        wait_until((self.folder / "munge/socket").exists, on_timeout=self.logs)
        self._daemon("slurmctld", "-D")
        for node in NODES:
            self._daemon("slurmd", "-D", "-N", node)
        wait_until(self._is_idle, timeout_s=60, on_timeout=self.logs)

    def stop(self) -> None:
        """End all jobs, then the daemons, and remove the folder."""
        self.cancel_all()
        with suppress(AssertionError):
            wait_until(lambda: not self.jobs(), timeout_s=60)
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def cancel_all(self) -> None:
        """Ask all jobs to end."""
        self.said("scancel", "--full", f"--user={pwd.getpwuid(os.getuid()).pw_name}")

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's commands."""
        return run_command(words, self.environment)

    def said(self, *words: object) -> str:
        """Return what a command writes to its standard output."""
        return self.run(*words).stdout

    def jobs(self) -> dict[str, str]:
        """Return the states of the jobs that have not ended, by name."""
        lines = self.said("squeue", "--noheader", "--format=%j|%T").splitlines()
        return dict(line.split("|") for line in lines)

    def logs(self) -> str:
        """Return the ends of the daemons' logs."""
        files = [*self.folder.glob("*.log"), *self.folder.glob("*.err")]
        return "\n".join(f"{file.name}: {file.read_text()[-2_000:]}" for file in files)

    def _is_idle(self) -> bool:
        return self.said("sinfo", "-h", "--Node", "--format=%T").split() == ["idle"] * len(NODES)

    def _daemon(self, program: str, *words: str) -> None:
        path = shutil.which(program, path=self.environment["PATH"])
        assert path is not None, f"{program} is not installed: apt-get install slurm-wlm munge"
        with (self.folder / f"{program}.err").open("ab") as errors:
            self._daemons.append(
                subprocess.Popen(
                    [path, *words],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                )
            )
        time.sleep(0.05)
        assert self._daemons[-1].poll() is None, self.logs()
