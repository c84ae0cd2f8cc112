"""A call as a task: the function, by name or by value, and its arguments, as payload and key."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from taskq.campaign.campaign import Campaign
from taskq.compute.fingerprint import fingerprint, named_object
from taskq.compute.pickling import pickled_argument
from taskq.db.access import Queries
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.ingest.sources.records import BadLine
from taskq.model.errors import InvalidTask, UsageError
from taskq.model.seed import MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH, Seed, canonical, key_of
from taskq_agent import typed
from taskq_agent.buffers import LEAST_BYTES, Data, PartsOfJson, as_base64, packed
from taskq_agent.handlers.calls import LARGE, sealed
from taskq_agent.text import json_fault
from taskq_agent.transport import MAX_BLOB_BYTES

#: A text of so many characters, and so many numbers, surely fit into a payload.
_SURELY_CHARS: Final = 10_000
_SURELY_ITEMS: Final = 100

#: The payload of a call, and the text of which its key is made.
Content: TypeAlias = tuple[dict[str, Any], str]

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


def takes(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function takes an argument of this name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some of C have none
        return False
    return any(
        one.kind is one.VAR_KEYWORD or (one.name == name and one.kind is not one.POSITIONAL_ONLY)
        for one in parameters
    )


def python_version() -> str:
    """Return the version of Python whose code a pickle holds, such as 3.11."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


class LargeArguments:
    """Stores large arguments of a campaign's calls as blobs, each content once."""

    def __init__(self, database: Queries, path: str) -> None:
        self._database = database
        self._path = path
        self._blobs: BlobStore | None = None
        self._known: set[str] = set()

    def kept(self, stored: Any) -> Any:
        """Return an encoded argument, or the reference to it if it is large; see `keep`."""
        parts = PartsOfJson()
        data = _text(stored, parts.of_data)
        if len(data) < LEAST_BYTES and not parts.large:
            return stored
        return self.keep(b"".join(packed([data, *parts.large])) if parts.large else data)

    def keep(self, data: bytes) -> dict[str, Any]:
        """Store data; return what names it in a payload. Raise `InvalidTask` beyond 64 MiB."""
        if len(data) > MAX_BLOB_BYTES:
            raise InvalidTask(
                f"an argument of {len(data)} bytes; {MAX_BLOB_BYTES} at most: keep it in a file, "
                "and give that to all tasks by inputs=[...]"
            )
        digest = hashlib.sha256(data).hexdigest()
        about: dict[str, Any] = {"digest": digest, "size": len(data)}
        if digest not in self._known:
            self._blobs = self._blobs or open_blobs(self._database)
            self._blobs.put_named(digest, data)
            self._database.value("add_argument", path=self._path, **about)
            self._known.add(digest)
        return {LARGE: about}


class Arguments:
    """Makes a seed of each call.

    seal: the campaign's key for pickles; None allows no pickles. large: stores large arguments;
    without it they are refused.
    """

    def __init__(self, seal: str | None, large: LargeArguments | None = None) -> None:
        self._seal = None if seal is None else bytes.fromhex(seal)
        self._large = large
        self._times: dict[bytes, int] = {}

    @classmethod
    def of(cls, database: Queries, campaign: Campaign) -> Arguments:
        """Return those for calls of a campaign."""
        handler = campaign.spec().handler
        seal = None if handler is None else handler.seal
        return cls(seal, LargeArguments(database, campaign.path))

    def of_item(self, item: Any, *, spread: bool) -> Seed | BadLine:
        """Return the task for an element of `map`: a record of a source keeps its own key.

        spread: the element is an iterable of the positional arguments.

        An element that comes again gets a task of its own: its key ends in #2, or #3 and so on.
        """
        if isinstance(item, BadLine):
            return item
        if isinstance(item, Seed):
            payload = self.payload((dict(item.payload),), {})
            return Seed(payload, item.key, item.priority).checked()
        return self.seed(*self.content(tuple(item) if spread else (item,), {}))

    def seed(self, payload: dict[str, Any], text: str, calls: int = 1) -> Seed:
        """Return the task for the content of a call, or of several calls; see `of_item`."""
        key = key_of(text)
        short = hashlib.sha256(key.encode()).digest()[:12]
        times = self._times[short] = self._times.get(short, 0) + 1
        key = key if calls == 1 else f"{key}*{calls}"
        return Seed(payload, key if times == 1 else f"{key}#{times}").checked()

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the payload of a call, and a key made from its content."""
        payload, text = self.content(args, kwargs)
        return payload, key_of(text)

    def content(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Content:
        """Return the payload of a call, and text that is the same for calls with equal arguments.

        A pickle differs from process to process, so its part of the text is a digest of its
        content.
        """
        pickles = 0

        def pickle(value: Any) -> list[str]:
            nonlocal pickles
            pickles += 1
            return self._pickle(value)

        payload = self.payload(args, kwargs, pickle)
        if not pickles:
            return payload, canonical(payload)
        return payload, canonical(typed.encode_call(args, kwargs, lambda one: [fingerprint(one)]))

    def payload(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], pickle: typed.Pickle | None = None
    ) -> dict[str, Any]:
        """Return the payload of a call; raise `InvalidTask` if it cannot be stored."""
        is_plain = True

        def of_bytes(memory: Any) -> Any:
            """Return bytes as Base64; many as `Data`, which may become a part of a blob."""
            nonlocal is_plain
            data = Data(memory)
            if data.view.nbytes < LEAST_BYTES:
                return as_base64(data)
            is_plain = False
            return data

        try:
            payload = typed.encode_call(args, kwargs, pickle or self._pickle, of_bytes)
        except RecursionError:
            raise InvalidTask("an argument is nested too deeply, or contains itself") from None
        if self._large is None or _fits(payload):
            return payload if is_plain else dict(json.loads(_text(payload)))
        if "args" not in payload:
            payload = {"args": [payload]}
        kept: dict[str, Any] = {"args": [*map(self._large.kept, payload["args"])]}
        if "kwargs" in payload:
            kept["kwargs"] = {
                name: self._large.kept(one) for name, one in payload["kwargs"].items()
            }
        return kept

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


def _text(stored: Any, of_data: Callable[[Any], Any] = as_base64) -> bytes:
    """Return an encoded value as JSON, the same for equal values."""
    return json.dumps(
        stored,
        ensure_ascii=False,
        allow_nan=False,
        sort_keys=True,
        separators=(",", ":"),
        default=of_data,
    ).encode()


def _fits(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload is small enough for the queue."""
    least = items = 0  # characters that its text has at least
    rest: list[Any] = [payload]
    while rest and least <= MAX_PAYLOAD_BYTES:
        one = rest.pop()
        items += 1
        least += 1
        if isinstance(one, str):
            least += len(one)
        elif isinstance(one, dict):
            least += sum(map(len, one))
            rest += one.values()
        elif isinstance(one, list):
            rest += one
        elif isinstance(one, int):
            least += one.bit_length() // 4
        elif isinstance(one, Data):
            least += one.view.nbytes
    if least > MAX_PAYLOAD_BYTES:
        return False
    if least <= _SURELY_CHARS and items <= _SURELY_ITEMS:
        return True
    data = _text(payload)
    return json_fault(data, most=MAX_PAYLOAD_BYTES, deep=MAX_PAYLOAD_DEPTH) is None
