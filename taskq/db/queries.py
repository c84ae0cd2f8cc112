"""Texts of the statements that the library sends, read from `sql/queries`, and of arrays."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterable
from functools import cache

from typing_extensions import LiteralString


@cache
def statement(name: str) -> LiteralString:
    """Return the text of `sql/queries/NAME.sql`; for `PACKAGE/NAME`, of a file in a package."""
    package, _, base = name.rpartition("/")
    files = importlib.resources.files(package or "taskq.sql.queries")
    return files.joinpath(f"{base}.sql").read_text()


def load_statements() -> None:
    """Read all of `sql/queries` now: an upgrade may remove or replace the files later."""
    for file in importlib.resources.files("taskq.sql.queries").iterdir():
        if file.name.endswith(".sql"):
            statement(file.name.removesuffix(".sql"))


def array(values: Iterable[int | str]) -> str:
    """Return numbers or ids as the text of an array, for a parameter with a cast.

    This is faster than psycopg, which inspects the type of each element.
    """
    return "{" + ",".join(map(str, values)) + "}"
