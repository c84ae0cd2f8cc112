"""CSV and TSV files as tasks."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.ingest.sources.lines import MAX_LINE_BYTES, LineReader
from taskq.ingest.sources.records import BadLine, Record, SourceOptions, number_or_text
from taskq.ingest.sources.table import read_csv, read_tsv
from taskq.model.errors import UsageError
from taskq.model.seed import Seed
from tests.helpers.variants import rest_thorough

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=8)


def read(data: str | bytes, **options: Any) -> list[Record]:
    data = data if isinstance(data, bytes) else data.encode()
    return list(read_csv(LineReader(io.BytesIO(data), "file.csv"), SourceOptions(**options)))


def payloads(records: list[Record]) -> list[Any]:
    return [record.payload for record in records if isinstance(record, Seed)]


def test_columns_name_the_values() -> None:
    """A row is a payload of the header's names; numbers are numbers."""
    assert read("smiles, exhaustiveness\nCCO,8\n\n,\nCCN,0.5\n") == [
        Seed({"smiles": "CCO", "exhaustiveness": 8}),
        Seed({"smiles": "CCN", "exhaustiveness": 0.5}),
    ]


def test_types_text_leaves_every_value_as_it_is() -> None:
    """No value is interpreted when the user says so."""
    assert payloads(read("a,b\n8, 0.5\n", types="text")) == [{"a": "8", "b": " 0.5"}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("-3", -3),
        ("0", 0),
        (" 8 ", 8),
        ("0.250", 0.25),
        ("-1.5e-3", -0.0015),
        ("1e-4", 0.0001),
        ("999999999999999", 999999999999999),
        ("007", "007"),
        ("1E10", "1E10"),
        ("1234567890123456", "1234567890123456"),
        ("+1", "+1"),
        ("1_000", "1_000"),
        ("٣", "٣"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("", ""),
        (" x ", " x "),
        ("2024-01-01", "2024-01-01"),
    ],
)
def test_only_plain_numbers_become_numbers(text: str, value: object) -> None:
    """Catalogue numbers, PDB codes and dates stay text, character for character."""
    found = number_or_text(text)
    assert (found, type(found)) == (value, type(value))


@given(st.one_of(st.integers(-(10**14), 10**14), st.decimals(-(10**14), 10**14, places=6)))
def test_numbers_survive_their_text(number: int | Decimal) -> None:
    """A number of at most 15 digits before the point comes back exactly."""
    found = number_or_text(f"{number:f}")
    assert found == (number if isinstance(number, int) else float(number))


def test_key_and_priority_come_from_columns() -> None:
    """The key stays text, as written; both stay in the payload."""
    assert read("id,rank,x\n007,3,1\n", key="id", priority="rank") == [
        Seed({"id": "007", "rank": 3, "x": 1}, "007", 3)
    ]
    assert read("id\n42\n", key="id") == [Seed({"id": "42"}, "42")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (",1", "key field 'id' is empty"),
        ("a,high", "must be a whole number, not 'high'"),
        ("a,40000", "priority 40000 is outside"),
        (f"{'k' * 256},1", "key of 256 characters"),
        ("a", "the row has 1 values, the header 2 names"),
        ("a,1,2", "the row has 3 values"),
    ],
)
def test_bad_row_says_why_and_does_not_stop(row: str, reason: str) -> None:
    """A row that cannot be a task is reported with its line; the next one is read."""
    bad, good = read(f"id,rank\n{row}\nb,2\n", key="id", priority="rank")
    assert isinstance(bad, BadLine)
    assert bad.number == 2
    assert reason in bad.reason
    assert good == Seed({"id": "b", "rank": 2}, "b", 2)


@pytest.mark.parametrize(
    ("header", "options", "reason"),
    [
        ("CC(=O)O,a", {}, "'CC(=O)O', which looks like a molecule: `--no-header`"),
        ("a,b", {"key": "id"}, "no column 'id' to take the key from; its columns are: a, b"),
        ("a,b", {"priority": "rank"}, "no column 'rank' to take the priority from"),
        (b"a,\xff", {}, "header in line 1: byte 3"),
        ('a,"b', {}, "header in line 1: the file ends within a quoted value"),
    ],
)
def test_unusable_header_stops_at_once(header: str | bytes, options: Any, reason: str) -> None:
    """Nothing can be read under a bad header, so it is an error and not a bad line."""
    data = header if isinstance(header, bytes) else header.encode()
    with pytest.raises(UsageError, match=r"^file\.csv") as caught:
        read(data + b"\n1,2\n" * (b'"' not in data), **options)
    assert reason in str(caught.value)


