"""Exceptions of agents, as submitters get them: themselves, as text alone, and steering nothing."""

from __future__ import annotations

import asyncio
import bdb
import builtins
import concurrent.futures
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path, PurePath
from typing import Any

import pytest

import taskq_agent
from taskq.compute.outcomes import OutcomeReader
from taskq.compute.raised import RemoteTraceback, exception_of
from taskq.compute.trust import ResultReader
from taskq.model.errors import AgentsDied, CampaignPaused, TaskFailed
from taskq_agent.handlers.calls import CHUNK, RAISED
from taskq_agent.handlers.raised import exception_record
from tests.helpers.pythons import pythons

AGENTS = Path(taskq_agent.__file__).parents[1]
#: Colour, a window title, a C1 control sequence, a carriage return that hides what is before it.
RAW = "\x1b[31mred\x1b]0;title\x07\x9b2Jhidden\rshown\x08"


class Held(Exception):
    """Has attributes of its own, one of which may not be storable."""

    def __init__(self, why: str, cause: object) -> None:
        super().__init__(why, cause)
        self.cause = cause
        self.name = why


class Stop(StopIteration):
    """A user's own class of what steers."""


class Both(ValueError, concurrent.futures.CancelledError):
    """Plain and steering at once."""


def sent(error: BaseException) -> dict[str, Any]:
    """Return the record of an exception, as it comes through the queue."""
    record: dict[str, Any] = json.loads(json.dumps(exception_record(error, "Traceback: T")))
    return record


def received(error: BaseException) -> Any:
    """Return an exception as a submitter gets it."""
    return exception_of(sent(error))


def is_clean(text: str) -> bool:
    """Return whether a terminal shows text as it is."""
    return all(name.isprintable() or name in "\n\t" for name in text)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
def test_group_comes_back_with_its_members() -> None:
    """Also groups within groups, for `except*`; unknown classes within are named."""
    group = vars(builtins)["ExceptionGroup"]
    outer = group("outer", [ValueError(1), group("inner", [KeyError("a"), Held("b", 2)])])
    outer.add_note("a note")
    back = received(outer)
    assert type(back) is group
    assert (back.message, back.__notes__) == ("outer", ["a note"])
    first, inner = back.exceptions
    assert (type(first), first.args) == (ValueError, (1,))
    assert [type(exception) for exception in inner.exceptions] == [KeyError, Held]
    assert isinstance(first.__cause__, RemoteTraceback)
    (value,) = received(group("x", [Stop(1)])).exceptions
    assert type(value) is TaskFailed
    assert "Stop" in str(value)


def test_exceptions_within_arguments_and_attributes_come_back() -> None:
    """As libraries wrap those of others; one that is within itself has an end."""
    back = received(Held("outer", KeyError("inner")))
    assert (type(back), back.name) == (Held, "outer")
    assert type(back.cause) is KeyError
    assert back.args[1].args == ("inner",)
    own = Held("own", 1)
    own.cause = own
    assert received(own).args == ("own", 1)


def test_attribute_that_cannot_be_stored_costs_no_other_one() -> None:
    error = Held("why", 1)
    error.cause = object()
    back = received(error)
    assert (back.args, vars(back)) == (("why", 1), {"name": "why"})


STEERING = [
    *(StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt, SystemExit),
    *(asyncio.CancelledError, concurrent.futures.CancelledError, bdb.BdbQuit, BaseException),
    *(Stop, Both),
]


@pytest.mark.parametrize("kind", STEERING)
def test_no_class_that_steers_control_flow_is_raised_here(kind: type[BaseException]) -> None:
    """It is named in a plain error instead."""
    record = sent(kind("why"))
    assert exception_of(record) is None
    reader = OutcomeReader(None, 1, ResultReader())  # type: ignore[arg-type]
    ((_, error),) = reader.ends(1, 1, "key", {"value": {CHUNK: [{RAISED: record}]}}, 1)
    assert type(error) is TaskFailed
    assert kind.__qualname__ in str(error)


@pytest.mark.parametrize(
    "args",
    [[RAW], [1, [RAW]], [{RAW: RAW}], [(RAW, frozenset({RAW}))], [PurePath(RAW)], [KeyError(RAW)]],
)
def test_texts_of_exceptions_hold_nothing_that_a_terminal_obeys(args: list[Any]) -> None:
    """Arguments, attributes, notes, the traceback, and names of classes."""
    error = ValueError(*args)
    error.__notes__ = [RAW]  # type: ignore[attr-defined]
    error.where = RAW  # type: ignore[attr-defined]
    record = sent(error) | {"traceback": f"Traceback {RAW}\nValueError: {RAW}"}
    back: Any = exception_of(record)
    assert is_clean("".join(traceback.format_exception(back)))
    assert is_clean(str(back))
    assert is_clean(back.where)
    for inner in back.args:
        assert is_clean(str(inner))


