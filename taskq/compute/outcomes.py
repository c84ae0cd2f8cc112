"""Outcomes of calls: a value, or the very exception that the call raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from taskq.compute.unpickling import ResultReader, exception_class
from taskq.db.access import Queries
from taskq.model.errors import ResultNotTrusted, TaskFailed, UsageError
from taskq_agent import typed
from taskq_agent.handlers.calls import CHUNK, RAISED, with_large

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The end of one call of a run.

    Attributes:
        index: The place of its argument.
        argument: Argument of the call.
        status: Done, failed or cancelled.
        attempt: Number of the accepted attempt.
        host: Where it ran.
        seconds: Time of its execution, without waiting and transport.
    """

    index: int
    key: str
    status: str
    argument: Any
    error: BaseException | None = None
    attempt: int | None = None
    host: str | None = None
    seconds: float | None = None
    _value: Any = None

    def __repr__(self) -> str:
        end = f"value={self._value!r}" if self.ok else f"error={self.error!r}"
        return f"<Outcome {self.index}: argument={self.argument!r}, {end}>"

    @property
    def value(self) -> T:
        """What the function returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        return cast("T", self._value)

    @property
    def ok(self) -> bool:
        """Whether the function returned a value."""
        return self.error is None


def seconds_of(
    phases: Mapping[str, float] | None, claimed_at: datetime, ended_at: datetime
) -> float:
    """Return the seconds of an attempt's execution; those until its report if it names none."""
    run_s = (phases or {}).get("run_s")
    return (ended_at - claimed_at).total_seconds() if run_s is None else run_s


class RemoteTraceback(Exception):
    """The traceback of an exception on its node: the cause of the exception raised here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class OutcomeReader:
    """Makes values and exceptions of the stored tasks of a campaign."""

    def __init__(self, database: Queries, campaign: int, read: ResultReader) -> None:
        self._database = database
        self._campaign = campaign
        self._read = read

    def value(self, result: Mapping[str, Any] | None) -> Any:
        """Return the value of an accepted result; raise `ResultNotTrusted` if it is not trusted."""
        try:
            return self._read.decoded(result)
        except ModuleNotFoundError as error:
            raise UsageError(f"a result cannot be read without the module {error.name}") from None

    def ends(self, key: str, result: Any, calls: int) -> Iterator[tuple[Any, BaseException | None]]:
        """Yield the value of each call of a chunk, or what it raised.

        Raise `ResultNotTrusted` if the result is not that of so many calls.
        """
        held = result.get("value") if isinstance(result, dict) else None
        values = held.get(CHUNK) if isinstance(held, dict) else None
        if not isinstance(values, list) or len(values) != calls:
            raise ResultNotTrusted(f"the result of {key} is not that of {calls:,} calls")
        for one in values:
            about = one.get(RAISED) if isinstance(one, dict) else None
            try:
                if isinstance(about, dict):
                    yield None, _raised(key, about)
                else:
                    yield self.value({"value": one}), None
            except (ResultNotTrusted, UsageError) as error:
                yield None, error

    def argument(self, payload: Mapping[str, Any]) -> Any:
        """Return the argument of a call, or a tuple of the positional ones.

        Pickles and large arguments are not read back: there are marks in their places.
        """
        try:
            args, _ = typed.decode_call(with_large(payload, _mark), lambda _: "<pickle>")
        except (ValueError, ModuleNotFoundError):  # somebody else's, or of a library not here
            return dict(payload)
        return args[0] if len(args) == 1 else tuple(args)

    def plain_argument(self, payload: Mapping[str, Any]) -> Any:
        """Return the only argument of a call.

        Raise `UsageError` for several, a pickle, or a large one, which are not read back.
        """
        try:
            args, kwargs = typed.decode_call(payload)
        except (ValueError, ModuleNotFoundError) as error:
            raise UsageError(f"an argument cannot be read back: {error}") from error
        if len(args) != 1 or kwargs:
            raise UsageError("calls of several arguments cannot be mapped again")
        return args[0]

    def error(self, task: int, key: str) -> BaseException:
        """Return the exception of a failed task, from its last attempt that failed or was lost."""
        rows = self._database.rows("attempts", campaign=self._campaign, task=task)
        failed = [row for row in rows if row["outcome"] in ("failed", "lost")]
        if not failed:
            return TaskFailed(key, "unknown", "no attempt is recorded")
        last = failed[-1]
        about = (last["result"] or {}).get("exception")
        if isinstance(about, Mapping):
            error = exception_of(about)
            if error is not None:
                return error
        tail = last["tail"] or ""
        error = TaskFailed(key, last["error_class"] or last["outcome"], last["error"] or "", tail)
        trace = about.get("traceback") if isinstance(about, Mapping) else None
        if trace or tail:
            error.__cause__ = RemoteTraceback(trace or tail)
        return error


def _raised(key: str, about: Mapping[str, Any]) -> BaseException:
    """Return what a call of a chunk raised."""
    error = exception_of(about)
    if error is None:
        trace = str(about.get("traceback", ""))
        error = TaskFailed(key, str(about.get("class")), _last_line(trace))
        error.__cause__ = RemoteTraceback(trace)
    return error


def _mark(_: Any) -> str:
    return "<large>"


def exception_of(about: Mapping[str, Any]) -> BaseException | None:
    """Return an exception from its parts; None if its class is not known here.

    Only classes of modules that this process has imported count: nothing that an agent sent runs.
    """
    module, _, name = str(about.get("class")).partition(":")
    if module == "taskq_agent.errors":
        __import__(module)
    kind = exception_class(module, name)
    if kind is None:
        return None
    trace = str(about.get("traceback", ""))
    try:
        args = typed.decode(about.get("args", [_last_line(trace)]))
        error = typed.rebuilt(kind, args, typed.decode(about.get("state", {})))
    except (TypeError, ValueError, AttributeError, RecursionError, ImportError):
        return None  # they do not fit the class here
    error.__cause__ = RemoteTraceback(trace)
    return error


def _last_line(trace: str) -> str:
    return trace.rstrip().rpartition("\n")[2].partition(": ")[2]
