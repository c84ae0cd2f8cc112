"""Pickles of functions and arguments, by value; the only module that imports cloudpickle.

An archive is a zip file with the pickled function, the source text for tracebacks, and cloudpickle
itself: so the release that wrote a pickle reads it, and nodes need not have it installed.
"""

from __future__ import annotations

import inspect
import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import resources
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, Final

import cloudpickle  # type: ignore[import-untyped]  # it has no types

from taskq.compute.fingerprint import CACHED, fingerprint, home_of, names_in
from taskq.model.errors import InvalidTask, UsageError
from taskq_agent import molecules
from taskq_agent.handlers.calls import cached
from taskq_agent.handlers.sent_function import FUNCTION, SOURCE

MAX_ARCHIVE_BYTES: Final = 33_554_432
#: A blob takes 64 MiB, of which base64 leaves three quarters.
MAX_ARGUMENT_BYTES: Final = 50_331_648
PROTOCOL: Final = 4

_MIB: Final = 1_048_576


class PickleTooLarge(UsageError):
    """A pickle is larger than its limit."""


class _Bounded(io.BytesIO):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > self._most:
            raise PickleTooLarge(f"more than {self._most} bytes")
        return super().write(data)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles by value, and names classes after their content.

    What has no pickle goes by its name if a module has it under one, such as functions of C++.
    Molecules keep their names and properties.

    cloudpickle draws a random name for each class, by which a process that reads the class twice
    recognises it. With a digest instead, the class of an argument stays that of the function, also
    after a notebook was restarted.
    """

    def reducer_override(self, value: Any) -> Any:
        known = cloudpickle.cloudpickle
        if (
            isinstance(value, type)
            and value.__module__ == "__main__"
            and value not in known._DYNAMIC_CLASS_TRACKER_BY_CLASS  # noqa: SLF001  # has no public name
        ):
            known._lookup_class_or_track(fingerprint(value), value)  # noqa: SLF001
        if isinstance(value, CACHED) and value.__module__ == "__main__":
            options = value.cache_parameters()
            return cached, (value.__wrapped__, options["maxsize"], options["typed"])
        if (molecule := molecules.reduced(value)) is not None:
            return molecule
        made = super().reducer_override(value)
        if made is NotImplemented and callable(value) and not isinstance(value, type):
            return _name_of(value) or made
        return made


def _name_of(value: Any) -> str | None:
    """Return the name of a callable in its module if its pickle is no other; None otherwise."""
    found = home_of(value)
    if found is None or found[0] == "__main__":
        return None
    if isinstance(value, (MethodType, BuiltinMethodType)):
        return found[1]  # such as `random.gauss`, which would take a copy of its object along
    try:
        value.__reduce_ex__(PROTOCOL)
    except Exception:  # noqa: BLE001  # any object's own code
        return found[1]
    return None


def pickled(value: Any, most: int) -> bytes:
    """Return the pickle of a value; raise `PickleTooLarge`, or what the value's classes raise."""
    file = _Bounded(most)
    _Pickler(file, PROTOCOL).dump(value)
    return file.getvalue()


def pickled_argument(value: Any) -> bytes:
    """Return the pickle of an argument; raise `InvalidTask` if it cannot be pickled."""
    kind = type(value).__qualname__
    try:
        return pickled(value, MAX_ARGUMENT_BYTES)
    except PickleTooLarge:
        raise InvalidTask(
            f"an argument, of the type {kind}, has more than {MAX_ARGUMENT_BYTES} bytes as a "
            "pickle: keep it in a file, and give that to all tasks by inputs=[...]"
        ) from None
    except Exception as error:  # any object's own code
        raise InvalidTask(f"an argument, of the type {kind}, cannot be sent: {error}") from error


def function_archive(name: str, function: Callable[..., Any] | None) -> bytes:
    """Return the archive of a function, or of cloudpickle alone, for arguments.

    Equal functions have equal archives, whenever they are made. Raise `UsageError` if the function
    cannot be pickled, or has more than 32 MiB with all that it refers to; the error names the
    parts to blame.
    """
    parts: dict[str, bytes | str] = {}
    if function is not None:
        parts[FUNCTION] = _pickled_function(name, function)
        with suppress(OSError, TypeError):
            parts[SOURCE] = inspect.getsource(function)
    for part in resources.files("cloudpickle").iterdir():
        if part.name.endswith(".py"):
            parts[f"cloudpickle/{part.name}"] = part.read_bytes()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as files:
        for path in sorted(parts):
            files.writestr(zipfile.ZipInfo(path), parts[path], zipfile.ZIP_DEFLATED)
    return file.getvalue()


def _pickled_function(name: str, function: Callable[..., Any]) -> bytes:
    try:
        return pickled(function, MAX_ARCHIVE_BYTES)
    except PickleTooLarge:
        heavy = [found for found, part in _parts(function) if (_size(part) or 0) >= _MIB]
        what = f", mostly for {' and '.join(heavy)}" if heavy else ""
        raise UsageError(
            f"{name} has more than {MAX_ARCHIVE_BYTES // _MIB} MiB with all that it refers to"
            f"{what}: keep data in files, and give them by inputs=[...]"
        ) from None
    except Exception as error:  # any object's own code
        culprits = [found for found, part in _parts(function) if _size(part) is None]
        what = f" because of {' and '.join(culprits)}" if culprits else ""
        raise UsageError(f"{name} cannot be sent{what}: {error}") from error


def _parts(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts that a function refers to, by name."""
    if not isinstance(function, FunctionType):
        return
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents
    for name in dict.fromkeys(names_in(code)):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _size(value: Any) -> int | None:
    """Return the bytes of a pickle, up to the limit; None if the value cannot be pickled."""
    try:
        return len(pickled(value, MAX_ARCHIVE_BYTES))
    except PickleTooLarge:
        return MAX_ARCHIVE_BYTES
    except Exception:  # noqa: BLE001  # any object's own code
        return None
