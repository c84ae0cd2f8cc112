"""Functions that tests give to the queue by name."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from taskq_agent import input_path

_LEFT: list[object] = []


class BadLigand(Exception):
    """Raised with what a plain text would lose."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(number, why)
        self.number = number


def square(n: int, power: int = 2) -> int:
    """Return a power."""
    return n**power


def refuse(n: int) -> int:
    """Raise an exception of this module for odd numbers."""
    if n % 2:
        raise BadLigand(n, "odd")
    return n


def scored(ligand: dict[str, Any], factor: float = 1.0) -> dict[str, Any]:
    """Return an object, as docking does."""
    return {"score": -factor * len(ligand["smiles"])}


def wait_for(path: str) -> None:
    """Wait until a file is there."""
    while not os.path.exists(path):  # noqa: PTH110  # plain, as payloads are
        time.sleep(0.01)


def take_the_first(values: list[object]) -> object:
    """Return the first value; without one, `next` raises what ends a generator."""
    return next(iter(values))


def same(value: object) -> object:
    """Return the argument."""
    return value


def echo(path: str) -> str:
    """Return the argument, which has the name of an option of `submit`."""
    return path


def content(name: str) -> str:
    """Return the text of an input."""
    return input_path(name).read_text()


def import_what_is_missing(_: object) -> None:
    """Import within the function's body."""
    import not_on_any_node  # noqa: F401, PLC0415


def die(_: object) -> None:
    """End the process without a word."""
    os.kill(os.getpid(), signal.SIGKILL)


def connect(_: object) -> None:
    """Ask for the queue."""
    import taskq  # noqa: PLC0415  # it takes long

    taskq.connect().close()


def generate(n: int) -> object:
    """Return what cannot be stored."""
    return (i for i in range(n))


def spoil(n: int) -> int:
    """Close the standard output once, and leave a file open each time."""
    print(n)  # noqa: T201  # as payloads do
    _LEFT.append(Path(os.devnull).open())  # noqa: SIM115  # it leaks
    if n == 3:  # one of many
        sys.stdout.close()
        sys.stdout.buffer.close()
    return n


def process_id(_: int) -> int:
    """Return the number of the process."""
    return os.getpid()


def large(characters: int) -> str:
    """Return a text."""
    return "x" * characters


def sleep(seconds: float) -> None:
    """Sleep."""
    time.sleep(seconds)


def act(what: str, name: str = "") -> str:
    """Do one of several things that payloads do; return what it was."""
    if what == "print":
        print(name, flush=True)  # noqa: T201  # as payloads do
    elif what == "write":
        Path(name).write_text(what)
    elif what == "wait":
        wait_for(name)
    elif what == "raise":
        raise ValueError(name)
    elif what == "close":
        os.closerange(3, 256)
    elif what == "die":
        die(name)
    return what


def disordered(size: int) -> dict[str, Any]:
    """Return an object whose names are in no order."""
    return {"smiles": "CCO", "é": {"b": 1, "a": 2}, "zz": "x" * size, "id": 1}
