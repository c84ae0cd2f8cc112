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
import linecache
import pickle
import platform
import sys
import traceback
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Mapping, Optional

from taskq_agent import arrays, buffers, typed
from taskq_agent.errors import HandlerError, NodeBroken
from taskq_agent.handlers import results
from taskq_agent.handlers.resident import ARCHIVE
from taskq_agent.payload import input_path
from taskq_agent.text import clean

FUNCTION = "function.pickle"
SOURCE = "source.txt"
#: The mark of a large argument: in the queue with digest and size, for the child with its file.
LARGE = "$blob"
#: The mark of a chunk. It is the only argument of its task, and has the payloads of its calls. In
#: the result it has their encoded values in the same order.
CHUNK = "$calls"
#: The mark of a call of a chunk that raised, in the place of its value.
RAISED = "$raised"
_READ = 1 << 20
#: Modules whose frames a traceback leaves out.
_OURS = (__name__, "taskq_agent.handlers.child")
_TRACEBACK_CHARS = 16_000


class CannotPrepare(Exception):
    """This node cannot call the function of the campaign."""


@dataclass(frozen=True)
class Prepared:
    """A function that is ready to be called; seal: the key for pickled arguments, if any."""

    name: str
    function: Callable[..., Any]
    params: Dict[str, Any]
    seal: Optional[bytes]
    imports: FrozenSet[str]

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
        archive = _Archive(handler) if "archive" in handler else None
        if "target" in handler:
            function = _named(str(handler["target"]))
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


def call(payload: Mapping[str, Any], prepared: Prepared) -> Dict[str, Any]:
    """Call the function with the arguments of a payload; return the result, with its `Data`."""
    chunk = calls_of(payload)
    if chunk is None:
        result: Dict[str, Any] = _encoded(typed.encode_result, _value(payload, prepared), prepared)
        return result
    return {"value": {CHUNK: [_end(one, prepared) for one in chunk]}}


def calls_of(payload: Mapping[str, Any]) -> Optional[List[Mapping[str, Any]]]:
    """Return the payloads of the calls of a chunk; None for a single call."""
    args = payload.get("args")
    if isinstance(args, list) and len(args) == 1 and _is_marked(args[0], CHUNK):
        return list(args[0][CHUNK])
    return None


def _end(payload: Mapping[str, Any], prepared: Prepared) -> Any:
    """Return the encoded value of a call of a chunk, or the record of what it raised.

    An exception that speaks for the attempt, such as `taskq.Retry`, ends the chunk.
    """
    try:
        return _encoded(typed.encode, _value(payload, prepared), prepared)
    except HandlerError:
        raise
    except Exception as error:  # noqa: BLE001 - payload code may raise anything
        record = exception_record(error, own_traceback(error))
        if isinstance(error, results.BadResult):
            record["class"] = "bad-result"  # as for a single call
        return {RAISED: record}


def _value(payload: Mapping[str, Any], prepared: Prepared) -> Any:
    args, kwargs = typed.decode_call(with_large(payload, _large), prepared.unpickled)
    try:
        return prepared.function(*args, **{**prepared.params, **kwargs})
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in prepared.imports:
            raise NodeBroken(missing(prepared.name, error.name)) from error
        raise


def _encoded(encode: Callable[..., Any], value: Any, prepared: Prepared) -> Any:
    try:
        pickle = pickled if prepared.seal is not None else None
        return encode(value, pickle, buffers.Data)
    except RecursionError:
        raise results.BadResult("the result is nested too deeply, or contains itself") from None
    except Exception as error:  # pickling runs payload code
        raise results.BadResult(f"the result: {error}") from error


def has_large(payload: Mapping[str, Any]) -> bool:
    """Return whether arguments of a call are blobs, since they are large."""
    return any(_is_marked(one, LARGE) for one in _arguments(payload))


