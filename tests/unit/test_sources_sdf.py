"""SDF files as tasks."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.ingest.sources.lines import MAX_LINE_BYTES, LineReader
from taskq.ingest.sources.records import BadLine, Record, SourceOptions
from taskq.ingest.sources.sdf import read as read_sdf
from taskq.model.seed import Seed, derived_key
from tests.helpers.variants import rest_thorough

TABLE = "  editor\n\n  1  0  0  0  0  0            999 V2000\n    0.0 C   0\nM  END\n"


def read(data: str | bytes, **options: Any) -> list[Record]:
    data = data if isinstance(data, bytes) else data.encode()
    return list(read_sdf(LineReader(io.BytesIO(data), "file"), SourceOptions(**options)))


def molecule(name: str, fields: str = "") -> str:
    return f"{name}\n{TABLE}{fields}$$$$\n"


def test_molecule_has_block_name_and_fields() -> None:
    """The molblock is kept as it is, up to M  END; fields are text, over lines where they were."""
    fields = "> <LogP>\n1.5\n\n>  <note> (7)\nline one\nline two\n\n> 25 <empty>\n\n"
    assert read(molecule("aspirin", fields)) == [
        Seed(
            {
                "molblock": f"aspirin\n{TABLE}",
                "name": "aspirin",
                "fields": {"LogP": "1.5", "note": "line one\nline two", "empty": ""},
            },
            "aspirin",
        )
    ]


def test_crlf_and_a_last_delimiter_without_line_end_do_not_matter() -> None:
    """Files from other systems give the same tasks."""
    data = molecule("a", "> <x>\n1\n\n") + molecule("b")
    assert read(data.replace("\n", "\r\n")) == read(data) == read(data.removesuffix("\n"))
    assert len(read(data + "\n \n")) == 2


def test_same_name_in_a_row_gives_different_keys() -> None:
    """Conformers and files of untitled molecules are not taken for one task."""
    records = read(
        molecule("c1", "> <n>\n1\n\n")
        + molecule("c1", "> <n>\n2\n\n")
        + molecule("c2")
        + molecule("", "> <n>\n1\n\n")
        + molecule("", "> <n>\n2\n\n")
        + molecule("x" * 256)
    )
    seeds = [record for record in records if isinstance(record, Seed)]
    assert [seed.key for seed in seeds[::2]] == ["c1", "c2", derived_key(seeds[4].payload)]
    assert [seed.key for seed in seeds] == [
        seed.key if i in {0, 2} else derived_key(seed.payload) for i, seed in enumerate(seeds)
    ]
    assert len({seed.key for seed in seeds}) == 6


def test_key_and_priority_come_from_fields() -> None:
    """A field can be the key; a molecule that lacks it is bad."""
    data = molecule("a", "> <ID>\nZ1\n\n> <rank>\n5\n\n") + molecule("b")
    good, bad = read(data, key="ID", priority="rank")
    assert isinstance(good, Seed)
    assert (good.key, good.priority) == ("Z1", 5)
    assert isinstance(bad, BadLine)
    assert (bad.number, bad.reason) == (14, "there is no field 'ID' to take the key from")


@pytest.mark.parametrize("keep", [1, 3, 5])
def test_file_that_ends_within_a_molecule_is_a_bad_line(keep: int) -> None:
    """Before its M  END the molecule is not taken, and the report says where it starts."""
    whole = molecule("a")
    rest = "".join(molecule("b", "> <x>\n1\n\n").splitlines(keepends=True)[:keep])
    good, cut = read(whole + rest)
    assert isinstance(good, Seed)
    assert isinstance(cut, BadLine)
    assert cut.number == 8
    assert cut.reason == "the file ends within the molecule that starts here: no $$$$"


@pytest.mark.parametrize(
    ("bad", "number", "reason"),
    rest_thorough(
        [
            (b"b\n\n\n$$$$\n", 8, "no 'M  END' line"),
            (b"$$$$\n", 8, "no 'M  END' line"),
            (b"caf\xe9\n" + TABLE.encode() + b"$$$$\n", 8, "molecule from line 8: byte 4 (0xe9)"),
            (
                b"b\n" + TABLE.encode() + b"> <x>\n\0\n\n$$$$\n",
                15,
                "molecule from line 8: character 1 is NUL",
            ),
            (b"b\n" + TABLE.encode() + b"stray\n$$$$\n", 8, "'stray' is neither a field nor $$$$"),
            (b"b\n" + b"x\n" * 40_000 + TABLE.encode() + b"$$$$\n", 8, "payload of"),
            (b"b\n" + b"x\n" * MAX_LINE_BYTES + b"$$$$\n", 8, "molecule is longer than"),
        ],
        5,
    ),
)
def test_bad_molecule_says_why_and_does_not_stop(bad: bytes, number: int, reason: str) -> None:
    """The molecules around a bad one are tasks."""
    records = read(molecule("a").encode() + bad + molecule("c").encode())
    assert [r.key for r in records if isinstance(r, Seed)] == ["a", "c"]
    flaw = records[1]
    assert isinstance(flaw, BadLine)
    assert flaw.number == number
    assert reason in flaw.reason


def test_empty_line_within_a_value_stays_in_it() -> None:
    """Writers that break the rule lose nothing."""
    (seed,) = read(molecule("a", "> <x>\none\n\ntwo\n\n> <y>\n3\n\n"))
    assert isinstance(seed, Seed)
    assert seed.payload["fields"] == {"x": "one\n\ntwo", "y": "3"}


WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)


@given(st.lists(st.tuples(WORDS, st.dictionaries(WORDS, WORDS, max_size=3)), max_size=5))
def test_round_trip(molecules: list[tuple[str, dict[str, str]]]) -> None:
    """What is written as SDF comes back in order."""
    data = "".join(
        molecule(name, "".join(f"> <{key}>\n{value}\n\n" for key, value in fields.items()))
        for name, fields in molecules
    )
    found = [(r.payload["name"], r.payload["fields"]) for r in read(data) if isinstance(r, Seed)]
    assert found == molecules


@given(st.lists(st.tuples(st.sampled_from(["id", "id_2", " "]), WORDS), max_size=8))
def test_every_value_of_a_repeated_field_is_kept(fields: list[tuple[str, str]]) -> None:
    """In its order, under numbered names, with those that are there already left alone."""
    (seed,) = read(molecule("a", "".join(f"> <{name}>\n{value}\n\n" for name, value in fields)))
    assert isinstance(seed, Seed)
    assert [*seed.payload["fields"].values()] == [value for _, value in fields]
    first = dict(reversed(fields))
    assert all(seed.payload["fields"][name] == first[name] for name in first if name.strip())


@pytest.mark.parametrize("glue", ["", "\ufeff"])
def test_files_joined_without_a_line_end_shift_no_molecule(glue: str) -> None:
    """What stands behind $$$$ was the first line of the next molecule: that one is bad."""
    first, bad, last = read(molecule("a").removesuffix("\n") + glue + molecule("b") + molecule("c"))
    assert isinstance(first, Seed)
    assert isinstance(bad, BadLine)
    assert bad.number == molecule("a").count("\n")
    assert "were files joined without a line end?" in bad.reason
    assert isinstance(last, Seed)
    assert last.key == "c"
