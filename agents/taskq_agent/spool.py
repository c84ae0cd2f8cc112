"""Spool: reports on disk until they are acknowledged, so that a killed agent loses no result.

Each agent process appends to its own file, one line of JSON per report, and empties it whenever all
reports in it are acknowledged. A starting agent takes over the files of processes that are gone and
sends their reports; a report that had arrived before is a duplicate.

A process holds a lock on its file for as long as it lives (flock). So no file of a living process
is taken over, and process ids need not be trusted. A file gets its final name only when it is
locked and complete.

An agent without a folder of its choice has one for its queue below the user's cache. It writes
there only what the queue has not taken for some seconds, and what is left at its end: so usual work
writes no file.

Nothing is forced to disk (no fsync). What a killed process has written stays. A node that loses
power loses a few reports, whose tasks run again when their leases expire. A full disk does not stop
the work: meanwhile the reports stay in memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import stat
import tempfile
import time
import uuid
from pathlib import Path
from typing import BinaryIO, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from taskq_agent.core.reports import fence, parsed
from taskq_agent.locks import lock_at_once
from taskq_agent.protocol import Held, Report
from taskq_agent.result_files import make_own_folder

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 4 << 20
#: Seconds that reports stay in memory only, where no folder is named.
PATIENCE_S = 5.0

#: Names another folder for the spool.
_OPTION = "--spool"
_SUFFIX = ".reports"
_UNFINISHED = ".new"
_COMPACT_BYTES = 1 << 20
_RETRY_S = 10.0
_OWN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_OTHER = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def default_folder(*queue: str) -> Path:
    """Return the folder for agents of this user, for a queue known by these words."""
    digest = hashlib.sha256("\0".join(queue).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    home = os.environ.get("HOME")
    usual = f"{home}/.cache" if home and os.access(home, os.W_OK) else None
    parent = os.environ.get("XDG_CACHE_HOME") or usual or tempfile.gettempdir()
    return Path(parent).absolute() / f"taskq-spool-{os.geteuid()}" / digest


class Spool:
    """The reports of one agent process in a folder that agents share.

    patience_s: for how long reports are in memory only; 0 writes each at once. Not thread-safe. No
    method raises OSError: the agent works on without the spool.
    """

    def __init__(
        self,
        folder: Path,
        agent: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        patience_s: float = 0.0,
    ) -> None:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", agent)[:100]
        self.path = folder / f"{name}-{uuid.uuid4().hex}{_SUFFIX}"
        self._clock = clock
        self._patience_s = patience_s
        self._lines: Dict[Held, bytes] = {}
        self._since: Dict[Held, float] = {}
        self._kept_bytes = 0
        self._file: Optional[int] = None
        self._file_bytes = 0
        self._retry_at: Optional[float] = None
        self.is_unusable = False  # the last report could not be written

    def open(self) -> List[Tuple[Report, int]]:
        """Take over the reports of earlier processes; return them with their line lengths."""
        reports: Dict[Held, Tuple[Report, int]] = {}
        try:
            if not self._patience_s:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.ExitStack() as locks:
                abandoned = list(_abandoned(self.path.parent, locks))
                for path, file in abandoned:
                    for report, line in _reports_in(path, file):
                        reports[fence(report)] = report, len(line)
                        self._keep(fence(report), line)
                if self._lines:
                    self._rewrite()
                for path, _ in abandoned:
                    path.unlink(missing_ok=True)
        except OSError as error:
            self._write_failed(error)
        if reports:
            log.info("sending %d reports of earlier agents", len(reports))
        return list(reports.values())

    def add(self, held: Held, line: bytes) -> None:
        """Store a report until `forget`."""
        self._keep(held, line)
        if self._is_patient():
            return
        try:
            if self._file is None or self._retry_at is not None:
                self._retry()
            else:
                self._append(self._file, line)
                self.is_unusable = False
        except OSError as error:
            self._write_failed(error)

    def forget(self, reports: Iterable[Held]) -> None:
        """Drop reports that have their verdicts; unknown ones are ignored."""
        for held in reports:
            self._kept_bytes -= len(self._lines.pop(held, b""))
            self._since.pop(held, None)
        if self._file is None:
            return
        try:
            if not self._lines:
                os.ftruncate(self._file, 0)
                self._file_bytes = 0
                self._recovered()
            elif self._file_bytes > _COMPACT_BYTES + 2 * self._kept_bytes:
                self._rewrite()
        except OSError as error:
            self._write_failed(error)

    def close(self) -> None:
        """Leave the remaining reports to a later agent."""
        if self._lines and (self._file is None or self._retry_at is not None):
            try:
                self._rewrite()
                self.is_unusable = False
            except OSError as error:
                self._write_failed(error)
        if self._file is None:
            return
        try:
            if not self._lines:
                self.path.unlink()
        except OSError as error:
            log.debug("%s stays: %s", self.path, error)
        os.close(self._file)
        self._file = None

    def _is_patient(self) -> bool:
        """Return whether nothing has to be written yet: the queue takes reports as they come."""
        oldest = next(iter(self._since.values()))
        return self._file is None and self._clock() < oldest + self._patience_s

    def _keep(self, held: Held, line: bytes) -> None:
        self._since.setdefault(held, self._clock())
        self._kept_bytes += len(line) - len(self._lines.get(held, b""))
        self._lines[held] = line

    def _append(self, file: int, line: bytes) -> None:
        written = os.write(file, line)
        if written < len(line):
            os.ftruncate(file, self._file_bytes)
            raise OSError(f"only {written} of {len(line)} bytes could be written")
        self._file_bytes += written

    def _rewrite(self) -> None:
        """Replace the file with one that holds just the kept reports."""
        if self._patience_s:
            make_own_folder(self.path.parent)
        unfinished = self.path.with_suffix(_SUFFIX + _UNFINISHED)
        file = os.open(unfinished, _OWN, 0o600)
        try:
            lock_at_once(file, fcntl.LOCK_EX, _OPTION)
            with open(file, "wb", closefd=False) as stream:
                stream.writelines(self._lines.values())
            unfinished.replace(self.path)
        except OSError:
            os.close(file)
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise
        if self._file is not None:
            os.close(self._file)
        self._file, self._file_bytes = file, self._kept_bytes

    def _retry(self) -> None:
        if self._retry_at is None or self._clock() >= self._retry_at:
            self._rewrite()
            self._recovered()
            self.is_unusable = False

    def _recovered(self) -> None:
        if self._retry_at is not None:
            self._retry_at = None
            log.info("%s holds all reports again", self.path)

    def _write_failed(self, error: OSError) -> None:
        if self._retry_at is None:
            log.warning("%s: %s; reports are in memory only", self.path, error)
        self._retry_at = self._clock() + _RETRY_S
        self.is_unusable = True


def _abandoned(folder: Path, locks: contextlib.ExitStack) -> Iterator[Tuple[Path, BinaryIO]]:
    """Lock and yield the files of processes that are gone; remove their unfinished files.

    Only yielded files stay open: there may be more living agents than a process may open files.
    """
    for path in sorted(folder.glob(f"*{_SUFFIX}*")):
        try:
            with contextlib.ExitStack() as closed:
                file = closed.enter_context(os.fdopen(os.open(path, _OTHER), "rb"))
                lock_at_once(file.fileno(), fcntl.LOCK_EX, _OPTION)
                status = os.fstat(file.fileno())
                ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
                if not ours or status.st_nlink == 0:  # gone: another agent has just taken it over
                    continue
                if path.suffix == _UNFINISHED:
                    path.unlink()
                elif path.suffix == _SUFFIX:
                    locks.enter_context(closed.pop_all())
                    yield path, file
        except OSError as error:
            log.debug("%s is not taken over: %s", path, error)


def _reports_in(path: Path, file: BinaryIO) -> Iterator[Tuple[Report, bytes]]:
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
        if len(line) > MAX_LINE_BYTES:  # nobody wrote that as a report
            log.warning("%s, line %d is too long: the rest of the file is skipped", path, number)
            return
        try:
            yield parsed(line), line.rstrip(b"\n") + b"\n"
        except ValueError as error:
            log.warning("%s, line %d is skipped: %s", path, number, error)
