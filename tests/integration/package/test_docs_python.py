"""docs/python.md shows every public call, and each of its examples can be run as it stands."""

from __future__ import annotations

import gzip
import inspect
import os
import re
from pathlib import Path
from typing import Any

import pytest

import taskq
from taskq import Campaign, Client, Run
from taskq.db.tokens import Tokens
from taskq.pilots.store import Pilots
from tests.helpers.command_line import PROGRAM
from tests.helpers.paths import ROOT
from tests.helpers.postgres import Postgres

PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")
ERRORS = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

CAMPAIGN_FILE = """
path = "/demo/cubes"
[handler]
kind = "command"
argv = ["sh", "-c", "exit 3"]
[retry]
max_attempts = 1
[seed]
sweep = ["n=1:1"]
"""


def public(kind: type) -> set[str]:
    """Return the methods that a class has for its callers."""
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name for name, _ in found if name[0] != "_"}


def test_every_public_call_has_an_example() -> None:
    """One that is new in the library is new on the page."""
    shown = "\n".join(EXAMPLES)
    for kind in (Client, Campaign, Run, Tokens, Pilots):
        calls = set(re.findall(r"\.(\w+)\(", shown))
        assert public(kind) <= calls, kind
    for name in taskq.__all__:
        assert f"taskq.{name}" in PAGE + ERRORS or name in ("Campaign", "Client"), name


@pytest.mark.thorough
def test_examples_run(
    dsn: str, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the page, in a folder with the files that they name."""
    (tmp_path / "campaign.toml").write_text(CAMPAIGN_FILE)
    (tmp_path / "tasks.csv").write_text("n\n10\n11\n")
    (tmp_path / "receptor.pdbqt").write_text("ATOM\n")
    with gzip.open(tmp_path / "ligands.smi.gz", "wt") as ligands:
        ligands.write("CCO ethanol\nC methane\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TASKQ_DSN", dsn)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{PROGRAM.parent}:{os.environ['PATH']}")
    names: dict[str, Any] = {"__name__": "__main__"}
    for example in EXAMPLES:
        exec(compile(example, str(PROGRAM), "exec"), names)  # noqa: S102  # our own page's
    assert (tmp_path / "squares.csv").read_text().count("\n") == 14
    left = postgres.execute("select path from taskq.campaign order by path").fetchall()
    assert [row["path"] for row in left] == [
        "/",
        "/calls",
        "/demo",
        "/demo/cubes",
        "/executor",
    ]
