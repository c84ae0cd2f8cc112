"""Files that one person can hold in the head, and names that mean one thing each."""

from __future__ import annotations

import ast
import re
import symtable
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.paths import ROOT

INSTALLED = ("agents", "cli", "taskq")
PRODUCT = (*INSTALLED, "benchmarks")
FOLDERS = (*PRODUCT, "examples", "sql", "tests")
KINDS = {".py", ".sql", ".lua"}
MOST_LINES = 400
# One class with the verbs of a campaign: three quarters are signatures and the manual of each verb.
ALLOWED = {Path("taskq/campaign/campaign.py"): 570}


def test_no_file_is_too_long() -> None:
    """What passes the limit is usually two things."""
    lines = {
        path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines())
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in KINDS and path.is_file()
    }
    assert len(lines) > len(FOLDERS)
    assert {
        path: number for path, number in lines.items() if number > ALLOWED.get(path, MOST_LINES)
    } == {}


def test_no_two_public_classes_share_a_name() -> None:
    """In the product and its benchmarks."""
    places: dict[str, list[str]] = defaultdict(list)
    public = re.compile(r"^class ([^_\W]\w*)", re.MULTILINE)
    for folder in PRODUCT:
        for path in (ROOT / folder).rglob("*.py"):
            for match in public.finditer(path.read_text(encoding="utf-8")):
                places[match[1]].append(str(path.relative_to(ROOT)))
    assert len(places) > len(PRODUCT)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_looks_at_paths_never_raise() -> None:
    """`Path.exists` and its like do, in a folder that one may not enter: `taskq_agent.paths`."""
    raising = re.compile(r"\w*\.(exists|is_dir|is_file|is_symlink|is_mount|is_socket|is_fifo)\(\)")
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for folder in INSTALLED
        for path in (ROOT / folder).rglob("*.py")
        for match in raising.finditer(path.read_text(encoding="utf-8"))
    }
    # A folder of the package, and a member of a ZIP file.
    others = {"taskq/db/sql_files.py: entry.is_dir()"}
    others |= {"taskq/ingest/sources/unpacking.py: member.is_dir()"}
    assert found == others


def late_constants(path: Path) -> list[str]:
    """Return the constants and loggers below the first function or class that need none above."""
    late, made = [], set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            made.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = {
                name.id
                for target in targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name)
            }
            used = {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
            if used & made:
                made |= named
            elif made:
                late += sorted(named)
    return late


def test_constants_and_loggers_stand_at_the_top() -> None:
    """Apart from those that are made of a function or class above them.

    In the middle of a file they begin a second subject, which deserves a file of its own.
    """
    found = {
        str(path.relative_to(ROOT)): names
        for folder in INSTALLED
        for path in (ROOT / folder).rglob("*.py")
        if (names := late_constants(path))
    }
    assert found == {}


def scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """Yield a module's table of names, or a function's, and those of all within it."""
    yield table
    for inner in table.get_children():
        yield from scopes(inner)


def test_no_variable_is_just_called_one() -> None:
    """It is an agent, a place, a column: a name tells what a loop runs over.

    The compiler's tables of names take half as long as to make and walk syntax trees.
    """
    found = {
        f"{path.relative_to(ROOT)}:{scope.get_lineno()}"
        for folder in (*PRODUCT, "examples", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if "one" in (text := path.read_text(encoding="utf-8"))
        for scope in scopes(symtable.symtable(text, str(path), "exec"))
        if "one" in scope.get_identifiers()
    }
    assert sorted(found) == []
