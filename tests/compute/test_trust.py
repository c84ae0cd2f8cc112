"""Pickles are read where somebody has said so, and nowhere else."""

from __future__ import annotations

import base64
import collections
import enum
import os
import pickle
import subprocess
import sys
from collections.abc import Sized
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taskq.compute.outcomes import exception_of
from taskq.compute.unpickling import ResultReader
from taskq.errors import ResultNotTrusted
from tests.payloads.called import BadLigand


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


def words(value: object) -> list[str]:
    """Return a pickled result as it is stored."""
    return [base64.b64encode(pickle.dumps(value, 4)).decode()]


@pytest.mark.parametrize(
    "value",
    [
        collections.Counter("abc"),
        timedelta(1),
        np.array([1, "a", None], dtype=object),
        ValueError("x", 1),
        BadLigand(1, "odd"),
    ],
    ids=repr,
)
def test_plain_data_and_exceptions_are_read(value: object) -> None:
    """They do nothing when they are made."""
    assert repr(ResultReader()(words(value))) == repr(value)


@pytest.mark.parametrize("value", [Evil(), Sneaky(), Ligand("C"), print, Path.unlink])
def test_what_is_not_trusted_is_refused_by_name(value: object) -> None:
    """And nothing of it was called."""
    with pytest.raises(ResultNotTrusted, match="trust="):
        ResultReader()(words(value))


@pytest.mark.parametrize("trust", [[Ligand], [Ligand.__module__], [sys.modules[__name__]], True])
def test_what_is_trusted_is_read(trust: Any) -> None:
    """A class, its module by name or itself, or everything."""
    assert ResultReader(trust)(words(Ligand("CCO"))).smiles == "CCO"


@pytest.mark.parametrize("value", [Colour.RED, Shape()], ids=lambda value: type(value).__name__)
def test_a_class_with_a_metaclass_is_trusted_by_itself(value: object) -> None:
    """And by nothing else."""
    with pytest.raises(ResultNotTrusted, match="trust="):
        ResultReader([Ligand])(words(value))
    assert type(ResultReader([type(value)])(words(value))) is type(value)


def by_getattr(kind: type, name: str) -> list[str]:
    """Return a pickled attribute of a class, as Python 3.11.2 pickles members of enumerations."""

    class Named:
        def __reduce__(self) -> tuple[Any, ...]:
            return getattr, (kind, name)

    return words(Named())


def test_members_of_enumerations_are_read_by_name_and_nothing_else_is() -> None:
    """As agents of Python 3.11.0 to 3.11.3 send them."""
    reader = ResultReader([Colour, Ligand])
    assert reader(by_getattr(Colour, "RED")) is Colour.RED
    with pytest.raises(ResultNotTrusted):
        ResultReader()(by_getattr(Colour, "RED"))
    for kind, name in ((Colour, "__class__"), (Colour, "mro"), (Ligand, "__init__")):
        with pytest.raises(ResultNotTrusted, match="no enumeration"):
            reader(by_getattr(kind, name))


def test_a_class_that_a_module_has_only_imported_is_not_its_own() -> None:
    """`from subprocess import Popen` in a notebook gives agents no program to start."""
    reader = ResultReader()
    reader.homes.add(__name__)
    assert reader(words(Ligand("C"))).smiles == "C"
    named = b"\x80\x04\x8c" + bytes([len(__name__)]) + __name__.encode()
    with pytest.raises(ResultNotTrusted):
        reader([base64.b64encode(named + b"\x8c\x10subprocess.Popen\x93.").decode()])


@pytest.mark.parametrize("text", ["", "AAAA", "not base64", "gASVAA=="])
def test_bytes_that_are_no_pickle_are_refused(text: str) -> None:
    """Whatever they are."""
    with pytest.raises(ResultNotTrusted):
        ResultReader()([text])


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
