"""Many calls of a function by one: it gets a list of arguments, and gives as many values."""

from __future__ import annotations

from functools import partial
from typing import Any, Iterable, Mapping, Sequence

from taskq_agent.handlers.calls import Prepared, arguments_of, called, result_of
from taskq_agent.handlers.results import BadResult


def call(payloads: Sequence[Mapping[str, Any]], prepared: Prepared) -> Iterable[Any]:
    """Call the function with the arguments of all payloads; return their results, in order.

    An exception in place of a value stays one: it is how that call has ended.
    """
    values = called(prepared, [arguments_of(payload, prepared)[0][0] for payload in payloads])
    if isinstance(values, (list, tuple)) and len(values) != len(payloads):
        return values
    return map(partial(_end, prepared), values)


def _end(prepared: Prepared, value: Any) -> Any:
    try:
        return value if isinstance(value, Exception) else result_of(value, prepared)
    except BadResult as error:
        return error
