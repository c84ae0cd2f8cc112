"""Several values that a caller gives: refused where iterating over them yields something else.

Python iterates over almost anything: over the characters of a text, the names of a mapping, the
columns of a table. A caller who gives one of those means something else, but each element would
become a call, a key or a file of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, Final, TypeVar

from taskq.model.errors import UsageError

T = TypeVar("T")

_BYTES: Final = (bytes, bytearray, memoryview)
#: Methods of tables that give their rows, as they are written.
_ROWS: Final = {
    "to_pylist": ".to_pylist()",  # pyarrow
    "to_dicts": ".to_dicts()",  # polars
    "to_dict": '.to_dict("records")',  # pandas
}


def elements(what: str, given: Iterable[T]) -> Iterable[T]:
    """Return values that are iterated over; raise `UsageError` if that is not what is meant.

    what: names them in the error, such as "arguments".
    """
    if (advice := _advice(given)) is not None:
        raise UsageError(f"{what}: {advice}")
    return given


def names(what: str, given: Iterable[T]) -> Iterable[T]:
    """Return names, paths or classes; raise `UsageError` if a single one is given, or no list."""
    if isinstance(given, (str, type, *_BYTES, PurePath)) or not _can_iterate(given):
        raise UsageError(f"{what} are several, and {given!r:.80} is one: give a list, [{given!r}]")
    return given


def _advice(given: Any) -> str | None:
    """Return what to give instead; None if it can be iterated over as it is."""
    kind = type(given).__qualname__
    if isinstance(given, str):
        return (
            f"{given!r:.80} is one text, and iterating over it gives its characters: give a list, "
            "[text]; of a file, its records, such as taskq.smiles(path)"
        )
    if isinstance(given, _BYTES):
        return f"a {kind} gives its bytes as numbers: give a list, [data], or list(data) for those"
    if isinstance(given, Mapping):
        return f"a {kind} gives its names alone: give list(it), its .values() or its .items()"
    if hasattr(type(given), "columns") or hasattr(type(given), "column_names"):
        found = [how for name, how in _ROWS.items() if hasattr(given, name)]
        rows = f"it{found[0]}" if found else "a list of mappings"
        return f"a {kind} gives its columns, not its rows: give its rows, {rows}"
    if not _can_iterate(given):
        return f"a {kind} is one value: give a list of values, [value]"
    return None


def _can_iterate(given: Any) -> bool:
    """Return whether it has elements; nothing is called, which may begin to wait for them."""
    kind = type(given)
    return hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")
