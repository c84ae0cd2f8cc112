"""Calls of functions in the resident child, for handlers of the kind `function`.

A sealed campaign carries pickles, and reading a pickle can execute anything. So the archive must
have the digest that the handler names, and a pickled argument must have the seal of the campaign,
also within the blob of a large argument. Those who may only add tasks to the campaign can make
neither.
"""

from __future__ import annotations

import base64
import dis
import functools
import hashlib
import hmac
import importlib
import pickle
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)
from zoneinfo import ZoneInfo

from taskq_agent import buffers, molecules, objects, typed
from taskq_agent.errors import HandlerError, NodeBroken
from taskq_agent.handlers import results
from taskq_agent.handlers.call_guard import CallGuard
from taskq_agent.handlers.raised import exception_record, own_traceback
from taskq_agent.handlers.sent_function import CannotPrepare, SentArchive, missing, named
from taskq_agent.payload import input_path

#: The mark of a large argument: in the queue with digest and size, for the child with its file.
LARGE = "$blob"
#: The mark of a chunk. It is the only argument of its task, and has the payloads of its calls. In
#: the result it has their encoded values in the same order.
CHUNK = "$calls"
#: The mark of a call of a chunk that raised, in the place of its value.
RAISED = "$raised"


class ChunkCut(BaseException):
    """A fresh process should run the rest of a chunk; ends: of the calls so far."""

    def __init__(self, ends: List[Any]) -> None:
        super().__init__()
        self.ends = ends


@dataclass(frozen=True)
class Prepared:
    """A function that is ready to be called; seal: the key for pickled arguments, if any.

    guard: looks after each call of a chunk.
    """

    name: str
    function: Callable[..., Any]
    params: Dict[str, Any]
    seal: Optional[bytes]
    imports: FrozenSet[str]
    guard: Optional[CallGuard] = None

    def quiet(self) -> None:
        """Let nothing that a call of a chunk has left interrupt what follows it."""
        if self.guard is not None:
            self.guard.quiet()

    def find(self, module: str, path: str) -> Any:
        """Return a class that the function's module defines, for an argument."""
        function: Any = self.function
        own = getattr(function, "__module__", None)
        around = [getattr(function, "__globals__", {}), vars(sys.modules.get(str(own)) or object)]
        found = [objects.class_in(names, module, path) for names in around if module == own]
        for defined in filter(None, found):
            return defined
        raise ValueError(
            f"an argument is of the class {module}.{path}, which the module of {self.name} does "
            "not define here: is it the same release?"
        )

    def unpickled(self, words: List[str]) -> Any:
        """Return a pickled argument, if it has the campaign's seal."""
        if self.seal is None:
            raise ValueError("a pickled argument, but the function is called by name")
        text, given = words
        if not hmac.compare_digest(sealed(self.seal, text), given):
            raise ValueError("a pickled argument without the campaign's seal: it is not read")
        return pickle.loads(base64.b64decode(text))  # noqa: S301  # sealed by the campaign's creator


