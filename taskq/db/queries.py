"""The texts of the statements that the library sends, and of some of their parameters."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterable
from functools import cache

from typing_extensions import LiteralString


@cache
def statement(name: str, folder: str = "queries") -> LiteralString:
    """Return the text of `sql/queries/NAME.sql`."""
    return importlib.resources.files(f"taskq.sql.{folder}").joinpath(f"{name}.sql").read_text()


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
