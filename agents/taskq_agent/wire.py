"""Messages as JSON: what the annotations of their members allow; read, checked and written by them.

A member of a message is declared once, in its dataclass: its name, its type with its limits, and
its default if it may be missing. Agents read and check by that here. A gateway makes its decoders
and the document of the protocol from it (`taskq.gateway.message_types`).

Limits stand in `Annotated`: a `range` of whole numbers, a pattern for the whole of a text, a tuple
of words, or one of the classes below.
"""

from __future__ import annotations

import collections.abc
import functools
import json
import math
from base64 import b64decode
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import (
    Annotated,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    Pattern,
    Tuple,
    Type,
    TypeVar,
    Union,
    get_args,
    get_origin,
)
from typing import get_type_hints as type_hints

from taskq_agent.json_encoder import json_encoder
from taskq_agent.text import clean

T = TypeVar("T")
Reader = Callable[[Any], Any]
#: A test of a value that has its type, and what it is if it fits.
Limit = Tuple[Callable[[Any], object], str]


@dataclass(frozen=True)
class Most:
    """How many characters of a text, or items of an array or object, there are at most."""

    count: int
    least: int = 0


@dataclass(frozen=True)
class Words(Most):
    """Text for people, which the writer of a message cleans and cuts to its limit; see `fitted`."""


@dataclass(frozen=True)
class Between:
    """The least and the greatest number; both are allowed."""

    least: float
    most: float


@dataclass(frozen=True)
class Base64:
    """Text that stands for so many bytes at most."""

    most_bytes: int


@dataclass(frozen=True)
class Free:
    """Any JSON object. Its limits hold for its text, with numbers written out."""

    most_bytes: int
    depth: int


def decoded(kind: Type[T], data: bytes) -> T:
    """Return the message of this kind; ValueError if the bytes hold none.

    Numbers are finite, and text can be encoded. Free values may be nested as deep as Python reads:
    a task that is too deep for later steps must not keep others from their answer. Unknown members
    are ignored: the other side may have a later release.
    """
    try:
        value = json.loads(data.decode(), parse_constant=_refused)
        if b"\\ud" in data.lower():  # half a surrogate pair would fail wherever it is written
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    message: T = _read(kind, value)
    return message


def check(message: Any) -> None:
    """Raise ValueError unless each member of a message is within its declared limits."""
    _read(type(message), message)


def fitted(message: T) -> T:
    """Return a message whose texts for people can be stored, and are cut to their limits."""
    kind: Any = type(message)
    found: Any = message
    changed = {}
    for name, most in _texts(kind).items():
        text = getattr(message, name)
        if text and (short := clean(text)[:most]) != text:
            changed[name] = short
    return replace(found, **changed) if changed else message


def dumps(message: Any) -> str:
    """Return a message as compact JSON, without members that have their defaults.

    ValueError or TypeError if it holds values that JSON cannot represent: NaN, infinity, other
    objects.
    """
    return _encode(message)


def members(message: Any) -> Dict[str, Any]:
    """Return the members of a message that differ from their defaults; TypeError if it is none."""
    kind: Any = type(message)
    needed, defaults = _written(kind)
    found = vars(message)
    written = {name: found[name] for name in needed}
    for name, default in defaults:
        value = found[name]
        if value is not default and value != default:
            written[name] = value
    return written


_encode = json_encoder(default=members, separators=(",", ":"), ensure_ascii=False)


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


@functools.lru_cache(maxsize=None)
def _defaults(kind: Any) -> Mapping[str, Any]:
    """Return the members of a kind of message that may be missing, with what they then are."""
    return {
        member.name: member.default
        if member.default_factory is MISSING
        else member.default_factory()
        for member in fields(kind)
        if member.default is not MISSING or member.default_factory is not MISSING
    }


@functools.lru_cache(maxsize=None)
def _written(kind: Any) -> Tuple[List[str], List[Tuple[str, Any]]]:
    """Return the members that are always written, and the others with their defaults."""
    try:
        names = [member.name for member in fields(kind)]
    except TypeError:
        raise TypeError(f"a {kind.__name__} cannot be written as JSON") from None
    defaults = _defaults(kind)
    return [name for name in names if name not in defaults], [*defaults.items()]


@functools.lru_cache(maxsize=None)
def _texts(kind: Any) -> Mapping[str, int]:
    """Return the members of a kind of message that are texts for people, with their limits."""
    found = {}
    for name, hint in type_hints(kind, include_extras=True).items():
        inner = get_args(hint)[0] if get_origin(hint) is Union else hint
        limits = get_args(inner)[1:] if get_origin(inner) is Annotated else ()
        for limit in limits:
            if isinstance(limit, Words):
                found[name] = limit.count
    return found