def sealed(key: bytes, text: str) -> str:
    """Return the seal of a pickled argument, in hex."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def prepare(order: Mapping[str, Any]) -> Prepared:
    """Return the function of a campaign; CannotPrepare if this node lacks something."""
    handler: Mapping[str, Any] = order["handler"]
    name = str(handler.get("name") or handler.get("target"))
    try:
        archive = SentArchive(handler) if "archive" in handler else None
        if "target" in handler:
            function = named(str(handler["target"]))
        elif archive is None:
            raise CannotPrepare(f"{name}: the handler has neither target nor archive")
        else:
            function = archive.function()
        seal = handler.get("seal")
        params = typed.decode(order["params"])
    except ModuleNotFoundError as error:
        raise CannotPrepare(missing(name, str(error.name))) from error
    code = getattr(function, "__code__", None)
    imports = frozenset(_imports(code) if isinstance(code, CodeType) else ())
    return Prepared(name, function, params, bytes.fromhex(seal) if seal else None, imports)


def call(
    payload: Mapping[str, Any], prepared: Prepared, ends: Sequence[Any] = (), *, cut: bool = False
) -> Dict[str, Any]:
    """Call the function with the arguments of a payload; return the result, with its `Data`.

    ends: of the first calls of a chunk, in an earlier process. cut: whether `ChunkCut` may leave
    calls that have failed to another process.
    """
    chunk = calls_of(payload)
    if chunk is None:
        return result_of(_value(payload, prepared), prepared)
    return {"value": {CHUNK: _ends(chunk, prepared, ends, cut=cut)}}


def _ends(
    chunk: List[Mapping[str, Any]], prepared: Prepared, before: Sequence[Any], *, cut: bool
) -> List[Any]:
    ends, guard = [*before], prepared.guard
    for call in chunk[len(ends) :]:
        end, failed = _end(call, prepared)
        if guard is not None:
            if guard.after_call(failed=failed):
                end, failed = _end(call, prepared)
            if guard.ends_after(failed=failed):
                goes_on = guard.is_exhausted and len(ends) >= len(before) + guard.failures
                kept = [*ends, end][: -guard.failures if failed and (cut or goes_on) else None]
                if len(kept) < len(chunk):
                    raise ChunkCut(kept)
        ends.append(end)
    return ends


def calls_of(payload: Mapping[str, Any]) -> Optional[List[Mapping[str, Any]]]:
    """Return the payloads of the calls of a chunk; None for a single call."""
    args = payload.get("args")
    if isinstance(args, list) and len(args) == 1 and _is_marked(args[0], CHUNK):
        return list(args[0][CHUNK])
    return None


def written_ends(ends: List[Any]) -> Sequence[buffers.Buffer]:
    """Return the ends of the first calls of a chunk as the pieces of a file."""
    small, large = results.written({CHUNK: ends})
    return (small.encode(),) if small is not None else large


def read_ends(data: bytes) -> List[Any]:
    """Return what `written_ends` has written."""
    ends: List[Any] = buffers.json_of(data, buffers.Data)[CHUNK]
    return ends


def _end(payload: Mapping[str, Any], prepared: Prepared) -> Tuple[Any, bool]:
    """Return the encoded value of a call of a chunk, or the record of what it raised; and which.

    An exception that speaks for the attempt, such as `taskq.Retry`, ends the chunk.
    """
    try:
        try:
            return _encoded(typed.encode, _value(payload, prepared), prepared), False
        finally:
            prepared.quiet()
    except HandlerError:
        raise
    except BaseException as error:  # noqa: BLE001 - payload code may raise anything
        prepared.quiet()
        record = exception_record(error, own_traceback(error))
        if isinstance(error, results.BadResult):
            record["class"] = "bad-result"  # as for a single call
        return {RAISED: record}, True


def _value(payload: Mapping[str, Any], prepared: Prepared) -> Any:
    args, kwargs = arguments_of(payload, prepared)
    return called(prepared, *args, **kwargs)


def arguments_of(
    payload: Mapping[str, Any], prepared: Prepared
) -> Tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments of a call, by position and by name."""
    read = objects.ObjectReader(prepared.find, prepared.unpickled)
    args, kwargs = typed.decode_call(with_large(payload, _large), read)
    return args, kwargs


def result_of(value: Any, prepared: Prepared) -> Dict[str, Any]:
    """Return what a function has returned as a result, with its `Data`."""
    result: Dict[str, Any] = _encoded(typed.encode_result, value, prepared)
    return result


def called(prepared: Prepared, /, *args: Any, **kwargs: Any) -> Any:
    """Return what the function returns; NodeBroken if this node lacks what its own code imports."""
    try:
        return prepared.function(*args, **{**prepared.params, **kwargs})
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in prepared.imports:
            raise NodeBroken(missing(prepared.name, error.name)) from error
        raise


