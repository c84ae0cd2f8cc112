"""Reads pickles in a process with bounded memory and time, and tells what they did.

    python -m tests.helpers.hostile_reading corpus | random NUMBER

Whatever the interpreter reports to audit hooks counts as harm, as do changed classes and modules.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import os
import resource
import subprocess
import sys
import time
from typing import Any, Final

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from typing_extensions import Self

from taskq.compute.unpickling import ResultReader
from taskq.model.errors import ResultNotTrusted
from taskq_agent.handlers.calls import pickled
from tests.helpers import hostile_pickles as hostile

MEMORY: Final = 2 << 30
SECONDS: Final = 240
#: Of one pickle of the corpus; the longest takes a tenth of it on an idle machine.
_SECONDS_OF_ONE: Final = 60


class Ligand:
    """A class of the caller's."""

    def __init__(self, smiles: str) -> None:
        self.smiles = smiles

    def dock(self) -> int:
        """Return something."""
        return len(self.smiles)


class Colour(enum.Enum):
    """Another one."""

    RED = 1


class Slotted:
    """One with slots."""

    __slots__ = ("smiles",)

    @property
    def loud(self) -> int:
        """Nothing."""
        return 1

    def dock(self) -> int:
        """Return something."""
        return 1


@dataclasses.dataclass(frozen=True)
class Point:
    """One that can be an element of a set."""

    x: object
    y: object


class Shell:
    """One whose constructor runs a program."""

    def __init__(self, command: str) -> None:
        os.system(command)  # noqa: S605


class Made:
    """One that is made by code of its own."""

    def __new__(cls, *args: str, **_: object) -> Self:
        """Run a program."""
        os.system(*args)  # noqa: S605
        return super().__new__(cls)


class Opened:
    """One that opens a file when it is read."""

    def __setstate__(self, state: dict[str, str]) -> None:
        os.system(state["x"])  # noqa: S605


class Loud(Exception):
    """An exception whose constructor runs a program."""

    def __init__(self, command: str) -> None:
        subprocess.run(command, check=False)


HONEST: Final = [
    {"a": [1, 2.5, None, True, "x", b"y"], "b": {(1, 2): {3, 4}}},
    Ligand("CCO"),
    [Colour.RED, Point(1, (2, 3)), {Point(1, 2)}],
    {
        "array": np.arange(6.0),
        "large": np.arange(6_000.0),
        "object": np.array([1, "a"], dtype=object),
    },
    ValueError("x"),
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
]
WATCHED: Final = (Ligand, Colour, Slotted, Point, Shell, Made, Opened, Loud, sys.modules["os"])
#: What reading itself does.
_QUIET: Final = frozenset(
    {"object.__getattr__", "array.__new__", "sys._getframe", "builtins.id", "gc.get_referents"}
)

events: list[str] = []
watching = False


def note(event: str, args: tuple[Any, ...]) -> None:
    """Write down what the interpreter does."""
    if watching and event not in _QUIET:
        events.append(f"{event}{args!r:.200}")


def read(data: bytes, trust: Any = ()) -> str:
    """Read one pickle; return what came of it. AssertionError if it did harm."""
    global watching  # noqa: PLW0603  # hooks cannot be removed
    before = [dict(vars(one)) for one in WATCHED]
    parts = [base64.b64encode(data).decode(), *(bytearray(b"\xff" * 16) for _ in range(4))]
    watching = True
    try:
        value = ResultReader(trust).decoded({"value": {"$pickle": parts}})
        result = f"value {value!r:.80}" if type(value) is not str else "text"
    except ResultNotTrusted as error:
        result = f"refused: {error!s:.200}"
    finally:
        watching = False
    assert not events, f"{data[:200]!r} did {events}"
    assert [dict(vars(one)) for one in WATCHED] == before, f"{data[:200]!r} changed something"
    return result


_OPCODES: Final = [bytes([code]) for code in range(256)]
_PARTS: Final = [
    *(hostile.text(word) for word in ("os", "system", "__dict__", "smiles", "class", "\ud800")),
    *(hostile.name(*one.split(":")) for one in ("os:system", "builtins:getattr", "builtins:set")),
    *(hostile.mine(kind.__name__) for kind in (Ligand, Colour, Slotted, Point, Made, Opened)),
    *(hostile.get(place) for place in range(4)),
    *(hostile.name("taskq_agent.typed", "decode"), hostile.name("taskq_agent.typed", "rebuilt")),
    *(hostile.mapping(smiles=hostile.ONE), hostile.several(hostile.ONE), hostile.whole(1 << 70)),
    *_OPCODES[40:44],
    *(hostile.REDUCE, hostile.BUILD, hostile.NEWOBJ, hostile.MEMOIZE, hostile.APPEND),
    *(hostile.EMPTY_TUPLE, hostile.EMPTY_LIST, hostile.EMPTY_DICT, hostile.EMPTY_SET),
]
programs = st.lists(st.sampled_from(_PARTS) | st.sampled_from(_OPCODES), max_size=40).map(
    lambda parts: hostile.PROTO + b"".join(parts) + hostile.STOP
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw an honest or hostile pickle of which some bytes are others."""
    honest = [bytes(pickled(one)[0].view) for one in HONEST]
    whole = draw(
        st.sampled_from([*honest, *(one for one in hostile.EVERY.values() if len(one) < 2_000)])
    )
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def main(how: str, number: str = "0") -> None:
    """Read the corpus, or pickles at random."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    for one in HONEST:
        parts = [part.view for part in pickled(one)]
        trust = ["pandas"] if isinstance(one, pd.DataFrame) else ()
        assert repr(ResultReader(trust).decoded({"value": {"$pickle": parts}}))
    sys.addaudithook(note)
    if how == "corpus":
        for what, data in hostile.EVERY.items():
            for trust in ((),) if what in hostile.BOMBS else ((), ["pandas"]):
                began = time.process_time()
                result = read(data, trust)
                took = time.process_time() - began
                print(f"{what}: {took:.1f} s, {result}", flush=True)  # noqa: T201
                assert took < _SECONDS_OF_ONE, what
        return

    @seed(int(number))
    @settings(
        max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(programs | damaged())
    def nothing_happens(data: bytes) -> None:
        read(data)

    nothing_happens()


if __name__ == "__main__":
    main(*sys.argv[1:])
