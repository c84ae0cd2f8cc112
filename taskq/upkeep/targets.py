"""Targets of notification rules: `mail:ADDRESS`, `webhook:URL or NAME` or `command:NAME`."""

from __future__ import annotations

import re
from dataclasses import dataclass
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
