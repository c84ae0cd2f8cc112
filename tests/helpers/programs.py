"""Programs that say what a test lets them say, and drivers that find them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from taskq.pilots.drivers import DRIVERS_BY_NAME, Driver
from taskq.pilots.pilot_file import pilot_settings

#: A job of a pilot, as drivers know it.
NAME = "taskq-hpc-0a1b2c3d-1"
SECRET = "tqe_" + "x" * 43


class Programs:
    """Programs of a batch system in a folder of their own, which say nothing at first."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder = folder
        folder.mkdir()
        for name in names:
            self.say(name, "")

    def say(self, name: str, body: str) -> None:
        """Make a program of lines of shell; what it was called with is written down."""
        file = self.folder / name
        file.write_text(f'#!/bin/sh\necho "$@" > {self.folder}/{name}.arguments\n{body}\n')
        file.chmod(0o700)

    def arguments(self, name: str) -> str:
        """Return what a program was called with last."""
        return (self.folder / f"{name}.arguments").read_text().strip()


def driver_on(programs: Programs, kind: str, **table: Any) -> Driver:
    """Return a driver that finds the programs, for agents behind a gateway."""
    token = programs.folder / "token"
    token.touch(mode=0o600)
    token.write_text(SECRET)
    folder = str(programs.folder.parent / "jobs")
    given = {"folder": folder, "gateways": ["https://gw"], "token_file": str(token), **table}
    path = f"{programs.folder}:{os.environ['PATH']}"
    made = DRIVERS_BY_NAME[kind](pilot_settings(kind, given), {"PATH": path, "TASKQ_DSN": "secret"})
    made.prepare({})
    return made
