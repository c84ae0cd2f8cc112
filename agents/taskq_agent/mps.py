"""NVIDIA's Multi-Process Service (MPS): programs of several slots work on a device together.

Without it their work takes turns. The agent runs the control daemon for its own devices, in its own
folder. Programs find it by variables that they inherit. If it does not come up, they share the
devices as without it, so nothing here makes an agent leave.

Used as NVIDIA documents it: `nvidia-cuda-mps-control -f` runs the daemon in the foreground and
leaves its process id in `CUDA_MPS_PIPE_DIRECTORY`; `quit` on the standard input of the same program
ends it. With numbers in `CUDA_VISIBLE_DEVICES` programs would see other devices than the daemon
means, so they must be UUIDs. Each MIG instance would need a daemon of its own.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Dict, Iterator, Optional, Tuple

from taskq_agent import devices, reaper, scratch
from taskq_agent.paths import exists
from taskq_agent.resources import Resources
from taskq_agent.room import Grant
from taskq_agent.signals import ENDING_SIGNALS
from taskq_agent.slot_shares import WHOLE

CONTROL = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
LOGS = "CUDA_MPS_LOG_DIRECTORY"

log = logging.getLogger(__name__)

_PATIENCE_S = 10.0
_LOOK_S = 0.05
#: Names of its sockets follow, and all that may have 107 bytes.
_MOST_PATH_BYTES = 80


@contextmanager
def serving(node: Resources, scratch_root: Optional[Path]) -> Iterator[None]:
    """Run the daemon for a node's devices; where that cannot be, warn and go on without.

    scratch_root: its folder is made there.
    """
    program = shutil.which(CONTROL)
    if program is None:
        _warn(f"{CONTROL} is not on this node")
        yield
        return
    if why := _obstacle(node):
        _warn(why)
        yield
        return
    daemon = None
    try:
        daemon = _Daemon(program, node.gpus, scratch_root)
        daemon.wait()
    except OSError as error:
        _warn(str(error))
        if daemon is not None:
            daemon.end()
        yield
        return
    log.info("MPS serves %s", ", ".join(node.gpus))
    try:
        yield
    finally:
        daemon.quit()
        daemon.end()


def _warn(why: str) -> None:
    log.warning("no MPS, so the work of programs on a device takes turns: %s", why)


def _obstacle(node: Resources) -> str:
    names = node.gpus
    if not names or node.gpu_variable != devices.CUDA:
        return "this node has no devices of NVIDIA"
    if any(not name.startswith(("GPU-", "MIG-")) for name in names):
        return f"{devices.CUDA} must name devices by UUID, not {','.join(names)}"
    if len(names) > 1 and any(name.startswith("MIG-") for name in names):
        return "an agent can have MPS for one MIG instance only"
    return ""


class _Daemon:
    """The control daemon, in a group of processes of its own, which the reaper knows."""

    def __init__(self, program: str, names: Tuple[str, ...], scratch_root: Optional[Path]) -> None:
        self._program = program
        root = Path(scratch_root or tempfile.gettempdir()).absolute()
        root.mkdir(parents=True, exist_ok=True)
        if len(os.fsencode(root)) > _MOST_PATH_BYTES:
            root = Path("/tmp")  # noqa: S108 - the name below it is drawn
        self._folder = tempfile.mkdtemp(prefix="taskq-mps-", dir=root)
        reaper.shared().add("folder", self._folder)
        os.environ.update({PIPES: self._folder, LOGS: self._folder})
        variable, mark = reaper.shared().new_mark()
        # A batch system may signal all processes of a job, and programs go on for a while then.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        try:
            self._process = self._run(
                "-f", {**os.environ, devices.CUDA: ",".join(names), variable: mark}
            )
        except OSError:
            self._forget_folder()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        reaper.shared().add("group", self._process.pid)

    def wait(self) -> None:
        """Wait until it is ready; OSError if it is not."""
        until = time.monotonic() + _PATIENCE_S
        while not exists(f"{self._folder}/{CONTROL}.pid"):
            if self._process.poll() is not None:
                raise OSError(f"{CONTROL} has ended with {self._process.returncode}")
            if time.monotonic() > until:
                raise OSError(f"{CONTROL} is not ready after {_PATIENCE_S:g} s")
            time.sleep(_LOOK_S)

    def quit(self) -> None:
        """Ask it to end, and wait for that, but not for long."""
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [self._program],
                input=b"quit\n",
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE_S,
                check=False,
            )
            self._process.wait(_PATIENCE_S)

    def end(self) -> None:
        """Kill it if it is still there, and remove its folder."""
        if self._process.poll() is None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_S)
        reaper.shared().drop("group", self._process.pid)
        self._forget_folder()

    def _forget_folder(self) -> None:
        for variable in (PIPES, LOGS):
            os.environ.pop(variable, None)
        scratch.remove(self._folder)
        reaper.shared().drop("folder", self._folder)

    def _run(self, option: str, environment: Dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self._program, option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment,
            start_new_session=True,
        )


def variables(grant: Grant) -> Dict[str, str]:
    """Return what keeps a program to its part of its devices, if the agent has the service.

    A program that has whole devices may do what it wants.
    """
    parts = min((parts for _, parts in grant.devices), default=WHOLE)
    if parts >= WHOLE or PIPES not in os.environ:
        return {}
    found = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{100 * parts / WHOLE:g}"}
    if grant.gpu_memory is not None:
        limits = (f"{at}={grant.gpu_memory >> 20}M" for at in range(len(grant.devices)))
        found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(limits)
    return found
