"""Arguments as tasks: payloads, and keys that are equal for equal calls."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from taskq.compute.fingerprint import fingerprint
from taskq.compute.pickling import pickled_argument
from taskq.ingest.sources.records import BadLine
from taskq.model.errors import InvalidTask
from taskq.model.seed import Seed, derived_key
from taskq_agent import typed
from taskq_agent.handlers.calls import sealed


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
                    f"{error}. Other objects go as arguments of functions that go by value: those "
                    "of a notebook or script"
                ) from None
        text = base64.b64encode(pickled_argument(value)).decode()
        return [text, sealed(self._seal or b"", text)]
