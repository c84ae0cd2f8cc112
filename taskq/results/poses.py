"""Poses: the molecule of each result, from an output file or a field.

A pose in PDBQT is converted in a separate process, which is replaced when it fails.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from taskq.db.access import Queue
from taskq.files.archives import Outputs
from taskq.files.blob_store import BlobStore
from taskq.model.errors import ExtraMissing, NotFound, ResultLost
from taskq.results.ranking import dotted
from taskq.results.sdf import MOST_BYTES, Molecule, NoMolecule, checked
from taskq.results.tabular import Columns

#: Suffixes of files to take if there is no pattern; PDBQT only if no other file fits.
_SUFFIXES: Final = ((".sdf", ".mol"), (".pdbqt",))
#: Possible beginnings of the lines of a PDBQT file up to the first atom.
_PDBQT: Final = ("MODEL", "REMARK", "ROOT", "ATOM", "HETATM", "USER", "TORSDOF")
#: Seconds for a pose, and for the start of the process.
CONVERT_S: Final = 20.0
START_S: Final = 120.0
#: -I: the environment, the folder and the user add nothing.
_PROGRAM: Final = (sys.executable, "-I", str(Path(__file__).with_name("pdbqt_process.py")))
_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"}


class Poses:
    """The molecules of results, for `records.write(..., "sdf")`.

    pattern: the output file with the pose, such as `best/*.sdf`; by default the only one that ends
    in `.sdf` or `.mol`, or else in `.pdbqt`. field: a dotted name, such as `result.molblock`,
    instead of a file. Either holds a mol block, SDF or PDBQT; its first molecule counts.
    fail: raise `NotFound` for a result without a molecule, rather than leave it out.

    left_out: number of results left out; `first`: the error of the first one.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        pattern: str | None = None,
        field: str | None = None,
        blobs: BlobStore | None = None,
        fail: bool = False,
    ) -> None:
        self.left_out = 0
        self.first = ""
        self._pattern = pattern
        self._field = field
        self._fail = fail
        self._outputs = Outputs(queue.queries, blobs)
        self._campaign_id = cache(lambda path: queue.campaign(path).campaign_id)

    def of(
        self, records: Iterable[Mapping[str, Any]], columns: Columns | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield a record for each result: `molblock` and its data fields.

        The fields are the columns; by default campaign, key, and those of the result.
        """
        with closing(Converter()) as converter:
            for record in records:
                try:
                    found = self._molecule(record, converter)
                except (NoMolecule, ResultLost) as error:
                    text = f"task {record['key']!r:.100}: {error}"
                    if self._fail:
                        raise NotFound(text) from error
                    self.left_out += 1
                    self.first = self.first or text
                    continue
                fields = _fields(record) if columns is None else next(columns.of([record]))
                yield {**fields, "molblock": found.titled(record["key"])}

    def _molecule(self, record: Mapping[str, Any], converter: Converter) -> Molecule:
        if self._field is not None:
            value = dotted(record, self._field)
            text = value if isinstance(value, str) else ""
            where = self._field
        else:
            files = self._outputs.files(self._campaign_id(record["campaign"]), record["task_id"])
            where = self._chosen(sorted(files))
            text = files[where].decode(errors="replace")
        if not text:
            raise NoMolecule(f"{where} is empty or missing")
        try:
            return checked(converter.mol_block(text) if _is_pdbqt(text) else text)
        except NoMolecule as error:
            raise NoMolecule(f"{where}: {error}") from None

    def _chosen(self, names: list[str]) -> str:
        """Return the name of the file with the pose."""
        if self._pattern is not None:
            ways = [[name for name in names if fnmatchcase(name, self._pattern)]]
        else:
            ways = [[name for name in names if name.lower().endswith(ends)] for ends in _SUFFIXES]
        found = next(filter(None, ways), [])
        if not found:
            raise NoMolecule(f"it has left no pose, only: {', '.join(names[:5]) or 'nothing'}")
        if len(found) > 1:
            raise NoMolecule(f"several of its files could be the pose: {', '.join(found[:5])}")
        return found[0]


def _is_pdbqt(text: str) -> bool:
    """Return whether a text is PDBQT; the title of a mol block may begin in the same way."""
    *_, fourth = text[:10_000].split("\n")[:4]
    return text.startswith(_PDBQT) and not fourth.rstrip().endswith(("V2000", "V3000"))


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    result = record["result"]
    own = {"campaign": record["campaign"], "key": record["key"]}
    if record["recipe"] != 1:  # files of campaigns that never changed stay as they were
        own["recipe"] = "unknown" if record["recipe"] is None else record["recipe"]
    return {**own, **(result if isinstance(result, Mapping) else {"result": result}), **own}


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
