"""Values that JSON lacks, as JSON: tuples, bytes, dates, NumPy arrays, pickled objects.

JSON's own values stay as they are. Any other value becomes an object with one name that begins with
`$`:

    {"$tuple": [1, 2]}   {"$array": ["<f8", [2], "AA..."]}   {"$float": "nan"}   {"$uuid": "..."}

A user's object with such a name, or with names that are not text, becomes
`{"$dict": [[name, value], ...]}`. A NumPy scalar becomes a number, so that it can be ranked and
exported. Reading executes nothing, and makes nothing larger than the stored text allows; only the
caller reads `$pickle`.

The elements of a set are ordered by their JSON: keys of calls are made from it, and a set's own
order differs in each process. Names of an object have the order that PostgreSQL's jsonb gives
them, shorter ones first, so that a value is the same whichever way it comes. Names of a `$dict`
keep their order, which functions see.

A call is stored as its one argument if that is an object, else as `{"args": [...]}`; a result as
itself if it is an object, else as `{"value": ...}`.

A Python exception is stored as its arguments and its attributes. Code of the interpreter's own base
class, such as `OSError` for a user's class, reads and sets both. So no property is called, and no
constructor, which may want other arguments than it passes on.
"""

from __future__ import annotations

import json
import math
import sys
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath
from types import MemberDescriptorType
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
)
from uuid import UUID
from zoneinfo import ZoneInfo

from taskq_agent import arrays
from taskq_agent.protocol import RESULT_REFERENCE
from taskq_agent.text import is_unicode

Pickle = Callable[[Any], List[Any]]
Unpickle = Callable[[List[Any]], Any]
#: Makes JSON of bytes: text in Base64, or something that the writer of the JSON will replace.
OfBytes = Callable[[Any], Any]

#: Most elements of a set, or names of an object, that may share a hash with another one. Building a
#: set of more of them, chosen to collide, would take hours.
MOST_ALIKE = 1_000

_MARK = "$"
_ARGS = "args"
_VALUE = "value"


class NotStorable(TypeError):
    """A value is neither JSON nor one of the types of this module, and may not be pickled."""


