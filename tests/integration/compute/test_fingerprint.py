"""A function is the same one as long as it does the same, in whatever process."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from taskq.compute.fingerprint import fingerprint
from taskq.compute.pickling import function_archive

PROGRAM = """
import functools, math
from dataclasses import dataclass
import numpy as np
{before}
FACTOR = {factor}
TABLE = {{"a": [1, 2], "b": {{"x", "y", "z"}}, "c": np.arange(3)}}

@dataclass
class Point:
    x: float
    def norm(self): return abs(self.x) {norm}

@functools.cache
def load(): return FACTOR

def helper(x): return math.sin(x) {helper}

def function(x, by={default}):
    {comment}
    inner = lambda y: helper(y) * FACTOR + load()
    return [inner(one) for one in (x, Point(x).norm(), by, TABLE["a"])]

from taskq.compute.fingerprint import fingerprint
print(fingerprint(function))
"""
SAME = {"before": "", "factor": 2, "norm": "", "helper": "", "default": 1, "comment": ""}


def of_program(folder: Path, **changes: object) -> str:
    """Return the fingerprint in a process of its own."""
    file = folder / f"program{len(changes)}.py"
    file.write_text(PROGRAM.format(**{**SAME, **changes}))
    return subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


@pytest.mark.thorough
def test_fingerprint_changes_with_what_the_function_does_only(tmp_path: Path) -> None:
    """Its code, a default, a global, a helper, a method of a class that it uses.

    Not another process, file, comment or line: hashes of text differ from process to process.
    """
    first = of_program(tmp_path)
    assert len(first) == 64
    assert of_program(tmp_path, before="import os\n\nOTHER = 1", comment="# a comment") == first
    changes = {"helper": "+ 1", "factor": 3, "norm": "+ 1", "default": 2, "comment": "x += 1"}
    for name, change in changes.items():
        assert of_program(tmp_path, **{name: change}) != first, name


MODULES = {
    "main": """
import helpers
import project.shapes
from project import shapes as forms
from project.deep import top

def function(x):
    import lazy
    return helpers.double(x) + project.shapes.area(x) + forms.Square(x).side + top(x) + lazy.f(x)
""",
    "helpers": "SEEN = {{}}\ndef double(x):\n    SEEN[x] = 1\n    return 2 * x {double}\n"
    "def unused(x):\n    return x {unused}",
    "project/__init__": "",
    "project/shapes": """
SIDES = {sides}
class Square:
    def __init__(self, side):
        self.side = side {method}
def area(x):
    return x ** SIDES
""",
    "project/deep": "from project.bottom import bottom\ndef top(x):\n    return bottom(x)",
    "project/bottom": "def bottom(x):\n    return top_again(x) {bottom}\n"
    "def top_again(x):\n    from project.deep import top\n    return x or top(x)",
    "lazy": "def f(x):\n    return x {lazy}",
}
UNCHANGED = dict.fromkeys(("double", "unused", "method", "bottom", "lazy"), "") | {"sides": "2"}


def of_modules(folder: Path, *, call: bool = False, **changes: str) -> str:
    """Return the fingerprint of a function of a module that uses others, in a new process."""
    folder.mkdir()
    for name, text in MODULES.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.format(**{**UNCHANGED, **changes}))
    program = "import main; from taskq.compute.fingerprint import fingerprint as of; "
    program += ("main.function(1); " if call else "") + "print(of(main.function))"
    argv = [sys.executable, "-c", program]
    return subprocess.run(
        argv, capture_output=True, text=True, check=True, timeout=60, cwd=folder
    ).stdout


@pytest.mark.thorough
def test_helpers_in_other_modules_count(tmp_path: Path) -> None:
    """Also those that helpers use, constants and methods; not what is not used, nor data."""
    first = of_modules(tmp_path / "first")
    assert of_modules(tmp_path / "called", call=True) == first
    assert of_modules(tmp_path / "unused", unused="+ 1", double="  # a comment") == first
    changes = [{"double": "+ 1"}, {"sides": "3"}, {"method": "+ 1"}, {"bottom": "+ 1"}]
    for number, change in enumerate([*changes, {"lazy": "+ 1"}]):
        assert of_modules(tmp_path / str(number), **change) != first, change


def test_archive_is_the_same_whenever_it_is_made() -> None:
    """It has neither times nor an order of its own."""
    with zipfile.ZipFile(io.BytesIO(function_archive("len", len))) as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist() == sorted(archive.namelist())
    assert function_archive("x", test_closures_differ_by_what_they_hold) == function_archive(
        "x", test_closures_differ_by_what_they_hold
    )


def test_closures_differ_by_what_they_hold() -> None:
    """And are equal if it is equal."""

    def adder(n: int) -> object:
        return lambda x: x + n

    assert fingerprint(adder(1)) == fingerprint(adder(1)) != fingerprint(adder(2))


def test_fingerprint_of_a_recursive_function_ends() -> None:
    """Also of one that uses a list that holds itself."""
    loop: list[object] = []
    loop.append(loop)

    def countdown(n: int) -> object:
        return countdown(n - 1) if n else loop

    assert fingerprint(countdown) == fingerprint(countdown)


def test_function_in_a_set_that_it_uses_has_a_fingerprint() -> None:
    """As a decorator registers them; other ones in the set count, in whatever order they come."""

    def registered(*summands: int) -> Callable[[int], int]:
        steps: set[Callable[[int], int]] = set()

        def work(x: int) -> int:
            return len(steps) + x

        def made(n: int) -> Callable[[int], int]:
            return lambda x: x + n if x else len(steps)

        steps.add(work)
        steps.update(map(made, summands))
        return work

    name = fingerprint(registered(*range(8)))
    assert (
        name == fingerprint(registered(*reversed(range(8)))) != fingerprint(registered(*range(7)))
    )


def test_object_is_known_by_its_content() -> None:
    """Used or not: pickling leaves traces in a class."""

    class Point:
        def __init__(self, x: object) -> None:
            self.x = x

    name = fingerprint(Point({"b", "a"}))
    Point(1).__reduce_ex__(4)
    assert name == fingerprint(Point({"a", "b"})) != fingerprint(Point({"a", "c"}))
