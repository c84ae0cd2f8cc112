"""Pages name files, links, modules, commands and variables that exist."""

from __future__ import annotations

import importlib.util
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from benchmarks.cases import CASES, GROUPS
from taskq_cli.main import main as program
from tests.helpers.paths import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "deploy/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
    *sorted((ROOT / "benchmarks").glob("*/README.md")),
]
FOLDERS = ("agents", "benchmarks", "cli", "deploy", "docs", "examples", "sql", "taskq", "tests")
OF_USERS = {  # files that examples name and that users have
    "dock.py",
    "dock.sh",
    "receptor.py",
    "score_many.py",
    "taskq-agent.pyz",
}
BLOCK = re.compile(r"^```(?:sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
ANY_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SUFFIXES = r"\.(?:py|sql|lua|md|sh|cfg|service|toml|pyz)"


@pytest.fixture(scope="session")
def names() -> set[str]:
    """Give the names of all files of the project."""
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return {path.name for path in files} | {path.name for path in ROOT.iterdir()}


def each(page: Path, pattern: str) -> Iterator[str]:
    """Yield what a pattern captures in a page."""
    yield from re.findall(pattern, page.read_text(encoding="utf-8"), re.MULTILINE)


def of_page(page: Path) -> str:
    """Name a page in the list of tests."""
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Give the anchors of a page's headings, as the page host makes them."""
    text = ANY_BLOCK.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_pages_name_files_that_exist(page: Path, names: set[str]) -> None:
    """With their folder, or by their name alone."""
    paths = set(each(page, rf"(?<![\w/.-])((?:{'|'.join(FOLDERS)})/[\w/.*-]*[\w/*])"))
    if page.parent.name == "peers":
        paths = {path for path in paths if (ROOT / path).suffix}
    assert {path for path in paths if not any(ROOT.glob(path.rstrip("/")))} == set()
    alone = set(each(page, rf"`([\w-]+{SUFFIXES})`"))
    assert alone - names - OF_USERS == set()


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_links_lead_to_pages_and_headings_that_exist(page: Path) -> None:
    """Those within the project. A link to a folder leads nowhere in the manual's site."""
    broken = []
    text = ANY_BLOCK.sub("", page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_modules_and_targets_that_pages_run_exist(page: Path) -> None:
    """As `python -m MODULE`, `make TARGET` and `make bench CASES=...`."""
    for module in each(page, r"python3? -m ([\w.]+)"):
        assert importlib.util.find_spec(module), module
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(each(page, r"^make ([a-z-]+)")) | set(each(page, r"`make ([a-z-]+)"))
    assert named <= targets
    cases = " ".join(each(page, r"CASES=([a-z-]+|\"[a-z -]+\")")).replace('"', "").split()
    assert set(cases) <= {*CASES, *GROUPS}


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_modules_that_pages_name_exist(page: Path) -> None:
    """As `taskq.room.module`, or a name in it."""
    for dotted in each(page, r"(?:`|from |import )(taskq(?:_agent|_cli)?\.[a-z_.]+\w)\b(?!\()"):
        assert pkgutil.resolve_name(dotted) is not None


def typed(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command `taskq` that a page shows."""
    blocks = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    for line in blocks.replace("\\\n", " ").splitlines():
        if line.startswith(("taskq ", "$ taskq ")):
            yield shlex.split(line.removeprefix("$ "), comments=True)[1:]


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_commands_and_options_that_pages_show_exist(page: Path) -> None:
    """In blocks to be pasted."""
    for words in typed(page):
        command: click.Command = program
        rest = list(words)
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            context = click.Context(command)
            name = rest.pop(0)
            found = command.get_command(context, name)
            assert found is not None, words
            command = found
        options = {
            text
            for parameter in command.params
            for text in (*parameter.opts, *parameter.secondary_opts)
        }
        before = rest[: rest.index("--")] if "--" in rest else rest
        said = {word.partition("=")[0] for word in before if word.startswith("--")}
        assert said - options - {"--help"} == set(), words


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_commands_that_sentences_name_exist(page: Path) -> None:
    """As `taskq COMMAND`, in backticks."""
    for name in each(page, r"`taskq\s([a-z][a-z-]*)"):
        assert program.get_command(click.Context(program), name) is not None, name


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_tests_that_pages_name_exist(page: Path) -> None:
    """A test that is renamed or removed is so there as well."""
    named = set(each(page, r"`(test_\w+)`"))
    defined = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(
            r"^(?:async )?def (test_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert named - defined == set()


PAGE = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
READ = re.compile(r'(?:environ(?:\.get\(|\[)|envvar=)"(\w+)"')
NAMED = re.compile(r'(?:_VARIABLE|ENVIRONMENT)(?:: Final)? = "(TASKQ_\w+)"')


def test_every_variable_that_is_read_is_on_the_page() -> None:
    """And none that is not."""
    read: set[str] = set()
    for folder in ("taskq", "cli", "agents"):
        for source in (ROOT / folder).rglob("*.py"):
            text = source.read_text(encoding="utf-8")
            read |= {name for name in READ.findall(text) if name.startswith("TASKQ_")}
            read |= set(NAMED.findall(text))
    set_for_children = {"TASKQ_RESULT", "TASKQ_INPUTS", "TASKQ_CHECKPOINT", "TASKQ_PROGRESS"}
    documented = set(re.findall(r"^\| `(TASKQ_\w+)` \|", PAGE, re.MULTILINE))
    assert documented == read - set_for_children
