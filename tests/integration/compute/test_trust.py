"""Pickles are read where somebody has said so, and nowhere else."""

from __future__ import annotations

import argparse
import base64
import collections
import dataclasses
import enum
import os
import subprocess
import sys
from collections.abc import Sized
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from taskq.compute.outcomes import exception_of
from taskq.compute.unpickling import ResultReader
from taskq.model.errors import ResultNotTrusted, UsageError
from taskq_agent import typed
from taskq_agent.handlers.calls import pickled
from tests.helpers import hostile_pickles as hostile
from tests.payloads.called import BadLigand

OPEN: Final = open


class Ligand:
    """A class that a caller may trust."""

    def __init__(self, smiles: str) -> None:
        self.smiles = smiles


class Colour(enum.Enum):
    """A class whose type is not `type`, as of many libraries."""

    RED = 1


class Shape(Sized):
    """Another one."""

    def __len__(self) -> int:
        return 1


class Evil:
    """What an agent may send."""

    def __reduce__(self) -> Any:
        return os.system, ("touch /nowhere/at/all",)


class Sneaky:
    """The same by a class, which is one of the caller's modules' names."""

    def __reduce__(self) -> Any:
        return subprocess.Popen, (["true"],)


def read(value: object, trust: Any = (), homes: tuple[str, ...] = ()) -> Any:
    """Return a value as an agent sends it and a caller reads it."""
    reader = ResultReader(trust)
    reader.homes.update(homes)
    return reader.decoded({"value": {"$pickle": [part.view for part in pickled(value)]}})


@pytest.mark.parametrize(
    "value",
    [
        collections.Counter("abc"),
        collections.OrderedDict(b=1, a=2),
        collections.defaultdict(list, a=[1]),
        collections.deque([1, 2], 3),
        timedelta(1),
        timezone(timedelta(hours=2), "X"),
        datetime(2026, 11, 22, tzinfo=timezone.utc),
        [time(1, 2), Fraction(1, 3), Decimal("1.0"), UUID(int=5), ZoneInfo("UTC"), 1j],
        [range(3), slice(1, None), bytearray(b"x"), {1, (2,)}, frozenset({1}), Path("/a")],
        np.array([1, "a", None, [2]], dtype=object),
        {np.float32(1.5), np.str_("x")},
        np.dtype("<f4"),
        ValueError("x", 1),
        FileNotFoundError(2, "no", "/file"),
        BadLigand(1, "odd"),
        int,
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_data_and_exceptions_are_read(value: object) -> None:
    """They come back with their very types, though nothing of theirs is called."""
    assert repr(read([value])) == repr([value])


def test_exceptions_are_made_without_their_constructors() -> None:
    """Which may want other arguments than they hand on."""

    class Odd(Exception):
        def __init__(self, number: int, *, why: str) -> None:
            super().__init__(f"{number}: {why}")
            self.why = why

    args, state = typed.exception_parts(Odd(1, why="odd"))
    again = typed.rebuilt(Odd, args, state)
    assert (str(again), vars(again)) == ("1: odd", {"why": "odd"})
    assert isinstance(read(BadLigand(1, "odd")), BadLigand)


@pytest.mark.parametrize("value", [Evil(), Sneaky(), Ligand("C"), print, Path.unlink, OPEN])
def test_what_is_not_trusted_is_refused_by_name(value: object) -> None:
    """And nothing of it was called."""
    with pytest.raises(ResultNotTrusted, match="a result needs"):
        read(value)


@pytest.mark.parametrize("value", [Evil(), Sneaky(), print])
def test_no_error_proposes_to_trust_modules_that_start_programs(value: object) -> None:
    """Who followed it would have run what an agent sent."""
    with pytest.raises(ResultNotTrusted) as caught:
        read(value)
    assert '["' not in str(caught.value)


@pytest.mark.parametrize("name", ["builtins", "os", "subprocess", "os.path", "taskq_agent.typed"])
def test_modules_that_start_programs_are_not_trusted_whole(name: str) -> None:
    """The caller learns the reason before anything is computed."""
    with pytest.raises(UsageError, match="name classes"):
        ResultReader([name])
    assert read(argparse.Namespace(a=1), [argparse.Namespace]).a == 1


def test_functions_by_name_have_no_pickled_results() -> None:
    """Their agents make none, whatever is trusted."""
    reader = ResultReader(True, by_value=False)
    with pytest.raises(ResultNotTrusted, match="by name"):
        reader.decoded({"value": {"$pickle": [part.view for part in pickled(Ligand("C"))]}})
    assert reader.decoded({"value": {"$tuple": [1]}}) == (1,)


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame({"a": [1, 2], "b": ["x", None]}),
        pd.DataFrame({"a": [1.5]}, index=pd.MultiIndex.from_tuples([(1, "x")])),
        pd.Series(pd.date_range("2026", periods=3, tz="Europe/Berlin")),
        pd.Series(["a", "b"], dtype="category"),
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None], dtype="string"),
        pd.Timestamp("2026-11-22"),
    ],
    ids=lambda value: str(getattr(value, "dtype", type(value).__name__)),
)
def test_pandas_needs_no_other_trust_than_its_own(value: Any) -> None:
    """What it refers to elsewhere is allowed with it."""
    assert repr(read({"table": value}, [pd])) == repr({"table": value})
    assert repr(read({"table": value}, True)) == repr({"table": value})
    with pytest.raises(ResultNotTrusted, match="pandas"):
        read(value)


