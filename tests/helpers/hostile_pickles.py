"""Pickles that a hostile agent may send as results, by what they try.

They are written step by step, as no pickler makes them. Each is read by `hostile_reading`, in a
process whose memory and time are bounded; a pickle that did any harm there is added here.
"""

from __future__ import annotations

import json
import struct
from typing import Final

from taskq_agent.handlers.calls import pickled

PROTO: Final = b"\x80\x04"
MARK, TUPLE, STOP = b"(", b"t", b"."
REDUCE, BUILD, NEWOBJ, NEWOBJ_EX = b"R", b"b", b"\x81", b"\x92"
EMPTY_TUPLE, EMPTY_LIST, EMPTY_DICT, EMPTY_SET = b")", b"]", b"}", b"\x8f"
MEMOIZE, APPEND, SETITEM, ADDITEMS = b"\x94", b"a", b"s", b"\x90"
NONE, TRUE, ONE, BUFFER = b"N", b"\x88", b"K\x01", b"\x97"


def text(words: str) -> bytes:
    """Say a text."""
    data = words.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def raw(data: bytes) -> bytes:
    """Say bytes."""
    return b"B" + struct.pack("<I", len(data)) + data


def whole(number: int) -> bytes:
    """Say an integer of any size."""
    data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8b" + struct.pack("<I", len(data)) + data


def name(module: str, what: str) -> bytes:
    """Name something of a module."""
    return text(module) + text(what) + b"\x93"


def several(*parts: bytes) -> bytes:
    """Say a tuple."""
    return MARK + b"".join(parts) + TUPLE


def call(module: str, what: str, *args: bytes) -> bytes:
    """Call something."""
    return name(module, what) + several(*args) + REDUCE


def mapping(**items: bytes) -> bytes:
    """Say a dictionary."""
    return EMPTY_DICT + MARK + b"".join(text(key) + one for key, one in items.items()) + b"u"


def mine(what: str) -> bytes:
    """Refer to a class of `__main__`."""
    return several(text("class"), text(what)) + b"Q"


def get(place: int) -> bytes:
    """Say again what is in a place of the memo."""
    return b"h" + bytes([place])


def typed_json(value: object) -> bytes:
    """Call what makes values of JSON, with some of it."""
    honest = bytes(pickled(json.loads(json.dumps(value)))[0].view)
    inner = honest[honest.index(b"\x95") + 9 : -1] if b"\x95" in honest[:3] else honest[2:-1]
    return name("taskq_agent.typed", "decode") + inner + b"\x85" + REDUCE


def array(kind: object, length: int) -> bytes:
    """Say an array whose memory is a buffer."""
    described = (
        name("taskq_agent.typed", "decode") + EMPTY_DICT + text("$array") + EMPTY_LIST + MARK
    )
    inner = bytes(pickled(kind)[0].view)
    inner = inner[inner.index(b"\x95") + 9 : -1] if b"\x95" in inner[:3] else inner[2:-1]
    shape = EMPTY_LIST + whole(length) + APPEND
    return described + inner + shape + BUFFER + b"e" + SETITEM + b"\x85" + REDUCE


def doubled(outermost: bytes, times: int) -> bytes:
    """Say a list that holds a list twice, which holds one twice, and so on."""
    steps = b"".join(MEMOIZE + b"0" + get(place) + get(place) + outermost for place in range(times))
    return EMPTY_TUPLE + steps


_NUMPY_DTYPE: Final = call("numpy", "dtype", text("f8"), b"\x89", TRUE)
_SHELL: Final = text("touch /nowhere/at/all")
_MODULUS: Final = (1 << 61) - 1

