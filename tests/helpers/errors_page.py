"""The table of exceptions in docs/errors.md, made of the texts of their classes.

`python -m tests.helpers.errors_page` writes it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

import taskq
from taskq.model import errors
from taskq.model.errors import TaskqError
from tests.helpers.paths import ROOT

PAGE: Final = ROOT / "docs/errors.md"
MARK: Final = re.compile(r"(<!-- Written by `make schema`. -->\n).*?\n(?=\n)", re.DOTALL)
HEAD: Final = "| Exception | Kind of | Code | Means, and what to do |\n|---|---|---|---|\n"


def exceptions(kind: type[TaskqError] = TaskqError) -> Iterator[type[TaskqError]]:
    """Yield the exceptions of `taskq.model.errors`, each before its kinds."""
    yield kind
    for error in kind.__subclasses__():
        if error.__module__ == errors.__name__:
            yield from exceptions(error)


def page() -> str:
    """Return the page as it should be."""
    table = HEAD + "".join(map(_row, exceptions()))
    return MARK.sub(lambda found: found[1] + table, PAGE.read_text(encoding="utf-8"))


def _row(error: type[TaskqError]) -> str:
    text = inspect.getdoc(error) or ""
    means = " ".join(re.split(r"^(?:Args|Attributes):$", text, flags=re.MULTILINE)[0].split())
    above = "" if error is TaskqError else f"`{error.__bases__[0].__name__}`"
    name = f"taskq.{error.__name__}" if error.__name__ in taskq.__all__ else error.__name__
    return f"| `{name}` | {above} | {error.exit_code} | {means} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
