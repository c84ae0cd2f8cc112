"""Any bytes in any format: only valid tasks and bad lines, and no error but the documented."""

from __future__ import annotations

import gzip
import io

from hypothesis import given
from hypothesis import strategies as st

from taskq.ingest.sources import FORMATS, Record, SourceOptions
from taskq.ingest.sources.lines import LineReader
from taskq.ingest.sources.records import EXCERPT_CHARS
from taskq.model.errors import UsageError
from taskq.model.seed import Seed

# Pieces that each format takes for structure, so that more than noise is tried.
PIECES = [
    b"\n", b"\r\n", b"\r", b"\t", b",", b" ", b";", b'"', b"#", b"\\u0000", b"\\", b"\0", b"\xff",
    b"\xef\xbb\xbf", b"$$$$\n", b"M  END\n", b"> <id>\n", b"a\n\n\nM  END\n", b"id", b"smiles",
    b"CCO", b"{", b"}", b"[", b'{"id": "a"}\n', b'{"id":', b"id,b\n", b"id\tb\n", b"1e999", b"7",
    b"x" * 300, b'"' * 30_000, b"\x01" * 12_000, "é€😀".encode(), b'"\\ud800"',
]  # fmt: skip

DATA = st.one_of(
    st.binary(max_size=200), st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
)


def read_to_the_end(name: str, data: bytes, options: SourceOptions) -> tuple[list[Record], str]:
    """Return the records and the text of the error that ended them, if one did."""
    records: list[Record] = []
    try:
        records.extend(FORMATS[name].read(LineReader(io.BytesIO(data), "file"), options))
    except UsageError as error:
        return records, str(error)
    return records, ""


@given(DATA, st.sampled_from(sorted(FORMATS)), st.booleans(), st.booleans(), st.booleans())
def test_arbitrary_bytes_never_give_an_invalid_task(
    data: bytes, name: str, compressed: bool, keyed: bool, as_text: bool
) -> None:
    """Each record is a seed that `encoded` takes, or a bad line with number and reason."""
    known = FORMATS[name].options
    options = SourceOptions(
        key="id" if keyed and "key" in known else None,
        types="text" if as_text and "types" in known else "guess",
    )
    records, error = read_to_the_end(name, gzip.compress(data) if compressed else data, options)
    assert not error or error.startswith("file")
    for record in records:
        if isinstance(record, Seed):
            record.encoded()
        else:
            assert 1 <= record.number <= data.count(b"\n") + 1
            assert record.reason
            assert len(record.text) <= EXCERPT_CHARS
            assert record.text.isprintable()


@given(DATA, st.sampled_from(sorted(FORMATS)))
def test_reading_twice_gives_the_same(data: bytes, name: str) -> None:
    """Seeding a file again adds nothing, so its tasks and keys depend on its bytes alone."""
    first, again = (read_to_the_end(name, data, SourceOptions()) for _ in range(2))
    assert first == again
