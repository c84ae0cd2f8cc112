"""A result is data; pickles are read where somebody has said so, and nowhere else."""

from __future__ import annotations

import argparse
import base64
import collections
import dataclasses
import enum
import json
import os
import pickle
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

from taskq.compute.raised import exception_of
from taskq.compute.trust import ResultReader
from taskq.model.errors import ResultNotTrusted, UsageError
from taskq_agent import buffers, objects, typed
from taskq_agent.handlers.calls import pickled
from taskq_agent.handlers.raised import exception_record
from tests.payloads.called import BadLigand

OPEN: Final = open


class Ligand:
    """A class that a caller may trust."""

    def __init__(self, smiles: str) -> None:
        self.smiles = smiles


class Shape(Sized):
    """A class whose type is not `type`."""

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


class Colour(enum.Enum):
    """An enumeration."""

    RED = 1


def sent(value: object) -> Any:
    """Return a value as an agent sends it: data as far as it can, else pickles."""
    writer = objects.ObjectWriter(pickled, record=lambda error: exception_record(error, ""))
    return typed.encode_result(value, writer, buffers.Data)


def read(value: object, trust: Any = (), homes: tuple[str, ...] = (__name__,)) -> Any:
    """Return a value as an agent sends it and a caller reads it."""
    text = json.dumps(sent(value), default=buffers.as_base64)
    return ResultReader(trust, homes=homes).decoded(json.loads(text))


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
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        [time(1, 2), Fraction(1, 3), Decimal("1.0"), UUID(int=5), ZoneInfo("UTC"), 1j],
        [range(3), slice(1, None), bytearray(b"x"), {1, (2,)}, frozenset({1}), Path("/a")],
        np.array([1, "a", None, [2]], dtype=object),
        ValueError("x", 1),
        FileNotFoundError(2, "no", "/file"),
        BadLigand(1, "odd"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_data_and_exceptions_need_no_trust(value: object) -> None:
    """They come back with their very types, though nothing of theirs is called."""
    assert "$pickle" not in str(sent([value]))
    assert repr(read([value])) == repr([value])


def test_exceptions_are_made_without_their_constructors() -> None:
    """Which may want other arguments than they hand on."""

    class Odd(Exception):
        def __init__(self, number: int, *, why: str) -> None:
            super().__init__(f"{number}: {why}")
            self.why = why

    args, state = objects.exception_parts(Odd(1, why="odd"))
    again = objects.rebuilt(Odd, args, state)
    assert (str(again), vars(again)) == ("1: odd", {"why": "odd"})
    assert isinstance(read(BadLigand(1, "odd")), BadLigand)


NOT_DATA: Final = {
    "its __reduce__": Evil(),
    "the __reduce__ of another": Sneaky(),
    "a plain class": Ligand("C"),
    "a builtin": print,
    "a method": Path.unlink,
    "a function": OPEN,
    "a table of periods": pd.DataFrame({"a": pd.period_range("2026", periods=1)}),
}


@pytest.mark.parametrize("what", NOT_DATA)
def test_object_that_is_no_data_is_refused_by_name(what: str) -> None:
    """With the remedy; and nothing of it was called."""
    with pytest.raises(ResultNotTrusted, match=r"a result needs .*[Rr]eturn .*trust=") as caught:
        read([{"deep": NOT_DATA[what]}])
    assert caught.value.args


def test_remedy_names_the_class_and_its_package() -> None:
    """A dataclass would be data."""
    for value, remedy in ((Ligand("C"), r'trust=\["tests"\]'), (pd.Period("2026"), r"pandas")):
        with pytest.raises(ResultNotTrusted, match=remedy):
            read(value)
    parts = ["__main__:Ligand", "AA=="]
    with pytest.raises(ResultNotTrusted, match=r"a dataclass .* trust=\[Ligand\]"):
        ResultReader().decoded({"value": {"$pickle": parts}})


@pytest.mark.parametrize("value", [Evil(), Sneaky(), print])
@pytest.mark.parametrize("trust", [(), [Ligand], [Evil, Sneaky]])
def test_no_error_proposes_to_trust_modules_that_start_programs(value: object, trust: Any) -> None:
    """Who followed it would have run what an agent sent."""
    with pytest.raises(ResultNotTrusted) as caught:
        read(value, trust)
    assert not any(f'["{name}"]' in str(caught.value) for name in ("os", "posix", "subprocess"))


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
        reader.decoded({"value": {"$pickle": ["a:B", "AA=="]}})
    assert reader.decoded({"value": {"$tuple": [1]}}) == (1,)


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame({"a": pd.arrays.SparseArray([0, 1]), "b": ["x", None]}),
        pd.DataFrame(
            {"a": pd.period_range("2026", periods=1)}, index=pd.MultiIndex.from_tuples([(1, "x")])
        ),
        pd.Series(pd.array([1, None], dtype="int64[pyarrow]")),
        pd.Series(pd.interval_range(0, 2)),
        pd.Period("2026-11"),
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
def test_trusted_class_is_read(trust: Any) -> None:
    """Named by class, by module, by the module itself, or with everything."""
    assert read(Ligand("CCO"), trust).smiles == "CCO"


def test_class_with_a_metaclass_is_trusted_by_itself() -> None:
    """And by nothing else."""
    with pytest.raises(ResultNotTrusted, match="trust="):
        read(Shape(), [Ligand])
    assert type(read(Shape(), [Shape])) is Shape


class Holder:
    """An object with values of other classes in its attributes."""

    def __init__(self, *values: object) -> None:
        self.held = values


def test_trusted_objects_hold_values_and_what_else_is_named() -> None:
    """Plain values, arrays, exceptions and times need no name of their own."""
    zone = ZoneInfo("Europe/Berlin")
    plain = (datetime(2026, 1, 1, tzinfo=zone), Decimal("1.0"), Path("/a"), UUID(int=1), {1})
    found = read(Holder(*plain, BadLigand(1, "odd"), np.arange(5_000.0), np.float32(1.5)), [Holder])
    assert found.held[:5] == plain
    assert type(found.held[5]) is BadLigand
    assert found.held[6][4_999] == 4_999.0
    assert type(found.held[7]) is np.float32
    with pytest.raises(ResultNotTrusted, match="Ligand"):
        read(Holder(Ligand("C")), [Holder])
    assert read(Holder(Ligand("C"), Colour.RED), [Holder, Ligand, Colour]).held[1] is Colour.RED


class Named:
    """Makes a pickle that calls something by its name."""

    def __init__(self, module: str, name: str, *args: object) -> None:
        self._parts = module, name, args

    def pickle(self) -> str:
        """Return the pickle in Base64."""
        module, name, args = self._parts
        called = f"c{module}\n{name}\n".encode() + pickle.dumps(args, 0)[:-1] + b"R."
        return base64.b64encode(called).decode()


@pytest.mark.parametrize("trust", [[Ligand], ["numpy"], [pd]], ids=["class", "numpy", "pandas"])
def test_trust_in_a_class_or_in_numpy_lets_nothing_write_files_or_run_programs(
    tmp_path: Path, trust: Any
) -> None:
    """NumPy's arrays are read with any class; not what else NumPy can do."""
    kept, made = tmp_path / "kept", tmp_path / "made"
    kept.write_text("precious")
    for hostile in (
        Named("numpy", "memmap", str(kept), "u1", "w+", 0, (4,)),
        Named("numpy.distutils.exec_command", "_exec_command", ["touch", str(made)]),
        Named("numpy.lib._npyio_impl", "_savez", str(made), (), {}, False),
        Named("numpy.lib.npyio", "_savez", str(made), (), {}, False),
        Named("numpy.lib._datasource", "DataSource", str(made)),
        Named("numpy", "save", str(made), [1]),
        Named("numpy.f2py.__main__", "main"),
    ):
        with pytest.raises(ResultNotTrusted):
            ResultReader(trust).decoded({"value": {"$pickle": ["a:b", hostile.pickle()]}})
    assert [*tmp_path.iterdir()] == [kept]
    assert kept.read_text() == "precious"
    assert "numpy.distutils.exec_command" not in sys.modules


def test_values_of_numpy_are_read_with_any_trusted_class() -> None:
    """Arrays of all kinds, generators of random numbers, and single values."""
    values = (
        *(np.asfortranarray(np.ones((300, 40))), np.array(["a", None], object)),
        *(np.ma.masked_array([1, 2], [True, False]), np.rec.array([(1, 2.0)], dtype="i4,f8")),
        *(np.random.default_rng(7), np.random.RandomState(7), np.dtype("M8[D]"), np.float32(1.5)),
        *(np.sin, np.int64, np.poly1d([1, 2]), np.datetime64("2026-11-28")),
    )
    found = read(Holder(*values), [Holder]).held
    assert [type(value) for value in found] == [type(value) for value in values]
    assert list(map(repr, found))[:4] == list(map(repr, values))[:4]
    assert found[4].random() == np.random.default_rng(7).random()


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A class with slots, which dataclasses fill."""

    x: int
    y: object


class Pair(NamedTuple):
    """A tuple with names."""

    first: int
    other: object


class Kinds(enum.Flag):
    """Flags."""

    A = 1
    B = 2


def test_objects_of_the_functions_module_are_data() -> None:
    """Wherever they are within a value."""
    for value in (
        {Point(1, (2,))},
        {"deep": [(Point(1, Pair(2, [Colour.RED])),)]},
        {Colour.RED: {Pair(1, 2): Kinds.A | Kinds.B}},
        Pair(1, [2]),
        Colour.RED,
    ):
        assert "$pickle" not in str(sent(value))
        assert read(value) == value
        assert type(read(value)) is type(value)


def test_classes_of_other_modules_are_found_only_where_they_are_trusted() -> None:
    """By their package or themselves; nothing is imported since a result names it."""
    with pytest.raises(ResultNotTrusted, match="Point"):
        read(Point(1, 2), homes=())
    assert read(Point(1, 2), [Point], ()) == Point(1, 2)
    assert read(Point(1, 2), ["tests"], ()) == Point(1, 2)
    before = {*sys.modules}
    with pytest.raises(ResultNotTrusted, match=r"this\.X"):
        ResultReader().decoded({"value": {"$enum": ["this:X", "A"]}})
    assert {*sys.modules} == before


def test_class_that_a_module_has_only_imported_is_not_its_own() -> None:
    """`from subprocess import Popen` in a notebook gives agents no program to start."""
    for name in ("subprocess.Popen", "subprocess", "datetime"):
        with pytest.raises(ResultNotTrusted, match="does not have"):
            ResultReader(homes=[__name__]).decoded(
                {"value": {"$dataclass": [f"{__name__}:{name}", {}]}}
            )


@pytest.mark.parametrize("text", ["", "AAAA", "not base64", "gASVAA=="])
@pytest.mark.parametrize("trust", [(), True])
def test_bytes_that_are_no_pickle_are_refused(text: str, trust: Any) -> None:
    """Whatever they are."""
    with pytest.raises(ResultNotTrusted):
        ResultReader(trust).decoded({"value": {"$pickle": ["a:B", text]}})


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