@functools.lru_cache(maxsize=None)
def _reader(kind: Any) -> Reader:
    """Return the function that takes a value of an annotation, and returns it as a message has it.

    It raises `_Misfit`.
    """
    if is_dataclass(kind):
        return _message(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Union:  # the only one in use is Optional
        inner = _reader(arguments[0])
        return lambda value: None if value is None else inner(value)
    if origin is Annotated:
        # A pattern is for the whole of a text, so that it bounds its length too.
        patterns = [argument for argument in arguments[1:] if isinstance(argument, Pattern)]
        return _within(arguments[0], [*map(_limit, patterns or arguments[1:])])
    if origin is tuple:
        if arguments[-1] is ...:
            return _array(_reader(arguments[0]))
        length = _limit(Most(len(arguments), least=len(arguments)))
        return _within(Tuple[arguments[0], ...], [length])
    if origin is collections.abc.Mapping:
        return _object(arguments[0], arguments[1])
    if kind is float:
        return _number
    return _plain(kind)


class _Misfit(Exception):
    """A value is not what its annotation allows. places: the names of members down to it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.places: List[str] = []


def _read(kind: Any, value: Any) -> Any:
    try:
        return _reader(kind)(value)
    except _Misfit as misfit:
        place = ".".join([kind.__name__, *reversed(misfit.places)])
        raise ValueError(f"{place} {misfit}") from None


def _message(kind: Any) -> Reader:
    hints = type_hints(kind, include_extras=True)
    readers = {member.name: _reader(hints[member.name]) for member in fields(kind)}
    defaults = _defaults(kind)
    needed = readers.keys() - defaults.keys()
    rows = [(name, reader, defaults.get(name, needed)) for name, reader in readers.items()]

    def read(value: Any) -> Any:
        if type(value) is kind:
            _check_members(vars(value), rows)
            return value
        if not isinstance(value, dict):
            raise _Misfit("is not an object")
        if missing := needed - value.keys():
            raise _Misfit(f"has no {min(missing)}")
        members = {}
        name = ""
        try:
            for name, reader, _ in rows:
                if name in value:
                    members[name] = reader(value[name])
        except _Misfit as misfit:
            misfit.places.append(name)
            raise
        return kind(**members)

    return read


def _check_members(found: Mapping[str, Any], rows: List[Tuple[str, Reader, Any]]) -> None:
    name = ""
    try:
        for name, reader, default in rows:
            value = found[name]
            if value is not default:
                reader(value)
    except _Misfit as misfit:
        misfit.places.append(name)
        raise


def _array(inner: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _Misfit("is not an array")
        return tuple(map(inner, value))

    return read


def _object(keys: Any, values: Any) -> Reader:
    key = _reader(keys)
    inner = None if values is Any else _reader(values)  # a free value is taken as it is

    def read(value: Any) -> Any:
        if not isinstance(value, (dict, collections.abc.Mapping)):
            raise _Misfit("is not an object")
        if inner is None:
            return value
        return {key(name): inner(item) for name, item in value.items()}

    return read


def _within(kind: Any, limits: List[Limit]) -> Reader:
    *others, (fits, what) = limits
    if not others and kind in (int, str):
        return _plain(kind, fits, what)
    inner = _within(kind, others) if others else _reader(kind)

    def read(value: Any) -> Any:
        value = inner(value)
        if not fits(value):
            raise _Misfit(f"is not {what}")
        return value

    return read


def _limit(limit: Any) -> Limit:
    if isinstance(limit, range):
        return limit.__contains__, f"from {limit[0]} to {limit[-1]}"
    if isinstance(limit, Pattern):
        return limit.fullmatch, "in its form"
    if isinstance(limit, Most):
        what = f"of {limit.least} to {limit.count} characters or items"
        return lambda value: limit.least <= len(value) <= limit.count, what
    if isinstance(limit, Between):
        what = f"from {limit.least:g} to {limit.most:g}"
        return lambda value: limit.least <= value <= limit.most, what
    if isinstance(limit, Base64):
        return lambda value: _has_bytes(value, limit.most_bytes), "Base64 in its limit"
    if isinstance(limit, Free):
        return lambda _: True, "free"
    return limit.__contains__, f"one of {', '.join(limit)}"


def _has_bytes(text: str, most: int) -> bool:
    try:
        return len(b64decode(text, validate=True)) <= most
    except ValueError:
        return False


def _number(value: Any) -> float:
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:  # of an int of very many digits
        number = math.inf
    if not math.isfinite(number):
        raise _Misfit("is not a finite number")
    return number


def _plain(kind: type, fits: Callable[[Any], object] = lambda _: True, what: str = "") -> Reader:
    # Type and limit in one call: an exchange has dozens of such values.
    def read(value: Any) -> Any:
        if type(value) is not kind:  # a bool is not an int here
            raise _Misfit(f"is not of type {kind.__name__}")
        if not fits(value):
            raise _Misfit(f"is not {what}")
        return value

    return read
