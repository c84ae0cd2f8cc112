"""Objects of other languages and libraries have fingerprints, and go by what they are."""

from __future__ import annotations

import functools
import io
import operator
import pickle
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from taskq.compute.fingerprint import fingerprint, home_of
from taskq.compute.functions import Arguments, Function
from taskq.compute.pickling import pickled
from taskq.model.errors import UsageError

Chem = pytest.importorskip("rdkit.Chem")
from rdkit.Chem import AllChem, Descriptors, PropertyMol, rdChemReactions  # noqa: E402

gemmi = pytest.importorskip("gemmi")
from scipy.spatial import _distance_pybind  # noqa: E402  # functions of pybind11

pytestmark = pytest.mark.filterwarnings("ignore:PropertyMol is deprecated")  # users have them still

MOST = 1_000_000


def molecule() -> Any:
    """Return a molecule with a name, properties everywhere, and coordinates."""
    mol = Chem.AddHs(Chem.MolFromSmiles("C[C@H](F)O"))
    AllChem.EmbedMolecule(mol, randomSeed=7)
    mol.SetProp("_Name", "ZINC1")
    mol.SetIntProp("rank", 3)
    mol.SetDoubleProp("score", -7.1)
    mol.GetAtomWithIdx(0).SetDoubleProp("charge", 0.5)
    mol.GetBondWithIdx(0).SetProp("kind", "rotor")
    mol.GetConformer().SetProp("energy", "-12")
    return mol


def described(mol: Any) -> Any:
    """Return all that `molecule` has set."""
    return (
        mol.GetProp("_Name"),
        mol.GetPropsAsDict(),
        mol.GetAtomWithIdx(0).GetPropsAsDict().get("charge"),
        mol.GetBondWithIdx(0).GetPropsAsDict(),
        mol.GetConformer().GetPropsAsDict(),
        mol.GetConformer().GetPositions().tolist(),
    )


def held(value: Any) -> Callable[[], Any]:
    """Return a function that holds a value."""
    return lambda: value


class Raises:
    """Has no attribute that can be asked for."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError

    def __bool__(self) -> bool:
        raise RuntimeError

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError


class Lies:
    """Says that it is something else."""

    __module__ = "os"

    def __init__(self) -> None:
        self.__qualname__ = 5
        self.__name__ = b"path"

    @property
    def __class__(self) -> Any:
        raise RuntimeError

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (1,)

    def __call__(self) -> None:
        """Do nothing."""


class Named(type):
    """The type of classes that answer nothing."""

    def __getattr__(cls, name: str) -> Any:
        raise RuntimeError(name)


class Silent(metaclass=Named):
    """One of them."""

    __slots__ = ("a",)
    within = property(lambda self: self)
    cached = functools.cached_property(lambda self: self)


THINGS: dict[str, Callable[[], Any]] = {
    "molecule": molecule,
    "RWMol": lambda: Chem.RWMol(molecule()),
    "PropertyMol": lambda: PropertyMol.PropertyMol(molecule()),
    "reaction": lambda: rdChemReactions.ReactionFromSmarts("[C:1]>>[C:1]O"),
    "bits": lambda: AllChem.GetMorganGenerator().GetFingerprint(molecule()),
    "generator of bits": AllChem.GetMorganGenerator,
    "enum of Boost": lambda: Chem.BondType.SINGLE,
    "atom": lambda: molecule().GetAtomWithIdx(0),
    "function of Boost": lambda: Chem.MolFromSmiles,
    "class of Boost": lambda: Chem.Mol,
    "method of Boost": lambda: Chem.Mol.GetNumAtoms,
    "bound method of Boost": lambda: molecule().GetNumAtoms,
    "descriptor of RDKit": lambda: Descriptors.MolWt,
    "function of nanobind": lambda: gemmi.read_structure,
    "method of nanobind": lambda: gemmi.UnitCell.is_crystal,
    "object of nanobind": lambda: gemmi.UnitCell(1, 2, 3, 90, 90, 90),
    "unpicklable of nanobind": lambda: gemmi.Element("C"),
    "function of pybind11": lambda: _distance_pybind.pdist_euclidean,
    "function of Cython": lambda: np.random.default_rng,
    "method of Cython": lambda: np.random.rand,
    "ufunc": lambda: np.add,
    "array of objects": lambda: np.array([molecule(), None], dtype=object),
    "builtin": lambda: len,
    "method of a builtin": lambda: str.upper,
    "bound method of a builtin": lambda: "a".upper,
    "slot": lambda: int.__add__,
    "member": lambda: re.Pattern.pattern,
    "partial": lambda: functools.partial(Chem.MolFromSmiles, sanitize=False),
    "closure": lambda: held(molecule()),
    "global": lambda: lambda text: Chem.MolFromSmiles(text) or Chem.Mol,
    "method of a module": lambda: random.gauss,
    "getter": lambda: operator.itemgetter(1),
    "dispatching": lambda: functools.singledispatch(len),
    "lock": threading.Lock,
    "generator": lambda: (n for n in range(3)),
    "file": io.BytesIO,
    "raises": Raises,
    "lies": Lies,
    "silent class": lambda: Silent,
    "silent object": Silent,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", THINGS)
def test_anything_has_a_fingerprint(name: str) -> None:
    """Of itself, within a container, and as what a function refers to."""
    thing = THINGS[name]()
    assert fingerprint(thing) == fingerprint(thing)
    assert fingerprint([thing]) != fingerprint([None])
    assert fingerprint(lambda: thing) == fingerprint(lambda: thing) != fingerprint(lambda: None)


PROGRAM = """
from rdkit.Chem import MolFromSmiles, Descriptors
from random import gauss, random
import gemmi, numpy as np
from taskq.compute.fingerprint import fingerprint

