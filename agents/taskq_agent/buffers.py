"""JSON or a pickle with its large buffers as parts of one blob, without Base64 and copies.

    16 bytes    `MAGIC`
    8 bytes     the number of parts; then the length of each, in 8 bytes
    parts       each from the next multiple of 64 bytes on; the last one ends the blob

Integers are unsigned, the least significant byte first. The first part is the JSON or the pickle.
JSON refers to the others by `{"$part": 1}`, `{"$part": 2}` and so on. A pickle of protocol 5 takes
them as its out-of-band buffers. Parts that were read are views of the blob.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Type, Union

from taskq_agent.arrays import base64_of
from taskq_agent.json_limits import loads

MAGIC = b"\x93taskq parts 1\r\n"
#: Shorter buffers are not worth a part.
LEAST_BYTES = 4_096
#: In addition to the JSON or the pickle.
MOST_PARTS = 65_535
PROTOCOL = 5

_PART = "$part"
_ALIGNED = 64

Buffer = Union[bytes, bytearray, memoryview]


class Data:
    """Bytes in a value that is to become JSON: as Base64, or as a part."""

    __slots__ = ("view",)

    def __init__(self, memory: Any) -> None:
        """memory: a buffer of single bytes, which nothing changes before the JSON is written."""
        self.view = memoryview(memory)


class PartsOfJson:
    """Gathers the parts of JSON while it is written; `of_data` is the encoder's `default`."""

    def __init__(self) -> None:
        self.large: List[memoryview] = []

    def of_data(self, data: Any) -> Any:
        """Return the JSON of `Data`: a reference to a part, or Base64 if it is short."""
        if type(data) is Data and data.view.nbytes >= LEAST_BYTES and len(self.large) < MOST_PARTS:
            self.large.append(data.view)
            return {_PART: len(self.large)}
        return as_base64(data)


def as_base64(data: Any) -> str:
    """Return the JSON of `Data` in Base64; TypeError for anything else."""
    if type(data) is not Data:
        raise TypeError(f"Object of type {type(data).__name__} is not JSON serializable")
    return base64_of(data.view)


def pickled(pickler: Type[pickle.Pickler], value: Any) -> List[Buffer]:
    """Return the pickle of a value, and its buffers of `LEAST_BYTES` or more."""
    large: List[Buffer] = []

    def stays_in_the_pickle(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < LEAST_BYTES or len(large) >= MOST_PARTS:
            return True
        large.append(view)
        return False

    file = io.BytesIO()
    pickler(file, PROTOCOL, buffer_callback=stays_in_the_pickle).dump(value)
    return [file.getbuffer(), *large]


def packed(parts: Sequence[Buffer]) -> List[Buffer]:
    """Return the pieces of parts as one: join them, or write one after the other."""
    lengths = [memoryview(part).nbytes for part in parts]
    pieces: List[Buffer] = [struct.pack(f"<16s{1 + len(parts)}Q", MAGIC, len(parts), *lengths)]
    at = len(pieces[0])
    for part in parts:
        pieces += [bytes(-at % _ALIGNED), part]
        at += -at % _ALIGNED + memoryview(part).nbytes
    return pieces


def is_packed(data: Buffer) -> bool:
    """Return whether bytes begin as packed parts do."""
    return data[: len(MAGIC)] == MAGIC


def unpacked(data: Buffer) -> List[memoryview]:
    """Return packed parts as views; ValueError if the bytes are not exactly those of parts."""
    whole = memoryview(data)
    head = struct.Struct("<16sQ")
    try:
        magic, number = head.unpack_from(whole)
        if magic != MAGIC or not 0 < number <= 1 + MOST_PARTS:
            raise ValueError(f"these are no parts, or {number} of them")
        lengths = struct.unpack_from(f"<{number}Q", whole, head.size)
    except struct.error:
        raise ValueError("the lengths of the parts are cut off") from None
    at, parts = head.size + 8 * number, []
    for length in lengths:
        at += -at % _ALIGNED
        parts.append(whole[at : at + length])
        at += length
    if at != len(whole):
        raise ValueError(f"the parts take {at} bytes, not {len(whole)}")
    return parts


def as_view(part: memoryview) -> memoryview:
    """Return a part as it is, for readers that make values of JSON, such as `typed.decode`."""
    return part


def json_of(data: Union[bytes, bytearray], of_part: Callable[[memoryview], Any] = base64_of) -> Any:
    """Return the value of JSON, packed or not; ValueError if it is damaged.

    Packed JSON must refer to each part once. of_part: makes what takes the place of the reference.
    """
    if not is_packed(data):
        return loads(data)
    parts: List[Optional[memoryview]] = [*unpacked(data)]
    text, parts[0] = parts[0], None

    def resolved(found: Dict[str, Any]) -> Any:
        if found.keys() != {_PART}:
            return found
        number = found[_PART]
        part = parts[number] if type(number) is int and 0 < number < len(parts) else None
        if part is None:
            raise ValueError(f"there is no part {number!r:.80}, or it is used twice")
        parts[number] = None
        return of_part(part)

    value = loads(bytes(text or b""), resolved)
    if any(part is not None for part in parts):
        raise ValueError("nothing refers to some of the parts")
    return value
