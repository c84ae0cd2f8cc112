"""Exceptions that calls raised on their nodes, made again from their records.

No code of their classes runs, and no module is imported since a record names it. Texts are cleaned,
since they are printed with the exception.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from collections.abc import Mapping
from typing import Any, Final

from taskq.model.errors import ResultNotTrusted, TaskFailed
from taskq_agent import objects, typed
from taskq_agent.text import clean

#: What steers control flow; classes may inherit from these and from `Exception`.
_STEERING: Final = (
    *(StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt, SystemExit),
    *(asyncio.CancelledError, concurrent.futures.CancelledError),
)


class RemoteTraceback(Exception):
    """The traceback of an exception on its node: the cause of the exception raised here."""

    def __str__(self) -> str:
        return f"\n{clean(str(self.args[0]))}"


def defined(module: str, name: str) -> type | None:
    """Return the class that an imported module defines under a name; None if it defines none."""
    return objects.class_in(vars(sys.modules.get(module, object)), module, name)


def exception_class(module: str, name: str) -> type[Exception] | None:
    """Return the exception class of this name, if its module is imported and it may be raised here.

    Python, futures, event loops and debuggers obey some exceptions instead of reporting them. An
    agent that could choose one would end a loop, a program or a wait of the submitter's.
    """
    found = defined(module, name)
    if found is None or not issubclass(found, Exception):
        return None
    debugger_quits = getattr(sys.modules.get("bdb"), "BdbQuit", ())
    return None if issubclass(found, _STEERING) or issubclass(found, debugger_quits) else found


def exception_of(
    about: Mapping[str, Any], find: objects.FindClass | None = None
) -> BaseException | None:
    """Return an exception from its record; None if its class is not known here, or steers programs.

    find: finds the classes of objects among its arguments and attributes.
    """
    module, _, name = str(about.get("class")).partition(":")
    if module == "taskq_agent.errors":
        __import__(module)
    kind = exception_class(module, name)
    if kind is None:
        return None
    trace = str(about.get("traceback", ""))

    def within(record: Any) -> BaseException:
        if not isinstance(record, Mapping):
            raise TypeError("not the record of an exception")
        return raised("", record, find)

    read = objects.ObjectReader(find or _nothing, error=within)
    try:
        args = typed.decode(_cleaned(about.get("args", [_last_line(trace)])), read)
        state = typed.decode(_cleaned(about.get("state", {})), read)
        error = objects.rebuilt(kind, args, state)
    except (TypeError, ValueError, AttributeError, RecursionError, ImportError, ResultNotTrusted):
        return None  # they do not fit the class here
    error.__cause__ = RemoteTraceback(trace)
    return error


def raised(
    key: str, about: Mapping[str, Any], find: objects.FindClass | None = None
) -> BaseException:
    """Return what a call has raised, or a plain error that names it; key: of its task."""
    error = exception_of(about, find)
    if error is None:
        trace = str(about.get("traceback", ""))
        error = TaskFailed(key, str(about.get("class")), _last_line(trace))
        error.__cause__ = RemoteTraceback(trace)
    return error


def _nothing(module: str, path: str) -> Any:
    raise ValueError(f"an object of {module}.{path}, which is not read here")


def _cleaned(stored: Any) -> Any:
    """Return JSON with all its texts cleaned, those included that JSON cannot hold as they are."""
    if isinstance(stored, str):
        return clean(stored)
    if isinstance(stored, list):
        return [*map(_cleaned, stored)]
    if not isinstance(stored, dict):
        return stored
    if stored.keys() == {"$str"}:
        return clean(str(typed.decode(stored)))
    return {clean(name): _cleaned(value) for name, value in stored.items()}


def _last_line(trace: str) -> str:
    return trace.rstrip().rpartition("\n")[2].partition(": ")[2]
