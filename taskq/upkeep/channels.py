"""Targets of notification rules, and what a keeper may send, by its operator's options and files.

A target is `mail:ADDRESS`, `webhook:URL or NAME` or `command:NAME`.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from taskq.model.errors import UsageError

MAX_CHARS: Final = 1_000
NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_MAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}")
_HOW: Final = "write mail:ADDRESS, webhook:https://..., webhook:NAME or command:NAME"


@dataclass(frozen=True, slots=True)
class Target:
    """The receiver of a rule. channel: mail, webhook (an address), named-webhook or command.

    to: the mail address, the URL, or the name of a file of the keeper's operator.
    """

    channel: str
    to: str

    @classmethod
    def parsed(cls, text: str) -> Target:
        """Read a target; raise `UsageError`."""
        kind, colon, to = text.partition(":")
        if not colon or kind not in {"mail", "webhook", "command"}:
            raise UsageError(f"{text!r:.80} is not a target; {_HOW}")
        if len(text) > MAX_CHARS:
            raise UsageError(f"a target of {len(text):,} characters; {MAX_CHARS:,} at most")
        if kind == "mail":
            if not _MAIL.fullmatch(to):
                raise UsageError(f"{to!r:.80} is not a mail address, such as ann@example.org")
            return cls("mail", to)
        if kind == "webhook" and ":" in to:
            return cls("webhook", _checked_url(to))
        if not NAME.fullmatch(to):
            raise UsageError(
                f"{to!r:.80} is not a name: a {kind} that is no https:// address has the name of "
                "its file in the folder that `taskq keeper` was given"
            )
        return cls("named-webhook" if kind == "webhook" else kind, to)


def check_mail_address(text: str) -> str:
    """Return a mail address; raise `UsageError` if it is not one."""
    return Target.parsed(f"mail:{text}").to


def _checked_url(url: str) -> str:
    """Return the URL of a webhook that a rule may name; raise `UsageError`."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"{url!r:.80} is not a web address") from None
    if parts.scheme != "https" or not host:
        raise UsageError(
            f"{url!r:.80} does not begin with https://; only the operator of the keeper can "
            "allow another address, in a file of its --webhooks, which the rule names"
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError("the address of a webhook holds a password, which others could read")
    if parts.fragment or not re.fullmatch(r"[!-~]+", url):
        raise UsageError(f"{url!r:.80} has a fragment, or characters that a URL cannot have")
    return url


PASSWORD_VARIABLE: Final = "TASKQ_SMTP_PASSWORD"  # noqa: S105  # its name
_MAX_NAMED: Final = 90
_MAX_FILE: Final = 4_096
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
        content = opened.read(_MAX_FILE + 1)
    lines = [line.strip() for line in content.decode("utf-8", "replace").strip().splitlines()]
    what = f"the webhook {file.name}"
    if len(content) > _MAX_FILE or not 1 <= len(lines) <= 2:  # noqa: PLR2004  # address, secret
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
    """Return the names of the files in a folder that rules may name, at most `_MAX_NAMED`."""
    if folder is None:
        return []
    try:
        found = sorted(file.name for file in folder.iterdir() if NAME.fullmatch(file.name))
    except OSError:
        return []
    return [name for name in found if _fits(folder / name, executable=executable)][:_MAX_NAMED]


def _fits(file: Path, *, executable: bool) -> bool:
    try:
        regular = stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return False
    return regular and os.access(file, os.X_OK if executable else os.R_OK)