ethanol = MolFromSmiles("CCO")
ethanol.SetProp("_Name", "ethanol")

def weight(smiles, parse=MolFromSmiles, wanted={wanted}):
    gauss(0, 1), random(), np.random.rand(), np.add(1, 2), gemmi.read_structure
    return Descriptors.MolWt(parse(smiles)) + ethanol.GetNumAtoms()

{before}
print(fingerprint(weight))
"""


def of_program(**changes: object) -> str:
    """Return the fingerprint in a process of its own."""
    program = PROGRAM.format(**{"wanted": 1, "before": "", **changes})
    argv = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.mark.thorough
def test_functions_of_c_are_the_same_in_each_process() -> None:
    """Whatever they hold there, and whatever RDKit has computed and kept in a molecule."""
    first = of_program()
    used = "MolToSmiles(ethanol); random(); gauss(0, 1); weight('C')"
    assert of_program(before=f"from rdkit.Chem import MolToSmiles; {used}") == first
    changed = [
        "ethanol.SetProp('_Name', 'x')",
        "ethanol.SetIntProp('n', 1)",
        "weight(1) if 0 else 0",
    ]
    assert [of_program(before=name) == first for name in changed] == [False, False, True]
    assert of_program(wanted=2) != first


@pytest.mark.parametrize("make", [Chem.Mol, Chem.RWMol, PropertyMol.PropertyMol])
def test_molecules_keep_names_properties_and_coordinates(make: Any) -> None:
    """Without a change of what RDKit does in this process."""
    before = Chem.GetDefaultPickleProperties()
    mol = make(molecule())
    assert Arguments("00").payload(([mol],), {})["args"][0][0]["$pickle"]
    again = _loaded(mol)
    assert type(again) is type(mol)
    assert described(again) == described(mol)
    assert Chem.GetDefaultPickleProperties() == before == 0


def test_reactions_and_subclasses_keep_theirs() -> None:
    reaction = rdChemReactions.ReactionFromSmarts("[C:1]>>[C:1]O")
    reaction.SetProp("name", "hydroxylation")
    assert _loaded(reaction).GetProp("name") == "hydroxylation"
    mol = Tagged(molecule())
    mol.tag = {"batch": 7}
    again = _loaded(mol)
    assert (type(again).__name__, again.tag) == ("Tagged", {"batch": 7})
    assert described(again) == described(mol)


class Tagged(Chem.Mol):  # type: ignore[misc, name-defined]
    """A user's own molecule."""


def _loaded(value: Any) -> Any:
    return pickle.loads(pickled(value, MOST))  # noqa: S301  # ours


@pytest.mark.parametrize(
    "name", ["function of Boost", "function of nanobind", "method of a module", "partial", "ufunc"]
)
def test_functions_without_a_pickle_go_by_name(name: str) -> None:
    """As those of Python do; a method of a module's hidden object does not take that along."""
    thing = THINGS[name]()
    again = _loaded(thing)
    assert again is thing or (again.func, again.keywords) == (thing.func, thing.keywords)
    assert len(pickled(thing, MOST)) < 1_000
    assert _loaded(lambda: thing)() is thing or name == "partial"


def test_functions_of_c_are_called_by_name() -> None:
    """So agents import them."""
    assert Function.of(Chem.MolFromSmiles).target == "rdkit.Chem.rdmolfiles:MolFromSmiles"
    assert Function.of(gemmi.read_structure).target == "gemmi:read_structure"
    assert Function.of(random.gauss).target == "random:gauss"
    assert Function.of(len).target == "builtins:len"
    assert home_of(random.Random(1).gauss) is None
    assert Function.of(functools.partial(len)).target is None


def test_endlessly_nested_value_is_an_error_that_names_the_function() -> None:
    """As its pickle would be."""
    deep: list[Any] = []
    for _ in range(sys.getrecursionlimit()):
        deep = [deep]
    with pytest.raises(UsageError, match="nested too deeply"):
        Function.of(lambda: deep)
