"""Reads the pickle of a result step by step, as data.

Python's own reader obeys a pickle: it calls what the pickle names, sets attributes of classes and
modules, and allocates any size that it states. This reader knows only the steps with which agents
write values. Its rules decide what a pickle may name and call.
"""

from __future__ import annotations

import pickletools
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, ClassVar, Final, Protocol

from taskq.compute.data_objects import TooExtensive, check_extent
from taskq_agent.typed import MOST_ALIKE

#: Steps of all pickles of one result; each makes some 64 bytes, and takes microseconds.
MOST_STEPS: Final = 10_000_000
#: Steps that make an object several times that size.
_DEAR: Final = dict.fromkeys(("EMPTY_SET", "FROZENSET", "REDUCE", "NEWOBJ", "NEWOBJ_EX"), 4)
#: Most items of a key of a dictionary, or of an element of a set.
MOST_OF_KEY: Final = 10_000
_NO_OBJECTS: Final = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_PLAIN_KEYS: Final = (str, bytes, float, bool, type(None))


class Rules(Protocol):
    """Decides what a pickle may name and make."""

    def named(self, module: str, name: str) -> Any:
        """Return the object with this name."""

    def referred(self, reference: Any) -> Any:
        """Return the class of `__main__` that a reference names."""

    def called(self, what: Any, args: tuple[Any, ...]) -> Any:
        """Return the value of a call of a function or class."""

    def new(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a new object of a class."""

    def give_state(self, thing: Any, state: Any) -> None:
        """Set the attributes of an object."""


class Steps:
    """Counts down the steps that the pickles of one result may still take."""

    def __init__(self) -> None:
        self._left = MOST_STEPS

    def take(self, number: int) -> None:
        """Count steps; raise `TooExtensive` if there are too many."""
        self._left -= number
        if self._left < 0:
            raise TooExtensive(
                f"its objects take more than {MOST_STEPS:,} steps: return arrays of NumPy, or JSON"
            )


class PickleReading:
    """One reading of one pickle."""

    def __init__(self, rules: Rules, steps: Steps, buffers: Iterable[memoryview]) -> None:
        """buffers: the memory of arrays that is not in the pickle, in its order."""
        self._rules = rules
        self._steps = steps
        self._buffers = iter(buffers)
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks below the marks
        self._memo: list[Any] = []
        self._alike: dict[int, Counter[int]] = {}
        self._states: list[Any] = []

    def value(self, data: bytes) -> Any:
        """Return the value; raise any error for a faulty pickle."""
        for step, argument, _ in pickletools.genops(data):
            self._steps.take(_DEAR.get(step.name, 1))
            if step.name == "STOP":
                break
            if step.name not in self._BY_NAME:
                raise ValueError(f"agents never write the step {step.name}")
            self._BY_NAME[step.name](self, argument)
        (value,) = self._stack
        self._check([value, *self._states])
        return value

    def _check(self, value: Any, **how: Any) -> None:
        self._steps.take(check_extent(value, **how))

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _mark(self, _: Any) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._below.pop()
        return items

    def _last(self, number: int) -> tuple[Any, ...]:
        items = tuple(self._stack[-number:])
        if len(items) < number:
            raise ValueError("it ends early")
        del self._stack[-number:]
        return items

    def _append(self, items: Sequence[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, list):
            list.extend(target, items)
        elif isinstance(target, deque):
            deque.extend(target, items)
        else:
            raise TypeError(f"{type(target).__qualname__} is not a list")

    def _set_items(self, items: Sequence[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict):
            raise TypeError(f"{type(target).__qualname__} is not a dictionary")
        self._check_keys(items[::2], target)
        put: Any = OrderedDict if isinstance(target, OrderedDict) else dict
        for name, value in zip(items[::2], items[1::2], strict=True):
            put.__setitem__(target, name, value)

    def _add_items(self, items: Sequence[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, set):
            raise TypeError(f"{type(target).__qualname__} is not a set")
        self._check_keys(items, target)
        set.update(target, items)

    def _frozenset(self, _: Any) -> None:
        items = self._since_mark()
        self._check_keys(items, items)
        del self._alike[id(items)]
        self._push(frozenset(items))

    def _check_keys(self, keys: Sequence[Any], target: Any) -> None:
        """Refuse keys and elements whose hashes take long to compute, or are all alike."""
        alike = self._alike.setdefault(id(target), Counter())
        for key in keys:
            if type(key) in _PLAIN_KEYS or (type(key) is int and -(1 << 60) < key < 1 << 60):
                continue
            self._check(key, most=MOST_OF_KEY, hashing=True)
            alike[hash(key)] += 1
            if alike[hash(key)] > MOST_ALIKE:
                raise ValueError("its keys were chosen to have the same hash")

    def _named(self, _: Any) -> None:
        module, name = self._last(2)
        if type(module) is not str or type(name) is not str:
            raise ValueError("a name that is not text")
        self._push(self._rules.named(module, name))

    def _referred(self, _: Any) -> None:
        (reference,) = self._last(1)
        self._push(self._rules.referred(reference))

    def _reduce(self, _: Any) -> None:
        what, args = self._last(2)
        self._check(args)
        self._push(self._rules.called(what, _tuple(args)))

    def _new(self, _: Any) -> None:
        kind, args = self._last(2)
        self._push(self._rules.new(kind, _tuple(args), {}))

    def _new_with_names(self, _: Any) -> None:
        kind, args, kwargs = self._last(3)
        if type(kwargs) is not dict:
            raise ValueError("keyword arguments are not a dictionary")
        self._push(self._rules.new(kind, _tuple(args), kwargs))

    def _build(self, _: Any) -> None:
        (state,) = self._last(1)
        thing = self._stack[-1]
        if isinstance(thing, _NO_OBJECTS):
            raise TypeError(f"attributes of {thing!r:.80} cannot be set")
        self._rules.give_state(thing, state)
        self._states.append(state)

    def _next_buffer(self, _: Any) -> None:
        buffer = next(self._buffers, None)
        if buffer is None:
            raise ValueError("it has fewer buffers than it refers to")
        self._push(buffer)

    def _memoize(self, _: Any) -> None:
        self._memo.append(self._stack[-1])

    def _get(self, place: int) -> None:
        self._push(self._memo[place])

    _BY_NAME: ClassVar[dict[str, Callable[[Any, Any], object]]] = {
        "NONE": lambda self, _: self._push(None),
        "NEWTRUE": lambda self, _: self._push(True),
        "NEWFALSE": lambda self, _: self._push(False),
        "EMPTY_TUPLE": lambda self, _: self._push(()),
        "EMPTY_LIST": lambda self, _: self._push([]),
        "EMPTY_DICT": lambda self, _: self._push({}),
        "EMPTY_SET": lambda self, _: self._push(set()),
        "TUPLE1": lambda self, _: self._push(self._last(1)),
        "TUPLE2": lambda self, _: self._push(self._last(2)),
        "TUPLE3": lambda self, _: self._push(self._last(3)),
        "MARK": _mark,
        "TUPLE": lambda self, _: self._push(tuple(self._since_mark())),
        "APPEND": lambda self, _: self._append(self._last(1)),
        "APPENDS": lambda self, _: self._append(self._since_mark()),
        "SETITEM": lambda self, _: self._set_items(self._last(2)),
        "SETITEMS": lambda self, _: self._set_items(self._since_mark()),
        "ADDITEMS": lambda self, _: self._add_items(self._since_mark()),
        "FROZENSET": _frozenset,
        "POP": lambda self, _: self._last(1),
        "POP_MARK": lambda self, _: self._since_mark(),
        "MEMOIZE": _memoize,
        "BINGET": _get,
        "LONG_BINGET": _get,
        "STACK_GLOBAL": _named,
        "BINPERSID": _referred,
        "REDUCE": _reduce,
        "NEWOBJ": _new,
        "NEWOBJ_EX": _new_with_names,
        "BUILD": _build,
        "NEXT_BUFFER": _next_buffer,
        "READONLY_BUFFER": lambda *_: None,  # nobody else has this memory
        **dict.fromkeys(
            (
                *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
                *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
                *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
            ),
            _push,
        ),
        "PROTO": lambda *_: None,
        "FRAME": lambda *_: None,
    }


def _tuple(args: Any) -> tuple[Any, ...]:
    if type(args) is not tuple:
        raise ValueError("arguments are not a tuple")
    return args
