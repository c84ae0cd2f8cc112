"""Large results, above the limit of a report: a reference in the queue, the content in a blob."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from taskq.db.access import Queries
from taskq.db.stored_json import why_unreadable
from taskq.files.blob_store import BlobStore, check_digest
from taskq.files.blobs import open_blobs
from taskq.model.errors import NotFound, ResultLost, UsageError
from taskq.model.words import as_json
from taskq_agent.arrays import base64_of
from taskq_agent.buffers import is_packed, json_of
from taskq_agent.json_limits import loads
from taskq_agent.protocol import RESULT_REFERENCE

log = logging.getLogger(__name__)

Result = Mapping[str, Any]
OfPart = Callable[[memoryview], Any]
#: Returns the bytes of a blob if they are at hand; they may be wrong.
Near = Callable[[str], bytearray | None]


class Fetching:
    """Replaces references by their large results, one at a time.

    raw: leave the references. blobs: the store; by default see `open_blobs`. on_lost: called for
    each result that is missing or damaged, which then stays a reference; without it, raise that
    `ResultLost`. of_part: makes JSON of bytes in a result; by default Base64. near: asked before
    the store.
    """

    def __init__(
        self,
        database: Queries,
        *,
        raw: bool = False,
        blobs: BlobStore | None = None,
        on_lost: Callable[[ResultLost], None] | None = None,
        of_part: OfPart = base64_of,
        near: Near | None = None,
    ) -> None:
        self.raw = raw
        self._near = near
        self._of_part = of_part
        self._database = database
        self._blobs = blobs
        self._on_lost = on_lost

    def of(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with its `result`, fetched if that is a reference.

        A payload or result that cannot be read is reported, and its stand-in stays in the row.
        """
        if self.raw or not is_reference(row["result"]):
            self._look_at(row)
            return row
        self._blobs = self._blobs or open_blobs(self._database)
        try:
            row = row | {"result": resolved(row["result"], self._blobs, self._of_part, self._near)}
            self._look_at(row)
            return row
        except ResultLost as error:
            if self._on_lost is None:
                raise
            self._on_lost(error)
            return row

    def _look_at(self, row: Mapping[str, Any]) -> None:
        for part in ("payload", "result"):
            why = why_unreadable(row.get(part))
            if why is not None:
                place = f"{row['campaign']}, " if "campaign" in row else ""
                error = ResultLost(
                    f"the {part} of {place}task {row['task_id']} ({row['key']!r:.100}) cannot be "
                    f"read: {why}. Its row has the reason instead; for a readable result, seed "
                    "the task again under another key"
                )
                if self._on_lost is None:
                    log.warning("%s", error)
                else:
                    self._on_lost(error)


def is_reference(result: Result | None) -> bool:
    """Return whether a result is a reference to a blob; agents refuse others of this form."""
    return result is not None and result.keys() == {RESULT_REFERENCE}


def resolved(
    result: Result, blobs: BlobStore, of_part: OfPart = base64_of, near: Near | None = None
) -> dict[str, Any]:
    """Return the result of a reference, a blob of at most 64 MiB; the others: see `Fetching`.

    Raise `ResultLost` if the store does not have it, or the blob is damaged or not a result.
    """
    digest = _digest(result)
    data = near(digest) if near is not None else None
    if data is None or hashlib.sha256(data).hexdigest() != digest:
        data = _stored(digest, blobs)
    try:
        if is_packed(data):
            as_json(json_of(data, lambda _: None)).encode()
            value = json_of(data, of_part)
        else:
            value = loads(data)
            as_json(value).encode()  # checks that it can be exported
    except (ValueError, RecursionError):  # no agent of taskq has stored it
        value = None
    if not isinstance(value, dict) or why_unreadable(value) is not None:
        raise ResultLost(f"blob {digest} is not a result, although a result refers to it")
    return value


def _stored(digest: str, blobs: BlobStore) -> bytearray:
    try:
        return blobs.whole(digest, "a result")
    except ResultLost:  # damaged: another store would not help
        raise
    except NotFound as error:
        raise ResultLost(
            f"{error}: is TASKQ_BLOBS the same here as for the agents? "
            "With --raw, references are shown as they are"
        ) from None


def _digest(result: Result) -> str:
    reference = result[RESULT_REFERENCE]
    digest = reference.get("digest") if isinstance(reference, Mapping) else None
    try:
        return check_digest(digest if isinstance(digest, str) else "")
    except UsageError:
        raise ResultLost(
            f"a result refers to a blob without its digest: {reference!r:.80}"
        ) from None
