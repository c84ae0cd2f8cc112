"""mypy and pyright know the types of calls, settings and twins; what is listed twice agrees."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from mypy import api

import taskq
from taskq import CampaignSpec
from taskq.api import aio
from taskq.model.call_settings import CallSettings
from tests.helpers.paths import ROOT

CALLS = ROOT / "tests/payloads/typed_calls.py"
#: Read of `original`.
WITHOUT_TWIN = {"behind_s", "database"}


def wrong_lines() -> set[int]:
    """Return the numbers of the lines that type checkers must refuse."""
    lines = CALLS.read_text(encoding="utf-8").splitlines()
    return {n for n, line in enumerate(lines, 1) if line.endswith("# wrong")}


@pytest.mark.longer
def test_mypy_refuses_what_is_wrong_and_nothing_else() -> None:
    """Arguments, settings, and names of the module and of twins."""
    found, _, _ = api.run([f"--config-file={ROOT / 'pyproject.toml'}", str(CALLS)])
    errors = [line for line in found.splitlines() if ": error: " in line]
    assert {int(line.split(":")[1]) for line in errors} == wrong_lines(), found


@pytest.mark.thorough
@pytest.mark.longer
@pytest.mark.skipif(find_spec("basedpyright") is None, reason="the extra `lint` has it")
def test_pyright_refuses_what_is_wrong_and_nothing_else() -> None:
    """As mypy does."""
    argv = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson"]
    argv += ["--level", "error", str(CALLS)]
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(said.stdout)["generalDiagnostics"]
    assert {record["range"]["start"]["line"] + 1 for record in found} == wrong_lines(), found


def test_settings_of_calls_are_fields_of_campaigns() -> None:
    """By the same names, with the same types."""
    fields = get_type_hints(CampaignSpec)
    others = {"path", "handler", "params", "ranking", "_"}
    assert get_type_hints(CallSettings) == {n: t for n, t in fields.items() if n not in others}


@pytest.mark.parametrize("twin", [aio.AsyncClient, aio.AsyncCampaign, aio.AsyncRun])
def test_twins_have_all_methods(twin: type) -> None:
    """What returns an iterator is for `async for`, all else is awaited."""
    original: Any = getattr(taskq, twin.__name__.removeprefix("Async"))
    for name, method in inspect.getmembers(original, inspect.isfunction):
        if name.startswith("_"):
            continue
        returns = inspect.signature(method).return_annotation
        iterates = "Iterator" in returns or returns == "Selection"
        own = inspect.getattr_static(twin, name)
        awaited = isinstance(own, aio.Awaited) or inspect.iscoroutinefunction(own)
        assert awaited != iterates, name
        assert getattr(own, "method", method) is method, name
    properties = {n for n, v in vars(original).items() if isinstance(v, property)}
    assert properties - WITHOUT_TWIN <= {*dir(twin)}


def test_defaults_of_public_dataclasses_are_given_by_name() -> None:
    """A new field in the middle would otherwise silently get the value of the next one.

    A seed alone is given by place: payload, key, priority.
    """
    by_place = {
        f"{name}.{member.name}"
        for name, public in ((name, getattr(taskq, name)) for name in taskq.__all__)
        if dataclasses.is_dataclass(public) and public is not taskq.Seed
        for member in dataclasses.fields(public)
        if member.init and not member.kw_only and not is_needed(member)
    }
    assert sorted(by_place) == []


def is_needed(member: dataclasses.Field[Any]) -> bool:
    """Return whether a field has no default."""
    return member.default is member.default_factory is dataclasses.MISSING


def test_names_of_the_module_are_complete() -> None:
    """`dir` shows what there is for users, and each of these names is there."""
    assert set(dir(taskq)) == {*taskq.__all__, "__version__"}
    assert all(getattr(taskq, name) is not None for name in taskq.__all__)
    (checked,) = (
        node.body
        for node in ast.parse(Path(taskq.__file__).read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imports = [node for node in checked if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: node.module for node in imports for alias in node.names}
    for name, home in vars(taskq)["_HOMES"].items():
        assert homes[name] == f"taskq.{home}", "type checkers look where the program does"
    with pytest.raises(AttributeError, match="conect") as raised:
        taskq.conect  # type: ignore[attr-defined]  # noqa: B018
    assert raised.value.obj is taskq


@pytest.mark.parametrize(
    ("program", "without"),
    [
        ("import taskq; taskq.Retry", {"psycopg", "taskq.api", "taskq.model.views"}),
        ("from taskq import Client", {"taskq.compute", "taskq.diagnosis.rules", "taskq.pilots"}),
        ("from taskq_agent.handlers import child", {"taskq", "taskq_agent.handlers.slot"}),
        ("import taskq_cli.commands.status", {"taskq.diagnosis.blame", "tarfile", "textual"}),
    ],
)
def test_programs_import_what_they_use_and_little_else(program: str, without: set[str]) -> None:
    """Tasks import `taskq` for a name or two, and each command starts a Python."""
    shown = f"{program}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], check=True, capture_output=True, text=True)
    assert not without & {*done.stdout.split()}
