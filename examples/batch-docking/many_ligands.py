"""What all scripts here have in common: tasks in, a program started, a line about each ligand out.

Files and titles are named by the number of a task. A ligand is judged by its output alone, and a
line about it is written after that output is complete.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

SEED: Final = 101
LOOK_S: Final = 0.2
LAST_WORDS_S: Final = 5.0
_VINA_SCORE: Final = re.compile(r"^REMARK VINA RESULT:\s+(\S+)", re.MULTILINE)
#: What programs say on a node whose GPU cannot be used: its tasks go to other nodes.
_NO_GPU: Final = re.compile(
    r"no CUDA-capable device|No CUDA devices|CUDA driver version is insufficient"
    r"|no kernel image is available|cudaErrorStubLibrary|cudaErrorInsufficientDriver|No OpenCL",
    re.IGNORECASE,
)
#: If the program docks none of so many ligands, it is not they who are at fault.
_MANY: Final = 10
_SIGNAL: Final = 128

#: Takes the lines that the program has printed since the last call.
Look = Callable[[Sequence[str]], None]


class Batch:
    """The tasks of a start. left: those without an outcome, by number, in order."""

    def __init__(self, file: str) -> None:
        """Read the file that `{tasks}` names."""
        tasks = map(json.loads, Path(file).read_text(encoding="utf-8").splitlines())
        self.left: dict[int, dict[str, Any]] = {task["id"]: task for task in tasks}
        self._docks = False
        self._undocked: dict[int, str] = {}
        self._outcomes = os.open(os.environ["TASKQ_OUTCOMES"], os.O_WRONLY | os.O_APPEND)

    def begun(self, number: int) -> None:
        """Say that a ligand is being docked: if the program dies, this one is the suspect."""
        if number in self.left:
            self._say(number, begun=True)

    def docked(self, number: int, pose: str, file: str, **result: float) -> None:
        """Say the result of a ligand; keep its pose if the campaign keeps output files."""
        self._docks = True
        self.close()
        task = self.left.pop(number)
        if (out := task["task"].get("out")) is not None:
            Path(out, file).write_text(pose, encoding="utf-8")
        self._say(number, result=result)

    def failed(self, number: int, why: str) -> None:
        """Say that a ligand cannot be docked, by no other attempt either."""
        del self.left[number]
        self._say_bad(number, why)

    def undocked(self, number: int, why: str) -> None:
        """Say that the program has not docked a ligand, once it has docked another one.

        It docks none of them where a receptor is damaged, a box is empty, or a GPU is too small.
        """
        del self.left[number]
        self._undocked[number] = why
        if self._docks:
            self.close()
        elif len(self._undocked) >= _MANY:
            unusable(f"no ligand is docked here, so all are left to other nodes; one is: {why}")

    def close(self) -> None:
        """Say which ligands have not been docked, if that is held back."""
        for number, why in self._undocked.items():
            self._say_bad(number, why, verdict="fail" if self._docks else "retry")
        self._undocked.clear()

    def prepare(self, write: Callable[[int, dict[str, Any]], object]) -> None:
        """Write the file of each ligand; write: gets number and payload."""
        for number, task in [*self.left.items()]:
            try:
                write(number, task["payload"])
            except ImportError as error:  # noqa: PERF203
                unusable(str(error))
            except Exception as error:  # noqa: BLE001  # meeko and rdkit raise many kinds
                self.failed(number, f"the ligand cannot be prepared: {error}")

    def _say_bad(self, number: int, why: str, verdict: str = "fail") -> None:
        self._say(number, error=why, error_class="bad-ligand", verdict=verdict)

    def _say(self, number: int, **answer: object) -> None:
        os.write(self._outcomes, (json.dumps({"id": number, **answer}) + "\n").encode())


def unusable(why: str) -> None:
    """End, so that other nodes get the tasks."""
    print(why, file=sys.stderr)
    sys.exit(os.EX_UNAVAILABLE)


def need(program: str) -> None:
    """End if the program is not on PATH."""
    if shutil.which(program) is None:
        unusable(f"{program} is not on PATH")


def conformer(smiles: str) -> Any:
    """Return a molecule of rdkit with hydrogens, in three dimensions; ValueError if none."""
    from rdkit import Chem  # noqa: PLC0415  # ligands that are prepared already need no rdkit
    from rdkit.Chem import rdDistGeom, rdForceFieldHelpers  # noqa: PLC0415

    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None:
        raise ValueError("it is not valid SMILES")
    molecule = Chem.AddHs(molecule)
    if rdDistGeom.EmbedMolecule(molecule, randomSeed=SEED) < 0:
        raise ValueError("no 3-D conformer could be made")
    rdForceFieldHelpers.UFFOptimizeMolecule(molecule)
    return molecule


def pdbqt(payload: dict[str, Any]) -> str:
    """Return a ligand as PDBQT: `pdbqt` in its payload, else made of `smiles` by meeko."""
    if "pdbqt" in payload:
        return str(payload["pdbqt"])
    from meeko import MoleculePreparation, PDBQTWriterLegacy  # noqa: PLC0415

    (setup,) = MoleculePreparation().prepare(conformer(payload["smiles"]))
    text, complete, problem = PDBQTWriterLegacy.write_string(setup)
    if not complete or not text:
        raise ValueError(problem.strip() or "it cannot be written as PDBQT")
    return str(text)


def take_vina_pose(batch: Batch, number: int, file: Path) -> bool:
    """Say the best score in a complete file of Vina or Uni-Dock; return whether it has one."""
    with suppress(OSError):
        text = file.read_text(encoding="utf-8")
        found = _VINA_SCORE.search(text)
        if found is not None and text.rstrip().endswith("ENDMDL"):
            best = text.partition("ENDMDL\n")[0] + "ENDMDL\n"
            batch.docked(number, best, "pose.pdbqt", score=float(found[1]))
            return True
    return False


def run(argv: Sequence[str], look: Look) -> int:
    """Run a program to its end; return its exit code. look: called again and again meanwhile.

    End as the program does if a signal kills it.
    """
    printed: list[str] = []
    program = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )

    def pass_on() -> None:
        for line in program.stdout or ():
            sys.stdout.write(line)
            printed.append(line)
        sys.stdout.flush()

    reader = threading.Thread(target=pass_on, daemon=True)
    reader.start()
    seen, no_gpu, code = 0, False, None
    while code is None:
        time.sleep(LOOK_S)
        code = program.poll()
        if code is not None:
            reader.join(LAST_WORDS_S)  # not for ever: children of its may hold the pipe
        lines = printed[seen:]
        seen += len(lines)
        no_gpu = no_gpu or any(map(_NO_GPU.search, lines))
        look(lines)
    if code and no_gpu:
        unusable("the program finds no GPU that it can use")
    if code < 0:
        end_by(-code)
    return code


def end_by(number: int) -> None:
    """End by a signal, as the program has: so taskq names it as the class of the failure."""
    sys.stdout.flush()
    with suppress(OSError):  # SIGKILL
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(_SIGNAL + number)


def end(code: int) -> None:
    """End with the exit code of the program, unless that means something else to taskq."""
    sys.exit(1 if code in (os.EX_TEMPFAIL, os.EX_UNAVAILABLE) else code)
