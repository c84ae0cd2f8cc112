"""The blocks of archives: any program reads ours, and ours refuses all that it did not write."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskq_agent import tar
from taskq_agent.archive import MAX_ENTRIES, OUTPUT, ArchiveRefused, Member, heading, members
from taskq_agent.transport import MAX_BLOB_BYTES

HEAD = heading(OUTPUT, 1, 2)
#: Lines of Python that reading may run for each block, names of 20 parts included.
LINES = 400
LETTERS = st.characters(exclude_characters="/\0", exclude_categories=["Cs"])
NAMES = st.text(LETTERS, min_size=1, max_size=200).filter(lambda name: name not in (".", ".."))


def read(data: bytes) -> list[Member]:
    """Return the members of an archive with these blocks."""
    return list(members(HEAD + data, HEAD, MAX_BLOB_BYTES))


def header(
    name: bytes = b"a",
    kind: bytes = b"0",
    *,
    size: bytes = b"00000000000\0",
    link: bytes = b"",
    form: bytes = b"ustar\x0000",
    prefix: bytes = b"",
) -> bytes:
    """Return a header with a right checksum, whatever its fields hold."""
    block = bytearray(512)
    fields = (
        *((0, name), (100, b"0000700\0"), (124, size), (148, b" " * 8), (156, kind)),
        *((157, link), (257, form), (345, prefix)),
    )
    for place, field in fields:
        block[place : place + len(field)] = field
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def filled(content: bytes) -> bytes:
    """Return content as whole blocks."""
    return content + bytes(-len(content) % 512)


def octal(number: int) -> bytes:
    """Return a size as headers have it."""
    return b"%011o\0" % number


def record(key: bytes, value: bytes) -> bytes:
    """Return a record of a pax header."""
    rest = b" " + key + b"=" + value + b"\n"
    size = len(rest)
    while len(b"%d" % size) + len(rest) != size:
        size = len(b"%d" % size) + len(rest)
    return b"%d" % size + rest


def pax(body: bytes, kind: bytes = b"x") -> bytes:
    """Return a pax header."""
    return header(b"pax", kind, size=octal(len(body))) + filled(body)


PATH = pax(record(b"path", b"a"))
FILE = header(size=octal(1)) + filled(b"x")
LONG = header(b"././@LongLink", b"L", size=octal(2)) + filled(b"b\0")
SPARSE = record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.minor", b"0")
PLANTED = {
    "digits, on and on": pax(b"1" * 400_000),
    "digits, and what comes after them": pax(b"1" * 400_000 + b" path=a\n"),
    "records, on and on": pax(b"".join(record(b"k%d" % n, b"v") for n in range(50_000))) + FILE,
    "a record of no length": pax(b"0 path=a\n") + FILE,
    "a record that is too short": pax(b"5 path=a\n") + FILE,
    "a charset": pax(record(b"hdrcharset", b"9" * 400_000)) + FILE,
    "sparse by pax": pax(record(b"GNU.sparse.map", b"0,1," * 100_000)) + FILE,
    "sparse 1.0": pax(SPARSE) + FILE,
    "a size by pax": pax(record(b"size", b"0")) + FILE,
    "a negative size by pax": pax(record(b"size", b"-1")) + FILE,
    "a link by pax": pax(record(b"linkpath", b"/etc")) + FILE,
    "two pax headers": PATH + PATH + FILE,
    "a pax header for all": pax(record(b"path", b"a"), b"g") + FILE,
    "a pax header and no file": PATH,
    "a pax header, then a long name": pax(record(b"size", b"2048")) + LONG + FILE + FILE,
    "an empty pax name": pax(record(b"path", b"")) + FILE,
    "a NUL in a pax name": pax(record(b"path", b"a\0b")) + FILE,
    "a name that leads out by pax": pax(record(b"path", b"b/../../c")) + FILE,
    "a name that is too long": pax(record(b"path", b"a/" * 5_000 + b"b")) + FILE,
    "a name that is too deep": pax(record(b"path", b"a/" * 20 + b"b")) + FILE,
    "a GNU long name": LONG + FILE,
    "a negative size": header(size=b"\xff" * 12),
    "a size to base 256": header(size=b"\x80" + bytes(10) + b"\x01") + filled(b"x"),
    "a size beyond the file": header(size=octal(8**10)) + filled(b"x"),
    "a size that is no number": header(size=b"0x000000001\0") + filled(b"x"),
    "a size with a sign": header(size=b"-0000000001\0"),
    "a size without digits": header(size=bytes(12)),
    "a link": header(link=b"/etc"),
    "a prefix": header(prefix=b".."),
    "an old kind": header(form=bytes(8)),
    "GNU's form": header(form=b"ustar  \0"),
    "a folder with content": header(kind=b"5", size=octal(1)) + filled(b"x"),
    "no name": header(b""),
    "a NUL in a name": header(b"a\0b"),
    "an absolute name": header(b"/a"),
    "a name without a part": header(b"a//b"),
    "this folder": header(b"."),
    "the folder above": header(b"a/.."),
    "a file with a slash": header(b"a/"),
    "a name twice": FILE + FILE,
    "a file, then a folder": FILE + header(kind=b"5"),
    "a folder, then a file": header(kind=b"5") + FILE,
    "a file, then below it": FILE + header(b"a/b"),
    "below a folder, then a file": header(b"a/b") + FILE,
    "a checksum that is wrong": header()[:150] + b"7" + header()[151:],
    "too many files": b"".join(header(b"%d" % n) for n in range(MAX_ENTRIES + 1)),
    **{
        f"the kind {bytes([kind])!r}": header(kind=bytes([kind]))
        for kind in b"1234678ADGKLMSVXgjz\0"
    },
}
ENDS = {
    "no end": b"",
    "half an end": FILE + bytes(511),
    "a file after the end": FILE + bytes(1024) + FILE,
    "zeros, on and on": FILE + bytes(10 << 20),
}


@pytest.mark.parametrize("what", [*PLANTED, *ENDS])
def test_archive_that_taskq_would_not_write_is_refused_at_once(what: str) -> None:
    """Long before a heartbeat is due."""
    data = ENDS[what] if what in ENDS else PLANTED[what] + tar.END
    begun = time.thread_time()
    with pytest.raises(ArchiveRefused):
        read(data)
    assert time.thread_time() - begun < 1


def lines_of(act: Callable[[], object]) -> int:
    """Return how many lines of the reader ran."""
    count = 0

    def line(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, _: str, __: Any) -> Any:
        return line if "taskq_agent" in frame.f_code.co_filename else None

    former = sys.gettrace()
    sys.settrace(call)
    try:
        act()
    finally:
        sys.settrace(former)
    return count


def judge(data: bytes) -> None:
    """Read bytes: refused or read, with work for each block at most."""

    def act() -> None:
        with suppress(ArchiveRefused):
            for member in read(data):
                assert member.parts
                assert not {"", ".", ".."} & {*member.parts}
                assert not any("/" in part or "\0" in part for part in member.parts)

    assert lines_of(act) <= LINES * (len(data) // 512 + 2)


@given(st.binary(max_size=3_000))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    """No other exception, and bounded work."""
    judge(data)


GOOD = (
    tar.blocks("deep", None, executable=True)
    + tar.blocks("deep/a", b"text" * 200, executable=False)
    + tar.blocks("deep/" + "long" * 40, b"", executable=True)
    + tar.END
)


@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=12)), max_size=3
    ),
    repairs=st.booleans(),
    end=st.integers(0, len(GOOD)),
)
@settings(max_examples=300)
def test_changed_archives_are_refused_or_read(
    changes: list[tuple[int, bytes]], repairs: bool, end: int
) -> None:
    """Also if their checksums are right again, and if they are cut."""
    data = bytearray(GOOD)
    for place, new in changes:
        data[place : place + len(new)] = new
    if repairs:
        for start in range(0, len(data) - 511, 512):
            if data[start + 257 : start + 262] == b"ustar":
                data[start + 148 : start + 156] = b" " * 8
                data[start + 148 : start + 156] = b"%06o\0 " % sum(data[start : start + 512])
    judge(bytes(data))
    judge(bytes(data[:end]))


TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.one_of(st.none(), st.binary(max_size=1_500)),
    max_size=4,
)


def written(tree: dict[str, bytes | None]) -> Iterator[bytes]:
    """Yield a tree as blocks."""
    for name, content in tree.items():
        yield tar.blocks(name, content, executable=content is None)
    yield tar.END


@given(TREES)
def test_archives_are_read_alike_by_taskq_and_by_tarfile(tree: dict[str, bytes | None]) -> None:
    """Names of any length and letters, files of any size."""
    data = b"".join(written(tree))
    ours = {
        entry.name: None if entry.content is None else bytes(entry.content)
        for entry in tar.entries(memoryview(data))
    }
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        theirs = {}
        for member in archive:
            stream = archive.extractfile(member)
            theirs[member.name] = None if stream is None else stream.read()
    assert ours == tree
    assert list(theirs.values()) == list(tree.values())
    # tarfile drops a slash at the end of any name.
    assert [*theirs] == [name.rstrip("/") for name in tree]


@given(TREES.filter(lambda tree: all(len(name) < 1_000 for name in tree)))
def test_archives_written_by_tarfile_are_read(tree: dict[str, bytes | None]) -> None:
    """Those of earlier releases stay readable."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in tree.items():
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            member.size = len(content or b"")
            archive.addfile(member, io.BytesIO(content or b""))
    found = tar.entries(memoryview(out.getvalue()))
    assert [entry.name.rstrip("/") for entry in found] == [name.rstrip("/") for name in tree]


def test_program_tar_unpacks_what_we_write(tmp_path: Path) -> None:
    """After the first line, which is the heading."""
    subprocess.run(["tar", "-x"], input=GOOD, cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "deep/a").read_bytes() == b"text" * 200
    assert (tmp_path / "deep" / ("long" * 40)).read_bytes() == b""
    assert [path.name for path in (tmp_path / "deep").iterdir() if path.stat().st_mode & 0o100] == [
        "long" * 40
    ]