def test_delimiter_is_an_option() -> None:
    """Semicolons, as spreadsheets write them in half of Europe."""
    assert payloads(read("smiles;name\nCCO;a,b\n", delimiter="semicolon")) == [
        {"smiles": "CCO", "name": "a,b"}
    ]


def test_quoted_value_may_span_lines() -> None:
    """A row is reported by the line that it starts at."""
    records = read('a,b\n"one\ntwo",2\n"x\ny"\n')
    assert payloads(records) == [{"a": "one\ntwo", "b": 2}]
    assert isinstance(records[1], BadLine)
    assert records[1].number == 4


def test_file_that_ends_within_quotes_is_a_bad_line() -> None:
    """A cut file has another error than one that ends after a row."""
    good, cut = read('a,b\n1,2\n3,"fo')
    assert good == Seed({"a": 1, "b": 2})
    assert cut == BadLine(
        3, "the file ends within a quoted value of the row that starts here", '3,"fo'
    )


@pytest.mark.parametrize("last", rest_thorough(["", '30001,x"', '30001,"x"\n', "30001,x\n\0\n"]))
def test_quote_left_open_costs_its_own_line_only(last: str) -> None:
    """The rows behind it, which it seems to swallow, are read, each bad line of them named."""
    rows = "".join(f"{i},x\n" for i in range(30_000))
    first, *records = read('a,b\n1,"open\n' + rows + last)
    assert isinstance(first, BadLine)
    assert first.number == 2
    assert "a quote is left open" in first.reason
    assert records[:30_000] == [Seed({"a": i, "b": "x"}) for i in range(30_000)]
    assert all(record.number > 30_000 for record in records[30_000:] if isinstance(record, BadLine))
    assert len(records) == 30_000 + last.count("\n") + (last == '30001,x"')


ROWS = ["1,x", '2,"y"', '3,"open', '4,o"pen', "5,\0", '6,"a""b"', '7,"', "8"]


@given(st.lists(st.sampled_from(ROWS)))
def test_every_line_that_is_a_row_by_itself_is_read_behind_any_bad_one(lines: list[str]) -> None:
    """No bad row takes another line with it, except into a value that is whole by RFC 4180."""
    records = read("a,b\n" + "".join(f"{line}\n" for line in lines))
    named = {record.number for record in records if isinstance(record, BadLine)}
    assert len(named) == len(records) - len(payloads(records))
    values = [str(payload["b"]).count("\n") for payload in payloads(records)]
    assert len(records) + sum(values) == len(lines)


def test_row_of_many_quoted_lines_is_bounded() -> None:
    """A row cannot grow without end, even in pieces that are each small."""
    piece = '"' + "x" * 1000 + '\n",'
    (bad,) = read("a\n" + piece * (MAX_LINE_BYTES // 1000))[:1]
    assert isinstance(bad, BadLine)
    assert bad.number == 2
    assert "longer than" in bad.reason


def test_bad_line_within_a_row_spoils_the_row_only() -> None:
    """Invalid UTF-8 in the second line of a row is reported for the row, and by itself."""
    first, second, alone, good = read(b'a,b\n1,"x\n\xff"\n\xfe\n2,y\n')
    assert isinstance(first, BadLine)
    assert first.number == 2
    assert "up to line 3 is wrong: byte 1 (0xff)" in first.reason
    assert isinstance(second, BadLine)
    assert isinstance(alone, BadLine)
    assert (second.number, alone.number) == (3, 4)
    assert good == Seed({"a": 2, "b": "y"})


def test_tsv_takes_quotes_as_they_are() -> None:
    """In TSV a quote is an ordinary character: a name may start with one."""
    lines = LineReader(io.BytesIO(b'smiles\tname\nCCO\t"a" b\nC\t"\n'), "file.tsv")
    assert payloads(list(read_tsv(lines, SourceOptions()))) == [
        {"smiles": "CCO", "name": '"a" b'},
        {"smiles": "C", "name": '"'},
    ]


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(CELLS, min_size=width, max_size=width).filter(
                lambda row: any(map(str.strip, row))
            ),
            max_size=6,
        )
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_round_trip_through_the_csv_module(rows: list[list[str]], end: str) -> None:
    """What Python's csv writes is read back, value for value, in either line end."""
    header = [f"c{i}" for i in range(len(rows[0]) if rows else 1)]
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows([header, *rows])
    assert payloads(read(text.getvalue(), types="text")) == [
        dict(zip(header, row, strict=True)) for row in rows
    ]
