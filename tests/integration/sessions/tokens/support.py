"""Lookups of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from taskq.db.connections import Database
from taskq.db.tokens import hashed

Enrol: TypeAlias = Callable[..., dict[str, Any]]


def identify(database: Database, *found: str) -> list[dict[str, Any]]:
    """Return what is known of some tokens."""
    return database.rows("identify", hashes=[hashed(name) for name in found])
