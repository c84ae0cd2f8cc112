"""The texts in `sql/`, which mean the same whatever a session has set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

TEXTS = sorted(
    path
    for room in ("functions", "queries", "audit", "roles")
    for path in ROOT.glob(f"sql/{room}/**/*.sql")
)
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
#: A literal that says nothing about backslashes: `e'...'` does.
PLAIN = re.compile(r"(?<!\w)'((?:[^']|'')*)'")


def with_backslashes(text: str) -> list[str]:
    """Return the plain literals of a statement that have a backslash."""
    code = re.sub(r"--.*", "", text)
    return [found for found in PLAIN.findall(code) if "\\" in found]


def test_backslash_in_a_plain_literal_is_found() -> None:
    """Not one in `e'...'`, or in a comment."""
    assert with_backslashes(r"select e'\n', '[.]' -- '\m'") == []
    assert with_backslashes(r"select x ~ '\m' and 'it''s'") == [r"\m"]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_literal_depends_on_standard_conforming_strings(path: Path) -> None:
    """Clients in other languages call the functions, under settings of their own."""
    assert with_backslashes(path.read_text("utf-8")) == []


def test_each_function_lies_in_the_folder_of_a_known_subject() -> None:
    """ARCHITECTURE.md says what each subject is; a flat file would be of none."""
    table = ARCHITECTURE.partition("| subject in `sql/functions/` | what |\n")[2].partition("\n\n")[
        0
    ]
    said = dict(re.findall(r"^\| `(\w+)/` \| (.*) \|$", table, re.MULTILINE))
    folders = {path.parent for path in (ROOT / "sql/functions").rglob("*.sql")}
    assert {path.relative_to(ROOT / "sql/functions").as_posix() for path in folders} == said.keys()
    packages = {name: f'"""{name.capitalize()}: {what}."""\n' for name, what in said.items()}
    assert packages == {path.name: (path / "__init__.py").read_text("utf-8") for path in folders}
