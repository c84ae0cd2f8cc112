"""Folder of a pilot's jobs, visible on this machine: the agent's file, output, exit codes.

`BatchDriver` has the common parts of drivers whose batch system has such a folder.
"""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import ClassVar, Final

from taskq.pilots.agent_file import AGENT_FILE, built
from taskq.pilots.drivers.commands import (
    BatchSystemError,
    missing_program,
    run,
    without_secrets,
)
from taskq.pilots.settings import PilotSettings

TAIL_BYTES: Final = 3_000
#: Seconds after which the files of a job are removed; the database forgets the job then as well.
KEPT_S: Final = 30 * 86_400
#: Days after which the folder of a day is removed if it is empty: a job that waits needs it.
_WAITS_DAYS: Final = 90
_DAY_S: Final = 86_400
_ENDS: Final = ("exit", "out", "sh")
_DAY: Final = "????-??-??"
_MAX_TOKEN_BYTES: Final = 4_096


class JobFolder:
    """The folder where jobs write and find the agent.

    day: the folder in it, by the date in UTC, for the files of the jobs that come next.
    """

    def __init__(self, settings: PilotSettings) -> None:
        self._path = Path(settings.folder)
        self._has_agent = bool(settings.gateways)
        self.day = _today()
        self._tidied_at = -math.inf

    def prepare(self) -> None:
        """Make the folder, with the agent's file if jobs need it."""
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_own(self._path)
            if self._has_agent:
                _write_if_other(self._path / AGENT_FILE, built())
            probe = self._path / f".probe-{os.getpid()}"
            try:
                probe.write_bytes(b"?" * 4_096)  # a full disk still makes empty files
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            raise BatchSystemError(f"cannot write in {self._path}: {error.strerror}") from None
        if time.monotonic() - self._tidied_at > _DAY_S:
            self._tidied_at = time.monotonic()
            self._tidy()

    def begin_day(self) -> None:
        """Make the folder of this day, where the files of the next jobs go."""
        self.day = _today()
        try:
            (self._path / self.day).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise BatchSystemError(f"cannot write in {self._path}: {error.strerror}") from None

    def store_script(self, name: str, script: str) -> None:
        """Write a job's script, for a batch system that takes a file."""
        try:
            _write_if_other(self._path / self.day / f"{name}.sh", script.encode())
        except OSError as error:
            raise BatchSystemError(f"cannot write in {self._path}: {error.strerror}") from None

    def _tidy(self) -> None:
        """Remove the files of jobs that ended long ago, and what days leave empty."""
        before = time.time() - KEPT_S
        ours = (f"{day}taskq-*.{end}" for end in _ENDS for day in ("", f"{_DAY}/"))
        for file in (found for pattern in ours for found in self._path.glob(pattern)):
            with suppress(OSError):
                if file.stat().st_mtime < before:
                    file.unlink()
        oldest = _today(timedelta(_WAITS_DAYS))
        for day in self._path.glob(_DAY):
            if day.name < oldest:
                with suppress(OSError):  # it is not empty
                    day.rmdir()

    def exit_code(self, name: str) -> int | None:
        """Return the exit code that a job's script has written; None if it has written none."""
        with suppress(OSError, ValueError):
            return int(self._file(f"{name}.exit").read_text()[:10])
        return None

    def tail(self, name: str) -> str | None:
        """Return the end of a job's output."""
        with suppress(OSError), self._file(f"{name}.out").open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            return as_tail(file.read(TAIL_BYTES))
        return None

    def _file(self, name: str) -> Path:
        """Return where a file of a job is, in the folder of a day or in this one."""
        return next(self._path.glob(f"{_DAY}/{name}"), self._path / name)


class BatchDriver:
    """The common parts of drivers whose jobs write into a folder that this machine sees."""

    #: The batch system's programs.
    programs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: PilotSettings, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._folder = JobFolder(settings)
        self._environment = without_secrets(environment)

    def missing(self) -> str | None:
        """Name the first of the batch system's programs that is not here."""
        return missing_program(self._environment, *self.programs)

    def prepare(self, places: Mapping[str, int]) -> str | None:
        """Make the folder of scripts and output, and check the token."""
        del places
        self._folder.prepare()
        self._folder.begin_day()
        if self._settings.token_file is not None:
            checked_token(self._settings.token_file)
        return None

    def exit_code(self, name: str) -> int | None:
        """Return the exit code that the job's script has written into the folder."""
        return self._folder.exit_code(name)

    def tail(self, name: str, place: str | None) -> str | None:
        """Return the end of a job's output."""
        del place
        return self._folder.tail(name)

    def _run(self, *argv: str, text: str = "") -> str:
        return run(argv, environment=self._environment, text=text)


def _today(ago: timedelta = timedelta()) -> str:
    return (datetime.now(timezone.utc) - ago).date().isoformat()


def as_tail(output: bytes) -> str | None:
    """Return output as text that a database can store; None if there is none."""
    return output.decode("utf-8", "replace").replace("\0", "?").strip() or None


def checked_token(file: str) -> bytes:
    """Return the token in a file that nobody but its owner can read."""
    try:
        with Path(file).open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            token = stream.read(_MAX_TOKEN_BYTES)
    except OSError as error:
        raise BatchSystemError(f"the token {file} cannot be read: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BatchSystemError(f"other users may use the token {file}: chmod 600")
    return token


def _check_own(folder: Path) -> None:
    """Raise `BatchSystemError` if others could replace the agent and the scripts in a folder."""
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise BatchSystemError(f"{folder} is another user's, who could change what jobs run")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BatchSystemError(
            f"other users may write in {folder}, and change what jobs run: chmod go-w"
        )


def _write_if_other(file: Path, data: bytes) -> None:
    """Replace a file unless it has this content: jobs may be reading it."""
    with suppress(FileNotFoundError):
        if file.read_bytes() == data:
            return
    unfinished = file.with_name(f".{file.name}-{os.getpid()}")
    try:
        unfinished.write_bytes(data)
        unfinished.chmod(0o700)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
