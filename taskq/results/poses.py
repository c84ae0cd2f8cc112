"""Finding of poses: the molecule of each result, from an output file or a field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from taskq.db.access import Queue
from taskq.files.archives import Outputs
from taskq.files.blob_store import BlobStore
from taskq.model.errors import NotFound, ResultLost
from taskq.results.columns import Columns
from taskq.results.pose_converter import Converter
from taskq.results.ranking import dotted
from taskq.results.sdf import Molecule, NoMolecule, checked

#: Suffixes of files to take if there is no pattern; PDBQT only if no other file fits.
_SUFFIXES: Final = ((".sdf", ".mol"), (".pdbqt",))
#: Possible beginnings of the lines of a PDBQT file up to the first atom.
_PDBQT: Final = ("MODEL", "REMARK", "ROOT", "ATOM", "HETATM", "USER", "TORSDOF")


class Poses:
    """The molecules of results, for `records.write(..., "sdf")`.

    pattern: the output file with the pose, such as `best/*.sdf`; by default the only one that ends
    in `.sdf` or `.mol`, or else in `.pdbqt`. field: a dotted name, such as `result.molblock`,
    instead of a file. Either holds a mol block, SDF or PDBQT, of which the first molecule counts.
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
            raise NoMolecule(f"it has nothing in {where}")
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
            raise NoMolecule(f"it has left no pose, but: {', '.join(names[:5]) or 'nothing'}")
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
    return {**own, **(result if isinstance(result, Mapping) else {"result": result}), **own}