def with_large(payload: Mapping[str, Any], make: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return a payload with what `make` returns in place of each large argument."""
    if not has_large(payload):
        return payload

    def made(argument: Any) -> Any:
        return make(argument[LARGE]) if _is_marked(argument, LARGE) else argument

    whole = dict(payload, args=[*map(made, payload["args"])])
    if isinstance(kwargs := payload.get("kwargs"), dict):
        whole["kwargs"] = {name: made(one) for name, one in kwargs.items()}
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


def missing(name: str, module: str) -> str:
    """Return the message about a module that this node lacks."""
    return (
        f"{name} needs the module {module}, which {sys.executable} on {platform.node()} lacks: "
        "install it there, run the agent with a Python that has it, or name its folder by --path"
    )


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


def exception_record(error: BaseException, lines: str) -> Dict[str, Any]:
    """Return what the result keeps of an exception, so that its readers can raise it again.

    lines: its traceback. Arguments that cannot be stored are left out.
    """
    kind = type(error)
    about = {"class": f"{kind.__module__}:{kind.__qualname__}", "traceback": lines}
    try:
        args, state = typed.exception_parts(error)
        about["args"] = typed.encode(list(args))
        if state:
            about["state"] = typed.encode(state)
        results.encoded(about)
    except Exception:  # noqa: BLE001 - payload code; its text remains
        about.pop("args", None)
        about.pop("state", None)
    return about


class _Archive:
    """The input with the pickled function; its folder of modules stays importable."""

    def __init__(self, handler: Mapping[str, Any]) -> None:
        wanted, here = handler.get("python"), "{}.{}".format(*sys.version_info[:2])
        self._name = str(handler.get("name"))
        if wanted not in (None, here):
            raise CannotPrepare(
                f"{self._name} was sent by Python {wanted}, whose code Python {here} at "
                f"{sys.executable} cannot run: run the agent with Python {wanted}, or put the "
                "function into a module"
            )
        path = input_path(ARCHIVE)
        self._path = str(path)
        with path.open("rb") as file:
            digest = hashlib.sha256()
            for chunk in iter(lambda: file.read(_READ), b""):
                digest.update(chunk)
        if digest.hexdigest() != handler["archive"]:
            raise CannotPrepare(
                f"{ARCHIVE} is not the one that {self._name} was sent with: it is not unpickled"
            )
        # The pickles need the cloudpickle that wrote them, not an older one of the node.
        sys.path.insert(0, self._path)
        try:
            importlib.import_module("cloudpickle.cloudpickle")
        finally:
            sys.path.remove(self._path)

    def function(self) -> Callable[..., Any]:
        """Return the function; its source becomes known, for tracebacks."""
        with zipfile.ZipFile(self._path) as archive:
            found: Callable[..., Any] = pickle.loads(archive.read(FUNCTION))  # noqa: S301  # checked
            if SOURCE in archive.namelist():
                _show_source(found, archive.read(SOURCE).decode())
        return found


class _ResultPickler(pickle.Pickler):
    """Writes as data what readers of results accept only as data; refers to classes by name."""

    def persistent_id(self, value: Any) -> Any:
        """Refer to a class of `__main__` by its name there: the reader has it, or refuses."""
        if isinstance(value, type) and value.__module__ == "__main__":
            return ("class", value.__qualname__)
        return None

    def reducer_override(self, value: Any) -> Any:
        """Write dates, numbers and arrays as `typed` does, and exceptions by their parts."""
        if isinstance(value, BaseException):
            return typed.rebuilt, (type(value), *typed.exception_parts(value))
        stored = typed.exact(value, pickle.PickleBuffer)
        if stored is not None:
            return typed.decode, (stored,)
        kind = type(value)
        if (kind.__module__, kind.__name__) == ("numpy", "ndarray") and value.dtype.kind == "O":
            return arrays.of_objects, (value.shape, list(value.flat))
        return NotImplemented


def pickled(value: Any) -> List[Any]:
    """Return a result, or part of one, as a pickle and its large buffers."""
    return [*map(buffers.Data, buffers.pickled(_ResultPickler, value))]


def _named(target: str) -> Callable[..., Any]:
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    try:
        for part in path.split("."):
            found = getattr(found, part)
    except AttributeError:
        where = getattr(found, "__file__", None) or module
        raise CannotPrepare(f"{where} has no {path}: is it the same release here?") from None
    function: Callable[..., Any] = found
    return function


def _imports(code: CodeType) -> Iterator[str]:
    """Yield the modules that a function's own code imports."""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            yield str(step.argval).partition(".")[0]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _imports(inner)


def _show_source(function: Callable[..., Any], source: str) -> None:
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType):
        lines = ["\n"] * (code.co_firstlineno - 1) + source.splitlines(keepends=True)
        linecache.cache[code.co_filename] = (len(source), None, lines, code.co_filename)


def cached(function: Callable[..., Any], maxsize: Optional[int], typed: bool) -> Any:  # by pickles
    """Return a function with `functools.lru_cache`, which pickles only by name."""
    return functools.lru_cache(maxsize, typed)(function)
