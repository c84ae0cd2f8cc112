"""Conversion of PDBQT to mol blocks, in a separate process that is replaced when it fails."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from taskq.model.errors import ExtraMissing
from taskq.results.sdf import MOST_BYTES, NoMolecule

#: Seconds for a pose, and for the start of the process.
CONVERT_S: Final = 20.0
START_S: Final = 120.0
#: -I: the environment, the folder and the user add nothing.
_PROGRAM: Final = (sys.executable, "-I", str(Path(__file__).with_name("pdbqt_process.py")))
_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"}


class Converter:
    """Converts poses, one at a time. Not thread-safe; `close` it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def mol_block(self, pdbqt: str) -> str:
        """Return the first model as a mol block.

        Raise `NoMolecule` if the model is invalid, or takes too long or too much memory,
        `UsageError` if Meeko and RDKit are not installed.
        """
        if not all(map(importlib.util.find_spec, ("meeko", "rdkit"))):
            raise ExtraMissing(
                "poses in PDBQT need Meeko and RDKit", "poses", "have the tasks leave SDF"
            )
        model, ended, _ = pdbqt.partition("\nENDMDL")
        if len(model) > MOST_BYTES:
            raise NoMolecule(f"it is longer than {MOST_BYTES:,} bytes")
        try:
            if self._process is None:
                self._process = subprocess.Popen(
                    _PROGRAM,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    env=_ENVIRONMENT,  # no address of a database
                )
                self._answer(self._process, "", START_S)
            question = json.dumps(model + ended)
            found, *wrong = self._answer(self._process, f"{question}\n", CONVERT_S)
        except (OSError, ValueError) as error:
            self.close()
            raise NoMolecule("its conversion took too long, or failed") from error
        except BaseException:  # the answer may still come, and would be taken for the next one
            self.close()
            raise
        if found is None:
            raise NoMolecule(f"its conversion failed: {''.join(map(str, wrong))}")
        return str(found)

    @staticmethod
    def _answer(process: subprocess.Popen[str], question: str, most_s: float) -> list[Any]:
        """Return the next line of the process; ValueError if it has ended, or writes no JSON."""
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018  # pipes
        timer = threading.Timer(most_s, process.kill)
        timer.start()
        try:
            process.stdin.write(question)
            process.stdin.flush()
            return list(json.loads(process.stdout.readline(2 * MOST_BYTES)))
        finally:
            timer.cancel()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):  # text not yet written cannot be
                    if stream is not None:
                        stream.close()
            process.wait()
