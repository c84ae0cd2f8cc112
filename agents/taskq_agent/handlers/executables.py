"""Reasons why an existing program cannot start: the kernel only says that a file is missing."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Optional

from taskq_agent.paths import exists

_FIRST_BYTES = 256  # what Linux reads of a `#!` line
_MARK = b"#!"
_ELF = b"\x7fELF"


def why_not_executable(path: object, error: OSError) -> Optional[str]:
    """Return why a file cannot be executed; None if its content does not show it."""
    first = _first_line(path)
    if first.startswith(_MARK):
        return bad_line_ends(path) or _interpreter(first)
    if first.startswith(_ELF) and error.errno == errno.ENOENT:
        return "the loader that it names is missing: it was built for another system"
    if first and error.errno == errno.ENOEXEC:
        return "it is not a program for this machine, and its first line is not #!INTERPRETER"
    return None


def bad_line_ends(path: object) -> Optional[str]:
    """Return what is wrong with a script's line ends: CR becomes part of the interpreter's name."""
    first = _first_line(path)
    if not (first.startswith(_MARK) and first.endswith(b"\r\n")):
        return None
    words = os.fsdecode(first[len(_MARK) : -1]).split(" ")
    return f"its first line ends in CR LF, so the kernel looks for {words[-1]!r}; use LF"


def _first_line(path: object) -> bytes:
    """Return the first line of a file; b"" if it cannot be read or the path is not absolute."""
    if not isinstance(path, str) or not path.startswith("/"):
        return b""
    try:
        with Path(path).open("rb") as file:
            return file.readline(_FIRST_BYTES)
    except OSError:
        return b""


def _interpreter(first: bytes) -> Optional[str]:
    words = first[len(_MARK) :].split(None, 1)
    if not words:
        return "its first line, #!, names no interpreter"
    name = os.fsdecode(words[0])
    if not exists(name):
        return f"its interpreter, {name!r} in its first line, is not there"
    if not os.access(name, os.X_OK):
        return f"its interpreter, {name!r} in its first line, cannot be executed"
    return None
