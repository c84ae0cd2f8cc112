"""Small files in the shapes that public ones have: read as RDKit and pandas read them, or named.

`tests/corpus/table.toml` says what is right of each. A shape that was met elsewhere and read wrong
is made again there, small, with its row.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
from rdkit import Chem, RDLogger
from rdkit.Chem import rdChemReactions

from taskq.ingest.sources import BadLine, Record, SourceOptions, open_source
from taskq.model.errors import UsageError
from taskq.model.seed import Seed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CORPUS: Final = Path(__file__).parents[1] / "corpus"
TABLE: Final[list[dict[str, Any]]] = tomllib.loads((CORPUS / "table.toml").read_text())["file"]
UNPACK: Final = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}

RDLogger.DisableLog("rdApp.*")


def rows(*suffixes: str, bad: bool = False) -> list[Any]:
    """Return the rows of files that are read, and that others read alike.

    bad: only those with bad lines, and without options.
    """
    return [
        pytest.param(row, id=f"{row['name']}-{place}")
        for place, row in enumerate(TABLE)
        if any(suffix in row["name"] for suffix in suffixes)
        and not {"refused", "differs"} & row.keys()
        and not row["name"].endswith(".zst")
        and (not bad or ("bad" in row and "options" not in row))
    ]


def options_of(row: dict[str, Any]) -> SourceOptions:
    return SourceOptions(**row.get("options", {}))


def read(row: dict[str, Any], options: SourceOptions) -> tuple[list[Record], list[str]]:
    """Return the records of a file, and its notes."""
    notes: list[str] = []
    with open_source(CORPUS / row["name"], options=options) as source:
        assert source.notes is not None
        source.notes.tell = lambda number, text: notes.append(f"{number}: {text}")
        return list(source), notes


def seeds(row: dict[str, Any], options: SourceOptions) -> Iterator[Seed]:
    return (line for line in read(row, options)[0] if isinstance(line, Seed))


def text_of(row: dict[str, Any]) -> str:
    """Return the text of a file, by Python's own means."""
    path = CORPUS / row["name"]
    data = path.read_bytes()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            data = archive.read(archive.namelist()[0])
    data = UNPACK.get(path.suffix, bytes)(data)
    encoding = row.get("options", {}).get("encoding", "utf-8-sig")
    return data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else encoding)


@pytest.mark.parametrize("row", TABLE, ids=[row["name"] for row in TABLE])
def test_every_record_is_a_task_or_is_named(row: dict[str, Any]) -> None:
    """Keys, bad lines and notes are those of the table, and nothing else."""
    if "refused" in row:
        with pytest.raises(UsageError) as refused:
            read(row, options_of(row))
        assert str(refused.value).replace(str(CORPUS / row["name"]), row["name"]) == row["refused"]
        return
    records, notes = read(row, options_of(row))
    assert [record.encoded()[0] for record in records if isinstance(record, Seed)] == row["keys"]
    bad = [f"{record.number}: {record.reason}" for record in records if isinstance(record, BadLine)]
    assert bad == row.get("bad", [])
    assert notes == row.get("notes", [])


def test_each_file_has_its_row() -> None:
    """No file is there that nothing is known of."""
    names = {path.name for path in CORPUS.iterdir()} - {"table.toml"}
    assert names == {row["name"] for row in TABLE}


@pytest.mark.parametrize("row", rows(".csv", ".tsv"))
def test_tables_have_the_values_that_pandas_reads(row: dict[str, Any]) -> None:
    """Every value, text for text. pandas' argument `sep` and others are in the table."""
    options = replace(options_of(row), types="text")
    found = [[*seed.payload.values()] for seed in seeds(row, options)]
    arguments = {"sep": "\t" if ".tsv" in row["name"] else ",", **row.get("pandas", {})}
    if options.header is False:
        arguments["header"] = None
    frame = pd.read_csv(
        io.StringIO(text_of(row), newline=""), dtype=str, keep_default_na=False, **arguments
    )
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    unnamed = [str(name).startswith("Unnamed: ") for name in frame.columns]
    assert found == [
        [value for value, extra in zip(values, unnamed, strict=True) if value or not extra]
        for values in frame.to_numpy().tolist()
    ]


@pytest.mark.parametrize("row", rows(".smi", ".ism", ".cxsmiles"))
def test_smiles_are_those_that_rdkit_reads(row: dict[str, Any]) -> None:
    """Each is a molecule or a reaction for it, with all of its stereo groups, and the same name."""
    for seed in seeds(row, options_of(row)):
        smiles, name = seed.payload["smiles"], seed.payload.get("name", "")
        if ">" in smiles:
            assert rdChemReactions.ReactionFromSmarts(smiles, useSmiles=True) is not None
            continue
        molecule = parsed(f"{smiles} {name}")
        assert molecule is not None, smiles
        assert (molecule.GetProp("_Name") if molecule.HasProp("_Name") else "") == name
        if "@" in smiles:
            assert len(molecule.GetStereoGroups()) == smiles.count("|") // 2


@pytest.mark.parametrize("row", rows(".smi", bad=True))
def test_refused_smiles_are_refused_by_rdkit_too(row: dict[str, Any]) -> None:
    """No line is refused that begins with a molecule."""
    lines = text_of(row).split("\n")
    for bad in read(row, options_of(row))[0]:
        if isinstance(bad, BadLine):
            assert parsed(lines[bad.number - 1]) is None


def parsed(line: str) -> Any:
    parameters = Chem.SmilesParserParams()
    parameters.sanitize = False
    parameters.parseName = True
    parameters.allowCXSMILES = True
    parameters.strictCXSMILES = True
    return Chem.MolFromSmiles(line, parameters)


@pytest.mark.parametrize("row", rows(".sdf"))
def test_molecules_and_fields_are_those_that_rdkit_reads(row: dict[str, Any]) -> None:
    """In its order, with each of its values; of a repeated field it keeps the last alone."""
    supplier = Chem.ForwardSDMolSupplier(io.BytesIO(text_of(row).encode()), sanitize=False)
    theirs = [
        (molecule.GetProp("_Name"), molecule.GetPropsAsDict(autoConvertStrings=False))
        for molecule in supplier
        if molecule is not None
    ]
    ours = [(seed.payload["name"], seed.payload["fields"]) for seed in seeds(row, options_of(row))]
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    for (_, fields), (_, properties) in zip(ours, theirs, strict=True):
        for name, value in properties.items():
            kept = {
                fields[field] for field in fields if field == name or field.startswith(f"{name}_")
            }
            assert value in kept
