"""The texts of the statements that the library sends, and of some of their parameters."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterable
from functools import cache

from typing_extensions import LiteralString


@cache
def statement(name: str) -> LiteralString:
    """Return the text of `sql/queries/NAME.sql`, or for `PACKAGE/NAME` of a package's file."""
    package, _, base = name.rpartition("/")
    files = importlib.resources.files(package or "taskq.sql.queries")
    return files.joinpath(f"{base}.sql").read_text()


def load_statements() -> None:
    """Read all of `sql/queries` now; later there may be no file left, or one of another release."""
    for file in importlib.resources.files("taskq.sql.queries").iterdir():
        if file.name.endswith(".sql"):
            statement(file.name.removesuffix(".sql"))


def array(values: Iterable[int | str]) -> str:
    """Return numbers or ids as the text of an array, for a parameter with a cast.

    psycopg would look at each element to find out what they are.
    """
    return "{" + ",".join(map(str, values)) + "}"
