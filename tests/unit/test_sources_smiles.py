"""SMILES files as tasks."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.ingest.sources.lines import LineReader
from taskq.ingest.sources.records import BadLine, Record, SourceOptions
from taskq.ingest.sources.smiles import read as read_smiles
from taskq.model.seed import Seed, derived_key

SOUND = [
    *("c1ccccc1", "[Na+].[Cl-]", "C%10CCCC%10", "C%(123)CC%(123)", "F/C=C/F", "C[N+](C)(C)C"),
    *("[2H]C", "N->[Pt]<-N", "CC>>CO", "C1CC12CC2", "*C", "C[C@@H](N)C(=O)O", "C~C", "[nH]1cccc1"),
]
SMILES = st.recursive(
    st.sampled_from(["C", "Cl", "Br", "n", "[13CH4]", "[Na+]", "*"]),
    lambda part: st.one_of(
        st.builds("{}{}{}".format, part, st.sampled_from(["", "=", "#", ".", "/", "->"]), part),
        st.builds("{}({})".format, part, part),
        st.builds("C1{}C1".format, part),
        st.builds("C%12{}C%12".format, part),
    ),
)
ENCODING = "name the encoding of the file, such as `--encoding cp1252` or `latin-1`"
WORDS = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=1).filter(
    lambda word: word[0] != "|"  # that begins an extension
)


def read(data: bytes, **options: Any) -> list[Record]:
    return list(read_smiles(LineReader(io.BytesIO(data), "file"), SourceOptions(**options)))


@pytest.mark.parametrize(
    ("line", "smiles", "name"),
    [
        ("CCO ethanol", "CCO", "ethanol"),
        ("CCO\tethanol", "CCO", "ethanol"),
        ("CCO   ethyl alcohol  ", "CCO", "ethyl alcohol"),
        ("CCO\tethyl alcohol\t46.07", "CCO", "ethyl alcohol"),
        ("  CCO ethanol", "CCO", "ethanol"),
        ("F/C=C\\F \u03b2-trans", "F/C=C\\F", "\u03b2-trans"),
    ],
)
def test_name_follows_white_space(line: str, smiles: str, name: str) -> None:
    """Without a delimiter the name goes from the first white space to a tab or the end."""
    assert read(line.encode()) == [Seed({"smiles": smiles, "name": name}, name)]


@pytest.mark.parametrize("delimiter", ["comma", ","])
def test_delimiter_is_an_option(delimiter: str) -> None:
    """With a delimiter the name is the second field, whatever else is in the line."""
    records = read(b"CCO,ethyl alcohol,46.07\nCCN,\n", delimiter=delimiter)
    assert records == [
        Seed({"smiles": "CCO", "name": "ethyl alcohol"}, "ethyl alcohol"),
        Seed({"smiles": "CCN"}, "CCN"),
    ]


def test_molecule_without_name_is_keyed_by_its_smiles() -> None:
    """The SMILES identifies it, as far as a key can hold it; then a digest does."""
    for length, keyed in ((255, True), (256, False)):
        smiles = "C" * length
        payload = {"smiles": smiles}
        assert read(smiles.encode()) == [Seed(payload, smiles if keyed else derived_key(payload))]


def test_name_too_long_for_a_key_gives_a_digest() -> None:
    """A comment of any length after the SMILES is no reason to refuse the molecule."""
    payload = {"smiles": "CCO", "name": "x" * 256}
    assert read(b"CCO " + b"x" * 256) == [Seed(payload, derived_key(payload))]


def test_comments_and_empty_lines_are_skipped() -> None:
    """They count as lines all the same."""
    records = read(b"# library\n\nCCO one\n   \n#CCN two\n\xff\n")
    assert records == [
        Seed({"smiles": "CCO", "name": "one"}, "one"),
        BadLine(6, f"byte 1 (0xff) is not UTF-8: {ENCODING}", r"\xff"),
    ]


@pytest.mark.parametrize("title", ["smiles name", "SMILES\tID", "canonical_smiles zinc_id"])
def test_line_of_titles_is_recognised(title: str) -> None:
    """No molecule contains "smiles", so a first line that does is a header."""
    assert [r.key for r in read(f"{title}\nCCO one\n".encode()) if isinstance(r, Seed)] == ["one"]


def test_header_is_an_option() -> None:
    """A header with other words can be announced, and its recognition can be forbidden."""
    data = b"structure id\nCCO one\n"
    assert len(read(data)) == 2
    assert [r.key for r in read(data, header=True) if isinstance(r, Seed)] == ["one"]
    assert len(read(b"smiles id\nCCO one\n", header=False)) == 2


def test_bad_lines_say_why() -> None:
    """An empty first field and old Macintosh line ends are named."""
    no_smiles, old_mac = read(b"\tname\nCCO one\rCCN two\n", delimiter="tab")
    assert isinstance(no_smiles, BadLine)
    assert "no SMILES" in no_smiles.reason
    assert isinstance(old_mac, BadLine)
    assert (old_mac.number, "carriage return" in old_mac.reason) == (2, True)


@pytest.mark.parametrize("smiles", SOUND)
def test_molecules_are_tasks(smiles: str) -> None:
    """Whatever the notation allows: charges, isotopes, stereochemistry, reactions, long rings."""
    (record,) = read(smiles.encode(), header=False)
    assert isinstance(record, Seed), record


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("aspirin", "'aspirin' at character 1 is not an atom or bond"),
        ("ZINC000001", "'ZINC000001' at character 1"),
        ("Fe", "'e' at character 2"),
        ("CC(C", "parentheses"),
        ("CC)", "parentheses"),
        ("C1CC", "ring closure 1 has no partner"),
        ("C[N+CC", "'[N+CC' at character 2"),
    ],
)
def test_line_without_a_molecule_is_bad(text: str, reason: str) -> None:
    """A name in the wrong column is noticed before it is docked a million times."""
    (record,) = read(f"{text} name\n".encode(), header=False)
    assert isinstance(record, BadLine)
    assert reason in record.reason


@pytest.mark.parametrize("name", ["a\x07b", "a\x1b[31mb", "a\x7fb", "a\x85b", "a\u2028b"])
def test_control_character_in_a_key_is_a_bad_line(name: str) -> None:
    """A terminal would obey it, and a list of keys would break."""
    (record,) = read(f"CCO\t{name}\n".encode(), delimiter="tab")
    assert isinstance(record, BadLine)
    assert "control character" in record.reason


def test_payload_beyond_the_limit_is_a_bad_line() -> None:
    """What a task cannot hold is refused here, where its line is known."""
    (bad,) = read(b"C" * 70_000)
    assert isinstance(bad, BadLine)
    assert "payload of" in bad.reason


@given(st.lists(st.tuples(SMILES, st.one_of(st.just(""), WORDS)), max_size=20))
def test_round_trip(molecules: list[tuple[str, str]]) -> None:
    """What is written as lines of SMILES and name comes back in order."""
    data = "".join(f"{smiles}\t{name}\n" for smiles, name in molecules)
    records = read(data.encode(), header=False)
    found = [
        (r.payload["smiles"], r.payload.get("name", "")) for r in records if isinstance(r, Seed)
    ]
    assert found == molecules


def test_byte_order_mark_in_mid_file_is_no_part_of_a_molecule() -> None:
    """Files with marks that were joined are reported, with a line end between them or without."""
    first, alone, glued = read("\ufeffC a\n\ufeffN b\nO c\ufeffC d\n".encode())
    assert first == Seed({"smiles": "C", "name": "a"}, "a")
    for bad, number in ((alone, 2), (glued, 3)):
        assert isinstance(bad, BadLine)
        assert bad.number == number
        assert "a byte order mark, left where files were joined" in bad.reason
