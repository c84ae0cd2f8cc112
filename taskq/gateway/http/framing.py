"""Strict reading of the heads of requests: what another parser could read differently is refused.

A proxy in front of the gateway may have checked a request before. If proxy and gateway disagreed on
where a request ends, for which host it is or who sends it, a request could hide in the body of
another (request smuggling). The parser, llhttp, refuses most of that: odd lengths and sizes of
chunks, bare CR and LF, folded lines, blanks before colons. This module refuses what llhttp accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

MAX_HEAD_BYTES: Final = 32_768
TOO_LONG: Final = f"path and headers have {MAX_HEAD_BYTES} bytes at most"

#: Lines that a head may have once; of two, one parser takes the first and another the last.
_ONCE: Final = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"range",
        b"transfer-encoding",
    }
)
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_URL: Final = re.compile(rb"https?://([^/?#]*)[^#]*", re.IGNORECASE)
_HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%!$&'()*+;=-]*)(?::[0-9]*)?")


def head_fault(
    version: str,
    target: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    found: Mapping[bytes, bytes],
) -> str | None:
    """Return why a head is refused; None if there is one way to read it.

    headers: their names in lower case. found: the same, as a mapping.
    """
    if len(found) < len(headers):
        names = [name for name, _ in headers]
        for name in sorted(_ONCE & found.keys()):
            if names.count(name) > 1:
                return f"several lines {name.decode()}; send one"
    if version not in _VERSIONS:
        return "HTTP/1.1 and HTTP/1.0 are spoken here"
    host = found.get(b"host")
    if host is None and version == "1.1":
        return "no line host; HTTP/1.1 demands one"
    if host is not None and not is_host(host):
        return "the line host is not a host with a port"
    coding = found.get(b"transfer-encoding")
    if coding is not None and (version == "1.0" or coding.lower() != b"chunked"):
        return "transfer-encoding must be chunked, in HTTP/1.1"
    return None if target.startswith(b"/") and b"#" not in target else _target_fault(target, host)


def is_too_long(target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return whether path and headers of a head that has arrived have too many bytes."""
    size = len(target) + sum([len(name) + len(value) + 4 for name, value in headers])
    return size > MAX_HEAD_BYTES


@lru_cache(maxsize=256)
def is_host(value: bytes) -> bool:
    """Return whether a value is a host, perhaps with a port; or empty, which HTTP allows too."""
    return _HOST.fullmatch(value) is not None


def _target_fault(target: bytes, host: bytes | None) -> str | None:
    """Return why a target that is no path is refused; a URL of this very host is none."""
    url = _URL.fullmatch(target)
    if url is None:
        return "the target must be a path, or an http or https URL, without a fragment"
    if host is None or url[1].lower() != host.lower():
        return "the target is for another host than the line host"
    return None


class RequestSizes:
    """Bytes of a request so far: of its head while that is incomplete, its body, and all else."""

    __slots__ = ("body", "frame", "head")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin to count another request."""
        self.head = self.body = self.frame = 0

    def frame_fault(self, size: int, body_before: int, *, in_head: bool) -> str | None:
        """Count data that belong to this request only; return why they are too many, if they are.

        Bounds the bytes outside the body: head, framing of chunks, trailer. body_before: bytes of
        the body before these data.
        """
        if in_head:
            self.head += size
            return TOO_LONG if self.head > MAX_HEAD_BYTES else None
        self.frame += size - (self.body - body_before)
        if self.frame > MAX_HEAD_BYTES + 8 * self.body:
            return "chunks with more framing than content"
        return None
