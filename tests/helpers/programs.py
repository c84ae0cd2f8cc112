"""Programs that say what a test lets them say."""

from __future__ import annotations

from pathlib import Path


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
