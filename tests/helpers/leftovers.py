"""Ends what a process of the tests has started, when that process crashes.

A small process holds the read end of a pipe whose write end is that of the tests. At its end of
file, unless the tests have ended well, it kills every process with the mark of the tests in its
environment: gateways, pages, keepers, agents. The database server that all processes of a run
share has no mark: only the process that began the run gives its home, to stop and remove it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.helpers.paths import ROOT

VARIABLE: Final = "TASKQ_TEST_PROCESS"
_WELL: Final = b"well"
_PROGRAM: Final = "from tests.helpers.leftovers import main; main()"


class Leftovers:
    """Marks the processes that this one starts from now on, and has them killed if it crashes."""

    def __init__(self, home: Path | None = None) -> None:
        """home: of the database server to stop and remove as well; None means none."""
        mark = os.environ[VARIABLE] = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, mark, *([] if home is None else [str(home)])],
            stdin=subprocess.PIPE,
            cwd=ROOT,
            env={"PATH": os.defpath},
            start_new_session=True,
        )

    def end(self) -> None:
        """Let the other process end, and kill nothing."""
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(_WELL, timeout=60)


def main() -> None:
    """Wait for the end of the tests; kill what they have left if it was a crash."""
    mark = f"\0{VARIABLE}={sys.argv[1]}\0".encode()
    if sys.stdin.buffer.read() == _WELL:
        return
    for _ in range(3):  # what is found may have just started another
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in b"\0" + (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
    for home in sys.argv[2:]:
        from tests.fixtures.servers import remove_home  # noqa: PLC0415  # takes long

        remove_home(Path(home))