@pytest.mark.parametrize("trust", [[Ligand], [Ligand.__module__], [sys.modules[__name__]], True])
def test_what_is_trusted_is_read(trust: Any) -> None:
    """A class, its module by name or itself, or everything."""
    assert read(Ligand("CCO"), trust).smiles == "CCO"


@pytest.mark.parametrize("value", [Colour.RED, Shape()], ids=lambda value: type(value).__name__)
def test_a_class_with_a_metaclass_is_trusted_by_itself(value: object) -> None:
    """And by nothing else."""
    with pytest.raises(ResultNotTrusted, match="trust="):
        read(value, [Ligand])
    assert type(read(value, [type(value)])) is type(value)


class Named:
    """An attribute of a class, as Python 3.11.2 pickles members of enumerations."""

    def __init__(self, kind: type, name: str) -> None:
        self.of = kind, name

    def __reduce__(self) -> Any:
        return getattr, self.of


def test_members_of_enumerations_are_read_by_name_and_nothing_else_is() -> None:
    """As agents of Python 3.11.0 to 3.11.3 send them."""
    assert read(Named(Colour, "RED"), [Colour]) is Colour.RED
    with pytest.raises(ResultNotTrusted):
        read(Named(Colour, "RED"))
    for kind, name in ((Colour, "__class__"), (Colour, "mro"), (Ligand, "__init__")):
        with pytest.raises(ResultNotTrusted, match="not an enumeration"):
            read(Named(kind, name), [Colour, Ligand])


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A class with slots, which dataclasses fill."""

    x: int
    y: object


class Pair(NamedTuple):
    """A tuple with names."""

    one: int
    other: object


class Node:
    """A part of a graph."""

    def __init__(self, parent: Node | None) -> None:
        self.parent = parent
        self.children: list[Node] = []


class Table(dict[str, int]):
    """A dictionary with an attribute."""


class Kinds(enum.Flag):
    """Flags."""

    A = 1
    B = 2


def test_objects_of_the_callers_classes_are_made_of_data() -> None:
    """With references to each other, slots, fields, items and attributes; without constructors."""
    home = (__name__,)
    root = Node(None)
    root.children = [Node(root), Node(root)]
    again = read(root, homes=home)
    assert [one.parent for one in again.children] == [again, again]
    table = Table(a=1)
    table.about = "x"  # type: ignore[attr-defined]
    found = read(table, homes=home)
    assert (found, vars(found), type(found)) == ({"a": 1}, {"about": "x"}, Table)
    for value in ({Point(1, (2,))}, Pair(1, [2]), Colour.RED, Kinds.A | Kinds.B, [Ligand, int]):
        assert read(value, homes=home) == value


def test_a_class_that_a_module_has_only_imported_is_not_its_own() -> None:
    """`from subprocess import Popen` in a notebook gives agents no program to start."""
    for name in ("subprocess.Popen", "subprocess"):
        steps = hostile.PROTO + hostile.name(__name__, name) + hostile.STOP
        reader = ResultReader()
        reader.homes.add(__name__)
        with pytest.raises(ResultNotTrusted):
            reader.decoded({"value": {"$pickle": [base64.b64encode(steps).decode()]}})


@pytest.mark.parametrize("text", ["", "AAAA", "not base64", "gASVAA=="])
def test_bytes_that_are_no_pickle_are_refused(text: str) -> None:
    """Whatever they are."""
    with pytest.raises(ResultNotTrusted):
        ResultReader().decoded({"value": {"$pickle": [text]}})


@pytest.mark.thorough
@pytest.mark.parametrize("how", [("corpus",), ("random", "7")])
def test_hostile_results_do_nothing_and_end(how: tuple[str, ...]) -> None:
    """Not to the process, its classes and modules, its files; in bounded memory and time."""
    program = [sys.executable, "-m", "tests.helpers.hostile_reading", *how]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2_000:] + ended.stderr[-4_000:]


def test_exceptions_are_made_of_known_exception_classes_only() -> None:
    """Neither another class, nor a module that would be imported, nor what ends the program."""
    known = exception_of({"class": "builtins:KeyError", "args": ["x"], "traceback": "T"})
    assert isinstance(known, KeyError)
    assert known.args == ("x",)
    assert "T" in str(known.__cause__)
    for name in (
        "subprocess:Popen",
        "builtins:SystemExit",
        "builtins:KeyboardInterrupt",
        "antigravity:Error",
        "builtins:eval",
        "tests.payloads.called:os.error",
        "",
    ):
        assert exception_of({"class": name, "args": ["x"]}) is None