def test_texts_that_json_cannot_hold_are_cleaned_too() -> None:
    """They come as Base64."""
    record = sent(ValueError(f"{RAW}\ud800\0"))
    assert "$str" in json.dumps(record)
    assert is_clean(str(exception_of(record)))


def test_errors_of_ours_hold_nothing_that_a_terminal_obeys() -> None:
    """Whatever they quote."""
    record = {"class": f"evil{RAW}:Gone", "traceback": f"T\n{RAW}: {RAW}"}
    reader = OutcomeReader(None, 1, ResultReader())  # type: ignore[arg-type]
    ((_, error),) = reader.ends(1, 1, f"key{RAW}", {"value": {CHUNK: [{RAISED: record}]}}, 1)
    assert is_clean("".join(traceback.format_exception(error)))
    failed = TaskFailed("key", f"Class{RAW}", RAW, RAW)
    assert all(map(is_clean, (str(failed), failed.error_class, failed.error, failed.tail)))
    for value in (CampaignPaused("/a", RAW), AgentsDied(RAW)):
        assert is_clean(str(value))
    pickled = {"value": {"$pickle": [f"posix:system{RAW}", "AAAA"]}}
    with pytest.raises(Exception, match="posix") as raised:
        ResultReader().decoded(pickled)
    assert is_clean(str(raised.value))


#: Makes an exception of these parts, and prints it.
_PRINTED = """
import json, sys, traceback
from taskq_agent.objects import rebuilt
kind, args, state = json.loads(sys.argv[1])
try:
    error = rebuilt(getattr(__import__("builtins"), kind), args, state)
except (TypeError, ValueError) as refusal:  # Python 3.9 knows no end of a place
    error = refusal
print("".join(traceback.format_exception(type(error), error, None)))
"""
PLACE: Any = ["a file", 1, 1, "a line"]
UNPRINTABLE = {
    "module to be searched": ("ImportError", ["x"], {"name": "planted", "name_from": "y"}),
    "module that was not found": ("ModuleNotFoundError", ["x"], {"name": "planted"}),
    "name that is none": ("NameError", ["x"], {"name": [1]}),
    "object that is no object": ("AttributeError", ["x"], {"name": "a", "obj": {"a": 1}}),
    "marks without end": ("SyntaxError", ["x", [*PLACE, 1, 10**9]], {}),
    "marks beyond all memory": ("SyntaxError", ["x", [*PLACE, 1, 10**15]], {}),
    "marks before the line": ("IndentationError", ["x", PLACE], {"offset": -(10**9)}),
    "line that is none": ("SyntaxError", ["x"], {"text": [1], "lineno": 1, "offset": "a"}),
    "metadata": ("SyntaxError", ["x", PLACE], {"_metadata": [1, 1, "planted"]}),
    "notes that are none": ("KeyError", ["x"], {"__notes__": 5}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("parts", UNPRINTABLE.values(), ids=UNPRINTABLE.keys())
@pytest.mark.parametrize("python", pythons().values(), ids=pythons().keys())
def test_printing_an_exception_runs_nothing_and_ends(
    tmp_path: Path, python: str, parts: tuple[str, list[Any], dict[str, Any]]
) -> None:
    """With any Python: some look for what may have been meant, and import for that."""
    planted = tmp_path / "planted.py"
    planted.write_text(f"open({str(tmp_path / 'harm')!r}, 'w')")
    printed = subprocess.run(
        [python, "-c", _PRINTED, json.dumps(parts)],
        env={"PYTHONPATH": os.pathsep.join([str(AGENTS), str(tmp_path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert printed.returncode == 0, printed.stderr
    assert len(printed.stdout) < 1_000_000
    assert not (tmp_path / "harm").exists()


class Closing(Exception):
    """Does something when it ends."""

    ended = 0

    def __del__(self) -> None:
        type(self).ended += 1


def test_no_exception_with_code_for_its_end_is_made() -> None:
    record = sent(Closing("x"))
    before = Closing.ended
    assert exception_of(record) is None
    assert Closing.ended == before
