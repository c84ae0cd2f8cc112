"""Types for msgspec, made from the messages of agents: the same members, limits and defaults.

A gateway decodes many thousands of messages a second. msgspec does that in C, into types of its
own; the dataclasses of `taskq_agent.protocol` say what is in them.
"""

from __future__ import annotations

import collections.abc
import functools
from dataclasses import MISSING, Field, fields, is_dataclass
from re import Pattern
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from taskq_agent.protocol import Heartbeat, Report
from taskq_agent.task_messages import Update
from taskq_agent.wire import Base64, Between, Free, Most

#: Whose session it is follows from its token, whatever a message says.
_SESSION: Final = "session"
#: Messages that go to the database, for which a gateway sets the session.
_STORED: Final = (Report, Heartbeat, Update)
_RAW: Final = Raw | UnsetType
#: Types whose values need a limit; floats are finite, and always of the same size.
_UNBOUNDED: Final = (int, str, tuple, dict)


@functools.cache
def message_type(kind: type) -> type[Struct]:
    """Return the type that a gateway decodes in place of a dataclass.

    It has no session, unless the gateway sets it before it encodes the message. Members with their
    defaults are not encoded. TypeError if a member has no limit.
    """
    hints = get_type_hints(kind, include_extras=True)
    members = [
        _member(field, hints[field.name]) for field in fields(kind) if field.name != _SESSION
    ]
    if issubclass(kind, _STORED):
        members.append((_SESSION, int, 0))
    made = msgspec.defstruct(
        f"{kind.__name__}Message", members, omit_defaults=True, module=__name__
    )
    made.__doc__ = kind.__doc__
    return made


def _member(member: Field[Any], annotation: Any) -> tuple[Any, ...]:
    try:
        found = _type(annotation)
    except TypeError as error:
        raise TypeError(f"{member.name}: {error}") from None
    if found is _RAW:
        return member.name, found, UNSET
    if member.default is not MISSING:
        return member.name, found, member.default
    if member.default_factory is not MISSING:
        return member.name, found, msgspec.field(default_factory=member.default_factory)
    return member.name, found


def _type(annotation: Any, *, limited: bool = False) -> Any:
    """Return an annotation as msgspec has it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _limited(arguments[0], arguments[1:])
    if origin is Union:  # the only one in use is Optional
        found = _type(arguments[0])
        return found if found is _RAW else found | None
    if is_dataclass(annotation):
        return message_type(annotation)  # type: ignore[arg-type]  # a type, not an instance
    if origin is tuple and arguments[-1] is not ...:
        return tuple[tuple(map(_type, arguments))]  # type: ignore[misc]
    if not limited and (origin or annotation) in (*_UNBOUNDED, collections.abc.Mapping):
        raise TypeError(f"{annotation} has no limit")
    if origin is tuple:
        return tuple[_type(arguments[0]), ...]  # type: ignore[misc]
    if origin is collections.abc.Mapping:
        return dict[_type(arguments[0]), _type(arguments[1])]  # type: ignore[misc]
    return annotation


def _limited(kind: Any, limits: tuple[Any, ...]) -> Any:
    meta: dict[str, Any] = {}
    for limit in limits:
        if isinstance(limit, Free):
            return _RAW
        if isinstance(limit, Base64):
            return Annotated[bytes, Meta(max_length=limit.most_bytes)]
        if isinstance(limit, range):
            meta |= {"ge": limit[0], "le": limit[-1]}
        elif isinstance(limit, Between):
            meta |= {"ge": limit.least, "le": limit.most}
        elif isinstance(limit, Pattern):
            meta["pattern"] = f"^{limit.pattern}$"  # `$` lets a line feed pass: give a length too
        elif isinstance(limit, Most):
            meta["max_length"] = limit.count
            if limit.least:
                meta["min_length"] = limit.least
        else:
            return Literal[limit]
    return Annotated[_type(kind, limited=True), Meta(**meta)]
