"""What users build on, one line a name: docs/surface.txt, which docs/stability.md explains.

`python -m tests.helpers.surface` writes it. A line that a change takes away is a promise that it
ends: `gone` finds those since the last release.
"""

from __future__ import annotations

import inspect
import re
import subprocess
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import taskq
from taskq.db.catalogue import all_statements
from taskq.db.tokens import Tokens
from taskq.gateway.app import document
from taskq.model import views
from taskq.model.campaign_spec import campaign_keys
from taskq.model.version import VERSION
from taskq.pilots.store import Pilots
from tests.helpers.errors_page import exceptions
from tests.helpers.flags_page import options, shape
from tests.helpers.paths import ROOT

FILE: Final = ROOT / "docs/surface.txt"
HEAD: Final = "# Written by `make schema`; docs/stability.md says what it promises.\n"

_VARIABLE: Final = re.compile(r"^\| `(TASKQ_\w+)` \|", re.MULTILINE)
_METRICS: Final = re.compile(r"^\| (`taskq_.*?) \| ", re.MULTILINE)


def lines() -> list[str]:
    """Return all lines, sorted: a kind of surface, and a name of it."""
    found = {
        *_python(),
        *_commands(),
        *(f"exit code: {kind.__name__} {kind.exit_code}" for kind in exceptions()),
        *(f"campaign file: {key}" for key in campaign_keys()),
        *(f"variable: {name}" for name in _VARIABLE.findall(_text("docs/cli.md"))),
        *_metrics(),
        *_sql(),
        *_protocol(),
    }
    return sorted(found)


def _python() -> Iterator[str]:
    shown = [getattr(taskq, name) for name in taskq.__all__ if name != "__version__"]
    for kind in (*shown, Tokens, Pilots, *vars(views).values()):
        if not inspect.isclass(kind):
            continue
        if is_dataclass(kind):  # records of --output json have the same fields
            names = [field.name for field in fields(kind) if field.name[0] != "_"]
            yield from (f"python: {kind.__name__}.{name}" for name in names)
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if name[0] != "_" and method.__module__.startswith("taskq"):
                takes = ", ".join(list(inspect.signature(method).parameters)[1:])
                yield f"python: {kind.__name__}.{name}({takes})"
    for function in shown:
        if inspect.isfunction(function):
            takes = ", ".join(inspect.signature(function).parameters)
            yield f"python: {function.__name__}({takes})"


def _commands() -> Iterator[str]:
    for command, option in options():
        yield f"command: {command}"
        for flag in (*option.opts, *option.secondary_opts):
            yield f"command: {command} {flag} {shape(option)}".rstrip()


def _sql() -> Iterator[str]:
    for name, statement in all_statements().items():
        if statement.is_function and statement.rights:
            yield f"sql: {name}({', '.join(statement.parameters)})"


def _protocol() -> Iterator[str]:
    described = document()
    for path, methods in described["paths"].items():
        yield from (f"protocol: {method.upper()} {path}" for method in methods)
    for name, schema in described["components"]["schemas"].items():
        yield from (f"protocol: {name}.{member}" for member in schema.get("properties", {}))


def _metrics() -> Iterator[str]:
    for row in _METRICS.findall(_text("docs/gateway.md")):
        first, *others = re.findall(r"`(?:\.\.\.)?(\w+)", row)
        yield f"metric: {first}"
        start = "_".join(first.split("_")[:2])  # the page says `taskq_front_a`, `..._b`
        for other in others:
            yield f"metric: {other if other.startswith('taskq_') else start + other}"


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def page() -> str:
    """Return the file as it should be."""
    return HEAD + "".join(f"{line}\n" for line in lines())


def release_before(root: Path) -> str | None:
    """Return the tag of the release before this one; None if there is none."""
    git: list[Any] = ["git", "-C", root, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]
    # This one may have its tag already.
    found = subprocess.run(
        [*git, "--exclude", f"v{VERSION}"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or None


def gone(root: Path) -> list[str]:
    """Return the lines of the release before that are gone, and not named by CHANGELOG.md."""
    last = release_before(root)
    if last is None:
        return []
    words: list[Any] = ["git", "-C", root, "show", f"{last}:docs/surface.txt"]
    before = subprocess.check_output(words, text=True).splitlines()
    now = (root / "docs/surface.txt").read_text(encoding="utf-8").splitlines()
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    removed = set(before) - set(now)
    return sorted(line for line in removed if f"`{line.partition(': ')[2]}`" not in log)


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