def encode(
    value: Any, pickle: Optional[Pickle] = None, of_bytes: OfBytes = arrays.base64_of
) -> Any:
    """Return a value as JSON. NotStorable, or what `pickle` raises, if that is not possible.

    pickle: called for objects of other types; None if they are not allowed. of_bytes: called for
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
    if isinstance(value, float):
        return _float(float(value))
    if kind is list:
        return [encode(one, pickle, of_bytes) for one in value]
    if kind is dict:
        return _encode_dict(value, pickle, of_bytes)
    if kind is tuple:
        return {"$tuple": [encode(one, pickle, of_bytes) for one in value]}
    if kind in (set, frozenset):
        return {f"${kind.__name__}": _in_order(encode(one, pickle) for one in value)}
    return _encode_other(value, kind, pickle, of_bytes)


def _in_order(values: Iterable[Any]) -> List[Any]:
    return sorted(values, key=lambda one: json.dumps(one, sort_keys=True, separators=(",", ":")))


def _encode_dict(
    value: Dict[Any, Any], pickle: Optional[Pickle], of_bytes: OfBytes
) -> Dict[str, Any]:
    if all(type(name) is str and name[:1] != _MARK and _is_text(name) for name in value):
        names = sorted(value, key=_place) if len(value) > 1 else value
        return {name: encode(value[name], pickle, of_bytes) for name in names}
    pairs = [[encode(name, pickle), encode(one, pickle, of_bytes)] for name, one in value.items()]
    return {"$dict": pairs}


def _place(name: str) -> Tuple[int, str]:
    """Return the key by which names are sorted."""
    return len(name.encode()), name


def _encode_other(value: Any, kind: type, pickle: Optional[Pickle], of_bytes: OfBytes) -> Any:
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
    if pickle is not None:
        return {"$pickle": pickle(value)}
    raise NotStorable(
        f"{_article(kind)} cannot be stored: give JSON, tuples, sets, bytes, dates or NumPy arrays"
    )


def _encode_numpy(numpy: Any, value: Any, of_bytes: OfBytes) -> Any:
    """Return a NumPy scalar or array as JSON; None if it holds objects or is of a subclass."""
    for kind, plain in ((numpy.bool_, bool), (numpy.integer, int), (numpy.floating, float)):
        if isinstance(value, kind):
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


def exact(value: Any, of_bytes: OfBytes) -> Any:
    """Return a value of one of these types, or a NumPy element type, as JSON; None for others.

    For pickles, which keep exact types: NumPy scalars, and time zones.
    """
    kind = type(value)
    if kind in _ENCODERS:
        plain_zone = type(getattr(value, "tzinfo", None)) in (type(None), timezone)
        if not plain_zone or getattr(value, "fold", False):
            return None
        return {f"${kind.__name__.lower()}": _ENCODERS[kind](value)}
    if kind is type(Path()):
        return {"$path": encode(str(value))}
    if kind is ZoneInfo and value.key is not None:
        return {"$zone": value.key}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
        return _encode_array(numpy, value, of_bytes)
    if (
        numpy is not None
        and isinstance(value, numpy.dtype)
        and (value.kind == "O" or arrays.storable(value))
    ):
        return {"$dtype": arrays.stored_type(value)}
    return None


def decode(value: Any, unpickle: Optional[Unpickle] = None) -> Any:
    """Return the value from which `encode` made this JSON; ValueError if there is none.

    unpickle: called with the result of `pickle`; None if pickled objects are not allowed.
    """
    if isinstance(value, list):
        return [decode(one, unpickle) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name[:1] == _MARK:
            return _decode_marked(name, inner, unpickle)
    return {name: decode(one, unpickle) for name, one in value.items()}


def _decode_marked(name: str, inner: Any, unpickle: Optional[Unpickle]) -> Any:
    try:
        if name == "$pickle":
            if unpickle is None:
                raise ValueError("a pickled object, which may not be read here")
            return unpickle(inner)
        if name == "$dict":
            pairs = [(decode(key, unpickle), decode(one, unpickle)) for key, one in inner]
            refuse_alike([key for key, _ in pairs])
            return dict(pairs)
        if name in _COLLECTIONS:
            values = [decode(one, unpickle) for one in inner]
            if name != "$tuple":
                refuse_alike(values)
            return _COLLECTIONS[name](values)
        if name in _PLAIN:
            return _PLAIN[name](inner)
    except (TypeError, KeyError, AttributeError, ArithmeticError, MemoryError) as error:
        raise ValueError(f"{name} with {inner!r:.80}: {error}") from None
    raise ValueError(
        f"{name!r:.80} is not a type of value; is this release older than the other's?"
    )


def refuse_alike(values: Collection[Any]) -> None:
    """Raise ValueError if more values share their hashes than could by chance."""
    if len(values) - len(set(map(hash, values))) > MOST_ALIKE:
        raise ValueError(f"more than {MOST_ALIKE} elements of a set, or names, are alike")


def encode_call(
    args: Tuple[Any, ...],
    kwargs: Mapping[str, Any],
    pickle: Optional[Pickle] = None,
    of_bytes: OfBytes = arrays.base64_of,
) -> Dict[str, Any]:
    """Return the payload for a call; the others: see `encode`."""
    if len(args) == 1 and not kwargs and type(args[0]) is dict and _ARGS not in args[0]:
        payload: Dict[str, Any] = encode(args[0], pickle, of_bytes)
        return payload
    payload = {_ARGS: [encode(one, pickle, of_bytes) for one in args]}
    if kwargs:
        payload["kwargs"] = encode(dict(kwargs), pickle, of_bytes)
    return payload


def decode_call(
    payload: Mapping[str, Any], unpickle: Optional[Unpickle] = None
) -> Tuple[List[Any], Dict[str, Any]]:
    """Return the arguments of a call, by position and by name, from a payload."""
    if _ARGS not in payload:
        return [decode(dict(payload), unpickle)], {}
    args, kwargs = decode(payload[_ARGS], unpickle), decode(payload.get("kwargs", {}), unpickle)
    if isinstance(args, list) and isinstance(kwargs, dict):
        return args, kwargs
    raise ValueError("the payload's args are not a list, or its kwargs not an object")


def encode_result(
    value: Any, pickle: Optional[Pickle] = None, of_bytes: OfBytes = arrays.base64_of
) -> Dict[str, Any]:
    """Return the result to store for a value."""
    stored = encode(value, pickle, of_bytes)
    if type(value) is dict and value.keys() != {_VALUE} and RESULT_REFERENCE not in stored:
        result: Dict[str, Any] = stored
        return result
    return {_VALUE: stored}


def decode_result(result: Optional[Mapping[str, Any]], unpickle: Optional[Unpickle] = None) -> Any:
    """Return the value of a stored result; ValueError if it is invalid."""
    if result is None:
        return None
    try:
        return decode(result[_VALUE] if result.keys() == {_VALUE} else dict(result), unpickle)
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
    datetime: datetime.isoformat,
    date: date.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    time: time.isoformat,
    Decimal: str,
    Fraction: lambda value: [value.numerator, value.denominator],
    UUID: str,
}
_COLLECTIONS: Dict[str, Callable[[Any], Any]] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
}
_PLAIN: Dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$str": lambda text: arrays.bytes_of(text).decode("utf-8", "surrogatepass"),
    "$bytes": lambda stored: bytes(arrays.bytes_of(stored)),
    "$bytearray": lambda stored: bytearray(arrays.bytes_of(stored)),
    "$complex": _complex,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
    "$time": time.fromisoformat,
    "$decimal": Decimal,
    "$fraction": lambda parts: Fraction(*map(_int, parts)),
    "$uuid": UUID,
    "$zone": ZoneInfo,
    "$path": lambda text: Path(decode(text)),
    "$array": arrays.decoded,
    "$scalar": lambda stored: arrays.decoded(stored)[()],
    "$dtype": arrays.dtype_of,
}


_HEAP_TYPE = 1 << 9  # of `type.__flags__`: a class that is not the interpreter's own


def exception_parts(error: BaseException) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """Return arguments and attributes of an exception."""
    _, args, *state = _base(type(error)).__reduce__(error)
    return args, dict(state[0]) if state and state[0] else {}


def rebuilt(
    kind: Type[BaseException], args: Sequence[Any], state: Mapping[str, Any]
) -> BaseException:
    """Return the exception with these parts; TypeError or ValueError if that fails."""
    base: Any = _base(kind)
    error: BaseException = base.__new__(kind, *args)
    base.__init__(error, *args)
    for name, value in state.items():
        member = getattr(base, name, None)
        if isinstance(member, MemberDescriptorType):
            member.__set__(error, value)
        else:
            error.__dict__[name] = value
    return error


def _base(kind: type) -> Any:
    return next(one for one in kind.__mro__ if not one.__flags__ & _HEAP_TYPE)
