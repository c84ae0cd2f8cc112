"""Reads results of hostile agents in a process with bounded memory and time; says what they did.

    python -m tests.helpers.hostile_reading corpus | random NUMBER

Whatever the interpreter reports to audit hooks counts as harm, as do changed classes and modules.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import json
import os
import random
import resource
import sys
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pandas as pd
from typing_extensions import Self

from taskq.compute.trust import ResultReader
from taskq.model.errors import ResultNotTrusted
from taskq_agent import objects, typed
from taskq_agent.handlers.calls import pickled

MEMORY: Final = 2 << 30
SECONDS: Final = 240
#: Of one value of the corpus; the longest takes a tenth of it on an idle machine.
_SECONDS_OF_ONE: Final = 60
_SHELL: Final = "touch /nowhere/at/all"
_MODULUS: Final = (1 << 61) - 1


@dataclasses.dataclass(frozen=True)
class Point:
    """A class of the caller's, made of its fields."""

    x: object
    y: object


@dataclasses.dataclass
class Shell:
    """One whose constructor runs a program."""

    command: str

    def __post_init__(self) -> None:
        os.system(self.command)  # noqa: S605

    @property
    def loud(self) -> int:
        """Run a program."""
        return os.system(self.command)  # noqa: S605

    @loud.setter
    def loud(self, value: str) -> None:
        os.system(value)  # noqa: S605


@dataclasses.dataclass
class Made:
    """One that is made by code of its own."""

    command: str

    def __new__(cls, *args: str) -> Self:
        """Run a program."""
        os.system(*args)  # noqa: S605
        return super().__new__(cls)


@dataclasses.dataclass
class Opened:
    """One that runs a program when it is read."""

    command: str

    def __setstate__(self, state: dict[str, str]) -> None:
        os.system(state["command"])  # noqa: S605


@dataclasses.dataclass
class Reduced:
    """One that names a program instead of itself."""

    command: str

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


@dataclasses.dataclass(slots=True)
class Slotted:
    """One with slots."""

    smiles: str

    def dock(self) -> int:
        """Return something."""
        return 1


class Colour(enum.Enum):
    """An enumeration that runs a program for what it does not have."""

    RED = 1

    @classmethod
    def _missing_(cls, value: object) -> None:
        os.system(str(value))  # noqa: S605


class Kinds(enum.Flag):
    """Flags that do."""

    A = 1
    B = 2

    @classmethod
    def _missing_(cls, value: object) -> None:
        os.system(str(value))  # noqa: S605


class Pair(NamedTuple):
    """A tuple with names."""

    first: object
    other: object


class Loud(Exception):
    """An exception whose constructor runs a program."""

    def __init__(self, command: str) -> None:
        os.system(command)  # noqa: S605


def mine(mark: str, name: str, content: object) -> dict[str, Any]:
    """Return an object of a class of this module, as an agent might write it."""
    return {mark: [f"__main__:{name}", content]}


def deep(inner: Any, times: int) -> Any:
    """Return a value within points, one in another."""
    for _ in range(times):
        inner = mine("$dataclass", "Point", {"x": 1, "y": inner})
    return inner


def column(values: object) -> dict[str, Any]:
    """Return a series of one column, as an agent might write it."""
    return {"$series": [values, {"range": [0, 2, 1], "names": [None]}, None, {}]}


_TWO: Final = {"$array": ["<i8", [2], "AQAAAAAAAAACAAAAAAAAAA=="]}
_FLAT: Final = {"column": {"plain": _TWO}, "names": [None], "freq": None}

