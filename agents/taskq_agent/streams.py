"""Standard streams that never end a process: closed streams, readers that go away, full disks.

A closed standard stream becomes `/dev/null`. Otherwise the next file or connection would take its
number, and receive what is printed. Errors of standard error are ignored. If standard output cannot
be written, it raises `OutputLost` once and then discards everything, so that nothing fails again at
exit.

The log of an agent is one line per event on standard error, with timestamps in UTC. A thread writes
it: nobody who logs waits for a reader that has stopped, be it a full pipe, a terminal or a disk.
"""

from __future__ import annotations

import io
import logging
import os
import select
import sys
import threading
import time
from contextlib import suppress
from queue import Full, Queue
from typing import Any, Callable, ClassVar, Optional, TextIO, cast

from taskq_agent import exit_codes
from taskq_agent.text import clean, is_unicode

MOST_LINES = 1_000
_READER_S = 0.5
_LAST_WORDS_S = 3.0

_ENCODING = "utf-8"  # as JSON is, in any locale
_ERRORS = "backslashreplace"  # what cannot be encoded must not end a program


def _without_controls(line: str) -> str:
    return " ".join(clean(line).splitlines())


class _LogWriter(logging.Handler):
    """Writes each record soon, unless the reader of the log has stopped: then nobody waits for it.

    Meanwhile `MOST_LINES` lines are kept. Further ones are lost, and counted.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: Queue[str] = Queue(MOST_LINES)
        self._lost = 0
        self._is_stuck = False
        threading.Thread(target=self._run, name="taskq-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; wait half a second at most, and only for a reader that reads."""
        try:
            self._lines.put_nowait(f"{self.format(record)}\n")
        except Full:
            self._lost += 1
        except Exception:  # noqa: BLE001 - as all handlers do
            self.handleError(record)
        if not self._is_stuck:
            self.flush()

    def flush(self) -> None:
        """Wait half a second at most until all is written."""
        with self._lines.all_tasks_done:
            self._is_stuck = not self._lines.all_tasks_done.wait_for(
                lambda: not self._lines.unfinished_tasks, _READER_S
            )

    def _write(self, line: str) -> None:
        raw = getattr(getattr(self._stream, "buffer", None), "raw", None)
        if not isinstance(raw, io.FileIO):
            self._stream.write(line)
            self._stream.flush()
            return
        # Not through the buffer: its lock, if it is held, keeps Python from ending.
        rest = memoryview(line.encode(_ENCODING, _ERRORS))
        while rest:
            rest = rest[raw.write(rest) :]

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            with suppress(Exception):  # a closed stream
                self._write(line)
                if self._lost and self._lines.empty():
                    lost, self._lost = self._lost, 0
                    self._write(f"{lost} lines are lost: nobody read this log in time\n")
            self._is_stuck = False
            self._lines.task_done()


def log_to_stderr(formatter: logging.Formatter, *, verbose: bool, quiet: bool) -> None:
    """Log to standard error from now on: INFO; with `verbose` DEBUG, with `quiet` WARNING.

    What writes a log runs for long, and waits for no reader of its standard output either.
    """
    _ReportingStdout.patience_s = _LAST_WORDS_S
    handler = _LogWriter(sys.stderr)
    handler.setFormatter(formatter)
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)


class LineFormatter(logging.Formatter):
    """Writes a record as a line with the time in UTC. Tracebacks keep their lines.

    shown: turns a message into one line without anything that a terminal could obey.
    """

    converter = staticmethod(time.gmtime)

    def __init__(self, shown: Callable[[str], str] = _without_controls) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        self._shown = shown

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line."""
        return self._shown(super().formatMessage(record))


class OutputLost(Exception):
    """Standard output cannot be written. gone: its reader went away, which is not an error."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the output cannot be written: {error.strerror or error}")
        self.gone = isinstance(error, BrokenPipeError)


def take_over() -> None:
    """Replace the standard streams; an existing substitute, such as a test's, stays."""
    for number in range(3):
        _ensure_open(number)
    for name, kind in (("stdout", _ReportingStdout), ("stderr", _LossyStderr)):
        now: Optional[TextIO] = getattr(sys, name)
        if now is None:
            # Its number was free when Python started, and may belong to another file by now.
            setattr(sys, name, open(os.devnull, "w", encoding=_ENCODING))  # noqa: PTH123, SIM115
        elif now is getattr(sys, f"__{name}__"):
            with suppress(OSError):
                now.flush()
            setattr(sys, name, _text(kind(now.fileno(), "wb", closefd=False)))
        elif isinstance(now, io.TextIOWrapper):
            now.reconfigure(encoding=_ENCODING, errors=_ERRORS)


def exit_code_of(program: Callable[[], int], report: Callable[[str], object]) -> int:
    """Run a program on replaced streams; return its exit code, or `exit_codes.OUTPUT_LOST`.

    report: takes the error if output is lost, also if that shows only after the program.
    """
    take_over()
    code, before = 0, ""
    try:
        code = program()
        before = "the command has ended, but "
        sys.stdout.flush()
    except OutputLost as lost:
        if not lost.gone:
            report(f"{before}{lost}")
            return code or exit_codes.OUTPUT_LOST
    return code


def _ensure_open(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        # It gets the lowest free number, which is this one.
        os.open(os.devnull, os.O_WRONLY if number else os.O_RDONLY)


def _text(raw: io.FileIO) -> TextIO:
    buffered = io.BufferedWriter(cast("io.RawIOBase", raw))
    # Other output is buffered to the end, even with PYTHONUNBUFFERED: an error then costs no work.
    lines = isinstance(raw, _LossyStderr) or raw.isatty()
    return io.TextIOWrapper(buffered, _ENCODING, _ERRORS, line_buffering=lines)


class _LossyStderr(io.FileIO):
    """Ignores errors."""

    def write(self, data: Any) -> Any:
        """Write what can be written."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _takes_more(file: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return bool(poll.poll(1000 * within_s))


class _ReportingStdout(io.FileIO):
    """Raises `OutputLost` once.

    patience_s: for how long a reader that has stopped is waited for; None means without end.
    """

    patience_s: ClassVar[Optional[float]] = None
    _lost = False

    def write(self, data: Any) -> Any:
        """Write, or discard the data once writing has failed."""
        if self._lost:
            return len(data)
        if self.patience_s is not None and not _takes_more(self.fileno(), self.patience_s):
            self._lost = True
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self._lost = True
            raise OutputLost(error) from error


def argument(word: str) -> str:
    """Return an argument decoded as UTF-8, even if Python took the locale for ASCII.

    An argument that is not UTF-8 keeps its lone surrogates.
    """
    if is_unicode(word):
        return word
    try:
        return os.fsencode(word).decode()
    except UnicodeDecodeError:
        return word
