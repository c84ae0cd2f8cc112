"""Decoding of JSON messages from the network, with all values checked.

The messages are the dataclasses of `protocol`; their annotations define what is accepted. Unknown
members are ignored: the other side may have a later release.
"""

from __future__ import annotations

import collections.abc
import functools
import json
import math
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Callable, Dict, List, Type, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as type_hints

T = TypeVar("T")
Reader = Callable[[Any, str], Any]


def decoded(kind: Type[T], data: bytes) -> T:
    """Return the message of this kind; ValueError if the bytes hold none.

    Numbers are finite, and text can be encoded. Free values may be nested as deep as Python reads:
    a task that is too deep for later steps must not keep others from their answer.
    """
    try:
        value = json.loads(data.decode(), parse_constant=_refused)
        if b"\\ud" in data.lower():  # half a surrogate pair would fail wherever it is written
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    annotation: Any = kind
    message: T = _reader(annotation)(value, kind.__name__)
    return message


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


@functools.lru_cache(maxsize=None)
def _reader(kind: Any) -> Reader:
    """Return the function that reads values of an annotation; its arguments: value and place."""
    if is_dataclass(kind):
        return _message(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Union:  # the only one in use is Optional
        inner = _reader(arguments[0])
        return lambda value, where: None if value is None else inner(value, where)
    if origin is tuple:
        return _array(_reader(arguments[0]))
    if origin is collections.abc.Mapping:
        return _object(_free if arguments[1] is Any else _reader(arguments[1]))
    if kind is float:
        return _number
    return _plain(kind)


def _message(kind: Any) -> Reader:
    hints = type_hints(kind)
    members: List[Field[Any]] = list(fields(kind))
    readers = {member.name: _reader(hints[member.name]) for member in members}
    needed = {
        member.name
        for member in members
        if member.default is MISSING and member.default_factory is MISSING
    }

    def read(value: Any, where: str) -> Any:
        _check(isinstance(value, dict), where, "an object")
        if missing := needed - value.keys():
            raise ValueError(f"{where} has no {min(missing)}")
        return kind(
            **{
                name: reader(value[name], f"{where}.{name}")
                for name, reader in readers.items()
                if name in value
            }
        )

    return read


def _array(inner: Reader) -> Reader:
    def read(value: Any, where: str) -> Any:
        _check(isinstance(value, list), where, "an array")
        return tuple(inner(item, where) for item in value)

    return read


def _object(inner: Reader) -> Reader:
    def read(value: Any, where: str) -> Dict[str, Any]:
        _check(isinstance(value, dict), where, "an object")
        return {name: inner(item, where) for name, item in value.items()}

    return read


def _number(value: Any, where: str) -> float:
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:  # of an int of very many digits
        number = math.inf
    _check(math.isfinite(number), where, "a finite number")
    return number


def _plain(kind: type) -> Reader:
    def read(value: Any, where: str) -> Any:
        _check(type(value) is kind, where, f"of type {kind.__name__}")  # a bool is no int here
        return value

    return read


def _free(value: Any, _: str) -> Any:
    return value


def _check(fine: bool, where: str, what: str) -> None:
    if not fine:
        raise ValueError(f"{where} is not {what}")
