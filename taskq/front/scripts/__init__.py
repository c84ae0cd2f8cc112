"""Scripts that run inside Redis, atomically.

Each is a file in Lua 5.1. It gets all keys that it touches, does a bounded amount of work, and runs
on Redis from 6.2 on and on Valkey.
"""

from __future__ import annotations

import hashlib
import importlib.resources
from functools import cache
from typing import NamedTuple


class Script(NamedTuple):
    """The text of a script, and the SHA-1 digest by which a server caches it."""

    text: bytes
    digest: bytes


@cache
def script(name: str) -> Script:
    """Return the script in `NAME.lua`."""
    text = importlib.resources.files(__name__).joinpath(f"{name}.lua").read_bytes()
    digest = hashlib.sha1(text, usedforsecurity=False).hexdigest()  # Redis wants this one
    return Script(text, digest.encode())
