"""Clocks of single processes that can be set: a shim for LD_PRELOAD, compiled when it is needed."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """The clock of the processes that are started with `environment`."""

    def __init__(self, shim: Path, file: Path) -> None:
        self._file = file
        self.set(0.0)
        self.environment = {"LD_PRELOAD": str(shim), "CHAOS_CLOCK": str(file)}

    def set(self, ahead_s: float) -> None:
        """Let it be ahead of the machine's from now on, or behind."""
        # In place: those who have mapped the file must see it.
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("q", round(ahead_s * 1e9)))


def shim(folder: Path) -> Path | None:
    """Compile the shim in a folder; None where there is no C compiler."""
    if shutil.which("cc") is None:
        return None
    made = folder / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, _SOURCE, "-ldl"], check=True)
    return made
