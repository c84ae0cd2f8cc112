"""Archive an ended campaign with all below it to a folder, and verify what was written.

The campaign is archived in the database first, which refuses all changes until it is resumed; so no
snapshot is held, and a repetition after an interruption goes on where it was. The manifest comes
last. An archive with a manifest is whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final

from taskq.archives import folder as files
from taskq.archives import manifest as manifests
from taskq.archives import tables
from taskq.archives.checking import BLOBS, checked
from taskq.archives.columns import OF_CAMPAIGN, RANGES, TABLES
from taskq.archives.manifest import FileEntry, Ids, Manifest, digest_of, file_name
from taskq.db.connections import Database
from taskq.files.blob_store import BlobStore, check_digest
from taskq.files.folder_store import FolderBlobs
from taskq.model.errors import NotFound, TaskqError, UsageError
from taskq.model.version import VERSION
from taskq_agent.paths import exists
from taskq_agent.protocol import RESULT_REFERENCE

#: Tasks of a range, which has a file of each table.
RANGE_TASKS: Final = 50_000

#: Called with the tasks that are done, of how many, and what is done: archived, verified.
OnProgress = Callable[[int, int, str], None]
_LAST_ID: Final = (1 << 63) - 2


@dataclass(frozen=True, slots=True)
class Archived:
    """An archive that was written and verified. digest: of its manifest."""

    manifest: Manifest
    digest: str


def archive(
    database: Database,
    blobs: BlobStore,
    path: str,
    to: Path,
    on_progress: OnProgress,
    *,
    range_tasks: int = RANGE_TASKS,
) -> Archived:
    """Archive the ended campaign at a path to a folder; verify it there, and that nothing changed.

    Raise `Conflict` if tasks have not ended, or the campaign was resumed meanwhile; `UsageError` if
    the folder holds anything else. A repetition keeps what is finished.
    """
    is_new = not exists(to)
    files.made(to)
    try:
        begun = database.row("begin_archive", path=path) or {}
    except TaskqError:
        if is_new:
            to.rmdir()
        raise
    number, tasks = str(begun["archive"]), int(begun["tasks"])
    content = files.content_of(to, manifests.NAME, manifests.MAX_BYTES)
    if content is None:
        content = _Writing(
            database, blobs, path, to, number, tasks, on_progress, range_tasks
        ).write()
    elif manifests.parsed(content).archive != number:
        raise UsageError(
            f"{str(to)!r} holds another archive, or one of {path} before it was resumed: name "
            "another folder"
        )
    manifest = checked(to, lambda done, of: on_progress(done, of, "verified")).manifest
    database.rows("end_archive", path=path, archive=number, remove=False)
    return Archived(manifest, digest_of(content))


@dataclass(slots=True)
class _Writing:
    """An archive that is being written."""

    database: Database
    blobs: BlobStore
    path: str
    to: Path
    number: str
    tasks: int
    on_progress: OnProgress
    range_tasks: int
    entries: list[FileEntry] = field(default_factory=list)
    task_ids: Ids = field(default_factory=Ids)
    session_ids: Ids = field(default_factory=Ids)

    def write(self) -> bytes:
        """Write all files; return the content of the manifest."""
        progress = files.Steps(self.to, self.number)
        kept = FolderBlobs(_made(self.to / BLOBS))
        campaigns = list(self._rows("archived_campaigns", path=self.path))
        done = 0
        for place, row in enumerate(campaigns, 1):
            campaign = dict(zip(TABLES["campaigns"], row, strict=True))
            done = self._campaign(progress, kept, place, campaign, done)
        self.entries += self._table("campaigns", 0, 0, campaigns)
        listed = sorted(self.entries, key=FileEntry.place)
        stored, lost = self._blobs(listed)
        manifest = Manifest(
            archive=self.number,
            path=self.path,
            release=VERSION,
            created_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            campaigns=len(campaigns),
            tasks=done,
            task_ids=self._ids(listed, "tasks"),
            session_ids=self._ids(listed, "sessions"),
            blobs=stored,
            lost_blobs=lost,
            files=tuple(listed),
        )
        content = manifest.encoded()
        seal = self.database.value("archive_seal", manifest=digest_of(content))
        files.write(self.to, manifests.SEAL, f"{seal}\n".encode())
        files.write(self.to, manifests.NAME, content)
        progress.end()
        return content

    def _campaign(
        self,
        progress: files.Steps,
        kept: FolderBlobs,
        place: int,
        campaign: dict[str, Any],
        done: int,
    ) -> int:
        """Write the files of a campaign; return how many tasks there are with those before it."""
        part = last = 0
        while last < _LAST_ID:
            known = progress.steps.get((place, part))
            if known is None or not all(files.is_intact(self.to, file) for file in known[1]):
                upto, written = self._step(kept, place, part, last, campaign)
                progress.note(place, part, upto, written)
            else:
                upto, written = known
            self.entries += written
            done += sum(file.rows for file in written if file.table == "tasks")
            self.on_progress(done, max(self.tasks, done), "archived")
            last = upto if part else 0
            part += 1
        return done

    def _step(
        self, kept: FolderBlobs, place: int, part: int, after: int, campaign: dict[str, Any]
    ) -> tuple[int, list[FileEntry]]:
        """Write the files of a range, or of the campaign itself; return the last id, and them."""
        words = {"campaign": campaign["campaign_id"]}
        upto = 0
        if part:
            last = self.database.value(
                "archived_range", **words, after=after, most=self.range_tasks
            )
            upto = _LAST_ID if last is None else int(last)
            words |= {"after": after, "upto": upto}
        named: dict[str, int] = {} if part else _inputs(campaign["inputs"])
        written = []
        for table in RANGES if part else OF_CAMPAIGN:
            rows = _noting(table, self._rows(f"archived_{table}", **words), named)
            written += self._table(table, place, part, rows)
        written += self._table("blobs", place, part, self._kept(kept, named))
        return upto, written

    def _table(
        self, table: str, place: int, part: int, rows: Iterable[tuple[Any, ...]]
    ) -> list[FileEntry]:
        """Write a file; return it, or nothing if there are no rows: it is left out."""
        name, fill = file_name(table, place, part), partial(tables.write, table=table, rows=rows)
        entry = files.write_table(self.to, name, fill)
        return [] if entry is None else [entry]

    def _rows(self, name: str, **words: object) -> Iterator[tuple[Any, ...]]:
        with self.database.transaction() as statements, statements.table(name, **words) as table:
            yield from table[1]

    def _kept(self, kept: FolderBlobs, named: dict[str, int]) -> Iterator[tuple[str, int, bool]]:
        """Copy blobs to the archive, unless they are there; yield a row for each."""
        for digest in sorted(named):
            size = self._copied(kept, digest)
            yield digest, named[digest] if size is None else size, size is not None

    def _copied(self, kept: FolderBlobs, digest: str) -> int | None:
        """Return the size of a blob that is in the archive now; None if its store has lost it."""
        with suppress(NotFound):
            return kept.size(digest)
        with suppress(NotFound):
            found, size = kept.put(self.blobs.read(digest))
            return size if found == digest else None
        return None

    def _ids(self, listed: Iterable[FileEntry], table: str) -> Ids:
        ids = Ids()
        for entry in listed:
            if entry.table == table:
                with files.reading(self.to, entry, verify=False) as stream:
                    for number in tables.ends(stream):
                        ids = ids.with_(number)
        return ids

    def _blobs(self, listed: Iterable[FileEntry]) -> tuple[int, int]:
        """Return how many blobs are in the archive, and how many were lost before."""
        stored = lost = 0
        for entry in listed:
            if entry.table == "blobs":
                with files.reading(self.to, entry, verify=False) as stream:
                    for row in tables.read(stream, "blobs", entry.name):
                        stored, lost = stored + row["stored"], lost + (not row["stored"])
        return stored, lost


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _inputs(inputs: str) -> dict[str, int]:
    return {entry["digest"]: int(entry["size"]) for entry in json.loads(inputs).values()}


def _noting(
    table: str, rows: Iterable[tuple[Any, ...]], named: dict[str, int]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows, and note the blobs that they name, with their sizes."""
    columns = list(TABLES[table])
    places = {
        name: columns.index(name)
        for name in ("digest", "size", "inputs", "result")
        if name in columns
    }
    for row in rows:
        if "digest" in places:
            named[row[places["digest"]]] = row[places["size"]]
        elif "inputs" in places:
            named |= _inputs(row[places["inputs"]])
        elif "result" in places and (reference := _reference(row[places["result"]])):
            named[reference[0]] = reference[1]
        yield row


def _reference(result: str | None) -> tuple[str, int] | None:
    """Return digest and size of the blob that a result stands for; None if it holds itself."""
    if result is None or RESULT_REFERENCE not in result[:40]:
        return None
    try:
        found = json.loads(result)[RESULT_REFERENCE]
        return check_digest(found["digest"]), int(found["size"])
    except (ValueError, TypeError, KeyError, UsageError):  # an agent has made it up
        return None
