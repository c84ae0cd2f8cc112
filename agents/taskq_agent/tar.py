"""The blocks of a tar file with folders and regular files only, written and read.

A general reader of tar files obeys many kinds of headers: links, devices, sparse files, sizes and
names that replace each other. Some releases of Python search one planted header for minutes, while
no other thread runs. This reader knows what `blocks` writes, and refuses anything else. It looks
at each byte a fixed number of times.

Programs for tar files can read what `blocks` writes. A block has 512 bytes. Each entry has a header
of one block, then its content, filled up to whole blocks with zeros. A name of more than 100 bytes
stands in a pax header before it, as the only record, `path`. Two blocks of zeros are the end.
"""

from __future__ import annotations

import re
import struct
from typing import Iterator, NamedTuple, Optional, Tuple

#: The longest path that Linux opens.
MAX_NAME_BYTES = 4_095

#: The end of a tar file.
END = bytes(1024)

_BLOCK = 512
# Name, mode, owner, group, size, time, checksum, type, link, format, the names of owner and group,
# device, prefix of the name.
_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s8s32s32s8s8s155s12x")
_CHECKSUM = slice(148, 156)
_FORMAT = b"ustar\x0000"
_NAME_BYTES = 100

_FILE, _FOLDER, _PAX = b"0", b"5", b"x"
_PAX_NAME = b"././@PaxHeader"
_OCTAL = re.compile(rb"([0-7]{1,11})[ \0]{1,11}")
_MAX_PAX_BYTES = MAX_NAME_BYTES + len(b"4106 path=\n")
_MAX_END_BYTES = 10_240  # other programs fill up their last 20 blocks


class TarEntry(NamedTuple):
    """A file or a folder. content: None for a folder."""

    name: str
    content: Optional[memoryview]
    executable: bool


def blocks(name: str, content: Optional[bytes], *, executable: bool) -> bytes:
    """Return a file, or without content a folder, as blocks.

    The same bytes with each release of Python. Raise ValueError if the name is too long.
    """
    path = name.encode("utf-8", "surrogateescape")
    if len(path) > MAX_NAME_BYTES:
        raise ValueError(f"a name has {len(path)} bytes; {MAX_NAME_BYTES} at most")
    kind, mode, data = _FILE, 0o700 if executable else 0o600, content
    if data is None:
        kind, mode, data = _FOLDER, 0o700, b""
    above = b""
    if len(path) > _NAME_BYTES:
        record = _path_record(path)
        above = _header(_PAX_NAME, _PAX, 0o600, len(record)) + _filled(record)
    return above + _header(path[:_NAME_BYTES], kind, mode, len(data)) + _filled(data)


def entries(data: memoryview) -> Iterator[TarEntry]:
    """Yield the files and folders of a tar file, with names as they stand there.

    Raise ValueError at anything that `blocks` does not write, at a damage, and if the end is
    missing. Modes, owners and times may be any.
    """
    place, path = 0, None
    while True:
        head = bytes(data[place : place + _BLOCK])
        place += _BLOCK
        if head == bytes(_BLOCK) and path is None:
            break
        name, kind, size, executable = _read(head)
        content = data[place : place + size]
        if len(content) != size:
            raise ValueError("it ends within a file")
        place += size + -size % _BLOCK
        if kind == _PAX:
            if path is not None or size > _MAX_PAX_BYTES:
                raise ValueError("it has a long or a second header of one entry")
            path = _path_in(bytes(content))
            continue
        if kind == _FOLDER and size:
            raise ValueError("it has a folder with content")
        text = (path or name).decode("utf-8", "surrogateescape")
        path = None
        yield TarEntry(text, None if kind == _FOLDER else content, executable)
    rest = bytes(data[place : place + _MAX_END_BYTES])
    if any(rest) or place + len(rest) < len(data):
        raise ValueError("it goes on after its end")


def _header(name: bytes, kind: bytes, mode: int, size: int) -> bytes:
    none, nobody = b"", b"0000000"
    fields = (
        *(name, b"%07o" % mode, nobody, nobody, b"%011o" % size, b"0" * 11, b" " * 8, kind),
        *(none, _FORMAT, none, none, none, none, none),
    )
    block = bytearray(_HEADER.pack(*fields))
    block[_CHECKSUM] = b"%06o\0 " % sum(block)
    return bytes(block)


def _read(head: bytes) -> Tuple[bytes, bytes, int, bool]:
    """Return name, kind, size, and whether the owner may execute it."""
    if len(head) != _BLOCK:
        raise ValueError("it ends without an end")
    name, mode, _, _, size, _, checksum, kind, link, form, _, _, _, _, prefix = _HEADER.unpack(head)
    if _number(checksum) != sum(head) - sum(checksum) + 8 * ord(" "):
        raise ValueError("it has a header with a wrong checksum")
    if kind not in (_FILE, _FOLDER, _PAX) or form != _FORMAT or any(link) or any(prefix):
        raise ValueError(f"it has an entry of the kind {kind!r:.10}, neither a file nor a folder")
    name = name.rstrip(b"\0")
    return name, kind, _number(size), bool(_number(mode) & 0o100)


def _number(field: bytes) -> int:
    found = _OCTAL.fullmatch(field)
    if found is None:
        raise ValueError(f"it has a header with the number {field!r:.40}")
    return int(found[1], 8)


def _filled(data: bytes) -> bytes:
    return data + bytes(-len(data) % _BLOCK)


def _path_record(path: bytes) -> bytes:
    """Return the record of a name; its own length is its first field."""
    rest = b" path=%s\n" % path
    size = len(rest)
    while len(b"%d" % size) + len(rest) != size:
        size = len(b"%d" % size) + len(rest)
    return b"%d" % size + rest


def _path_in(record: bytes) -> bytes:
    path = record.partition(b"=")[2][:-1]
    if not path or _path_record(path) != record:
        raise ValueError("it has a header that is no single name")
    return path
