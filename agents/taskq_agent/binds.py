"""Folders and files of a node that containers see, as text.

A bind reads `HOST[:INSIDE][:ro|rw]`: a path of the node, its path in the container, which is the
same unless it is given, and whether the program may write there, which it may not unless `rw`
stands there. A site's own binds may also be `optional`: they are left out where the path is absent.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Tuple

#: A path with one of these characters cannot be passed to a runtime.
UNSPEAKABLE = frozenset(',"\n\\')


@dataclass(frozen=True)
class Bind:
    """host, inside: absolute paths. optional: left out on a node without this path.

    receives: whether the container sees what the node mounts there later.
    """

    host: str
    inside: str
    read_only: bool = True
    optional: bool = False
    receives: bool = False


def of_campaign(text: object) -> Bind:
    """Return a bind of a campaign; ValueError if it is none."""
    if not isinstance(text, str):
        raise ValueError(f"a bind is text such as '/data' or '/data:/mnt:rw', not {text!r:.80}")  # noqa: TRY004
    return _parsed(text, ("ro", "rw"))


def of_site(text: str) -> Bind:
    """Return a bind of an agent; ValueError if it is none."""
    return _parsed(text, ("ro", "rw", "optional"))


def allowance(text: str) -> Bind:
    """Return what campaigns may bind, `PATH[:rw]`; ValueError if it is no such text."""
    path, _, flags = text.partition(":")
    if flags not in ("", "ro", "rw"):
        raise ValueError(f"{text!r:.200}: what campaigns may bind reads PATH[:ro|rw]")
    return Bind(_path(text, path), "", flags != "rw")


def _parsed(text: str, words: Tuple[str, ...]) -> Bind:
    host, *rest = text.split(":")
    flags: Tuple[str, ...] = ()
    if rest and not rest[-1].startswith("/"):
        flags = tuple(rest.pop().split(","))
    if len(rest) > 1 or not set(flags) <= set(words) or {"ro", "rw"} <= set(flags):
        form = "|".join(words)
        raise ValueError(f"{text!r:.200} is no bind; it reads HOST[:INSIDE][:{form}]")
    inside = _path(text, rest[0] if rest else host)
    if inside == "/":
        raise ValueError(f"{text!r:.200}: nothing can be bound at / of a container")
    return Bind(_path(text, host), inside, "rw" not in flags, "optional" in flags)


def _path(text: str, path: str) -> str:
    plain = posixpath.normpath(path)
    if not path.startswith("/") or path.startswith("//") or plain != (path.rstrip("/") or "/"):
        raise ValueError(f"{text!r:.200}: {path!r} is no absolute path without . and ..")
    if UNSPEAKABLE & set(path) or not path.isprintable():
        raise ValueError(f"{text!r:.200}: a path may have no comma, quote or backslash in it")
    return plain
