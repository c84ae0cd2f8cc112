"""User account that the server's processes run as, and the logs that they write.

PostgreSQL refuses to run as root. Started by root, it runs as an unprivileged user, and only that
user's processes touch its data directory. Permissions of existing directories are never relaxed.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from taskq.model.errors import ServerUnsuitable, Unavailable, UsageError
from taskq_agent.paths import exists

ROOT_UID: Final = 0
UNPRIVILEGED: Final = "postgres"
#: Other programs run as this user too, so they may read and change the data.
SHARED: Final = "nobody"

MAX_LOG_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Account:
    """The user that the server's processes belong to."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]

    @property
    def is_other(self) -> bool:
        """Whether processes must switch to it, since another user calls."""
        return self.uid != os.geteuid()

    def run(
        self, args: Sequence[str | Path], *, stdin: str = "", timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end as this user, standard error within standard output."""
        try:
            return subprocess.run(
                args,
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                errors="replace",
                timeout=timeout_s,
                check=False,
                **self._surroundings(),
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"{Path(args[0]).name} did not finish in {timeout_s:.0f} s; the disk may be very "
                "slow: try again, or set TASKQ_HOME to a directory on a local disk"
            ) from None

    def launch(self, args: Sequence[str | Path], log: int) -> subprocess.Popen[bytes]:
        """Start a program as this user that outlives its caller, writing to the file `log`."""
        return subprocess.Popen(
            args,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Away from the terminal: neither Ctrl-C nor hanging up may stop it.
            start_new_session=True,
            **self._surroundings(),
        )

    def _surroundings(self) -> dict[str, Any]:
        """Return the options that start a process as this user."""
        user = {"user": self.uid, "group": self.gid, "extra_groups": self.groups}
        own = {"cwd": "/", "env": clean_environment(), "umask": 0o077}
        return own | user if self.is_other else own

    def check_reaches(self, directory: Path) -> None:
        """Refuse a directory that the user cannot enter; name the closed one on the way."""
        if not self.is_other or self._enters(directory):
            return
        way = [*reversed(directory.parents), directory]
        closed = next((step for step in way if not self._enters(step)), directory)
        raise ServerUnsuitable(
            f"PostgreSQL refuses to run as root, so it runs as user {self.name!r}, who cannot "
            f"reach {directory}: {closed} is closed to that user, and taskq opens no directory. "
            "Set TASKQ_HOME to a new directory below one that everybody may enter, such as "
            "/var/lib/taskq, or TASKQ_RUN_AS to a user who may enter it"
        )

    def _enters(self, directory: Path) -> bool:
        # The kernel answers for that user; mode bits alone do not show access lists.
        try:
            return self.run(["test", "-x", directory], timeout_s=30).returncode == 0
        except OSError as error:
            raise ServerUnsuitable(
                f"cannot become user {self.name!r} (uid {self.uid}): {error.strerror}; run taskq "
                "as an ordinary user, or name a server with --dsn"
            ) from None


def server_account(data_dir: Path) -> Account:
    """Return the account for the server of a data directory.

    An ordinary user runs the server as this user. Root runs it as the owner of the data if there
    is any, else as the user that TASKQ_RUN_AS names, else as `postgres`.

    Raises ServerUnsuitable when there is no such account, UsageError for a wrong TASKQ_RUN_AS.
    """
    caller = os.geteuid()
    owner = data_dir.stat().st_uid if exists(data_dir) else None
    if caller != ROOT_UID:
        return _account(_entry_of(caller))
    wanted = _entry_in_environment()
    if owner is not None and owner != ROOT_UID:
        found = _entry_of(owner)
        if wanted is not None and wanted.pw_uid != owner:
            raise UsageError(
                f"{data_dir} belongs to user {found.pw_name!r}, but TASKQ_RUN_AS is "
                f"{wanted.pw_name!r}: unset it, or set TASKQ_HOME to another directory"
            )
        return _account(found)
    return _account(wanted or _unprivileged_entry())


def user_name(uid: int) -> str:
    """Return a user's name, or the number if there is no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def clean_environment() -> dict[str, str]:
    """Return the environment for PostgreSQL's programs: no PG* variables, English messages."""
    kept = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}


def _entry_of(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise ServerUnsuitable(
            f"user id {uid} has no entry in the password database (/etc/passwd), and PostgreSQL "
            "does not run without one: add an entry, run as another user, or name a server "
            "with --dsn"
        ) from None


def _entry_in_environment() -> pwd.struct_passwd | None:
    name = os.environ.get("TASKQ_RUN_AS")
    if not name:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UsageError(f"TASKQ_RUN_AS is {name!r}, but there is no such user") from None
    if entry.pw_uid == ROOT_UID:
        raise UsageError(f"TASKQ_RUN_AS is {name!r}, but PostgreSQL refuses to run as root")
    return entry


def _unprivileged_entry() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        raise ServerUnsuitable(
            f"PostgreSQL refuses to run as root, and there is no user {UNPRIVILEGED!r}: make one "
            "for it (`useradd --system taskq`, or `adduser -S taskq`) and `export "
            f"TASKQ_RUN_AS=taskq`. In a container of your own, `export TASKQ_RUN_AS={SHARED}` "
            f"works too; elsewhere other programs of user {SHARED} could read and change the data"
        ) from None


def _account(entry: pwd.struct_passwd) -> Account:
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, groups)


def launch(args: Sequence[str | Path], account: Account, log: Path) -> subprocess.Popen[bytes]:
    """Start a program that outlives this process; its output is appended to the log."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    output = os.open(log, flags, 0o600)
    try:
        process = account.launch(args, output)
    finally:
        os.close(output)
    # Collect it when it ends: as a zombie it would look alive to the next start.
    threading.Thread(target=process.wait, name="taskq-server-reaper", daemon=True).start()
    return process


def rotated(log: Path) -> int:
    """Rotate a large log; return the position at which the next output begins."""
    if not exists(log):
        return 0
    size = log.stat().st_size
    if size <= MAX_LOG_BYTES:
        return size
    log.replace(log.with_name(f"{log.name}.1"))
    return 0


def read_since(log: Path, begin: int) -> str:
    """Return the log's content from a position on."""
    with log.open("rb") as file:
        file.seek(begin)
        return file.read(65_536).decode(errors="replace")


def last_lines(output: str) -> str:
    """Return the last lines of log output, as part of a message."""
    return "\n".join(f"  {line}" for line in output.strip().splitlines()[-5:])