CORPUS: Final[dict[str, Any]] = {
    "a program as a class": {"$dataclass": ["os:system", {"command": _SHELL}]},
    "a program as an enumeration": {"$enum": ["os:system", "RED"]},
    "a class of Python": {"$dataclass": ["subprocess:Popen", {"args": "true"}]},
    "a module that nobody has imported": {"$dataclass": ["antigravity:X", {}]},
    "the reader itself": {"$dataclass": ["taskq.compute.trust:ResultReader", {}]},
    "what a module has only imported": mine("$dataclass", "os.path", {}),
    "a name of nothing": {"$dataclass": ["", {}]},
    "no name": {"$dataclass": [None, {}]},
    "no parts": {"$dataclass": []},
    "a constructor": mine("$dataclass", "Shell", {"command": _SHELL}),
    "a property": mine("$dataclass", "Shell", {"command": "", "loud": _SHELL}),
    "a class that is made by code": mine("$dataclass", "Made", {"command": _SHELL}),
    "a class with a __setstate__": mine("$dataclass", "Opened", {"command": _SHELL}),
    "a class with a __reduce__": mine("$dataclass", "Reduced", {"command": _SHELL}),
    "a slot that is a method": mine("$dataclass", "Slotted", {"smiles": "C", "dock": 1}),
    "other fields": mine("$dataclass", "Point", {"z": 1}),
    "fields that are no names": mine("$dataclass", "Point", {"$dict": [[1, 2]]}),
    "fields that are a list": mine("$dataclass", "Point", [["x", 1], ["y", 2]]),
    "its class": mine("$dataclass", "Point", {"x": 1, "y": 1, "__class__": 5}),
    "its dictionary": mine("$dataclass", "Point", {"x": 1, "y": 1, "__dict__": {"a": 1}}),
    "a dataclass that is a tuple": mine("$namedtuple", "Point", [1, 2]),
    "an exception that is a dataclass": mine("$dataclass", "Loud", {}),
    "a tuple of another length": mine("$namedtuple", "Pair", [1, 2, 3]),
    "a tuple of a text": mine("$namedtuple", "Pair", "ab"),
    "a member that is missing": mine("$enum", "Colour", _SHELL),
    "a member that is an attribute": mine("$enum", "Colour", "__class__"),
    "flags that are missing": mine("$flag", "Kinds", 8),
    "flags together": mine("$flag", "Kinds", 3),
    "flags of a text": mine("$flag", "Kinds", _SHELL),
    "a constructor of an exception": {"$exception": {"class": "__main__:Loud", "args": [_SHELL]}},
    "an exception that ends the program": {"$exception": {"class": "builtins:SystemExit"}},
    "an exception that is a program": {"$exception": {"class": "os:system", "args": [_SHELL]}},
    "an exception that is a text": {"$exception": _SHELL},
    "an exception of nothing": {"$exception": {"class": "builtins:UnicodeDecodeError", "args": []}},
    "an exception with a dictionary": {
        "$exception": {"class": "builtins:ValueError", "args": [], "state": {"__dict__": 1}}
    },
    "a pickle": {"$pickle": ["os:system", "Y29zCnN5c3RlbQooUyd0cnVlJwp0Ui4="]},
    "a pickle without a name": {"$pickle": ["Y29zCnN5c3RlbQooUyd0cnVlJwp0Ui4="]},
    "a pickle that is a text": {"$pickle": "Y29z"},
    "a pickle within an object": mine(
        "$dataclass", "Point", {"x": {"$pickle": ["os:system", "Y29z"]}, "y": 1}
    ),
    "a pickle within an exception": {
        "$exception": {
            "class": "builtins:ValueError",
            "args": [{"$pickle": ["os:system", "Y29zCnN5c3RlbQooUyd0cnVlJwp0Ui4="]}],
        }
    },
    "what makes missing values": {"$defaultdict": ["system", []]},
    "a deque without end": {"$deque": [None, {"$range": [0, 1 << 60, 1]}]},
    "a deque of a negative length": {"$deque": [-1, [1]]},
    "counts of a program": {"$counter": [[{"$enum": ["os:system", "A"]}, 1]]},
    "a range of texts": {"$range": ["0", "1", "2"]},
    "a range of huge numbers": {"$range": [0, 10**300, 10**299]},
    "a zone that is a file": {"$zoneinfo": "../../../etc/passwd"},
    "a time of another zone": {"$datetime": ["2026-01-01", 0, "/etc/passwd"]},
    "a fraction of a power": {"$fraction": ["1e1000000000", 1]},
    "a decimal of a power": {"$decimal": "1e1000000000"},
    "a huge number as a name": {"$dict": [[10**349, 1]] * 5},
    "an array of objects of bytes": {"$array": ["|O", [2], "AAAAAAAAAAAAAAAAAAAAAA=="]},
    "a record with objects": {"$array": [[["a", "|O"]], [1], "AAAAAAAAAAA="]},
    "a shape beyond its bytes": {"$array": ["<f8", [1 << 40], "AAAAAAAAAAA="]},
    "a negative shape": {"$array": ["<f8", [-1, -1], "AAAAAAAAAAA="]},
    "a shape that overflows": {"$array": ["<f8", [1 << 32, 1 << 32, 0], ""]},
    "very many dimensions": {"$array": ["<f8", [1] * 10_000, "AAAAAAAAAAA="]},
    "elements without bytes": {"$array": ["<V0", [1 << 40], ""]},
    "an endless element": {"$array": ["<U999999999", [1], "AAAA"]},
    "characters that are none": {"$array": ["<U1", [1], "/////w=="]},
    "truth values that are none": {"$array": ["|b1", [4], "AgICAg=="]},
    "a field beyond its record": {"$array": [[["a", "<f8", [1 << 50]]], [1], "AAAAAAAAAAA="]},
    "a type that is code": {"$array": ["f8,(__import__('os').getpid())f8", [1], "AA=="]},
    "more objects than there are": {"$objects": [[1 << 40], []]},
    "objects of a shape that is none": {"$objects": [["x"], [1]]},
    "a column": column({"plain": _TWO}),
    "a column of another length": column({"plain": {"$array": ["<i8", [1], "AQAAAAAAAAA="]}}),
    "a column of two dimensions": column({"plain": {"$array": ["|u1", [1, 2], "AQI="]}}),
    "a column of records": column({"plain": {"$array": [[["a", "|u1"]], [2], "AQI="]}}),
    "a column that is no array": column({"plain": 5}),
    "a column without parts": column({}),
    "a column of a list": column([]),
    "codes beyond their categories": column({"codes": _TWO, "of": _FLAT, "ordered": True}),
    "codes that are text": column({"codes": "x", "of": _FLAT, "ordered": 0}),
    "texts of other kinds": column({"texts": [{"$bytes": "AA=="}, 1], "type": "str"}),
    "texts of a type that is code": column({"texts": ["a"], "type": "category"}),
    "what is missing is of another length": column(
        {"known": _TWO, "missing": {"$array": ["|b1", [1], "AQ=="]}}
    ),
    "what is missing is a number": column({"known": _TWO, "missing": _TWO}),
    "times that are none": column({"times": _TWO, "zone": {"$zoneinfo": "UTC"}}),
    "times of a zone that is text": column(
        {"times": {"$array": ["<M8[ns]", [2], "AQAAAAAAAAACAAAAAAAAAA=="]}, "zone": "../x"}
    ),
    "a table without end": {"$frame": [_FLAT, {"range": [0, 1 << 60, 1], "names": [None]}, [], {}]},
    "rows of a range without steps": {"$index": {"range": [0, 1, 0], "names": [None]}},
    "rows of a range of texts": {"$index": {"range": ["0", "1"], "names": [None]}},
    "names of other columns": {"$frame": [_FLAT, _FLAT, [{"plain": _TWO}], {}]},
    "a table of a table": {"$frame": [_FLAT, _FLAT, [{"plain": column({"plain": _TWO})}] * 2, {}]},
    "levels beyond their codes": {"$index": {"levels": [_FLAT], "codes": [_TWO], "names": [None]}},
    "levels without codes": {"$index": {"levels": [_FLAT], "codes": [], "names": [None]}},
    "a frequency that is code": {"$index": {**_FLAT, "freq": "__import__('os')"}},
    "a time that is none": {"$timestamp": ["2026", {"$zoneinfo": "UTC"}]},
    "a time of a program": {"$timestamp": [{"$enum": ["os:system", "A"]}, None]},
    "nothing that is missing": {"$missing": "__class__"},
    "elements that are all alike": {"$set": [_MODULUS * n for n in range(1, 50_000)]},
    "counts that are all alike": {"$counter": [[_MODULUS * n, 1] for n in range(1, 50_000)]},
    "points that are all alike": {
        "$set": [mine("$dataclass", "Point", {"x": _MODULUS * n, "y": 0}) for n in range(1, 9_000)]
    },
    "a point within points": deep(1, 200),
    "a point within points without end": deep(1, 20_000),
    "a set of a deep point": {"$set": [deep(1, 200)]},
}

