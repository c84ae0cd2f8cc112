"""What the result of a call keeps of an exception that it raised."""

from __future__ import annotations

import traceback
from typing import Any, Dict, FrozenSet

from taskq_agent import objects, typed
from taskq_agent.handlers import results
from taskq_agent.text import clean

#: Modules whose frames a traceback leaves out.
_OURS = ("taskq_agent.handlers.calls", "taskq_agent.handlers.child")
_TRACEBACK_CHARS = 16_000


def own_traceback(error: BaseException) -> str:
    """Return the end of a traceback, without the frames of taskq."""
    steps = error.__traceback__
    while steps is not None and steps.tb_frame.f_globals.get("__name__", "") in _OURS:
        steps = steps.tb_next
    try:
        lines = traceback.format_exception(type(error), error, steps)
    except Exception:  # noqa: BLE001 - __str__ may be payload code
        lines = ["(its traceback cannot be made)"]
    return clean("".join(lines))[-_TRACEBACK_CHARS:]


def exception_record(
    error: BaseException, lines: str, around: FrozenSet[int] = frozenset()
) -> Dict[str, Any]:
    """Return what the result keeps of an exception, so that its readers can raise it again.

    lines: its traceback. Arguments and attributes that cannot be stored are left out. Exceptions
    among them, such as those of a group, are records as well. around: ids of those it is part of.
    """
    kind = type(error)
    about = {"class": f"{kind.__module__}:{kind.__qualname__}", "traceback": lines}

    def within(value: BaseException) -> Dict[str, Any]:
        if id(value) in around | {id(error)}:
            raise typed.NotStorable("an exception within itself")
        text = "".join(traceback.format_exception_only(type(value), value))
        return exception_record(value, clean(text), around | {id(error)})

    def encoded(value: Any) -> Any:
        return typed.encode(value, objects.ObjectWriter(record=within))

    def is_storable(value: Any) -> bool:
        try:
            results.encoded({"value": encoded(value)})
        except Exception:  # noqa: BLE001 - payload code
            return False
        return True

    try:
        args, attributes = objects.exception_parts(error)
        state = {
            name: attribute for name, attribute in attributes.items() if is_storable(attribute)
        }
        about["args"] = encoded(list(args))
        if state:
            about["state"] = encoded(state)
        results.encoded(about)
    except Exception:  # noqa: BLE001 - payload code; its text remains
        about.pop("args", None)
        about.pop("state", None)
    return about
