"""Archive an ended campaign with all below it, to a folder or S3, and verify what was written.

The campaign is archived in the database first, which refuses all changes until it is resumed; so no
snapshot is held, and a repetition after an interruption goes on where it was. The manifest comes
last. An archive with a manifest is whole.

Two commands for the same archive write the same bytes. One for another archive is refused by who
comes second: each writes the number of its archive to the place, then reads it and the manifest
back, and reads the number again before it relies on what it has verified.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final

from taskq.archives import manifest as manifests
from taskq.archives import tables
from taskq.archives.checking import checked
from taskq.archives.columns import OF_CAMPAIGN, RANGES, TABLES
from taskq.archives.manifest import FileEntry, Manifest, digest_of, file_name
from taskq.archives.opening import Where, open_place
from taskq.archives.places import PROGRESS, ArchivePlace
from taskq.archives.steps import ArchiveStep, FinishedSteps, require_no_other
from taskq.db.connections import Database
from taskq.db.pacing import PacedChange
from taskq.db.statements import Statements
from taskq.files.blob_store import BlobStore, check_digest
from taskq.model.errors import ArchiveDamaged, NotFound, TaskqError, UsageError
from taskq.model.version import VERSION
from taskq_agent.protocol import RESULT_REFERENCE

#: Tasks of a range, which has a file of each table.
RANGE_TASKS: Final = 50_000

#: Tasks of a range that are read together: each rest of the command leaves time to others.
SLICE_TASKS: Final = 1_000
#: Of a range, the tables that are read as a whole: a session is in several slices.
_WHOLE: Final = frozenset({"sessions"})

#: Called with the tasks that are done, of how many, and what is done: archived, verified.
OnProgress = Callable[[int, int, str], None]
_LAST_ID: Final = (1 << 63) - 2


@dataclass(frozen=True, slots=True)
class Archived:
    """An archive that was written and verified. digest: of its manifest. place: where it is."""

    manifest: Manifest
    digest: str
    place: str


def archive(
    database: Database,
    blobs: BlobStore,
    path: str,
    to: Where,
    on_progress: OnProgress,
    *,
    range_tasks: int = RANGE_TASKS,
) -> Archived:
    """Archive the ended campaign at a path; verify it there, and that nothing changed.

    to: a folder, or s3://bucket/prefix. Raise `Conflict` if tasks have not ended, the campaign was
    resumed meanwhile, or another archive is being written there; `UsageError` if the place holds
    anything else. A repetition keeps what is finished.
    """
    place, pace = open_place(to), PacedChange(database)
    with place.writing():
        try:
            begun = database.row("begin_archive", path=path) or {}
        except TaskqError:
            place.undo()
            raise
        number = str(begun["archive"])
        content = _finished(place, number, path)
        if content is None:
            progress = FinishedSteps(place, number)
            # Another command may have finished before it could see this one's progress.
            content = (
                _finished(place, number, path)
                or _Writing(
                    database, blobs, path, place, begun, on_progress, range_tasks, progress, pace
                ).write()
            )
        manifest = _verified(database, place, content, on_progress, pace)
        require_no_other(place, number)
        made = Archived(manifest, digest_of(content), _address(str(place)))
        end_archive(database, path, made, remove=False)
        place.forget(PROGRESS)
        return made


def _address(place: str) -> str:
    """Return a place as others name it, wherever they are."""
    return place if "://" in place else str(Path(place).absolute())


def end_archive(database: Database, path: str, made: Archived, *, remove: bool) -> None:
    """Note where a campaign is archived; raise `Conflict` if it has changed since.

    remove: its removal begins too, see `begin_removal`.
    """
    database.rows(
        "end_archive",
        path=path,
        archive=made.manifest.archive,
        place=made.place,
        digest=made.digest,
        remove=remove,
    )


def _finished(place: ArchivePlace, number: str, path: str) -> bytes | None:
    """Return the manifest if the archive is finished; raise `UsageError` if another one is."""
    content = place.content_of(manifests.NAME, manifests.MAX_BYTES)
    if content is not None and manifests.parsed(content).archive != number:
        raise UsageError(
            f"{str(place)!r} holds another archive, or one of {path} before it was resumed: name "
            "another place"
        )
    return content


def _verified(
    database: Database,
    place: ArchivePlace,
    content: bytes,
    on_progress: OnProgress,
    pace: PacedChange,
) -> Manifest:
    """Read an archive back; raise `ArchiveDamaged` if it is not what was written."""
    seal = str(database.value("archive_seal", manifest=digest_of(content)))
    try:
        found = checked(place, lambda done, of: on_progress(done, of, "verified"), pace.rest)
    except ArchiveDamaged as error:
        raise _not_kept(error.file, error.why) from error
    if found.digest != digest_of(content) or found.seal != seal:
        raise _not_kept(manifests.NAME, "it or its seal is not what was written")
    return found.manifest


def _not_kept(file: str, why: str) -> ArchiveDamaged:
    return ArchiveDamaged(
        file, f"{why}. Nothing was removed: archive the campaign to another place"
    )


@dataclass(slots=True)
class _Writing:
    """An archive that is being written."""

    database: Database
    blobs: BlobStore
    path: str
    to: ArchivePlace
    begun: dict[str, Any]
    on_progress: OnProgress
    range_tasks: int
    progress: FinishedSteps
    pace: PacedChange

    def write(self) -> bytes:
        """Write all files; return the content of the manifest."""
        kept = self.to.blobs()
        campaigns = list(self._rows("archived_campaigns", path=self.path))
        whole, done = ArchiveStep(), 0
        for place, row in enumerate(campaigns, 1):
            campaign = dict(zip(TABLES["campaigns"], row, strict=True))
            for step in self._campaign(kept, place, campaign):
                whole.add(step)
                done += step.tasks
                self.on_progress(done, max(int(self.begun["tasks"]), done), "archived")
        self._table(whole, "campaigns", 0, 0, campaigns)
        begun_at: datetime = self.begun["begun_at"]
        manifest = Manifest(
            archive=str(self.begun["archive"]),
            path=self.path,
            release=VERSION,
            created_at=begun_at.astimezone(timezone.utc).isoformat(timespec="seconds"),
            campaigns=len(campaigns),
            tasks=done,
            task_ids=whole.task_ids,
            session_ids=whole.session_ids,
            blobs=whole.stored,
            lost_blobs=whole.lost,
            files=tuple(sorted(whole.files, key=FileEntry.place)),
        )
        content = manifest.encoded()
        seal = self.database.value("archive_seal", manifest=digest_of(content))
        require_no_other(self.to, manifest.archive)
        self.to.write(manifests.SEAL, f"{seal}\n".encode())
        self.to.write(manifests.NAME, content)
        return content

    def _campaign(
        self, kept: BlobStore, place: int, campaign: dict[str, Any]
    ) -> Iterator[ArchiveStep]:
        """Write the files of a campaign; yield its steps."""
        part = last = 0
        while last < _LAST_ID:
            step = self.progress.steps.get((place, part))
            if step is None or not all(map(self.to.is_intact, step.files)):
                step = self._step(kept, place, part, last, campaign)
                self.progress.note(place, part, step)
            yield step
            last = step.last if part else 0
            part += 1

    def _step(
        self, kept: BlobStore, place: int, part: int, after: int, campaign: dict[str, Any]
    ) -> ArchiveStep:
        """Write the files of a range, or of the campaign itself."""
        words, step = {"campaign": campaign["campaign_id"]}, ArchiveStep()
        if part:
            last = self.database.value(
                "archived_range", **words, after=after, most=self.range_tasks
            )
            step.last = _LAST_ID if last is None else int(last)
            words |= {"after": after, "upto": step.last}
        named: dict[str, int] = {} if part else _inputs(campaign["inputs"])
        for table in RANGES if part else OF_CAMPAIGN:
            rows = _noting(table, self._slices(table, words), named)
            self._table(step, table, place, part, rows)
        self._table(step, "blobs", place, part, self._kept(kept, named))
        return step

    def _table(
        self, step: ArchiveStep, table: str, place: int, part: int, rows: Iterable[tuple[Any, ...]]
    ) -> None:
        """Write a file of a step, unless there are no rows: it is left out."""
        counting = _counting(step, table, rows)
        name, fill = (
            file_name(table, place, part),
            partial(tables.write, table=table, rows=counting),
        )
        entry = self.to.write_table(name, fill)
        if entry is not None:
            step.files.append(entry)

    def _slices(self, table: str, words: dict[str, int]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table, of a range in slices, with a rest after each.

        No snapshot is held in a rest: each statement has its own.
        """
        with self.database.transaction() as statements:
            for slice_words in self._slice_words(statements, table, words):
                with statements.table(f"archived_{table}", **slice_words) as found:
                    yield from found[1]
                self.pace.rest()

    def _slice_words(
        self, statements: Statements, table: str, words: dict[str, int]
    ) -> Iterator[dict[str, int]]:
        if "upto" not in words or table in _WHOLE:
            yield words
            return
        after, upto = words["after"], words["upto"]
        while after < upto:
            last = statements.value(
                "archived_range", campaign=words["campaign"], after=after, most=SLICE_TASKS
            )
            end = upto if last is None else min(int(last), upto)
            yield words | {"after": after, "upto": end}
            after = end

    def _rows(self, name: str, **words: object) -> Iterator[tuple[Any, ...]]:
        with self.database.transaction() as statements, statements.table(name, **words) as table:
            yield from table[1]

    def _kept(self, kept: BlobStore, named: dict[str, int]) -> Iterator[tuple[str, int, bool]]:
        """Copy blobs to the archive, unless they are there; yield a row for each."""
        for digest in sorted(named):
            size = self._copied(kept, digest)
            yield digest, named[digest] if size is None else size, size is not None

    def _copied(self, kept: BlobStore, digest: str) -> int | None:
        """Return the size of a blob that is in the archive now; None if its store has lost it."""
        with suppress(NotFound):
            return kept.size(digest)
        with suppress(NotFound):
            found, size = kept.put(self.blobs.read(digest))
            return size if found == digest else None
        return None


def _counting(
    step: ArchiveStep, table: str, rows: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows, and count them in a step."""
    for row in rows:
        step.count(table, row)
        yield row


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
