"""Start a server's process, and read its log."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from taskq.embedded.account import Account

MAX_LOG_BYTES: Final = 16 * 1024 * 1024


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
    if not log.exists():
        return 0
    size = log.stat().st_size
    if size <= MAX_LOG_BYTES:
        return size
    log.replace(log.with_name(f"{log.name}.1"))
    return 0


def said_since(log: Path, begin: int) -> str:
    """Return the log's content from a position on."""
    with log.open("rb") as file:
        file.seek(begin)
        return file.read(65_536).decode(errors="replace")


def last_lines(said: str) -> str:
    """Return the last lines of log output, as part of a message."""
    return "\n".join(f"  {line}" for line in said.strip().splitlines()[-5:])
