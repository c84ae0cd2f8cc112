"""Put an archive back into a queue, the same or another one: checked first, then row by row.

The campaigns are archived until all of it is there, so nothing of a half-restored one is claimed.
Each step notes how many rows are in the tables, so a repetition goes on there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskq.archives.checking import Contents, checked, rows_of
from taskq.archives.manifest import FileEntry
from taskq.archives.opening import Where, open_place
from taskq.archives.places import BLOBS, ArchivePlace
from taskq.db.connections import Database
from taskq.db.pacing import PacedChange
from taskq.files.blob_store import MAX_INPUT_BYTES, BlobStore
from taskq.model.errors import ArchiveDamaged, InvalidCampaign, UsageError, ValueRefused
from taskq.model.seed import check_path

#: Of one statement: rows, and bytes of their text.
_STEP_ROWS: Final = 1_000
_STEP_BYTES: Final = 4_000_000
_OF_CAMPAIGN: Final = (
    "campaign_id",
    "status",
    "owner",
    "created_at",
    "recipe",
    "hedged",
    "payload_bytes",
)

#: Called with the rows that are done, of how many, and what is done: verified, restored.
OnProgress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Restored:
    """A campaign that was restored. is_own: whether this database had made the archive."""

    path: str
    tasks: int
    campaigns: int
    is_own: bool


def restore(
    database: Database,
    blobs: BlobStore,
    where: Where,
    to: str | None,
    on_progress: OnProgress,
    *,
    step_rows: int = _STEP_ROWS,
) -> Restored:
    """Restore an archive at the path that it had, or another one.

    where: a folder, or s3://bucket/prefix. Raise `ArchiveDamaged`, which names the file, before
    anything is changed if it is not whole; `Conflict` if the campaign exists.
    """
    place, pace = open_place(where), PacedChange(database)
    contents = checked(place, lambda done, of: on_progress(done, of, "verified"), pace.rest)
    manifest = contents.manifest
    path = check_path(manifest.path if to is None else to)
    begun = _begun(database, contents, path)
    storing, position = _Storing(database, path, contents.digest, int(begun["restored"])), 0
    for entry in manifest.files:
        end = position + entry.rows
        if end > storing.done:
            for step in _steps(place, entry, storing.done - position, step_rows):
                if entry.table == "blobs":
                    _put(place, blobs, step)
                with pace.step():
                    storing.store(entry, step)
                on_progress(storing.done, manifest.rows, "restored")
        position = end
    database.rows("end_restore", path=path, manifest=contents.digest, rows=manifest.rows)
    return Restored(path, manifest.tasks, manifest.campaigns, bool(begun["own"]))


def _begun(database: Database, contents: Contents, path: str) -> dict[str, Any]:
    manifest, body = contents.manifest, []
    for campaign in contents.campaigns:
        row = {name: _plain(campaign.row[name]) for name in _OF_CAMPAIGN}
        below = campaign.row["path"][len(manifest.path) :]
        body.append({**row, "path": check_path(f"{path}{below}"), "body": campaign.body})
    try:
        return database.rows(
            "begin_restore",
            path=path,
            campaigns=json.dumps(body),
            manifest=contents.digest,
            seal=contents.seal,
            first_task=manifest.task_ids.first,
            last_task=manifest.task_ids.last,
            first_session=manifest.session_ids.first,
            last_session=manifest.session_ids.last,
        )[0]
    except (ValueRefused, InvalidCampaign) as error:
        raise ArchiveDamaged(manifest.files[0].name, str(error)) from error


@dataclass(slots=True)
class _Storing:
    """Stores rows one step after the other. done: how many are in the tables."""

    database: Database
    path: str
    digest: str
    done: int

    def store(self, entry: FileEntry, step: list[dict[str, Any]]) -> None:
        """Store rows of a file; only count those that no table gets."""
        is_counted = entry.table in ("campaigns", "blobs")
        try:
            self.done = int(
                self.database.value(
                    "restore_rows",
                    path=self.path,
                    manifest=self.digest,
                    after=self.done,
                    many=len(step),
                    campaign=entry.campaign,
                    name="blobs" if is_counted else entry.table,
                    rows="[]" if is_counted else json.dumps(step, default=_plain),
                )
            )
        except UsageError as error:  # a value that the tables refuse
            raise ArchiveDamaged(entry.name, str(error)) from error


def _steps(
    place: ArchivePlace, entry: FileEntry, skip: int, step_rows: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a file after the first `skip`, some at a time."""
    step: list[dict[str, Any]] = []
    size = 0
    for number, row in enumerate(rows_of(place, entry)):
        if number < skip:
            continue
        step.append(row)
        size += sum(len(value) for value in row.values() if type(value) is str)
        if len(step) == step_rows or size >= _STEP_BYTES:
            yield step
            step, size = [], 0
    if step:
        yield step


def _put(place: ArchivePlace, blobs: BlobStore, step: list[dict[str, Any]]) -> None:
    """Store the content of blobs; what the archive does not have stays lost."""
    for row in step:
        if row["stored"]:
            digest = row["digest"]
            with place.opened(f"{BLOBS}/{digest[:2]}/{digest}", MAX_INPUT_BYTES) as stream:
                blobs.put_file(stream, digest)


def _plain(value: Any) -> Any:
    """Return a value of a row as JSON has it."""
    return value.isoformat() if isinstance(value, datetime) else value
