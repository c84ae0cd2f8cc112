"""The examples of batch docking, run by a real agent on stand-ins for the docking programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import Popen
from typing import Final

from taskq import Campaign, Client, Seed
from taskq.model.views import Attempt
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import PAYLOADS, ROOT

EXAMPLES: Final = ROOT / "examples" / "batch-docking"
STAND_INS: Final = PAYLOADS / "docking_programs.py"
#: By program: its name on PATH, its campaign file, and the files that the campaign gets.
PROGRAMS: Final[Mapping[str, tuple[str, str, Sequence[str]]]] = {
    "unidock": ("unidock", "unidock.toml", ["receptor.pdbqt", "box.txt"]),
    "autodock_gpu": ("autodock_gpu_64wi", "autodock-gpu.toml", ["receptor.maps.fld"]),
    "gnina": ("gnina", "gnina.toml", ["receptor.pdb", "box.txt"]),
}


def payload(name: str) -> dict[str, str]:
    """Return a ligand that is prepared, in both formats."""
    return {
        "pdbqt": f"REMARK ligand-name {name}\nROOT\nENDROOT\nTORSDOF 0\n",
        "sdf": f"{name}\n  ligand-name {name}\n\n  0  0  0  0  0  0            999 V2000\nM  END\n",
    }


class Docking:
    """The campaign of a program's example, with ligands of these names."""

    def __init__(self, queue: Client, taskq: CommandLine, folder: Path, program: str) -> None:
        self._program, file, inputs = PROGRAMS[program]
        self._taskq, self._folder, self._programs = taskq, folder, folder / "bin"
        self._kind = program
        taskq.out("campaign", "create", "--campaign-file", EXAMPLES / file)
        self.path = next(
            json.loads(line.partition("=")[2])
            for line in (EXAMPLES / file).read_text().splitlines()
            if line.startswith("path =")
        )
        for script in (EXAMPLES / f"{program}_batch.py", EXAMPLES / "many_ligands.py"):
            taskq.out("input", "add", self.path, script)
        for name in inputs:
            (folder / name).write_text("recorded\n")
            taskq.out("input", "add", self.path, folder / name)
        self.campaign: Campaign = queue.campaign(self.path)

    def seed(self, names: Sequence[str]) -> None:
        """Add ligands, whose keys are their names."""
        self.campaign.seed(Seed(payload(name), name) for name in names)

    def install(self, lines: str) -> None:
        """Put a program of some lines of shell on the agents' PATH."""
        self._programs.mkdir(exist_ok=True)
        (self._programs / self._program).write_text(f"#!/bin/sh\n{lines}\n")
        (self._programs / self._program).chmod(0o755)

    def run(self, odd: Mapping[str, str], *words: object) -> None:
        """Run an agent to the end of the tasks; odd: what happens at which ligand."""
        odd_file = self._folder / "odd.json"
        odd_file.write_text(json.dumps(dict(odd)))
        self.install(f'exec {sys.executable} {STAND_INS} {self._kind} {odd_file} "$@"')
        with self.agent("--until-empty", *words) as agent:
            _, log = agent.communicate()
            assert agent.returncode == 0, log

    def agent(self, *words: object) -> AbstractContextManager[Popen[str]]:
        """Start an agent that has a GPU, as it believes."""
        search = f"{self._programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return self._taskq.process(
            *("agent", "run", "--campaign", self.path, "--slots", 1, "--quiet", *words),
            environment={"PATH": search, "CUDA_VISIBLE_DEVICES": "0"},
        )

    def ends(self, names: Sequence[str]) -> dict[str, Attempt]:
        """Return the last attempt of each ligand."""
        return {name: self.campaign.attempts(name)[-1] for name in names}
