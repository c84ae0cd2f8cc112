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
from types import CodeType
from typing import Any, Final, TypeAlias

from taskq.campaign.campaign import Campaign
from taskq.compute.fingerprint import (
    Part,
    attribute_text,
    described,
    fingerprint,
    home_of,
    names_in,
)
from taskq.compute.pickling import pickled_argument
from taskq.compute.trust import IsOwn, ResultReader, Trust
from taskq.db.access import Queries
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.ingest.sources.records import BadLine
from taskq.model.errors import InvalidTask, UsageError
from taskq.model.given import elements
from taskq.model.seed import MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH, Seed, canonical, key_of
from taskq_agent import typed
from taskq_agent.buffers import LEAST_BYTES, Data, PartsOfJson, as_base64, packed
from taskq_agent.handlers.calls import LARGE, sealed
from taskq_agent.json_limits import json_fault
from taskq_agent.objects import ObjectWriter, class_in
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

    target: where agents import it from, as module:function; None if it goes by value. parts: what
    the digest is of, by names for people.
    """

    function: Callable[..., Any]
    name: str
    target: str | None
    fingerprint: str
    parts: Mapping[str, Part]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Function:
        """Return the function for a callable; raise `UsageError` if it cannot be called."""
        if not callable(function):
            raise UsageError(f"{function!r:.80} is not a function")
        kind = type(function)
        qualname = attribute_text(function, "__qualname__") or attribute_text(function, "__name__")
        name = (qualname or kind.__qualname__).rpartition(".<locals>.")[2]
        module, path = home_of(function) or (None, "")
        named = module not in {None, "__main__"} and all(
            map(str.isidentifier, f"{module}.{path}".split("."))
        )
        try:
            digest, parts = described(function)
        except RecursionError:
            raise UsageError(f"{name} refers to something that is nested too deeply") from None
        return cls(function, name, f"{module}:{path}" if named else None, digest, parts)

    @property
    def module(self) -> str:
        """The module of the function, which defines the classes of objects that go as data."""
        return attribute_text(self.function, "__module__") or ""

    def reader(self, trust: Trust, is_own: IsOwn) -> ResultReader:
        """Return what reads the results of calls; see `ResultReader`."""
        by_value = self.target is None
        return ResultReader(trust, is_own=is_own, by_value=by_value, homes=[self.module])

    def defines(self, kind: type) -> bool:
        """Return whether agents find a class in the function's module, for an argument.

        A function by value takes along what its code names.
        """
        known: Mapping[str, Any] = vars(sys.modules.get(self.module, object))
        if self.target is None:
            code = getattr(self.function, "__code__", None)
            named = set(names_in(code)) if isinstance(code, CodeType) else ()
            known = {name: known[name] for name in named if name in known}
        return class_in(known, self.module, kind.__qualname__) is kind

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
        parameter.kind is parameter.VAR_KEYWORD
        or (parameter.name == name and parameter.kind is not parameter.POSITIONAL_ONLY)
        for parameter in parameters
    )


def positional(item: Any, *, spread: bool) -> tuple[Any, ...]:
    """Return the arguments of a call; spread: the element is an iterable of them.

    Raise `InvalidTask` if iterating over the element gives something else.
    """
    if not spread:
        return (item,)
    try:
        return tuple(elements("the arguments of a call", item))
    except UsageError as error:
        raise InvalidTask(str(error)) from None


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
    without it they are refused. owns: whether agents find a class; its objects go as data then.
    """

    def __init__(
        self,
        seal: str | None,
        large: LargeArguments | None = None,
        owns: Callable[[type], bool] | None = None,
    ) -> None:
        self._seal = None if seal is None else bytes.fromhex(seal)
        self._large = large
        self._owns = owns or (lambda _: False)
        self._times: dict[bytes, int] = {}

    @classmethod
    def of(
        cls, database: Queries, campaign: Campaign, owns: Callable[[type], bool] | None = None
    ) -> Arguments:
        """Return those for calls of a campaign."""
        handler = campaign.spec().handler
        seal = None if handler is None else handler.seal
        return cls(seal, LargeArguments(database, campaign.path), owns)

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
        return self.seed(*self.content(positional(item, spread=spread), {}))

    def seed(self, payload: dict[str, Any], text: str, calls: int = 1) -> Seed:
        """Return the task for the content of a call, or of several calls; see `of_item`."""
        key = key_of(text)
        short = hashlib.sha256(key.encode()).digest()[:12]
        times = self._times[short] = self._times.get(short, 0) + 1
        key = key if calls == 1 else f"{key}*{calls}"
        return Seed(payload, key if times == 1 else f"{key}#{times}").checked()

    def call(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], aside: Mapping[str, Any]
    ) -> tuple[dict[str, Any], str]:
        """Return the payload of a call, and a key made from its content.

        aside: further named arguments, which are no part of the key.
        """
        payload, text = self.content(args, kwargs)
        if aside:
            payload = self.payload(args, {**kwargs, **aside})
        return payload, key_of(text)

    def content(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Content:
        """Return the payload of a call, and text that is the same for calls with equal arguments.

        A pickle differs from process to process, and an object is what its class makes of it. So
        the part of the text of each is a digest of its content.
        """
        writer = ObjectWriter(self._pickle, self._owns)
        payload = self.payload(args, kwargs, writer)
        if not writer.count:
            return payload, canonical(payload)
        digests = ObjectWriter(lambda part: [fingerprint(part)], lambda _: False)
        return payload, canonical(typed.encode_call(args, kwargs, digests))

    def payload(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        writer: ObjectWriter | None = None,
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
            writer = writer or ObjectWriter(self._pickle, self._owns)
            payload = typed.encode_call(args, kwargs, writer, of_bytes)
        except RecursionError:
            raise InvalidTask("an argument is nested too deeply, or contains itself") from None
        if self._large is None or _fits(payload):
            return payload if is_plain else dict(json.loads(_text(payload)))
        if "args" not in payload:
            payload = {"args": [payload]}
        kept: dict[str, Any] = {"args": [*map(self._large.kept, payload["args"])]}
        if "kwargs" in payload:
            kept["kwargs"] = {
                name: self._large.kept(value) for name, value in payload["kwargs"].items()
            }
        return kept

    def _pickle(self, value: Any) -> list[str]:
        if self._seal is None:
            raise InvalidTask(
                f"{typed.not_storable(value)}. Only functions of a notebook or script, which are "
                "sent by value, take other objects as arguments"
            )
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
        part = rest.pop()
        items += 1
        least += 1
        if isinstance(part, str):
            least += len(part)
        elif isinstance(part, dict):
            least += sum(map(len, part))
            rest += part.values()
        elif isinstance(part, list):
            rest += part
        elif isinstance(part, int):
            least += part.bit_length() // 4
        elif isinstance(part, Data):
            least += part.view.nbytes
    if least > MAX_PAYLOAD_BYTES:
        return False
    if least <= _SURELY_CHARS and items <= _SURELY_ITEMS:
        return True
    data = _text(payload)
    return json_fault(data, most=MAX_PAYLOAD_BYTES, deep=MAX_PAYLOAD_DEPTH) is None
