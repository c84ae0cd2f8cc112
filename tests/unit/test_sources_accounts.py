"""Records and bad lines account for all that is in a file: nothing is lost, merged or altered."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskq.ingest.sources import BadLine, Record, SourceOptions, open_source
from taskq.ingest.sources.lines import LineReader
from taskq.ingest.sources.sdf import read as read_sdf
from taskq.ingest.sources.smiles import read as read_smiles
from taskq.ingest.sources.table import read_csv
from taskq.model.seed import Seed

PIECES = [
    *("CCO", "C[C@H](O)F", "|&1:1,r|", "|", "name", "33", "0", "lig 1", "\t", " ", ",", '"', ";"),
    *("#", "smiles", "\u00a0", "\x85", ">>", "a|b|c"),
]
LINES = st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), max_size=8)
OPTIONS = st.builds(
    SourceOptions,
    delimiter=st.sampled_from([None, "tab", "comma", "space"]),
    smiles_field=st.sampled_from([None, 1, 2, 3]),
    header=st.just(False),
)


@given(LINES, OPTIONS)
def test_each_line_of_a_smiles_file_is_a_task_or_bad(
    lines: list[str], options: SourceOptions
) -> None:
    """But empty ones and comments; and a task has the text of its line alone."""
    data = "".join(f"{line}\n" for line in lines).encode()
    records = list(read_smiles(LineReader(io.BytesIO(data), "file"), options))
    asked = [
        (number, line) for number, line in enumerate(lines, 1) if line.strip() and line[0] != "#"
    ]
    assert len(records) == len(asked)
    for record, (number, line) in zip(records, asked, strict=True):
        if isinstance(record, BadLine):
            assert record.number == number
        else:
            for text in record.payload.values():
                assert "".join(text.split()) in "".join(line.split())
            assert re.search("[A-Za-z*]", record.payload["smiles"])


CELLS = st.one_of(
    st.sampled_from(
        ["", "1", "1.0", "1.10", "1.1", " 1", "1 ", "01", "+1", "1e5", "100000.0", "1e-05", "-0"]
    ),
    st.sampled_from(["-0.0", "NaN", "inf", "1_000", "1" * 20, "1" * 15, "1,5", "a", "٣", ".5"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers().map(str),
)


def written(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["a", "b", "c"], *rows])
    return text.getvalue().encode()


def from_file(data: bytes) -> list[Record]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        path.write_bytes(data)
        with open_source(path) as source:
            assert source.notes is not None
            source.notes.tell = lambda *_: None
            return list(source)


def from_pipe(data: bytes) -> list[Record]:
    lines = LineReader(io.BytesIO(data), "pipe")
    lines.notes.tell = lambda *_: None
    return list(read_csv(lines, SourceOptions()))


@pytest.mark.thorough
@pytest.mark.parametrize("read", [from_file, from_pipe])
@settings(max_examples=200)
@given(st.lists(st.lists(CELLS, min_size=3, max_size=3).filter(any), max_size=6))
def test_numbers_of_a_column_keep_their_text(read: Any, rows: list[list[str]]) -> None:
    """Apart from white space around them, if the whole column has it: no two values merge."""
    payloads = [record.payload for record in read(written(rows)) if isinstance(record, Seed)]
    kept = [row for row in rows if any(map(str.strip, row))]
    assert [[str(value).strip() for value in payload.values()] for payload in payloads] == [
        [cell.strip() for cell in row] for row in kept
    ]
    distinct = {tuple(row) for row in kept}
    assert len({repr(payload) for payload in payloads}) == len(distinct)


@settings(max_examples=200)
@given(st.lists(st.lists(CELLS, min_size=3, max_size=3).filter(any), max_size=6))
def test_column_of_a_file_is_of_numbers_or_of_text(rows: list[list[str]]) -> None:
    """Its empty values apart, so that a program and a filter find one type."""
    payloads = [line.payload for line in from_file(written(rows)) if isinstance(line, Seed)]
    for name in "abc":
        types = {isinstance(payload[name], str) for payload in payloads if payload[name] != ""}
        assert len(types) <= 1


def test_rows_that_only_a_bad_one_shows_are_typed_too(tmp_path: Path) -> None:
    """Lines of a bad row are read again as rows, which nobody saw when looking for numbers."""
    path = tmp_path / "table.csv"
    path.write_text('id,n,note\n,1,"x\nA,1.10,y\nB,z,y\nC"\nD,2,w\n')
    with open_source(path, options=SourceOptions(key="id")) as source:
        found = {line.key: line.payload["n"] for line in source if isinstance(line, Seed)}
    assert found == {"A": "1.10", "B": "z", "D": 2}


def test_table_that_grows_while_it_is_read_alters_nothing(tmp_path: Path) -> None:
    """What came after the look for numbers is text where it is no number."""
    path = tmp_path / "table.csv"
    path.write_text("id,n\n" + "".join(f"{i},{i}\n" for i in range(100_000)))
    with open_source(path) as source, path.open("a") as more:
        first = next(iter(source))
        more.write("last,x\n")
        more.flush()
        *_, last = source
    assert (first, last) == (Seed({"id": 0, "n": 0}), Seed({"id": "last", "n": "x"}))


BLOCK = "{name}\n  editor\n\n  1  0  0  0  0  0            999 V2000\n    0.0 C   0\nM  END\n"
PARTS = st.lists(
    st.sampled_from(
        [
            *("<block>", "<block>", "$$$$\n", "$$$$\n", "$$$$ cheap\n", "$$$$", "> <id>\n", "A\n"),
            *("\n", " \n", "> <a>b>\n", "> DT12\n", "> <>\n", "stray\n", "M  END\n", "> 5 uM\n"),
        ]
    ),
    max_size=14,
)


@given(PARTS)
def test_each_line_of_an_sdf_file_is_in_a_task_or_in_a_bad_molecule(parts: list[str]) -> None:
    """What is between two lines of $$$$ alone is one molecule with all its lines, or named."""
    text = "".join(
        BLOCK.format(name=f"m{place}") if part == "<block>" else part
        for place, part in enumerate(parts)
    )
    reader = LineReader(io.BytesIO(text.encode()), "file")
    reader.notes.tell = lambda *_: None
    records = list(read_sdf(reader, SourceOptions()))
    seeds = [record.payload for record in records if isinstance(record, Seed)]
    bad = {record.number for record in records if isinstance(record, BadLine)}
    number = 1
    for chunk in re.split(r"^\$\$\$\$ *(?:\n|\Z)", text, flags=re.MULTILINE):
        lines = chunk.split("\n")
        last = number + len(lines)
        if chunk.strip() and not bad & set(range(number, last)):
            seed = next(seed for seed in seeds if seed["molblock"].startswith(f"{lines[0]}\n"))
            assert lines.count("M  END") == 1
            values = "\n".join(seed["fields"].values()).split("\n")
            for line in chunk[len(seed["molblock"]) :].split("\n"):
                assert not line.strip() or line[0] == ">" or line in values
            seeds.remove(seed)
        number = last
    for seed in seeds:  # before a molecule that follows a $$$$ without a line end
        assert seed["molblock"] in text
        assert bad
