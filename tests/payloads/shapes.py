"""Classes and functions of a user's module, whose objects go as data in both directions."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple


class Kind(str, enum.Enum):
    """What a ligand is; the values are no names."""

    ACID = "an acid"
    BASE = "a base"


class Level(enum.IntEnum):
    """Numbers with names."""

    LOW = 1
    HIGH = 2


class Mark(enum.Flag):
    """What was noted."""

    SEEN = enum.auto()
    DOCKED = enum.auto()


class Right(enum.IntFlag):
    """Numbers that are joined."""

    READ = 1
    WRITE = 2


class Place(NamedTuple):
    """Coordinates."""

    x: float
    y: float


class Site(enum.Enum):
    """Named places."""

    ACTIVE = Place(1.0, 2.0)


@dataclasses.dataclass
class Ligand:
    """A molecule with parts, a field that is computed, and one that a property guards."""

    smiles: str
    kind: Kind | None = None
    places: list[Place] = dataclasses.field(default_factory=list)
    parts: dict[str, Ligand] = dataclasses.field(default_factory=dict)
    length: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.length = len(self.smiles)
        self.note = "not a field"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Pose:
    """One with slots, which nothing changes."""

    rank: int
    at: Place


@dataclasses.dataclass
class Heavy(Ligand):
    """A subclass with a field of its own."""

    mass: float = 0.0


class Odd:
    """A class that is no data."""

    def __init__(self, smiles: str) -> None:
        self.smiles = smiles


class Refused(Exception):
    """An exception that holds an object."""

    def __init__(self, ligand: Ligand, why: str) -> None:
        super().__init__(ligand, why)


def ligands() -> list[Any]:
    """Return objects of each class, also within containers."""
    place = Place(1.5, -0.0)
    ligand = Heavy("CCO", Kind.ACID, [place], {"a": Ligand("C")}, mass=46.07)
    return [
        ligand,
        [ligand, (ligand,)],
        {"deep": {"list": [{Pose(1, place): Level.HIGH}]}},
        {Pose(1, place), Pose(2, place)},
        Mark.SEEN | Mark.DOCKED,
        Mark(0),
        Right.READ | Right.WRITE,
        {Kind.BASE: Site.ACTIVE},
        Level.LOW,
        None,
    ]


def returned(value: Any) -> Any:
    """Return the argument, after a look at its class."""
    assert all(level in (1, 2) for level in Level)
    return value


def refused(ligand: Ligand) -> None:
    """Raise an exception that holds the argument."""
    raise Refused(ligand, "too small")


def odd(smiles: str) -> Odd:
    """Return a value that has no form as data."""
    return Odd(smiles)
