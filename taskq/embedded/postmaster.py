"""Server process: read and verify its pid file, start it and stop it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskq.embedded.account import Account, last_lines, launch, read_since, rotated
from taskq.model.errors import ServerUnsuitable, Unavailable

POLL_S: Final = 0.01
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 120.0
SOCKET_TIMEOUT_S: Final = 5.0
ORPHANS_TIMEOUT_S: Final = 10.0
PID_OF_NOBODY: Final = 2**31 - 1
"""Above the kernel's greatest pid, so no process has it."""

_PID_FILE: Final = "postmaster.pid"
_PID_FILE_LINES: Final = 8


@dataclass(frozen=True, slots=True)
class Postmaster:
    """Contents of `postmaster.pid` (see PostgreSQL's `utils/pidfile.h`)."""

    data_dir: Path
    pid: int
    port: int = 0
    socket_dir: Path | None = None
    listen_address: str = ""
    is_ready: bool = False

    @property
    def tcp_port(self) -> int | None:
        """The TCP port that it listens at, if any."""
        return self.port if self.listen_address else None

    @property
    def door(self) -> Path:
        """The path of its socket."""
        return (self.socket_dir or self.data_dir) / f".s.PGSQL.{self.port}"

    def is_alive(self) -> bool:
        """Whether it runs: it is starting, ready or stopping."""
        return self.listens() or self.is_process()

    def listens(self) -> bool:
        """Whether a process, perhaps in another container, listens at its socket."""
        if self.socket_dir is None:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(2.0)
            try:
                probe.connect(os.fspath(self.door))
            except BlockingIOError:  # its queue of new connections is full
                return True
            except OSError:
                return False
        return True

    def is_process(self) -> bool:
        """Whether its pid belongs to a server of its data directory, and not to another process.

        Pids are reused. A dead process that its parent has not collected keeps its pid, but the
        kernel shows no command line of it.
        """
        try:
            line = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False
        program, *args = line.rstrip(b"\0").split(b"\0")
        if program.rpartition(b"/")[2] not in {b"postgres", b"postmaster"}:
            return False
        return os.fsencode(self.data_dir) in args


def read_pid_file(data_dir: Path) -> Postmaster | None:
    """Read the pid file; None if there is none. The server writes it line by line."""
    try:
        text, _ = _read_pid_file(data_dir)
    except FileNotFoundError:
        return None
    if not text:  # its server is about to write it, or could not: the disk was full
        return Postmaster(data_dir, PID_OF_NOBODY)
    lines = os.fsdecode(text).split("\n")
    try:
        pid = abs(int(lines[0]))
        if len(lines) < _PID_FILE_LINES:
            return Postmaster(data_dir, pid)
        return Postmaster(
            data_dir,
            pid,
            port=int(lines[3]),
            socket_dir=Path(lines[4]) if lines[4] else None,
            listen_address=lines[5],
            is_ready=lines[7].strip() == "ready",
        )
    except ValueError:
        raise ServerUnsuitable(
            f"{data_dir / _PID_FILE} is damaged: if no PostgreSQL server runs on {data_dir}, on "
            "this or any other host, remove it"
        ) from None


def start(args: Sequence[str | Path], account: Account, data_dir: Path, log: Path) -> Postmaster:
    """Start a server and wait until it accepts connections, at the latest after recovery.

    It also waits for the processes of a killed server, which end on their own.
    """
    deadline = time.monotonic() + ORPHANS_TIMEOUT_S
    while True:
        begin = rotated(log)
        process = launch(args, account, log)
        found = wait_until_ready(data_dir, log, process)
        if found is not None:
            return found
        said = read_since(log, begin)
        if "is still in use" not in said or time.monotonic() > deadline:
            raise Unavailable(f"PostgreSQL did not start. It said (in {log}):\n{last_lines(said)}")
        time.sleep(0.1)


def wait_until_ready(
    data_dir: Path, log: Path, process: subprocess.Popen[bytes] | None = None
) -> Postmaster | None:
    """Return the server of a data directory once it is ready, or None if it ends first.

    `process` is the server if the caller has started it; else the pid file names the server.
    """
    begin = time.monotonic()
    while True:
        # Checked before the file is read: an ended process writes no more to it.
        ended = process is not None and process.poll() is not None
        found = read_pid_file(data_dir)
        if found is not None and process is not None and found.pid != process.pid:
            found = None
        if found is not None and found.is_ready and found.listens():
            return found
        if ended or (process is None and (found is None or not found.is_alive())):
            return None
        has_opened = found is not None and found.is_ready
        timeout_s = SOCKET_TIMEOUT_S if has_opened else START_TIMEOUT_S
        if time.monotonic() - begin > timeout_s:
            why = "its socket was removed" if has_opened else "it may be recovering from a crash"
            raise Unavailable(
                f"the server of {data_dir} runs, but accepts no connection after {timeout_s:.0f} "
                f"s: {why}, see {log}. Try again later, or `taskq down` and `taskq up`"
            )
        time.sleep(POLL_S)


def stop(server: Postmaster, *, immediate: bool) -> None:
    """Stop a server and wait until it is gone; `immediate` skips the final checkpoint."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(server.pid, signal.SIGQUIT if immediate else signal.SIGINT)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while server.is_alive():
        if time.monotonic() > deadline:
            raise Unavailable(
                f"the server of {server.data_dir} (pid {server.pid}) is still shutting down after "
                f"{STOP_TIMEOUT_S:.0f} s: wait, or use `taskq down --immediate`"
            )
        time.sleep(POLL_S)


def clear_stale(data_dir: Path, socket_dir: Path) -> None:
    """Make the pid files of a dead server harmless.

    PostgreSQL believes them if any process of the same user has their pid by now. The file in the
    data directory keeps its other lines: by their shared memory key PostgreSQL finds out whether
    processes of the dead server still work on the data.
    """
    for leftover in socket_dir.glob(".s.PGSQL.*"):
        leftover.unlink(missing_ok=True)
    path = data_dir / _PID_FILE
    try:
        text, owner = _read_pid_file(data_dir)
    except FileNotFoundError:
        return
    _, _, rest = text.partition(b"\n")
    unfinished = path.with_name(f"{_PID_FILE}.unfinished")
    unfinished.unlink(missing_ok=True)
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(b"%d\n%s" % (PID_OF_NOBODY, rest))
        if owner.st_uid != os.geteuid():
            os.fchown(file, owner.st_uid, owner.st_gid)
    unfinished.replace(path)


def _read_pid_file(data_dir: Path) -> tuple[bytes, os.stat_result]:
    # Follow no link: the directory is the server account's, and this may be root.
    file = os.open(data_dir / _PID_FILE, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(file, "rb") as content:
        return content.read(), os.fstat(file)
