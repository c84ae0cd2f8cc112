"""Certificates of servers: their files, the time in which they are valid, and warnings in time."""

from __future__ import annotations

import os
import re
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from taskq.model.errors import NotFound, UsageError

#: Seconds before its end from which a certificate is warned of, and between two warnings.
SOON_S: Final = 14 * 86_400.0
AGAIN_S: Final = 86_400.0
_PEM: Final = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
#: Tags of DER: the version of a certificate, which may be missing; and a year of two digits.
_VERSION: Final = 0xA0
_SHORT_YEAR: Final = 0x17
_LONG_FORM: Final = 0x80


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The files of a certificate with its intermediates (`chain`), and of its private key."""

    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return a server's context: TLS 1.2 and later; raise `NotFound` or `UsageError`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self.load(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Load the files as they are now, for all later connections."""
        try:
            context.load_cert_chain(self.chain, self.key)
        except ssl.SSLError as error:
            why = error.reason or error.strerror  # no reason where there is no PEM at all
            raise UsageError(
                f"{self.chain} and {self.key} are not a certificate and its key in PEM: {why}"
            ) from None
        except OSError as error:
            unread = self.key if os.access(self.chain, os.R_OK) else self.chain
            raise NotFound(f"{unread}: {error.strerror}") from None

    def stamp(self) -> tuple[float, float]:
        """Return the modification times of the files, zeros if one is missing."""
        try:
            return self.chain.stat().st_mtime, self.key.stat().st_mtime
        except OSError:  # it may be in the middle of a replacement
            return 0.0, 0.0

    def validity(self) -> Validity | None:
        """Return when the certificate in the files is valid; None if that cannot be read."""
        try:
            found = _PEM.search(self.chain.read_text("ascii", "replace"))
            return None if found is None else _validity(ssl.PEM_cert_to_DER_cert(found[0]))
        except (OSError, ValueError, IndexError, StopIteration):
            return None


@dataclass(frozen=True, slots=True)
class Validity:
    """The time in which a certificate is valid, in seconds since the epoch."""

    begins: float
    ends: float

    def is_now(self) -> bool:
        """Return whether the certificate is valid now."""
        return self.begins <= time.time() <= self.ends

    def fault(self) -> str | None:
        """Return what is wrong with a certificate now, or soon; None if nothing is."""
        now = time.time()
        if now > self.ends:
            return f"has expired at {_shown(self.ends)}; clients refuse it: renew it"
        if now < self.begins:
            return f"is not valid before {_shown(self.begins)}; clients refuse it: check the clock"
        if now > self.ends - SOON_S:
            return f"expires at {_shown(self.ends)}: renew it"
        return None


def _shown(at: float) -> str:
    return f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%d %H:%M} UTC"


def _validity(der: bytes) -> Validity:
    """Read when a certificate is valid: the fourth field (RFC 5280, 4.1), after the version."""
    (_, certificate), *_ = _elements(der)
    (_, signed), *_ = _elements(certificate)
    fields = [content for tag, content in _elements(signed) if tag != _VERSION]
    begins, ends = (_time(tag, content.decode()) for tag, content in _elements(fields[3]))
    return Validity(begins, ends)


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each element of DER."""
    at = 0
    while at < len(data):
        tag, size = data[at], data[at + 1]
        at += 2
        if size & _LONG_FORM:
            count = size - _LONG_FORM
            size = int.from_bytes(data[at : at + count], "big")
            at += count
        yield tag, data[at : at + size]
        at += size


def _time(tag: int, text: str) -> float:
    if tag == _SHORT_YEAR:  # 50 and above: of the last century
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
