"""NumPy arrays as JSON, without a pickle: element type, shape, and bytes as Base64.

    ["<f8", [2, 3], "AAAA..."]    [[["n", "<i4"], ["x", "<f8"]], [1], "AAAA..."]

In pickles and in large results, the memory itself takes the place of the Base64 (see `buffers`).

The reader knows numbers, truth values, dates, text and bytes of fixed length, and records of them.
It checks that there are exactly as many bytes as type and shape say before it allocates memory.
"""

from __future__ import annotations

import base64
import importlib
import math
import re
from typing import Any, Callable

_ELEMENT = re.compile(r"[<>|][biufcmMSUV][0-9]{1,9}(\[[0-9]{0,9}[A-Za-z]{1,8}\])?")
_OBJECT = "|O"
_MAX_CODE_POINT = 0x10FFFF


def storable(dtype: Any) -> bool:
    """Return whether arrays of a type can be stored; those of objects or empty elements cannot."""
    return dtype.kind in "biufcmMSUV" and not dtype.hasobject and dtype.itemsize > 0


def base64_of(data: Any) -> str:
    """Return bytes as Base64."""
    return base64.b64encode(data).decode()


def bytes_of(stored: Any) -> Any:
    """Return the bytes of text in Base64, or the bytes or buffer itself; ValueError if invalid."""
    if isinstance(stored, (bytes, bytearray, memoryview)):
        return stored
    return base64.b64decode(stored, validate=True)


def encoded(array: Any, of_bytes: Callable[[Any], Any]) -> Any:
    """Return an array of a `storable` type as JSON; of_bytes: see `typed.encode`."""
    numpy = importlib.import_module("numpy")
    memory = numpy.ascontiguousarray(array).reshape(-1).view("u1").data
    return [stored_type(array.dtype), list(array.shape), of_bytes(memory)]


def decoded(stored: Any) -> Any:
    """Return the array, a view if the buffer is writable. ValueError if invalid.

    The array is writable.

    Where not all bytes are valid elements, the array has memory of its own: no other view of the
    buffer can change what was checked.
    """
    numpy = importlib.import_module("numpy")
    kind, shape, memory = stored
    dtype = dtype_of(kind)
    if dtype.hasobject:
        raise ValueError("bytes are not objects")
    data = memoryview(bytes_of(memory))
    if data.readonly or not _takes_any_bytes(dtype):
        data = memoryview(bytearray(data))
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"no shape of an array: {shape!r:.80}")
    if dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != data.nbytes:
        raise ValueError(f"{data.nbytes} bytes are not an array of {dtype!r:.80} and {shape!r:.80}")
    if not data.nbytes:
        return numpy.zeros(shape, dtype)
    array = numpy.frombuffer(data, dtype)
    if not _takes_any_bytes(dtype):
        _check(numpy, array)
    return array.reshape(shape)


def of_objects(shape: Any, values: Any) -> Any:
    """Return the array of objects; ValueError if their number does not match the shape."""
    numpy = importlib.import_module("numpy")
    if math.prod(shape) != len(values):
        raise ValueError(f"{len(values)} objects are not an array of {shape!r:.80}")
    array = numpy.empty(len(values), object)
    for place, value in enumerate(values):
        array[place] = value
    return array.reshape(shape)


def stored_type(dtype: Any) -> Any:
    """Return an element type as JSON; it is `storable`, or the type of objects."""
    if dtype.kind == "O":
        return _OBJECT
    return importlib.import_module("numpy.lib.format").dtype_to_descr(dtype)


def dtype_of(stored: Any) -> Any:
    """Return the element type; ValueError if it is not a stored type."""
    if stored == _OBJECT:
        return importlib.import_module("numpy").dtype(_OBJECT)
    try:
        return importlib.import_module("numpy.lib.format").descr_to_dtype(_checked(stored))
    except TypeError as error:
        raise ValueError(f"no type of an array: {error}") from None


def _checked(stored: Any) -> Any:
    """Return the description that NumPy makes a type from: text, or the fields of a record."""
    if isinstance(stored, str) and _ELEMENT.fullmatch(stored):
        return stored
    if not isinstance(stored, list):
        raise TypeError(f"{stored!r:.80}")
    fields = []
    for name, kind, *shape in stored:
        names = tuple(name) if isinstance(name, list) else name
        fields.append((names, _checked(kind), *map(tuple, shape)))
    return fields


def _takes_any_bytes(dtype: Any) -> bool:
    if dtype.names is not None or dtype.subdtype is not None:
        return False
    return dtype.kind not in "bU"


def _check(numpy: Any, array: Any) -> None:
    """Refuse invalid truth values and characters, which NumPy does not check."""
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _check(numpy, array[name])
        return
    unit, most = {"b": ("u1", 1), "U": (array.dtype.byteorder + "u4", _MAX_CODE_POINT)}.get(
        array.dtype.kind, ("", 0)
    )
    if unit and array.size and numpy.ascontiguousarray(array).view(unit).max() > most:
        raise ValueError(f"no {array.dtype.name}: values above {most:#x}")
