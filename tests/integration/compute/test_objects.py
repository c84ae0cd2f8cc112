"""Objects of a function's module go to agents and back, by name and by value."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from taskq import Client
from taskq.model.errors import ResultNotTrusted, UsageError
from tests.payloads import shapes
from tests.payloads.shapes import Heavy, Kind, Ligand, Odd, Place, Refused

WAIT_S = 100.0


class Colour(enum.Enum):
    """An enumeration of this module."""

    RED = ("a", "tuple")


class Pair(NamedTuple):
    """A tuple with names."""

    first: object
    other: object


@dataclasses.dataclass
class Pose:
    """A dataclass of this module."""

    rank: int
    colour: Colour
    pairs: list[Pair]


def test_function_by_name_takes_and_returns_objects_of_its_module(
    served_queue: Client, name: str
) -> None:
    """In calls, chunks and rows; arguments are read back."""
    ligands = [Heavy("CCO", Kind.ACID, [Place(1, 2)], {"a": Ligand("C")}, mass=46.0), Ligand("C")]
    run = served_queue.map(shapes.returned, ligands, name=name)
    assert run.result(WAIT_S) == ligands
    assert [type(value) for value in run] == [Heavy, Ligand]
    assert [outcome.argument for outcome in run.outcomes()] == ligands
    assert served_queue.run(name).result(WAIT_S) == ligands
    assert run.frame()["value"].to_list() == ligands
    chunks = served_queue.map(shapes.returned, ligands, name=f"{name}/chunks", chunksize=2)
    assert chunks.result(WAIT_S) == ligands
    again = served_queue.submit(shapes.returned, Kind.BASE)
    assert again.result(WAIT_S) is Kind.BASE
    assert served_queue.submit(shapes.returned, Kind.BASE).key == again.key


def test_function_by_name_makes_objects_within_containers(served_queue: Client) -> None:
    found = served_queue.submit(shapes.ligands).result(WAIT_S)
    assert repr(found) == repr(shapes.ligands())


def test_exception_holds_an_object_of_the_module(served_queue: Client, name: str) -> None:
    run = served_queue.map(shapes.refused, [Ligand("CCO")], name=name)
    (outcome,) = run.outcomes(WAIT_S)
    assert type(outcome.error) is Refused
    assert outcome.error.args == (Ligand("CCO"), "too small")


def test_function_by_value_takes_and_returns_objects_of_its_module(
    served_queue: Client, name: str
) -> None:
    """Its code names the class, or does not; a table goes along."""
    poses = [Pose(n, Colour.RED, [Pair(n, {Colour.RED: (n,)})]) for n in (1, 2)]

    def ranked(pose: Pose) -> Any:
        assert pose.colour is Colour.RED
        assert pose.pairs[0].first == pose.rank
        return [Pose(pose.rank + 1, Colour.RED, [Pair(1, 2)]), pd.DataFrame({"r": [pose.rank]})]

    run = served_queue.map(ranked, poses, name=name)
    for number, (pose, frame) in enumerate(run.result(WAIT_S), 1):
        assert pose == Pose(number + 1, Colour.RED, [Pair(1, 2)])
        assert_frame_equal(frame, pd.DataFrame({"r": [number]}))
    plain = served_queue.map(lambda pose: pose.rank, poses, name=f"{name}/plain")
    assert plain.result(WAIT_S) == [1, 2]


@pytest.mark.thorough
def test_object_that_is_no_data_needs_trust_or_another_form(
    served_queue: Client, name: str
) -> None:
    """The error says which; by name it is not computed."""
    run = served_queue.map(lambda smiles: [Odd(smiles)], ["C"], name=name)
    (outcome,) = run.outcomes(WAIT_S)
    assert isinstance(outcome.error, ResultNotTrusted)
    assert "Odd" in str(outcome.error)
    assert served_queue.run(name, trust=[Odd]).result(WAIT_S)[0][0].smiles == "C"
    named = served_queue.map(shapes.odd, ["C"], name=f"{name}/named")
    (outcome,) = named.outcomes(WAIT_S)
    assert "a dataclass, NamedTuple or enumeration" in str(outcome.error)
    with pytest.raises(UsageError, match="a dataclass, NamedTuple or enumeration"):
        served_queue.map(shapes.returned, [Odd("C")], name=f"{name}/argument")
