"""Channels: what a keeper may send, by its operator's options and files."""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from taskq.model.errors import UsageError
from taskq.upkeep.targets import NAME

#: Seconds for each step of a delivery.
TIMEOUT_S: Final = 15.0
PASSWORD_VARIABLE: Final = "TASKQ_SMTP_PASSWORD"  # noqa: S105  # its name
_MOST_NAMED: Final = 90
_MAX_FILE_BYTES: Final = 4_096
_PORTS: Final = {"smtp": 25, "smtps": 465}
_PREFIX: Final = "whsec_"


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """A mail server. encrypted: TLS from the first byte. user: None if it needs no password."""

    host: str
    port: int
    encrypted: bool
    user: str | None

    @classmethod
    def parsed(cls, url: str) -> SmtpServer:
        """Read `smtp://[USER@]HOST[:PORT]` or `smtps://...`; raise `UsageError`."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        if parts.password is not None:
            raise UsageError(f"--smtp holds a password; give it in {PASSWORD_VARIABLE}")
        if parts.scheme not in _PORTS or not host or parts.path.strip("/") or parts.query:
            raise UsageError(
                f"{url!r:.80} is not a mail server, such as smtp://mail.example.org:587"
            )
        port = port or _PORTS[parts.scheme]
        return cls(host, port, parts.scheme == "smtps", parts.username or None)


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook of a keeper's operator: any address, and the key that signs messages to it."""

    url: str
    key: bytes | None


@dataclass(frozen=True, slots=True)
class Channels:
    """Channels of a keeper apart from webhooks to public addresses.

    smtp, mail_from: the mail server and the sender of mail; None if it sends no mail. webhooks: a
    folder of files, each with the address of a webhook and, in a second line, the secret that signs
    messages to it. programs: a folder of programs that rules may run.
    """

    smtp: SmtpServer | None = None
    mail_from: str | None = None
    webhooks: Path | None = None
    programs: Path | None = None

    def reaches(self) -> list[str]:
        """Return what this keeper can send, in the words of `take_messages`; reads its folders."""
        return [
            "webhook",
            *(["mail"] if self.smtp is not None else []),
            *(f"webhook:{name}" for name in _names(self.webhooks)),
            *(f"command:{name}" for name in _names(self.programs, executable=True)),
        ]


def read_webhook(file: Path) -> Webhook:
    """Read the file of a webhook; raise `UsageError` or `OSError`, which show no secret."""
    with file.open("rb") as opened:
        content = opened.read(_MAX_FILE_BYTES + 1)
    lines = [line.strip() for line in content.decode("utf-8", "replace").strip().splitlines()]
    what = f"the webhook {file.name}"
    if len(content) > _MAX_FILE_BYTES or not 1 <= len(lines) <= 2:  # noqa: PLR2004  # address, secret
        raise UsageError(f"{what}: its file has an address and, in a second line, a secret")
    try:
        parts = urlsplit(lines[0])
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or not lines[0].isascii() or not lines[0].isprintable() or " " in lines[0]:
        raise UsageError(f"{what}: the first line of its file is no http:// or https:// address")
    key = None
    if lines[1:]:
        try:
            key = base64.b64decode(lines[1].removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not key or not lines[1].startswith(_PREFIX):
            raise UsageError(f"{what}: its secret is written {_PREFIX} and base64")
    return Webhook(lines[0], key)


def _names(folder: Path | None, *, executable: bool = False) -> Iterable[str]:
    """Return the names of the files in a folder that rules may name, at most `_MOST_NAMED`."""
    if folder is None:
        return []
    try:
        found = sorted(file.name for file in folder.iterdir() if NAME.fullmatch(file.name))
    except OSError:
        return []
    return [name for name in found if _fits(folder / name, executable=executable)][:_MOST_NAMED]


def _fits(file: Path, *, executable: bool) -> bool:
    try:
        regular = stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return False
    return regular and os.access(file, os.X_OK if executable else os.R_OK)
