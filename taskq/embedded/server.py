"""Start, find and stop taskq's own PostgreSQL server."""

from __future__ import annotations

import json
import os
import shutil
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from taskq.embedded import postmaster, reserve
from taskq.embedded.account import SHARED, server_account, user_name
from taskq.embedded.cluster import DATABASE, ensure_cluster
from taskq.embedded.home import Home, default_home, read_state, write_file
from taskq.embedded.installation import Installation, locate, reachable
from taskq.embedded.postmaster import Postmaster
from taskq.embedded.settings import ROLE, write_settings
from taskq.embedded.working import fault_of
from taskq.model.errors import Conflict, Unavailable, UsageError
from taskq_agent.paths import exists, is_dir

PORT_RANGE: Final = range(1024, 32_768)
"""The kernel gives higher ports to outgoing connections, so one may be taken at any moment."""

LOCAL: Final = "127.0.0.1"

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A running server, and how to reach it."""

    dsn: str
    data_dir: Path
    log_file: Path
    pid: int
    version_text: str
    bin_dir: Path | None
    """Its programs, such as pg_dump; None if a release that did not note it has started it."""
    run_as: str | None
    """The user that it runs as, None if that is the calling user."""
    started_now: bool
    notes: tuple[str, ...]
    """Sentences that the user should read."""


class Server:
    """The PostgreSQL server of one home directory.

    It listens at a Unix socket that only its own user and root can reach, keeps fsync on, and
    runs until `down`, even if the process that started it ends.

    `home` is by default TASKQ_HOME, else /var/lib/taskq for root and `taskq` in the user's data
    directory for others; `installation` is by default what `locate` finds at a start.
    """

    def __init__(self, home: Path | None = None, installation: Installation | None = None) -> None:
        self.home = Home(Path(os.path.realpath(home or default_home())))
        self._installation = installation

    def up(self, *, port: int | None = None) -> ServerInfo:
        """Return the running server; start it first if it is down, and make it if it is new.

        Many processes may call it at once. A server runs if a statement does: one that can work no
        longer, since its programs or its shared memory were removed, is started anew. With a `port`
        (1024 to 32767) a server that it starts also listens at 127.0.0.1; the next start is
        without, unless user.conf sets one.

        Raises Unavailable when the port is taken, the disk is full or the start fails; Conflict
        when it runs without that port or on another host; ServerUnsuitable when no PostgreSQL
        may run here or the home cannot be used; UsageError for a wrong port.
        """
        if port is not None and port not in PORT_RANGE:
            raise UsageError(f"port {port} is outside {PORT_RANGE.start} to {PORT_RANGE.stop - 1}")
        with self.home.usable():
            running = self._running()
            if running is not None and _works(running):
                reserve.keep(self.home.reserve)
                return self._info(running, port)
            self.home.make(server_account(self.home.data))
            with self.home.locked():
                self._wait_for_one_underway()
                running = self._running()
                if running is not None and _works(running):
                    return self._info(running, port)
                if running is not None and port is None and running.listen_address == LOCAL:
                    port = running.tcp_port
                started = self._start(port, instead_of=running)
                return replace(self._info(started, port), started_now=True)

    def down(self, *, immediate: bool = False) -> bool:
        """Stop the server and wait for its end; return whether there was one to stop.

        Connections close and their transactions roll back. `immediate` does not write out the data
        either, so the next start has to recover from the log.

        Raises Unavailable when it takes longer than two minutes, Conflict when it runs in another
        container or on another host, ServerUnsuitable for another user's home.
        """
        with self.home.usable():
            if postmaster.read_pid_file(self.home.data) is None:
                return False
            with self.home.locked():
                found = postmaster.read_pid_file(self.home.data)
                if found is None:
                    return False
                if not found.is_alive():
                    self._check_not_elsewhere(found)
                    return False
                if not found.is_process():
                    raise Conflict(
                        f"the server of {self.home.path} runs in another container: stop it there"
                    )
                postmaster.stop(found, immediate=immediate)
                return True

    def make_room(self) -> int:
        """Give up the room that is kept for a full disk; return its bytes, 0 if there is no need.

        A later `up` keeps room again, once there is plenty.
        """
        return reserve.give_up(self.home.reserve)

    def delete(self) -> list[Path]:
        """Stop the server and delete its files for good; return their paths.

        Errors are those of `down`.
        """
        self.down(immediate=True)
        with self.home.usable():
            paths = self.home.stored()
            for path in paths:
                shutil.rmtree(path) if is_dir(path) else path.unlink(missing_ok=True)
            with suppress(OSError):  # it does not exist, or has files of the user's
                self.home.path.rmdir()
        return paths

    def status(self) -> ServerInfo | None:
        """Return the server if it works, else None; change nothing.

        Raises Conflict when it runs on another host, ServerUnsuitable for another user's home.
        """
        with self.home.usable():
            running = self._running()
            return None if running is None or not _works(running) else self._info(running, None)

    def _running(self) -> Postmaster | None:
        found = postmaster.read_pid_file(self.home.data)
        if found is None or (found.is_ready and found.listens()):
            return found
        if not found.is_alive():
            self._check_not_elsewhere(found)
        return None

    def _wait_for_one_underway(self) -> None:
        """Wait for a server that is stopping, or that an interrupted call has left starting."""
        found = postmaster.read_pid_file(self.home.data)
        if found is not None and found.is_alive():
            postmaster.wait_until_ready(self.home.data, self.home.log)

    def _start(self, port: int | None, *, instead_of: Postmaster | None) -> Postmaster:
        """Start the server; the caller holds the lock.

        instead_of: a server that works no longer; it stays if no other could be started.
        """
        home = self.home
        if port is not None and (instead_of is None or port != instead_of.tcp_port):
            _check_port_is_free(port)
        account = server_account(home.data)
        installation = reachable(self._installation or locate(), account, home)
        ensure_cluster(home, account, installation)
        if instead_of is not None:
            postmaster.stop(instead_of, immediate=False)
        socket_dir = home.make_socket_dir(account)
        conf = write_settings(home, account, socket_dir)
        postmaster.clear_stale(home.data, socket_dir)
        state = _this_host() | {
            "version": installation.version_text,
            "programs": os.fspath(installation.bin_dir),
        }
        write_file(home.state, json.dumps(state), 0o644)
        tcp = () if port is None else (f"--listen_addresses={LOCAL}", f"--port={port}")
        postgres = installation.bin_dir / "postgres"
        reserve.give_up(home.reserve)  # a server that a full disk has ended needs room to recover
        # `start` reads the log.
        args = (postgres, "-D", home.data, f"--config_file={conf}", "--lc_messages=C", *tcp)
        started = postmaster.start(args, account, home.data, home.log)
        if (fault := fault_of(started.door, ROLE, DATABASE)) is not None:
            raise Unavailable(
                f"PostgreSQL was started anew, and still cannot work: {fault}; see {home.log}"
            )
        return started

    def _check_not_elsewhere(self, found: Postmaster) -> None:
        """Refuse a data directory whose server may be running on another host.

        Many hosts often share a home directory, and two servers on one data directory destroy it.
        Neither a pid nor a lock in shared memory shows a process of another host.
        """
        here, there = _this_host(), read_state(self.home.state)
        if there.get("host") is None or any(there.get(key) == here[key] for key in here):
            return
        raise Conflict(
            f"the server of {self.home.path} was started on host {there['host']!r} and not "
            f"stopped: use or stop it there, name a server with --dsn, or set TASKQ_HOME to a "
            "directory of this host alone. If that host is gone for good, remove "
            f"{found.data_dir}/postmaster.pid"
        )

    def _info(self, running: Postmaster, wanted_port: int | None) -> ServerInfo:
        if wanted_port is not None and running.tcp_port != wanted_port:
            raise Conflict(
                f"the server of {self.home.path} runs already, and does not listen at port "
                f"{wanted_port}: `taskq down` first"
            )
        owner = self.home.data.stat().st_uid
        run_as = None if owner == os.geteuid() else user_name(owner)
        notes = []
        if run_as is not None:
            notes.append(f"PostgreSQL refuses to run as root, so it runs as user {run_as!r}.")
        if run_as == SHARED:
            notes.append(
                f"Other programs of user {SHARED} can read and change the data: on a machine of "
                "several users, make a user for taskq, and set TASKQ_RUN_AS to it and TASKQ_HOME "
                "to another directory."
            )
        if running.tcp_port is not None:
            notes.append(
                f"It also listens at {running.listen_address}, port {running.tcp_port}; the "
                f"password of role {ROLE!r} is in {self.home.password}."
            )
        socket_dir = quote(os.fsencode(running.socket_dir or ""), safe="")
        state = read_state(self.home.state)
        programs = state.get("programs")
        return ServerInfo(
            dsn=f"postgresql://{ROLE}@/{DATABASE}?host={socket_dir}&port={running.port}",
            data_dir=self.home.data,
            log_file=self.home.log,
            pid=running.pid,
            version_text=str(state.get("version", "unknown")),
            bin_dir=None if programs is None else Path(programs),
            run_as=run_as,
            started_now=False,
            notes=tuple(notes),
        )


def _works(running: Postmaster) -> bool:
    return fault_of(running.door, ROLE, DATABASE) is None


def _this_host() -> dict[str, str]:
    """Return this host's name, which survives a restart, and boot id, common to its containers."""
    host = socket.gethostname()
    boot_id = _BOOT_ID.read_text(encoding="utf-8").strip() if exists(_BOOT_ID) else host
    return {"host": host, "boot_id": boot_id}


def _check_port_is_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise Unavailable(
                f"port {port} of 127.0.0.1 cannot be used ({error.strerror}): choose another, or "
                "none, then the server listens at its socket only"
            ) from None
