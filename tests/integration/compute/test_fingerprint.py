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
from tests.helpers.variants import rest_thorough

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


def test_another_process_and_another_file_change_nothing(tmp_path: Path) -> None:
    """Nor do comments and other lines: hashes of text differ from process to process."""
    first = of_program(tmp_path)
    again = of_program(tmp_path, before="import os\n\nOTHER = 1", comment="# a comment")
    assert first == again
    assert len(first) == 64


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change",
    rest_thorough(
        [{"helper": "+ 1"}, {"factor": 3}, {"norm": "+ 1"}, {"default": 2}, {"comment": "x += 1"}]
    ),
    ids=str,
)
def test_what_the_function_does_changes_it(tmp_path: Path, change: dict[str, object]) -> None:
    """Its code, a default, a global, a helper, a method of a class that it uses."""
    assert of_program(tmp_path, **change) != of_program(tmp_path)


def test_archive_is_the_same_whenever_it_is_made() -> None:
    """It has neither times nor an order of its own."""
    with zipfile.ZipFile(io.BytesIO(function_archive("len", len))) as archive:
        assert {one.date_time for one in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist() == sorted(archive.namelist())
    assert function_archive("x", test_closures_differ_by_what_they_hold) == function_archive(
        "x", test_closures_differ_by_what_they_hold
    )


def test_closures_differ_by_what_they_hold() -> None:
    """And are equal if it is equal."""

    def adder(n: int) -> object:
        return lambda x: x + n

    assert fingerprint(adder(1)) == fingerprint(adder(1)) != fingerprint(adder(2))


def test_what_refers_to_itself_has_an_end() -> None:
    """A recursive function, and a list that holds itself."""
    loop: list[object] = []
    loop.append(loop)

    def countdown(n: int) -> object:
        return countdown(n - 1) if n else loop

    assert fingerprint(countdown) == fingerprint(countdown)


def test_a_function_in_a_set_that_it_uses_has_a_fingerprint() -> None:
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

    one = fingerprint(registered(*range(8)))
    assert one == fingerprint(registered(*reversed(range(8)))) != fingerprint(registered(*range(7)))


def test_an_object_is_known_by_its_content() -> None:
    """Used or not: pickling leaves traces in a class."""

    class Point:
        def __init__(self, x: object) -> None:
            self.x = x

    one = fingerprint(Point({"b", "a"}))
    Point(1).__reduce_ex__(4)
    assert one == fingerprint(Point({"a", "b"})) != fingerprint(Point({"a", "c"}))