#: What is called; none of it may be.
CALLS: Final = {
    "system": call("os", "system", _SHELL),
    "system by its real module": call("posix", "system", _SHELL),
    "Popen": call("subprocess", "Popen", several(text("true"))),
    "eval": call("builtins", "eval", text("__import__('os').getpid()")),
    "exec": call("builtins", "exec", text("import this")),
    "getattr of a module": call("builtins", "getattr", name("os", "path"), text("os")),
    "getattr of a class": call("builtins", "getattr", mine("Ligand"), text("__init__")),
    "import": call("builtins", "__import__", text("antigravity")),
    "type with a __del__": call("builtins", "type", text("X"), EMPTY_TUPLE, EMPTY_DICT),
    "operator": call("operator", "methodcaller", text("system"), _SHELL),
    "attrgetter": call("operator", "attrgetter", text("__class__.__base__")),
    "map": call("builtins", "map", name("os", "system"), several(_SHELL)),
    "partial": call("functools", "partial", name("os", "system"), _SHELL),
    "open": call("io", "open", text("/nowhere/at/all"), text("w")),
    "code": call("types", "CodeType", ONE),
    "function": call("types", "FunctionType", NONE),
    "pickle in a pickle": call("pickle", "loads", raw(b"cos\nsystem\n(S'true'\ntR.")),
    "a module by its import": call("importlib", "import_module", text("antigravity")),
    "a re-exported module": call("pandas.compat", "os.system", _SHELL),
    "a re-exported function": call("pandas.io.common", "BytesIO", raw(b"x")),
    "a reader of pickles": call("pandas", "read_pickle", text("/nowhere/at/all")),
    "a memory map": call("numpy", "memmap", text("/nowhere/at/all")),
    "numpy's loader": call("numpy", "load", text("/nowhere/at/all")),
    "the constructor of my class": mine("Shell") + several(_SHELL) + REDUCE,
    "__new__ of my class": mine("Made") + several(_SHELL) + NEWOBJ,
    "__new__ of my class, with names": mine("Made") + EMPTY_TUPLE + mapping(x=ONE) + NEWOBJ_EX,
    "__setstate__ of my class": mine("Opened") + EMPTY_TUPLE + NEWOBJ + mapping(x=_SHELL) + BUILD,
    "an exception's constructor": call("__main__", "Loud", _SHELL),
    "a decoder's second argument": call(
        "taskq_agent.typed", "decode", mapping(**{"$pickle": _SHELL}), name("os", "system")
    ),
    "a pickle in JSON": typed_json({"$pickle": ["gASVAA=="]}),
    "what makes missing values": call("collections", "defaultdict", name("os", "system")),
    "a maker of another": call(
        "taskq_agent.typed", "rebuilt", mine("Shell"), EMPTY_TUPLE, EMPTY_DICT
    ),
}

#: What is changed: classes, modules, functions.
CHANGES: Final = {
    "an attribute of my class": mine("Ligand")
    + several(NONE, mapping(dock=name("builtins", "int")))
    + BUILD,
    "the dictionary of my class": mine("Ligand") + mapping(dock=ONE) + BUILD,
    "an attribute of a class of Python": name("collections", "Counter")
    + several(NONE, mapping(update=ONE))
    + BUILD,
    "a module": name("taskq_agent", "typed") + mapping(decode=ONE) + BUILD,
    "a function": name("taskq_agent.typed", "decode") + mapping(x=ONE) + BUILD,
    "a member of my enumeration": call("__main__", "Colour", ONE) + mapping(_value_=ONE) + BUILD,
    "items of a class": mine("Ligand") + text("x") + ONE + SETITEM,
    "a slot that is a method": mine("Slotted")
    + EMPTY_TUPLE
    + NEWOBJ
    + several(NONE, mapping(dock=ONE))
    + BUILD,
    "a property": mine("Slotted") + EMPTY_TUPLE + NEWOBJ + several(NONE, mapping(loud=ONE)) + BUILD,
}

