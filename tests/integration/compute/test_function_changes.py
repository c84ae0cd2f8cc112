"""A changed function is refused, and the error names what has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskq import Client, FunctionChanged

SOURCE = """
import functools, itertools, random, time

FACTOR = 2
MEMO = {}
STARTED = time.time()
DRAWS = random.Random()
COUNTER = itertools.count()

class Point:
    SIDES = 4
    def norm(self):
        return self.SIDES

@functools.cache
def cached(x):
    return x

def helper(x):
    return x * FACTOR

def scaled(by):
    return lambda x: x * by

double = scaled(2)
"""
FUNCTIONS = {
    "plain": "def function(x, by=1):\n    return helper(x) + by",
    "class": "def function(x):\n    return Point().norm() + x",
    "closure": "def function(x):\n    return double(x)",
    "memo": "def function(x):\n    return MEMO.setdefault(x, x)",
    "clock": "def function(x):\n    return STARTED + x",
    "random": "def function(x):\n    return DRAWS.random() + x",
    "iterator": "def function(x):\n    return next(COUNTER) + x",
    "cached": "def function(x):\n    return cached(x)",
}


def made(kind: str, *change: str, then: str = "") -> Any:
    """Return a function of a program, in which a text was replaced by another."""
    names: dict[str, Any] = {"__name__": "__main__"}
    source = SOURCE + FUNCTIONS[kind]
    exec(f"{source.replace(*change) if change else source}\n{then}", names)  # noqa: S102  # ours
    return names["function"]


def refused(queue: Client, name: str, function: Any, **how: Any) -> FunctionChanged:
    """Return the error of a call with another function."""
    with pytest.raises(FunctionChanged) as raised:
        queue.map(function, [1], name=name, **how)
    return raised.value


@pytest.mark.parametrize(
    ("kind", "change", "parts"),
    [
        ("plain", ("+ by", "- by"), ["the code of function"]),
        ("plain", ("by=1", "by=3"), ["the default of by in function"]),
        ("plain", ("x * FACTOR", "x + FACTOR"), ["the code of helper"]),
        ("plain", ("FACTOR = 2", "FACTOR = 3"), ["the global FACTOR"]),
        ("class", ("SIDES = 4", "SIDES = 5"), ["Point.SIDES"]),
        ("class", ("self.SIDES", "-self.SIDES"), ["the code of Point.norm"]),
        ("closure", ("scaled(2)", "scaled(3)"), ["by around <lambda>"]),
        ("cached", ("return x\n", "return -x\n"), ["the global cached", "the code of cached"]),
    ],
)
def test_error_names_what_has_changed(
    queue: Client, name: str, kind: str, change: tuple[str, str], parts: list[str]
) -> None:
    """Code, a default, a global, a helper, an attribute of a class, a variable of a closure."""
    queue.map(made(kind), [1], name=name)
    assert len(queue.map(made(kind), [1], name=name)) == 1
    error = refused(queue, name, made(kind, *change))
    assert sorted(error.parts) == sorted(parts)
    assert all(part in str(error) for part in parts)


@pytest.mark.parametrize(
    ("kind", "part", "type_name"),
    [
        ("memo", "the global MEMO", "dict"),
        ("clock", "the global STARTED", "float"),
        ("random", "the global DRAWS", "Random"),
        ("iterator", "the global COUNTER", "count"),
    ],
)
def test_values_that_differ_in_each_process_are_named_with_the_remedy(
    queue: Client, name: str, kind: str, part: str, type_name: str
) -> None:
    """A memo that has filled, a time stamp, a random state, an iterator."""
    queue.map(made(kind), [1], name=name)
    error = refused(queue, name, made(kind, then="function(7)"))
    assert error.parts == (part,)
    assert f"If {part} (of the type {type_name}) differs in each process" in str(error)
    assert "make it within the function" in str(error)


def test_filled_cache_of_functools_is_no_change(queue: Client, name: str) -> None:
    queue.map(made("cached"), [1], name=name)
    assert len(queue.map(made("cached", then="function(7)"), [1], name=name)) == 1


def test_changed_params_and_inputs_are_named(queue: Client, name: str, tmp_path: Path) -> None:
    """By their names; the others are not, and there is no advice for functions."""
    files = [tmp_path / name for name in ("receptor.pdbqt", "other.txt")]
    for file in files:
        file.write_text("1")
    how: dict[str, Any] = {"params": {"by": 1, "x": 2}, "inputs": files}
    queue.map(made("plain"), [1], name=name, **how)
    files[0].write_text("2")
    error = refused(queue, name, made("plain"), **how | {"params": {"by": 1.0, "x": 2}})
    assert (error.differs, error.parts) == (("params", "inputs"), ("by", "receptor.pdbqt"))
    assert "other params (by) and other inputs (receptor.pdbqt)" in str(error)
    assert "in each process" not in str(error)
