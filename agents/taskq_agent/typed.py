"""Values that JSON lacks, as JSON: tuples, bytes, dates, NumPy arrays.

JSON's own values stay as they are. Any other value becomes an object with one name that begins with
`$`:

    {"$tuple": [1, 2]}   {"$array": ["<f8", [2], "AA..."]}   {"$float": "nan"}   {"$uuid": "..."}

A user's object with such a name, or with names that are not text, becomes
`{"$dict": [[name, value], ...]}`. A NumPy scalar becomes a number, so that it can be ranked and
exported. Reading executes nothing, and makes nothing larger than the stored text allows. The caller
makes and reads all other types, such as those of `objects`.

The elements of a set are ordered by their JSON: keys of calls are made from it, and a set's own
order differs in each process. Names of an object have the order that PostgreSQL's jsonb gives
them, shorter ones first, so that a value is the same whichever way it comes. Names of a `$dict`
keep their order, which functions see.

A call is stored as its one argument if that is an object, else as `{"args": [...]}`; a result as
itself if it is an object, else as `{"value": ...}`.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, Optional, Tuple
from uuid import UUID
from zoneinfo import ZoneInfo

from taskq_agent import arrays
from taskq_agent.protocol import RESULT_REFERENCE
from taskq_agent.text import is_unicode

#: Makes JSON of bytes: text in Base64, or something that the writer of the JSON will replace.
OfBytes = Callable[[Any], Any]
#: Makes JSON of a value of another type: an object with one name that begins with `$`.
OfOther = Callable[[Any, OfBytes], Dict[str, Any]]
#: Makes the value again, of the name and what stands under it; ValueError if there is none.
ToOther = Callable[[str, Any], Any]

#: Most elements of a set, or names of an object, that may share one hash: each is compared with all
#: others of its hash. Points that differ by -1 and -2 alone share one; so do 32 in five dimensions.
MOST_ALIKE = 32

_MARK = "$"
_ARGS = "args"
_VALUE = "value"

_COLLECTIONS: Dict[str, Callable[[Any], Any]] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
}


class NotStorable(TypeError):
    """A value is neither JSON nor of a type that has a form in JSON, and may not be pickled."""


def encode(
    value: Any, of_other: Optional[OfOther] = None, of_bytes: OfBytes = arrays.base64_of
) -> Any:
    """Return a value as JSON. NotStorable, or what `of_other` raises, if that is not possible.

    of_other: called for values of other types; None if they are not allowed. of_bytes: called for
    bytes and the memory of arrays, except in sets and names.
    """
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value
    if kind is str:
        return (
            value
            if _is_text(value)
            else {"$str": arrays.base64_of(value.encode("utf-8", "surrogatepass"))}
        )
    if isinstance(value, float) and not isinstance(value, Enum):
        return _float(float(value))
    if kind is list:
        return [encode(element, of_other, of_bytes) for element in value]
    if kind is dict:
        return _encode_dict(value, of_other, of_bytes)
    if kind is tuple:
        return {"$tuple": [encode(element, of_other, of_bytes) for element in value]}
    if kind in (set, frozenset):
        return {f"${kind.__name__}": _in_order(encode(element, of_other) for element in value)}
    return _encode_other(value, kind, of_other, of_bytes)


def _in_order(values: Iterable[Any]) -> List[Any]:
    return sorted(
        values, key=lambda element: json.dumps(element, sort_keys=True, separators=(",", ":"))
    )


def _encode_dict(
    value: Dict[Any, Any], of_other: Optional[OfOther], of_bytes: OfBytes
) -> Dict[str, Any]:
    if all(type(name) is str and name[:1] != _MARK and _is_text(name) for name in value):
        names = sorted(value, key=_place) if len(value) > 1 else value
        return {name: encode(value[name], of_other, of_bytes) for name in names}
    pairs = [
        [encode(name, of_other), encode(element, of_other, of_bytes)]
        for name, element in value.items()
    ]
    return {"$dict": pairs}


def _place(name: str) -> Tuple[int, str]:
    """Return the key by which names are sorted."""
    return len(name.encode()), name


def _encode_other(value: Any, kind: type, of_other: Optional[OfOther], of_bytes: OfBytes) -> Any:
    if kind is bytes or kind is bytearray:
        return {f"${kind.__name__}": of_bytes(value)}
    if kind in _ENCODERS:
        return {f"${kind.__name__.lower()}": _ENCODERS[kind](value)}
    if isinstance(value, PurePath):
        return {"$path": encode(str(value))}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
        array = _encode_numpy(numpy, value, of_bytes)
        if array is not None:
            return array
    if of_other is not None:
        return of_other(value, of_bytes)
    raise not_storable(value)


def not_storable(value: Any) -> NotStorable:
    """Return the error that names the type of a value."""
    return NotStorable(
        f"{_article(type(value))} cannot be stored: give JSON, tuples, sets, bytes, dates, NumPy "
        "arrays, or a dataclass, NamedTuple or enumeration of the function's own module"
    )


def _encode_numpy(numpy: Any, value: Any, of_bytes: OfBytes) -> Any:
    """Return a NumPy scalar or array as JSON; None if it holds objects or is of a subclass."""
    for kind, plain in ((numpy.bool_, bool), (numpy.integer, int), (numpy.floating, float)):
        if isinstance(value, kind) and value.dtype.kind != "m":  # a time span is an integer there
            return encode(plain(value))
    if isinstance(value, numpy.complexfloating):
        return encode(complex(value))
    return _encode_array(numpy, value, of_bytes)


def _encode_array(numpy: Any, value: Any, of_bytes: OfBytes) -> Any:
    array = numpy.asarray(value)
    if not arrays.storable(array.dtype) or (
        isinstance(value, numpy.ndarray) and array is not value
    ):
        return None
    return {"$array" if array is value else "$scalar": arrays.encoded(array, of_bytes)}


def decode(value: Any, to_other: Optional[ToOther] = None) -> Any:
    """Return the value from which `encode` made this JSON; ValueError if there is none.

    to_other: called for other types; None if they are not allowed.
    """
    if isinstance(value, list):
        return [decode(element, to_other) for element in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name[:1] == _MARK:
            return _decode_marked(name, inner, to_other)
    return {name: decode(element, to_other) for name, element in value.items()}


def _decode_marked(name: str, inner: Any, to_other: Optional[ToOther]) -> Any:
    try:
        if name == "$dict":
            pairs = [(decode(key, to_other), decode(element, to_other)) for key, element in inner]
            refuse_alike([key for key, _ in pairs])
            return dict(pairs)
        if name in _COLLECTIONS:
            values = [decode(element, to_other) for element in inner]
            if name != "$tuple":
                refuse_alike(values)
            return _COLLECTIONS[name](values)
        if name in _PLAIN:
            return _PLAIN[name](inner)
        if to_other is not None:
            return to_other(name, inner)
    except (TypeError, LookupError, AttributeError, ArithmeticError, MemoryError) as error:
        raise ValueError(f"{name} with {inner!r:.80}: {error}") from None
    raise ValueError(
        f"{name!r:.80} is not a type of value; is this release older than the other's?"
    )


def refuse_alike(values: Collection[Any]) -> None:
    """Raise ValueError if more values share one hash than could by chance."""
    hashes = [*map(hash, values)]
    if len(hashes) - len(set(hashes)) >= MOST_ALIKE and max(Counter(hashes).values()) > MOST_ALIKE:
        raise ValueError(f"more than {MOST_ALIKE} elements of a set, or names, are alike")


def encode_call(
    args: Tuple[Any, ...],
    kwargs: Mapping[str, Any],
    of_other: Optional[OfOther] = None,
    of_bytes: OfBytes = arrays.base64_of,
) -> Dict[str, Any]:
    """Return the payload for a call; the others: see `encode`."""
    if len(args) == 1 and not kwargs and type(args[0]) is dict and _ARGS not in args[0]:
        payload: Dict[str, Any] = encode(args[0], of_other, of_bytes)
        return payload
    payload = {_ARGS: [encode(arg, of_other, of_bytes) for arg in args]}
    if kwargs:
        payload["kwargs"] = encode(dict(kwargs), of_other, of_bytes)
    return payload


def decode_call(
    payload: Mapping[str, Any], to_other: Optional[ToOther] = None
) -> Tuple[List[Any], Dict[str, Any]]:
    """Return the arguments of a call, by position and by name, from a payload."""
    if _ARGS not in payload:
        return [decode(dict(payload), to_other)], {}
    args, kwargs = decode(payload[_ARGS], to_other), decode(payload.get("kwargs", {}), to_other)
    if isinstance(args, list) and isinstance(kwargs, dict):
        return args, kwargs
    raise ValueError("the payload's args are not a list, or its kwargs not an object")


def encode_result(
    value: Any, of_other: Optional[OfOther] = None, of_bytes: OfBytes = arrays.base64_of
) -> Dict[str, Any]:
    """Return the result to store for a value."""
    stored = encode(value, of_other, of_bytes)
    if type(value) is dict and value.keys() != {_VALUE} and RESULT_REFERENCE not in stored:
        result: Dict[str, Any] = stored
        return result
    return {_VALUE: stored}


def decode_result(result: Optional[Mapping[str, Any]], to_other: Optional[ToOther] = None) -> Any:
    """Return the value of a stored result; ValueError if it is invalid."""
    if result is None:
        return None
    try:
        return decode(result[_VALUE] if result.keys() == {_VALUE} else dict(result), to_other)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _is_text(text: str) -> bool:
    """Return whether PostgreSQL can store text."""
    return "\0" not in text and is_unicode(text)


def _float(value: float) -> Any:
    # PostgreSQL would return 1e+16 without its exponent, and -0.0 without its sign: whole numbers.
    text = repr(value)
    if "e+" in text or not math.isfinite(value) or (value == 0 and text[0] == "-"):
        return {"$float": text}
    return value


def _complex(parts: List[Any]) -> complex:
    real, imaginary = (decode(part) for part in parts)
    return complex(real, imaginary)


def _moment(value: datetime) -> Any:
    """Return a time as text; with the name of its time zone if it has one, and not an offset."""
    zone = value.tzinfo
    if type(zone) is not ZoneInfo or not zone.key:
        return value.isoformat()
    return [value.replace(tzinfo=None, fold=0).isoformat(), value.fold, zone.key]


def _moment_again(stored: Any) -> datetime:
    if isinstance(stored, str):
        return datetime.fromisoformat(stored)
    text, fold, zone = stored
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=_int(fold))


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r:.80} is not a whole number")
    return value


def _article(kind: type) -> str:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    name = module + kind.__qualname__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


_ENCODERS: Dict[type, Callable[[Any], Any]] = {
    complex: lambda value: [_float(value.real), _float(value.imag)],
    datetime: _moment,
    date: date.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    time: time.isoformat,
    Decimal: str,
    Fraction: lambda value: [value.numerator, value.denominator],
    UUID: str,
    ZoneInfo: lambda value: value.key,
    timezone: lambda value: [encode(argument) for argument in value.__getinitargs__()],
    range: lambda value: [value.start, value.stop, value.step],
    slice: lambda value: [encode(bound) for bound in (value.start, value.stop, value.step)],
}
_PLAIN: Dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$str": lambda text: arrays.bytes_of(text).decode("utf-8", "surrogatepass"),
    "$bytes": lambda stored: bytes(arrays.bytes_of(stored)),
    "$bytearray": lambda stored: bytearray(arrays.bytes_of(stored)),
    "$complex": _complex,
    "$datetime": _moment_again,
    "$date": date.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
    "$time": time.fromisoformat,
    "$decimal": Decimal,
    "$fraction": lambda parts: Fraction(*map(_int, parts)),
    "$uuid": UUID,
    "$zoneinfo": ZoneInfo,
    "$timezone": lambda parts: timezone(*map(decode, parts)),
    "$range": lambda parts: range(*map(_int, parts)),
    "$slice": lambda parts: slice(*map(decode, parts)),
    "$path": lambda text: Path(decode(text)),
    "$array": arrays.decoded,
    "$scalar": lambda stored: arrays.decoded(stored)[()],
}
