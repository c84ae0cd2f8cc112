"""SDF: whatever a molecule and its fields hold, each record is one, as others read it."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.ingest.sources import FORMATS, SourceOptions
from taskq.ingest.sources.lines import LineReader
from taskq.results.records import write
from taskq.results.sdf import MOST_BYTES, NoMolecule, checked
from tests.helpers.molecules import mol_block, read, titles

ETHANOL = mol_block("CCO")
LINES = ETHANOL.split("\n")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
HOSTILE = st.sampled_from(
    ["$$$$", "a\n$$$$\nb", "a\n\n> <x>\nb", "> <x>", "a>", "<", "", " ", "\n", "\r", "\u2028$$$$"]
)


def exported(*records: dict[str, object]) -> bytes:
    """Return an SDF file."""
    stream = io.BytesIO()
    assert write(records, stream, "sdf") == len(records)
    return stream.getvalue()


@pytest.mark.parametrize("v3000", [False, True])
def test_molecule_and_values_come_back(v3000: bool) -> None:
    """In both versions of the format; what is deeper is JSON, and what is not there is left out."""
    block = mol_block("CC(=O)Nc1ccc(O)cc1", "a drug", v3000=v3000)
    record = {"score": -7.5, "name": "x y", "deep": {"n": [1]}, "none": None, "ok": True}
    sdf = exported({"molblock": block, **record}, {"molblock": ETHANOL})
    assert sdf.decode().startswith(block)
    assert read(sdf) == [
        (
            "CC(=O)Nc1ccc(O)cc1",
            {"score": "-7.5", "name": "x y", "deep": '{"n": [1]}', "ok": "true"},
        ),
        ("CCO", {}),
    ]
    assert titles(sdf) == ["a drug", ""]


@given(st.lists(st.tuples(TEXT | HOSTILE, TEXT | HOSTILE | st.lists(HOSTILE)), max_size=5))
def test_no_field_ends_a_record_or_begins_another(given_fields: list[tuple[str, object]]) -> None:
    """RDKit and our own reader see two molecules, with as many fields as were given."""
    fields = {f"{n}{name}": value for n, (name, value) in enumerate(given_fields)}
    sdf = exported({"molblock": ETHANOL, **fields}, {"molblock": ETHANOL, "last": "1"})
    first, last = read(sdf)
    assert (first[0], last) == ("CCO", ("CCO", {"last": "1"}))
    for text, value in zip(first[1].values(), fields.values(), strict=True):
        if text.rstrip() != str(value).rstrip():
            assert json.loads(text) == value
    own = FORMATS["sdf"].read(LineReader(io.BytesIO(sdf), "file"), SourceOptions())
    assert [line.payload["molblock"] for line in own] == [ETHANOL, ETHANOL]  # type: ignore[union-attr]


def test_fields_of_the_molecule_follow_those_of_the_record() -> None:
    """The record has the first word; values of several lines stay so."""
    text = f"{ETHANOL}> <affinity>\n-3\n\n> <score>\n99\n\n> <lines>\na\nb\n\n$$$$\n{ETHANOL}$$$$\n"
    for given_text in (text, text.replace("\n", "\r\n")):
        sdf = exported({"molblock": given_text, "score": -7})
        assert read(sdf) == [("CCO", {"score": "-7", "affinity": "-3", "lines": "a\nb"})]


def test_names_that_a_file_cannot_keep_apart_are_all_written() -> None:
    """Those of the record come first, also here."""
    text = f"{ETHANOL}> <a_>\n4\n\n$$$$\n"
    sdf = exported({"molblock": text, "a<": 1, "a>": 2, "a\n": 3})
    assert read(sdf) == [("CCO", {"a_": "1", "a__": "2", "a___": "3", "a____": "4"})]


BAD = {
    "empty": "",
    "no end": "\n".join(LINES[:-2]),
    "atoms missing": "\n".join([*LINES[:4], *LINES[5:]]),
    "no such atom": ETHANOL.replace("\n  1  2  1", "\n  1 10  1", 1),
    "more bonds": ETHANOL.replace(LINES[3], LINES[3][:3] + "999" + LINES[3][6:]),
    "no atoms": f"\n\n\n  0  0{LINES[3][6:]}\nM  END\n",
    "no counts": ETHANOL.replace(LINES[3], "  x" + LINES[3][3:]),
    "no version": ETHANOL.replace("V2000", ""),
    "nan": ETHANOL.replace(LINES[4], f"       nan{LINES[4][10:]}"),
    "no element": ETHANOL.replace(" O  ", "    ", 1),
    "end of a record in the name": f"$$$$ {ETHANOL}",
    "field in the comment": f"a\nb\n> <c>\n{ETHANOL.split(chr(10), 3)[3]}",
    "control character": f"\x1b[2J{ETHANOL}",
    "line of Unicode": f"a\u2028$$$$\u2028{ETHANOL}",
    "space of Unicode": f"a\n\u2028\n{ETHANOL.split(chr(10), 2)[2]}",
    "NUL": f"\0{ETHANOL}",
    "no line of V3000": mol_block("CCO", v3000=True).replace("M  V30 END", "M  V3  END", 1),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_malformed_mol_block_is_refused(text: str) -> None:
    """With a reason, and nothing of it is written."""
    stream = io.BytesIO()
    with pytest.raises(NoMolecule) as raised:
        write([{"molblock": text}], stream, "sdf")
    assert str(raised.value).isprintable()
    assert stream.getvalue() == b""


def test_molecule_is_bounded_and_the_first_counts() -> None:
    """However long the file is."""
    many = f"{ETHANOL}$$$$\n" * (2 * MOST_BYTES // len(ETHANOL))
    assert checked(many).block == ETHANOL
    with pytest.raises(NoMolecule, match="longer than"):
        checked(f"{ETHANOL}> <x>\n{'x' * MOST_BYTES}\n\n")