def _encoded(encode: Callable[..., Any], value: Any, prepared: Prepared) -> Any:
    try:
        pickle = pickled if prepared.seal is not None else None
        return encode(value, objects.ObjectWriter(pickle, record=_record), buffers.Data)
    except RecursionError:
        raise results.BadResult("the result is nested too deeply, or contains itself") from None
    except Exception as error:  # pickling runs payload code
        raise results.BadResult(f"the result: {error}") from error


def _record(error: BaseException) -> Dict[str, Any]:
    return exception_record(error, "")


def has_large(payload: Mapping[str, Any]) -> bool:
    """Return whether arguments of a call are blobs, since they are large."""
    return any(_is_marked(argument, LARGE) for argument in _arguments(payload))


def with_large(payload: Mapping[str, Any], make: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return a payload with what `make` returns in place of each large argument."""
    if not has_large(payload):
        return payload

    def made(argument: Any) -> Any:
        return make(argument[LARGE]) if _is_marked(argument, LARGE) else argument

    whole = dict(payload, args=[*map(made, payload["args"])])
    if isinstance(kwargs := payload.get("kwargs"), dict):
        whole["kwargs"] = {name: made(argument) for name, argument in kwargs.items()}
    return whole


def _arguments(payload: Mapping[str, Any]) -> Iterator[Any]:
    args, kwargs = payload.get("args"), payload.get("kwargs")
    if isinstance(args, list):
        yield from args
        if isinstance(kwargs, dict):
            yield from kwargs.values()


def _is_marked(argument: Any, mark: str) -> bool:
    return isinstance(argument, dict) and argument.keys() == {mark}


def _large(path: str) -> Any:
    """Return a large argument, encoded as in a payload; the agent has checked its digest."""
    return buffers.json_of(bytearray(Path(path).read_bytes()), buffers.as_view)


def apply(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function that is itself an argument, for tasks of an executor."""
    return function(*args, **kwargs)


@functools.lru_cache(maxsize=None)
def shared(name: str) -> Any:
    """Return an argument that is an input of the campaign, once for all calls of this process.

    name: its SHA-256 and its form. Arrays are mapped into memory, read-only. A pickle is read only
    if it has the digest: it may have been replaced by somebody who may not send pickles.
    """
    path = input_path(name)
    digest, _, form = name.partition(".")
    if form == "npy":
        return importlib.import_module("numpy").load(path, mmap_mode="r")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"the input {name} is not the one that was sent: it is not read")
    return pickle.loads(data)  # noqa: S301  # checked


class _ResultPickler(pickle.Pickler):
    """Refers to classes of `__main__` by name; keeps names and properties of molecules."""

    def persistent_id(self, value: Any) -> Any:
        """Refer to a class of `__main__` by its name there: the reader has it, or refuses."""
        if isinstance(value, type) and value.__module__ == "__main__":
            return ("class", value.__qualname__)
        return None

    def reducer_override(self, value: Any) -> Any:
        """Write molecules whole, and exceptions by their parts, as their own pickles do not."""
        if issubclass(type(value), BaseException):
            return objects.rebuilt, (type(value), *objects.exception_parts(value))
        # Python 3.11.0 to 3.11.3 would write a call of `getattr`, and so would time zones.
        if issubclass(type(value), Enum):
            return type(value), (value.value,)
        if type(value) is ZoneInfo and value.key:
            return ZoneInfo, (value.key,)
        return molecules.reduced(value) or NotImplemented


def pickled(value: Any) -> List[Any]:
    """Return the class of a result, or of a part of one, with its pickle and large buffers."""
    named = value if isinstance(value, (type, FunctionType)) else type(value)
    name = f"{named.__module__}:{named.__qualname__}"
    return [name, *map(buffers.Data, buffers.pickled(_ResultPickler, value))]


def _imports(code: CodeType) -> Iterator[str]:
    """Yield the modules that a function's own code imports."""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            yield str(step.argval).partition(".")[0]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _imports(inner)


def cached(function: Callable[..., Any], maxsize: Optional[int], typed: bool) -> Any:  # by pickles
    """Return a function with `functools.lru_cache`, which pickles only by name."""
    return functools.lru_cache(maxsize, typed)(function)
