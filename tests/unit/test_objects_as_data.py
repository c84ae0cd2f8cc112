"""Objects of a function's own module go as data, with type, fields and values."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from taskq.compute.fingerprint import fingerprint
from taskq.compute.functions import Arguments, Function
from taskq.compute.trust import ResultReader
from taskq.model.errors import InvalidTask, ResultNotTrusted
from taskq_agent import objects, typed
from taskq_agent.handlers.calls import Prepared
from taskq_agent.objects import ObjectReader, ObjectWriter
from tests.payloads import shapes
from tests.payloads.shapes import Heavy, Kind, Ligand, Odd, Place, Pose

HOME = shapes.__name__


def through(value: Any) -> Any:
    """Return a result as the queue carries it to a caller of the module's functions."""
    stored = json.loads(json.dumps(typed.encode_result(value, ObjectWriter())))
    return ResultReader(homes=[HOME]).decoded(stored)


def prepared(function: Callable[..., Any]) -> Prepared:
    """Return a function as an agent has it."""
    return Prepared("f", function, {}, None, frozenset())


def types_within(value: Any) -> Any:
    """Return the types of a value and of all that it holds."""
    if isinstance(value, dict):
        return type(value), {str(name): types_within(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [*map(types_within, value)]
    return type(value), types_within(vars(value)) if isinstance(value, Ligand) else None


@pytest.mark.parametrize("place", range(len(shapes.ligands())))
def test_objects_come_back_with_type_fields_and_values(place: int) -> None:
    value = shapes.ligands()[place]
    again = through(value)
    assert again == value
    assert repr(again) == repr(value)
    assert types_within(again) == types_within(value)


def test_attributes_that_are_no_fields_come_back_and_no_constructor_runs() -> None:
    ligand = Ligand("CCO")
    ligand.note, ligand.length = "changed", 7
    assert vars(through(ligand)) == vars(ligand)


def test_object_within_itself_or_very_deep_is_pickled_as_a_whole() -> None:
    """Data is a tree; a pickle keeps references to the object itself."""
    ring = Ligand("C")
    ring.parts["self"] = ring
    chain = Ligand("C")
    for _ in range(50):
        chain = Ligand("C", parts={"next": chain})
    for value in (ring, chain):
        writer = ObjectWriter(lambda value: ["a pickle", str(type(value))])
        stored = typed.encode([value], writer)
        assert stored == [{"$pickle": ["a pickle", str(Ligand)]}]
        with pytest.raises(typed.NotStorable, match="Ligand"):
            typed.encode(value, ObjectWriter())
        with pytest.raises(InvalidTask, match="Ligand"):
            Arguments(None, owns=Function.of(shapes.returned).defines).content((value,), {})


class Colour(enum.Enum):
    """An enumeration of this module, where no function is called."""

    RED = 1


@dataclasses.dataclass
class Plain:
    """A dataclass."""

    x: int


@dataclasses.dataclass
class Reduced:
    """A dataclass with code of its own for pickles."""

    x: int

    def __reduce__(self) -> Any:
        return Reduced, (1,)


@pytest.mark.parametrize(
    "value", [Reduced(1), Odd("C"), ValueError(), object()], ids=lambda value: type(value).__name__
)
def test_class_with_code_for_pickles_has_no_form_as_data(value: object) -> None:
    """Nor has a class that is no dataclass, or an exception without a record."""
    assert typed.encode(value, ObjectWriter(lambda _: [1])) == {"$pickle": [1]}


@dataclasses.dataclass
class Opened(Plain):
    """One that runs code when it is read."""

    def __setstate__(self, state: Any) -> None:
        raise SystemExit


@dataclasses.dataclass
class Made(Plain):
    """One that is made by code of its own."""

    def __new__(cls, *_: Any) -> Any:
        """End the program."""
        raise SystemExit


@dataclasses.dataclass
class Cleaned(Plain):
    """One that removes a folder at its end."""

    def __del__(self) -> None:
        """Remove what a field names."""
        raise SystemExit


@dataclasses.dataclass
class Listed(list[int]):
    """One that is a list as well."""

    x: int


@pytest.mark.parametrize("kind", [Plain, Reduced, Opened, Made, Cleaned, Listed])
def test_class_with_code_for_pickles_is_not_made_of_data(kind: type) -> None:
    """Only that code could make the object, and nobody has asked for it."""
    stored = {"value": {"$dataclass": [f"{__name__}:{kind.__qualname__}", {"x": 1}]}}
    reader = ResultReader(homes=[__name__])
    if kind is Plain:
        assert reader.decoded(stored) == Plain(1)
        return
    with pytest.raises(ResultNotTrusted, match=f"{kind.__qualname__} is no dataclass"):
        reader.decoded(stored)


def test_arguments_are_data_where_agents_find_the_class() -> None:
    """In the module of a function that goes by name, or among what one by value refers to."""
    by_name = Arguments(None, owns=Function.of(shapes.returned).defines)
    payload, _ = by_name.content((Heavy("CCO", Kind.ACID, [Place(1, 2)]),), {})
    assert "$dataclass" in str(payload)
    (again,), _ = typed.decode_call(payload, ObjectReader(prepared(shapes.returned).find))
    assert (type(again), again.kind, again.places) == (Heavy, Kind.ACID, [Place(1, 2)])
    with pytest.raises(InvalidTask, match="function's own module"):
        by_name.content((Colour.RED,), {})
    by_value = Arguments("00", owns=Function.of(lambda value: value is Colour.RED).defines)
    assert by_value.content((Colour.RED,), {})[0] == {
        "args": [{"$enum": [f"{__name__}:Colour", "RED"]}]
    }
    assert "$pickle" in str(by_value.content((Reduced(1),), {})[0])
    elsewhere = Arguments("00", owns=Function.of(lambda value: value).defines)
    assert "$pickle" in str(elsewhere.content((Colour.RED,), {})[0])


def test_key_covers_what_the_class_does() -> None:
    """A method that has changed makes another call of the same fields."""
    owns = Function.of(shapes.returned).defines
    _, text = Arguments(None, owns=owns).content((Pose(1, Place(1, 2)),), {})
    assert fingerprint(Pose(1, Place(1, 2))) in text


def test_agents_find_no_class_that_an_argument_alone_names() -> None:
    """Neither another module's, nor one that the module has only imported."""
    find = prepared(shapes.returned).find
    assert find(HOME, "Ligand") is Ligand
    for module, path in (("enum", "Enum"), (HOME, "Any"), (HOME, "enum.Enum"), ("os", "system")):
        with pytest.raises(ValueError, match="does not define here"):
            find(module, path)


def test_class_that_the_program_lacks_is_named() -> None:
    """As for one that was made within a function."""

    @dataclasses.dataclass
    class Local:
        x: int

    stored = typed.encode_result(Local(1), ObjectWriter())
    with pytest.raises(ResultNotTrusted, match="define the class at its top level"):
        ResultReader(homes=[__name__]).decoded(stored)


def test_names_lead_to_classes_only() -> None:
    assert objects.class_in(vars(shapes), HOME, "Ligand") is Ligand
    for path in (
        "",
        "Ligand.smiles",
        "Ligand.__init__",
        "ligands",
        "Ligand.__class__",
        "dataclasses",
    ):
        assert objects.class_in(vars(shapes), HOME, path) is None


def test_sets_that_would_be_compared_for_minutes_are_refused() -> None:
    """Long tuples of one hash, which differ at their ends; a few of them are read."""
    ends = itertools.islice(itertools.product((-1, -2), repeat=10), 1_000)
    alike = [{"$tuple": [7, *end]} for end in ends]
    for mark in ("$set", "$frozenset"):
        with pytest.raises(ValueError, match="alike"):
            typed.decode({mark: alike})
        assert len(typed.decode({mark: alike[:32]})) == 32
    with pytest.raises(ValueError, match="alike"):
        typed.decode({"$dict": [[record, 1] for record in alike]})


def test_points_of_a_lattice_are_read() -> None:
    """Each that has a -1 shares its hash with one that has a -2 there; none is refused for that."""
    points = {(x, y, z) for x in range(-20, 20) for y in range(-20, 20) for z in range(-5, 5)}
    assert typed.decode(json.loads(json.dumps(typed.encode(points)))) == points
