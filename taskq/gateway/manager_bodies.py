"""Bodies of managers' statements, and of their answers.

A body is a JSON object with the parameters. One of them, named by a query string (`?rest=tasks`),
may follow the first line as it is, so that a chunk of tasks need not be decoded here. An answer is
JSON Lines: the columns, as [name, type of PostgreSQL], then an array for each row.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Raw

from taskq.db.connections import JsonText
from taskq.db.statements import EncodedText
from taskq.gateway.end_waits import MOST_WAIT_S, MOST_WAITED_TASKS
from taskq.gateway.http.errors import BadRequest, TooLarge
from taskq.gateway.http.request import LARGE_BYTES
from taskq.gateway.messages import MAX_BODY_BYTES, encode, read_values

MAX_BYTES: Final = 8 << 20
#: Limits of an answer, in bytes. A page ends after the first. Any other answer is refused if it has
#: more than the second, compressed, since it is kept until the client takes it; or more than the
#: third, uncompressed.
PAGE_BYTES: Final = 4 << 20
MAX_KEPT_BYTES: Final = 8 << 20
MAX_ANSWER_BYTES: Final = 256 << 20

_DECIMAL: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,3})?")
_GZIP: Final = 31  # of zlib: with the header of gzip
_FAST: Final = 1


def wait_of(seconds: str, body: bytes) -> tuple[float, int, list[int]]:
    """Return how long a request would wait, and for which tasks of which campaign."""
    values = read_values(body) if len(body) <= LARGE_BYTES else {}
    campaign, tasks = values.get("campaign"), values.get("tasks")
    ids = [task for task in tasks if type(task) is int] if isinstance(tasks, list) else []
    if not (
        _DECIMAL.fullmatch(seconds)
        and type(campaign) is int
        and 0 < len(ids) <= MOST_WAITED_TASKS
        and ids == tasks
    ):
        raise BadRequest(
            f"wait_s takes seconds, and a campaign with 1 to {MOST_WAITED_TASKS} of its tasks"
        )
    return min(float(seconds), MOST_WAIT_S), campaign, ids


def values_of(body: bytes, rest: str | None) -> dict[str, Any]:
    """Return the parameters in a body; raise `BadRequest` or `TooLarge`.

    It decodes only the first line, which is small: nothing else runs while it decodes.
    """
    end = -1 if rest is None else body.find(b"\n")
    end = len(body) if end < 0 else end
    if end > MAX_BODY_BYTES:
        raise TooLarge(
            f"parameters of at most {MAX_BODY_BYTES} bytes are allowed in an object; a longer one "
            "follows its line as it is, named as in ?rest=tasks"
        )
    if rest is None:
        return dict(read_values(body))
    return {**read_values(body[:end]), rest: EncodedText(memoryview(body)[end + 1 :])}


def decompressed(body: bytes) -> bytes:
    """Return a body without its compression; raise `BadRequest` or `TooLarge`."""
    stream = zlib.decompressobj(_GZIP)
    try:
        data = stream.decompress(body, MAX_BYTES + 1)
    except zlib.error:
        raise BadRequest("the body is not compressed by gzip, as its head says") from None
    if len(data) > MAX_BYTES:
        raise TooLarge(f"a body of at most {MAX_BYTES} bytes is allowed here, uncompressed")
    if not stream.eof or stream.unused_data:
        raise BadRequest("the body is not one whole gzip member")
    return data


def compressed(
    columns: Sequence[tuple[str, str]], rows: Iterator[tuple[Any, ...]], *, paged: bool
) -> tuple[bytearray, bool]:
    """Return columns and rows as gzipped JSON Lines, and whether there are rows.

    If paged, the first rows only.
    """
    stream = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    kept = bytearray(stream.compress(encode(columns) + b"\n"))
    size = 0
    for row in rows:
        line = encode([Raw(value) if type(value) is JsonText else value for value in row])
        kept += stream.compress(line + b"\n")
        size += len(line)
        if paged and size > PAGE_BYTES:
            break
        if size > MAX_ANSWER_BYTES or len(kept) > MAX_KEPT_BYTES:
            raise TooLarge("the answer is too large; ask for less, or connect to PostgreSQL")
    kept += stream.flush()
    return kept, size > 0
