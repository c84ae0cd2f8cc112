"""Addresses with passwords in them, and what must not come out of that."""

from __future__ import annotations

from typing import Final

from taskq.errors import UsageError

_WRITTEN: Final = {"@": "%40", "/": "%2F", "?": "%3F", "#": "%23"}


def check_delimited(url: str, delimiters: str) -> None:
    """Raise `UsageError` if a piece of a URL's password would be taken for what follows it.

    It would be told then, as a host or a path. delimiters: those that end a password too early
    where this URL is read.
    """
    password = url.partition("://")[2].rpartition("@")[0]
    if set(delimiters) & set(password):
        codes = " ".join(f"{one} as {_WRITTEN[one]}" for one in delimiters)
        raise UsageError(f"not an address: in a user name or a password, write {codes}")
