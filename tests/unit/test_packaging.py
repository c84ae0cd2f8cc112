"""What an installation gets: setup.cfg names each package, and each file that is no module."""

from __future__ import annotations

import configparser
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"taskq": "taskq", "taskq.sql": "sql", "taskq_agent": "agents/taskq_agent"} | {
    "taskq_cli": "cli/taskq_cli"
}


@pytest.fixture(scope="module")
def setup() -> configparser.ConfigParser:
    """Return setup.cfg."""
    found = configparser.ConfigParser()
    found.read(ROOT / "setup.cfg", encoding="utf-8")
    return found


def packages() -> dict[str, Path]:
    """Return the folders that hold files of the product, by the name of their package."""
    found: dict[str, Path] = {}
    for name, folder in FOLDERS.items():
        root = ROOT / folder
        for path in root.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                inner = path.parent.relative_to(root).parts
                found[".".join((name, *inner))] = path.parent
    return found


def test_each_package_is_named(setup: configparser.ConfigParser) -> None:
    """One that is forgotten is missed only where taskq is not run from its checkout."""
    data = {"taskq.web.static", "taskq.web.templates"}  # files of `taskq.web`
    assert setup["options"]["packages"].split() == sorted(packages().keys() - data)


def test_each_file_that_is_no_module_is_named(setup: configparser.ConfigParser) -> None:
    """A statement, a script or a template beside the modules is installed with them."""
    named = setup["options.package_data"]
    for name, folder in packages().items():
        package = name if name in setup["options"]["packages"].split() else name.rpartition(".")[0]
        patterns = [one.strip() for one in named.get(package, "").split(",")]
        inner = f"{folder.name}/" if package != name else ""
        for path in folder.iterdir():
            if path.is_file() and path.suffix not in {".py", ".pyc"}:
                assert any(fnmatch(inner + path.name, one) for one in patterns), path
