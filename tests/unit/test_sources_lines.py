"""Bytes of unknown origin as lines."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.ingest.sources.lines import MAX_LINE_BYTES, LineReader
from taskq.ingest.sources.records import BadLine
from taskq.model.errors import Unavailable, UsageError


def lines_of(data: bytes) -> list[str | BadLine]:
    return list(LineReader(io.BytesIO(data), "file"))


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0\ufeff"))


@given(st.lists(TEXTS, min_size=1), TEXTS, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_lines_come_back_as_they_were_written(
    texts: list[str], last: str, end: str, mark: bool
) -> None:
    """Line ends of either kind, a byte order mark and a missing last line end do not matter."""
    data = "".join(text + end for text in texts) + last
    expected = [*texts, last] if last else texts
    assert lines_of(data.encode("utf-8-sig" if mark else "utf-8")) == expected


@given(st.binary(max_size=300))
def test_arbitrary_bytes_give_lines_that_the_database_can_hold(data: bytes) -> None:
    """Whatever the bytes are, each line is valid text without NUL, or bad with its number."""
    try:
        lines = lines_of(data)
    except UsageError:
        assert data.startswith((b"\xff\xfe", b"\xfe\xff", b"BZh", b"\xfd7zX", b"\x28\xb5", b"PK"))
        return
    for number, line in enumerate(lines, start=1):
        if isinstance(line, BadLine):
            assert line.number == number
        else:
            assert not set(line) & {"\0", "\n"}
            line.encode()


def test_invalid_utf8_names_line_and_byte() -> None:
    """A line in Latin-1 is bad at its number, with the byte; its neighbours are read."""
    good, bad, after = lines_of(b"CCO\n1,2-\xe5\nCCN\n")
    assert (good, after) == ("CCO", "CCN")
    assert bad == BadLine(2, "byte 5 (0xe5) is not UTF-8", r"1,2-\xe5")


def test_nul_is_a_bad_line() -> None:
    """PostgreSQL's text cannot hold NUL, so neither can a line."""
    (bad,) = lines_of(b"CC\0O\n")
    assert bad == BadLine(1, "character 3 is NUL, which a task cannot contain", r"CC\x00O")


def test_longest_line_is_read_and_a_longer_one_is_bad() -> None:
    """The limit is exact, and reading goes on after the line that broke it."""
    longest = b"C" * MAX_LINE_BYTES
    good, bad, after, cut = lines_of(longest + b"\n" + longest + b"C\nN\n" + longest * 3)
    assert good == longest.decode()
    assert isinstance(bad, BadLine)
    assert (bad.number, bad.reason) == (2, f"the line is longer than {MAX_LINE_BYTES} bytes")
    assert after == "N"
    assert isinstance(cut, BadLine)
    assert cut.number == 4


@pytest.mark.thorough
def test_over_long_line_is_not_held_in_memory() -> None:
    """A line of 2 GiB passes without being gathered."""

    class Endless(io.BytesIO):
        left = 2**31
        largest = 0

        def read1(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            self.largest = max(self.largest, size)
            size = min(size, self.left)
            self.left -= size
            return b"C" * size

    stream = Endless()
    (bad,) = LineReader(stream, "file")
    assert isinstance(bad, BadLine)
    assert stream.left == 0
    assert stream.largest <= MAX_LINE_BYTES


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_named(encoding: str) -> None:
    """A table saved by a spreadsheet as "Unicode text" is one clear error, not many bad lines."""
    with pytest.raises(UsageError, match="file is UTF-16"):
        lines_of("\ufeffsmiles\tname\n".encode(encoding))


def test_end_without_line_end_is_known() -> None:
    """A reader can tell that a file may have been cut within its last line."""
    for data, ended in ((b"a\nb", False), (b"a\nb\n", True), (b"", True)):
        lines = LineReader(io.BytesIO(data), "file")
        list(lines)
        assert lines.ended is ended


def test_failing_disk_is_unavailable_and_names_the_line() -> None:
    """An input error in the middle says how far reading came; it may be tried again."""

    class Failing(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            data = super().read1(size)
            if not data:
                raise OSError(5, "Input/output error")
            return data

    lines = LineReader(Failing(b"CCO\nCCN\n"), "disk.smi")
    with pytest.raises(Unavailable, match=r"disk\.smi: reading failed after line 2: .*Input"):
        list(lines)
