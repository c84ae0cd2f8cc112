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
        assert data.startswith((b"PK", b"7z", b"\x1f\x9d"))
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
    option = "name the encoding of the file, such as `--encoding cp1252` or `latin-1`"
    assert bad == BadLine(2, f"byte 5 (0xe5) is not UTF-8: {option}", r"1,2-\xe5")


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


@given(st.lists(TEXTS, min_size=1), st.sampled_from(["utf-16-le", "utf-16-be"]), st.booleans())
def test_utf16_is_read_by_its_mark_or_by_its_name(
    texts: list[str], encoding: str, mark: bool
) -> None:
    """A table saved by a spreadsheet as "Unicode text" has the mark; others have an option."""
    data = ("\ufeff" * mark + "".join(f"{text}\r\n" for text in texts)).encode(encoding)
    lines = LineReader(io.BytesIO(data), "file", None if mark else encoding)
    assert list(lines) == texts


@pytest.mark.parametrize("data", ["C\ud800 a\nN b\n".encode("utf-16", "surrogatepass")])
def test_half_a_character_of_utf16_is_a_bad_line(data: bytes) -> None:
    """Nothing is put in its place, and the lines around it are read."""
    bad, good = lines_of(data)
    assert isinstance(bad, BadLine)
    assert good == "N b"
    *_, last = lines_of(data[:-1])
    assert isinstance(last, BadLine)


@given(st.binary(max_size=60), st.sampled_from(["utf-16", "utf-16-be", "cp932", "iso2022_jp"]))
def test_any_bytes_in_any_encoding_are_lines_bad_lines_or_refused(
    data: bytes, encoding: str
) -> None:
    """Never a decoder's own words."""
    try:
        lines = list(LineReader(io.BytesIO(data), "file", encoding))
    except UsageError as error:
        assert str(error).startswith("file ")  # noqa: PT017  # it may as well be right
        return
    assert all(isinstance(line, BadLine) or "\0" not in line for line in lines)


@pytest.mark.parametrize("encoding", ["cp1252", "mac-roman", "gb18030", "shift_jis", "koi8-r"])
def test_encoding_is_an_option(encoding: str) -> None:
    """Of any that has ASCII within; a byte that it does not have is a bad line."""
    letters = {"cp1252": "é", "mac-roman": "é", "koi8-r": "ж"}.get(encoding, "茶")
    lines = LineReader(io.BytesIO(f"CCO {letters}\n".encode(encoding)), "file", encoding)
    assert list(lines) == [f"CCO {letters}"]


@given(st.lists(TEXTS, min_size=2), st.booleans(), st.integers(1, 50))
def test_lines_that_end_with_cr_are_lines(texts: list[str], crlf: bool, piece: int) -> None:
    """Those of old Macs, in whatever pieces they come, and with a last CRLF."""

    class Pieces(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read1(min(size or piece, piece))

    data = ("\r".join(texts) + "\r" + "\n" * crlf).encode()
    lines = [line for line in LineReader(Pieces(data), "file") if line]
    assert lines == [text for text in texts if text]


def test_carriage_return_within_a_line_that_ends_with_lf_stays() -> None:
    """Only a file without LF has CR as its line ends."""
    assert lines_of(b"a\rb\nc\n") == ["a\rb", "c"]


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
