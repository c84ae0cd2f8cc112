"""Standard streams that never end a process: closed streams, readers that go away, full disks.

A closed standard stream becomes `/dev/null`. Otherwise the next file or connection would take its
number, and receive what is printed. Errors of standard error are ignored. If standard output cannot
be written, it raises `OutputLost` once and then discards everything, so that nothing fails again at
exit.

The log of an agent is one line per event on standard error, with timestamps in UTC.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from contextlib import suppress
from typing import Any, Callable, Optional, TextIO, cast

from taskq_agent.text import clean, is_unicode


def _without_controls(line: str) -> str:
    return " ".join(clean(line).splitlines())


def log_to_stderr(formatter: logging.Formatter, *, verbose: bool, quiet: bool) -> None:
    """Log to standard error from now on: INFO; with `verbose` DEBUG, with `quiet` WARNING."""
    handler = logging.StreamHandler(sys.stderr)
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


EXIT_OUTPUT_LOST = 74  # EX_IOERR

_ENCODING = "utf-8"  # as JSON is, in any locale
_ERRORS = "backslashreplace"  # what cannot be encoded must not end a program


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
    """Run a program on replaced streams; return its exit code, or `EXIT_OUTPUT_LOST`.

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
            return code or EXIT_OUTPUT_LOST
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


class _ReportingStdout(io.FileIO):
    """Raises `OutputLost` once."""

    _lost = False

    def write(self, data: Any) -> Any:
        """Write, or discard the data once writing has failed."""
        if self._lost:
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
