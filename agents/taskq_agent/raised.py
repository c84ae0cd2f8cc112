"""Exceptions as data: their parts, and the exception rebuilt from them without its constructor.

A Python exception is its arguments and its attributes. Code of the interpreter's own base class,
such as `OSError` for a user's class, reads and sets both. So neither a constructor, which may want
other arguments than it passes on, nor a property is called.
"""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any, Dict, Mapping, Sequence, Tuple, Type

_HEAP_TYPE = 1 << 9  # of `type.__flags__`: a class that is not the interpreter's own


def parts(error: BaseException) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
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
