"""A call as a task: the function, by name or by value, and its arguments, as payload and key."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskq.compute.fingerprint import fingerprint, named_object
from taskq.compute.pickling import pickled_argument
from taskq.ingest.sources.records import BadLine
from taskq.model.errors import InvalidTask, UsageError
from taskq.model.seed import Seed, derived_key
from taskq_agent import typed
from taskq_agent.handlers.calls import sealed

_NOT_IN_A_PATH: Final = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Function:
    """A function with its name for people, and the digest of what it does.

    target: where agents import it from, as module:function; None if it goes by value.
    """

    function: Callable[..., Any]
    name: str
    target: str | None
    fingerprint: str

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Function:
        """Return the function for a callable; raise `UsageError` if it cannot be called."""
        if not callable(function):
            raise UsageError(f"{function!r:.80} is not a function")
        module = getattr(function, "__module__", None)
        qualname = getattr(function, "__qualname__", type(function).__qualname__)
        name = qualname.rpartition(".<locals>.")[2]
        named = (
            module not in {None, "__main__"}
            and all(map(str.isidentifier, f"{module}.{qualname}".split(".")))
            and named_object(module, qualname) is function
        )
        return cls(function, name, f"{module}:{qualname}" if named else None, fingerprint(function))

    @property
    def default_path(self) -> str:
        """The campaign path for single calls, different for functions that do different things."""
        name = _NOT_IN_A_PATH.sub("-", self.name).strip("-_") or "function"
        return f"/calls/{name[:60]}-{self.fingerprint[:12]}"


def python_version() -> str:
    """Return the version of Python whose code a pickle holds, such as 3.11."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


class Arguments:
    """Makes a seed of each call; seal: the campaign's key for pickles; None allows no pickles."""

    def __init__(self, seal: str | None) -> None:
        self._seal = None if seal is None else bytes.fromhex(seal)
        self._times: dict[bytes, int] = {}

    def of_item(self, item: Any) -> Seed | BadLine:
        """Return the task for an element of `map`: a record of a source keeps its own key.

        An element that comes again gets a task of its own: its key ends in #2, or #3 and so on.
        """
        if isinstance(item, BadLine):
            return item
        if isinstance(item, Seed):
            payload = self.payload((dict(item.payload),), {})
            return Seed(payload, item.key, item.priority).checked()
        payload, key = self.call((item,), {})
        short = hashlib.sha256(key.encode()).digest()[:12]
        times = self._times[short] = self._times.get(short, 0) + 1
        return Seed(payload, key if times == 1 else f"{key}#{times}").checked()

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the payload of a call, and a key made from its content.

        A pickle differs from process to process, so its part of the key is a digest of its content.
        """
        pickles = 0

        def pickle(value: Any) -> list[str]:
            nonlocal pickles
            pickles += 1
            return self._pickle(value)

        payload = self.payload(args, kwargs, pickle)
        if not pickles:
            return payload, derived_key(payload)
        return payload, derived_key(typed.encode_call(args, kwargs, lambda one: [fingerprint(one)]))

    def payload(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], pickle: typed.Pickle | None = None
    ) -> dict[str, Any]:
        """Return the payload of a call; raise `InvalidTask` if it cannot be stored."""
        try:
            return typed.encode_call(args, kwargs, pickle or self._pickle)
        except RecursionError:
            raise InvalidTask("an argument is nested too deeply, or contains itself") from None

    def _pickle(self, value: Any) -> list[str]:
        if self._seal is None:
            try:
                typed.encode(value)
            except typed.NotStorable as error:
                raise InvalidTask(
                    f"{error}. Only functions of a notebook or script, which are sent by value, "
                    "take other objects as arguments"
                ) from None
        text = base64.b64encode(pickled_argument(value)).decode()
        return [text, sealed(self._seal or b"", text)]
