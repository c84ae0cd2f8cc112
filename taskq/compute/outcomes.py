"""Outcomes of calls: a value, or the very exception that the call raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar, cast

from taskq.compute.raised import RemoteTraceback, exception_of, raised
from taskq.compute.trust import ResultReader
from taskq.db.access import Queries
from taskq.model.errors import ResultNotTrusted, TaskFailed, UsageError
from taskq_agent import objects, typed
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
    _: KW_ONLY
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


class OutcomeReader:
    """Makes values and exceptions of the stored tasks of a campaign."""

    def __init__(self, database: Queries, campaign: int, read: ResultReader) -> None:
        self._database = database
        self._campaign = campaign
        self._read = read

    def value(self, task: int, attempt: int | None, result: Mapping[str, Any] | None) -> Any:
        """Return the value of an accepted result; raise `ResultNotTrusted` if it is not trusted.

        attempt: None if it is not known.
        """
        try:
            return self._read.decoded(result, self._campaign, task, attempt)
        except ModuleNotFoundError as error:
            raise UsageError(f"a result cannot be read without the module {error.name}") from None

    def ends(
        self, task: int, attempt: int | None, key: str, result: Any, calls: int
    ) -> Iterator[tuple[Any, BaseException | None]]:
        """Yield the value of each call of a chunk, or what it raised.

        Raise `ResultNotTrusted` if the result is not that of so many calls.
        """
        held = result.get("value") if isinstance(result, dict) else None
        values = held.get(CHUNK) if isinstance(held, dict) else None
        if not isinstance(values, list) or len(values) != calls:
            raise ResultNotTrusted(f"the result of {key} is not that of {calls:,} calls")
        for value in values:
            about = value.get(RAISED) if isinstance(value, dict) else None
            try:
                if isinstance(about, dict):
                    yield None, raised(key, about, self._read.find)
                else:
                    yield self.value(task, attempt, {"value": value}), None
            except (ResultNotTrusted, UsageError) as error:
                yield None, error

    def argument(self, payload: Mapping[str, Any]) -> Any:
        """Return the argument of a call, or a tuple of the positional ones.

        Pickles and large arguments are not read back: there are marks in their places.
        """
        try:
            read = objects.ObjectReader(self._read.find, lambda _: "<pickle>")
            args, _ = typed.decode_call(with_large(payload, _mark), read)
        except (
            ValueError,
            ModuleNotFoundError,
            ResultNotTrusted,
        ):  # somebody else's, or of a library not here
            return dict(payload)
        return args[0] if len(args) == 1 else tuple(args)

    def plain_argument(self, payload: Mapping[str, Any]) -> Any:
        """Return the only argument of a call.

        Raise `UsageError` for several, a pickle, or a large one, which are not read back.
        """
        try:
            args, kwargs = typed.decode_call(payload, objects.ObjectReader(self._read.find))
        except (ValueError, ModuleNotFoundError, ResultNotTrusted) as error:
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
            error = exception_of(about, self._read.find)
            if error is not None:
                return error
        tail = last["tail"] or ""
        error = TaskFailed(key, last["error_class"] or last["outcome"], last["error"] or "", tail)
        trace = about.get("traceback") if isinstance(about, Mapping) else None
        if trace or tail:
            error.__cause__ = RemoteTraceback(trace or tail)
        return error


def _mark(_: Any) -> str:
    return "<large>"