WATCHED: Final = (Point, Shell, Made, Opened, Slotted, Colour, Kinds, Pair, Loud, sys.modules["os"])
#: What reading itself does; `open` of a time zone's own file.
_QUIET: Final = frozenset({"object.__getattr__", "array.__new__", "sys._getframe", "builtins.id"})

HONEST: Final = [
    {"a": [1, 2.5, None, True, "x", b"y"], "b": {(1, 2): {3, 4}}},
    [Point(1, (2, 3)), {Point(1, 2)}, {Point(1, 2): Pair(1, [Colour.RED])}, Kinds.A],
    ValueError("x", Pair(1, 2)),
    pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.Categorical(["u", "v"])}),
]

events: list[str] = []
watching = False


def note(event: str, args: tuple[Any, ...]) -> None:
    """Write down what the interpreter does."""
    if watching and event not in _QUIET and not (event == "import" and not args[2]):
        events.append(f"{event}{args!r:.200}")


def read(stored: object) -> str:
    """Read one value; return what came of it. AssertionError if it did harm."""
    global watching  # noqa: PLW0603  # hooks cannot be removed
    before = [dict(vars(value)) for value in WATCHED]
    watching = True
    try:
        value = ResultReader().decoded({"value": stored})
        result = f"value {type(value).__name__}"
    except ResultNotTrusted as error:
        result = f"refused: {error!s:.300}"
    finally:
        watching = False
    assert not events, f"{stored!r:.200} did {events}"
    assert [dict(vars(value)) for value in WATCHED] == before, f"{stored!r:.200} changed something"
    return result


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return all places within JSON, as containers and keys."""
    keys = value if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    inner = [value[key] for key in keys if isinstance(value[key], (dict, list))]
    return found + [place for value in inner for place in places(value)]


def damaged(draw: random.Random, small: list[Any]) -> Any:
    """Return JSON of which some parts are those of other values."""
    whole = copy.deepcopy({"whole": draw.choice(small)})
    for _ in range(draw.randint(1, 3)):
        container, key = draw.choice(places(whole))
        other = draw.choice([*small, None, -1, 10**40, "", "__main__:Shell", [], {}])
        if isinstance(container, dict) and draw.random() < 0.3:
            container[draw.choice(["$dataclass", "$enum", "$pickle", "x"])] = container.pop(key)
        else:
            container[key] = copy.deepcopy(other)
    return whole.get("whole")


def main(how: str, number: str = "0") -> None:
    """Read the corpus, or values at random."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    writer = objects.ObjectWriter(pickled)
    for value in HONEST[:2]:
        stored = json.loads(json.dumps(typed.encode(value, writer)))
        assert ResultReader().decoded({"value": stored}) == value
        assert "$pickle" not in str(stored)
    for what in CORPUS:
        if "alike" not in what and "point" not in what:
            with suppress(AssertionError):
                read(CORPUS[what])  # imports parts of NumPy and pandas, which are not watched then
    sys.addaudithook(note)
    if how == "corpus":
        for what, stored in CORPUS.items():
            began = time.process_time()
            result = read(stored)
            took = time.process_time() - began
            print(f"{what}: {took:.1f} s, {result}", flush=True)  # noqa: T201
            assert took < _SECONDS_OF_ONE, what
        return
    draw = random.Random(int(number))
    small = [corpu for what, corpu in CORPUS.items() if "alike" not in what and "point" not in what]
    for _ in range(3_000):
        read(damaged(draw, small))


if __name__ == "__main__":
    main(*sys.argv[1:])