#: What is made of a buffer next to the pickle: `hostile_reading` gives some.
BUFFERS: Final = {
    "objects": array("|O", 2),
    "a record with objects": array([["a", "|O"]], 2),
    "characters that are none": array("<U1", 4),
    "truth values that are none": array("|b1", 16),
    "a shape beyond it": array("<f8", 1 << 40),
    "elements without bytes": array("<V0", 1 << 40),
    "more than there are": BUFFER * 20,
    "a name": EMPTY_DICT + BUFFER + ONE + SETITEM,
    "an element of a set": EMPTY_SET + MARK + BUFFER + ADDITEMS,
    "its attributes": BUFFER + mapping(obj=ONE) + BUILD,
    "its items": BUFFER + ONE + ONE + SETITEM,
    "its end": BUFFER + ONE + APPEND,
    "numpy's dtype": call(
        "numpy._core.numeric", "_frombuffer", BUFFER, name("numpy", "dtype"), several(ONE), NONE
    ),
    "a pickle": name("taskq_agent.typed", "decode")
    + several(mapping(**{"$pickle": several(BUFFER)}))
    + REDUCE,
    "a view of it": call("builtins", "memoryview", BUFFER),
    "text": call("builtins", "str", BUFFER, text("utf-8")),
    "memory of a table": call("pyarrow.lib", "py_buffer", BUFFER),
    "a module": call("types", "ModuleType", BUFFER),
    "code": call("builtins", "compile", BUFFER, text("x"), text("exec")),
    "an attribute of a class": mine("Ligand") + mapping(dock=BUFFER) + BUILD,
}

#: What would crash the interpreter, or read memory that is none of its own.
CRASHES: Final = {
    "numpy's dtype of a buffer": call(
        "numpy._core.numeric",
        "_frombuffer",
        raw(b"\x00" * 16),
        _NUMPY_DTYPE,
        several(ONE),
        text("C"),
    ),
    "numpy's dtype with a state": _NUMPY_DTYPE
    + several(whole(3), text("|"), NONE, several(text("a")), NONE, whole(1 << 40), ONE, whole(0))
    + BUILD,
    "an array of objects of bytes": typed_json({"$array": ["|O", [2], "AAAAAAAAAAAAAAAAAAAAAA=="]}),
    "a record with objects": typed_json({"$array": [[["a", "|O"]], [1], "AAAAAAAAAAA="]}),
    "a shape beyond its bytes": typed_json({"$array": ["<f8", [1 << 40], "AAAAAAAAAAA="]}),
    "a negative shape": typed_json({"$array": ["<f8", [-1, -1], "AAAAAAAAAAA="]}),
    "a shape that overflows": typed_json({"$array": ["<f8", [1 << 32, 1 << 32, 0], ""]}),
    "very many dimensions": typed_json({"$array": ["<f8", [1] * 10_000, "AAAAAAAAAAA="]}),
    "elements without bytes": typed_json({"$array": ["<V0", [1 << 40], ""]}),
    "an endless element": typed_json({"$array": ["<U999999999", [1], "AAAA"]}),
    "characters that are none": typed_json({"$array": ["<U1", [1], "/////w=="]}),
    "truth values that are none": typed_json({"$array": ["|b1", [4], "AgICAg=="]}),
    "a field beyond its record": typed_json(
        {"$array": [[["a", "<f8", [1 << 50]]], [1], "AAAAAAAAAAA="]}
    ),
    "a type that is code": typed_json(
        {"$array": ["f8,(__import__('os').getpid())f8", [1], "AA=="]}
    ),
    "more objects than there are": call(
        "taskq_agent.arrays", "of_objects", several(whole(1 << 40)), EMPTY_LIST
    ),
    "a deep tuple as a name": EMPTY_DICT + EMPTY_TUPLE + b"\x85" * 100_000 + ONE + SETITEM,
    "a deep list": EMPTY_LIST + b"\x85" * 100_000,
    "a deep type": typed_json({"$array": [json.loads("[" * 100 + "]" * 100), [1], ""]}),
    "an exception of nothing": call(
        "taskq_agent.typed",
        "rebuilt",
        name("builtins", "UnicodeDecodeError"),
        EMPTY_TUPLE,
        EMPTY_DICT,
    ),
    "an exception with a dictionary": call(
        "taskq_agent.typed",
        "rebuilt",
        name("builtins", "ValueError"),
        EMPTY_TUPLE,
        mapping(__dict__=ONE, __traceback__=ONE, __class__=ONE),
    ),
    "lone surrogates": text("\ud800"),
    "attributes that are no text": mine("Ligand")
    + EMPTY_TUPLE
    + NEWOBJ
    + EMPTY_DICT
    + ONE
    + ONE
    + SETITEM
    + BUILD,
    "a date of bytes": call("datetime", "datetime", raw(b"\xff" * 10)),
}

#: What would take memory or time without end.
BOMBS: Final = {
    "a place of the memo far away": NONE + b"r\xff\xff\xff\x7f",
    "a range as a set": call("builtins", "set", call("builtins", "range", whole(1 << 40))),
    "a long bytearray": call("builtins", "bytearray", whole(1 << 40)),
    "a list of a range": call("builtins", "list", call("builtins", "range", whole(1 << 40))),
    "a power": call("builtins", "pow", whole(1 << 40), whole(1 << 40)),
    "text that is repeated": call("operator", "mul", text("x"), whole(1 << 40)),
    "a bytearray that is not there": b"\x96" + struct.pack("<Q", 1 << 62),
    "bytes that are not there": b"\x8e" + struct.pack("<Q", 1 << 62),
    "text that is not there": b"\x8d" + struct.pack("<Q", 1 << 40),
    "a frame that is not there": b"\x95" + struct.pack("<Q", 1 << 62) + NONE,
    "tuples twice in each other, as a name": EMPTY_DICT + doubled(b"\x86", 60) + ONE + SETITEM,
    "lists twice in each other": doubled(b"\x86", 60),
    "JSON twice in itself": name("taskq_agent.typed", "decode")
    + doubled(b"\x86", 60)
    + b"\x85"
    + REDUCE,
    "a fraction of a power": call("fractions", "Fraction", text("1e1000000000")),
    "names that are all alike": EMPTY_DICT
    + MARK
    + b"".join(whole(_MODULUS * n) + NONE for n in range(1, 50_000))
    + b"u",
    "a set of what is all alike": EMPTY_SET
    + MARK
    + b"".join(whole(_MODULUS * n) for n in range(1, 50_000))
    + ADDITEMS,
    "JSON that is all alike": typed_json({"$set": [_MODULUS * n for n in range(1, 50_000)]}),
    "very many sets": MARK + EMPTY_SET * 2_600_000 + TUPLE,
    "a long number as a name, again": whole(1 << 8_000_000)
    + MEMOIZE
    + EMPTY_DICT
    + MARK
    + (get(0) + NONE) * 10_000
    + b"u",
    "a deque without end": call("collections", "deque", call("builtins", "range", whole(1 << 40))),
    "counts of a range": call("collections", "Counter", call("builtins", "range", whole(1 << 40))),
}

#: What no agent says at all.
STEPS: Final = {
    "a persistent id of nothing": NONE + b"Q",
    "a persistent id of a module": several(text("class"), text("os")) + b"Q",
    "a persistent id by a line": b"Pclass\n",
    "an extension code": b"\x82\x01",
    "a global by lines": b"cos\nsystem\n(S'true'\ntR",
    "an instance": b"(S'true'\nios\nsystem\n",
    "an object of a mark": b"(cos\nsystem\nS'true'\no",
    "a read-only buffer that is none": NONE + b"\x98",
    "text that is evaluated": b"S'\\x41'\n",
    "a stack that is empty": b"0000000",
    "an end without a value": b"",
    "a mark that was never set": b"tttt",
    "nothing that is memoized": MEMOIZE,
}

EVERY: Final = {
    what: PROTO + steps + STOP
    for group in (CALLS, CHANGES, CRASHES, BOMBS, STEPS)
    for what, steps in group.items()
} | {f"a buffer as {what}": PROTO + steps + STOP for what, steps in BUFFERS.items()}
