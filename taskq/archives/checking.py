"""Check an archive before anything of it is believed: digests, types, and what must fit together.

An archive may come from anybody. No name in it becomes a path, nothing is unpickled, and each range
is read with a bounded number of its ids in memory.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskq.archives import manifest as manifests
from taskq.archives import tables
from taskq.archives.manifest import FileEntry, Ids, Manifest, digest_of, file_name
from taskq.archives.opening import Where, open_place
from taskq.archives.places import BLOBS, ArchivePlace
from taskq.db.stored_spec import spec_body
from taskq.files.blob_store import CHUNK_BYTES, MAX_INPUT_BYTES, check_digest
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import ArchiveDamaged, TaskqError
from taskq.model.seed import FINAL, MAX_KEY_CHARS, MAX_PAYLOAD_BYTES, check_path
from taskq_agent.json_limits import loads
from taskq_agent.protocol import Input

#: Tasks of a range, whose ids are in memory together.
MAX_RANGE_TASKS: Final = 200_000
MAX_SETTINGS_BYTES: Final = 1 << 20
#: Of a text in a row; results have 256 KiB at most.
MAX_VALUE_CHARS: Final = 1 << 20

_OUTCOMES: Final = frozenset(
    ["done", "failed", "lost", "released", "cancelled", "hedged", "withdrawn"]
)
_STATUSES: Final = frozenset({"open", "paused", "cancelled"})
_DIGEST: Final = re.compile("[0-9a-f]{64}")

#: Rows after which a check may rest.
_STEP_ROWS: Final = 1_000

#: Called with the rows that were read, of how many.
OnRows = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ArchivedCampaign:
    """A campaign of an archive. row: as in its table. body: its settings, for the server."""

    row: Mapping[str, Any]
    body: str


@dataclass(frozen=True, slots=True)
class Contents:
    """An archive whose files are as its manifest says. seal: what may prove where it was made."""

    manifest: Manifest
    digest: str
    seal: str
    campaigns: list[ArchivedCampaign]


def checked(where: Where, on_rows: OnRows, rest: Callable[[], None]) -> Contents:
    """Read all of an archive once; return what it holds.

    rest: called after every thousand rows. Raise `ArchiveDamaged`, which names the file, if
    anything is not as `archive` writes it.
    """
    place = open_place(where)
    content = place.content_of(manifests.NAME, manifests.MAX_BYTES)
    if content is None:
        raise ArchiveDamaged(
            manifests.NAME, f"{str(place)!r} holds no archive, or an unfinished one"
        )
    manifest = manifests.parsed(content)
    seal = place.content_of(manifests.SEAL, 200) or b""
    campaigns = _campaigns(place, manifest)
    done, checking, blobs = 0, _Checking(manifest), 0
    for entry in manifest.files:
        blobs += _checked_file(place, entry, checking, rest)
        done += entry.rows
        on_rows(done, manifest.rows)
    checking.end()
    counts = checking.counted
    for number, campaign in enumerate(campaigns, 1):
        found = counts.get(number, dict.fromkeys(FINAL, 0))
        if any(found[status] != campaign.row[status] for status in FINAL):
            raise ArchiveDamaged(
                manifest.files[0].name,
                f"{campaign.row['path']} has other counts there than its tasks",
            )
    if (checking.tasks, blobs) != (manifest.tasks, manifest.blobs):
        raise ArchiveDamaged(manifests.NAME, "it has other counts than the files")
    return Contents(
        manifest, digest_of(content), seal.decode("ascii", "replace").strip(), campaigns
    )


def _checked_file(
    place: ArchivePlace, entry: FileEntry, checking: _Checking, rest: Callable[[], None]
) -> int:
    """Check a file; return how many blobs of it are in the archive."""
    rows = blobs = 0
    with place.reading(entry) as stream:
        for row in tables.read(stream, entry.table, entry.name):
            checking.row(entry, row)
            if entry.table == "blobs" and row["stored"]:
                blobs += 1
                _check_blob(place, row["digest"], row["size"])
            rows += 1
            if rows > entry.rows:
                break
            if rows % _STEP_ROWS == 0:
                rest()
    if rows != entry.rows:
        raise ArchiveDamaged(entry.name, f"it does not have the {entry.rows} rows it should")
    return blobs


def _campaigns(place: ArchivePlace, manifest: Manifest) -> list[ArchivedCampaign]:
    entry = manifest.files[0]
    found: list[ArchivedCampaign] = []
    with place.reading(entry) as stream:
        for row in tables.read(stream, entry.table, entry.name):
            if len(found) == manifest.campaigns:
                break
            found.append(_campaign(manifest, entry, row))
    paths = [campaign.row["path"] for campaign in found]
    if len(found) != manifest.campaigns or paths != sorted(set(paths)):
        raise ArchiveDamaged(entry.name, "it does not have the campaigns of the manifest, in order")
    if paths[0] != manifest.path:
        raise ArchiveDamaged(entry.name, f"its first campaign is not {manifest.path}")
    known = set(paths)
    if any(path.rpartition("/")[0] not in known for path in paths[1:]):
        raise ArchiveDamaged(entry.name, "it has a campaign whose parent is not in the archive")
    return found


def _campaign(manifest: Manifest, entry: FileEntry, row: dict[str, Any]) -> ArchivedCampaign:
    """Return a campaign if its settings are those of one, whatever its handler would run."""
    whole = [row[name] for name in ("campaign_id", "hedged", "payload_bytes", *FINAL)]
    are_whole = all(type(number) is int and number >= 0 for number in whole)
    if not are_whole or row["payload_bytes"] > MAX_PAYLOAD_BYTES or row["status"] not in _STATUSES:
        raise ArchiveDamaged(entry.name, "a campaign has an impossible value")
    try:
        path = check_path(row["path"])
        settings, inputs = (_json(row[name]) for name in ("settings", "inputs"))
        declared = {name: _input(**value) for name, value in inputs.items()}
        body = spec_body(CampaignSpec.from_settings(path, settings), declared)
    except TaskqError as error:
        raise ArchiveDamaged(entry.name, f"{error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ArchiveDamaged(entry.name, f"settings of a campaign: {error}"[:300]) from None
    if path == "/" or not f"{path}/".startswith(f"{manifest.path}/"):
        raise ArchiveDamaged(entry.name, f"{path} is not at or below {manifest.path}")
    return ArchivedCampaign(row, body)


def _input(digest: str, size: int) -> Input:
    if type(size) is not int or not 0 <= size <= MAX_INPUT_BYTES:
        raise ValueError("an input has an impossible size")
    return Input(check_digest(digest), size)


def _json(text: str) -> Any:
    encoded = text.encode()
    if len(encoded) > MAX_SETTINGS_BYTES:
        raise ValueError(f"more than {MAX_SETTINGS_BYTES} bytes")
    return loads(encoded)


def _check_blob(place: ArchivePlace, digest: str, size: int) -> None:
    name = f"{BLOBS}/{digest[:2]}/{digest}"
    hashed, found = hashlib.sha256(), 0
    with place.opened(name, size) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            hashed.update(chunk)
            found += len(chunk)
            if found > size:
                break
    if found != size or hashed.hexdigest() != digest:
        raise ArchiveDamaged(name, "it is damaged: its digest is another one")


class _Checking:
    """Compares the rows of each range with each other."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._range: tuple[int, int] = (0, 0)
        self._sessions: set[int] = set()
        self._statuses: dict[int, str] = {}
        self._leases: dict[int, str] = {}
        self._last_task = 0
        self._last_attempt = (0, 0)
        self._file: FileEntry = manifest.files[0]
        self._checks = {
            "sessions": self._session,
            "tasks": self._task,
            "attempts": self._attempt,
            "withdrawals": self._withdrawal,
            "outputs": self._output,
            "arguments": self._blob,
            "blobs": self._blob,
        }
        self.tasks = 0
        #: Tasks by status of each campaign, by its number.
        self.counted: dict[int, dict[str, int]] = {}

    def row(self, entry: FileEntry, row: dict[str, Any]) -> None:
        """Check a row; raise `ArchiveDamaged` if it cannot be in this file."""
        if (entry.campaign, entry.part) != self._range:
            self.end()
            if entry.campaign != self._range[0]:
                self._last_task = 0
            self._range = entry.campaign, entry.part
        self._file = entry
        if any(type(value) is str and len(value) > MAX_VALUE_CHARS for value in row.values()):
            raise self._damaged(f"it has a text of more than {MAX_VALUE_CHARS} characters")
        check = self._checks.get(entry.table)
        if check is not None:
            check(row)

    def end(self) -> None:
        """Check that the tasks of the range have the results that they should."""
        for task, status in self._statuses.items():
            if (status == "done") != (task in self._leases):
                raise ArchiveDamaged(
                    file_name("attempts", *self._range),
                    f"task {task} is {status}, which its attempts do not say",
                )
        self._sessions, self._statuses, self._leases = set(), {}, {}
        self._last_attempt = (0, 0)

    def _session(self, row: dict[str, Any]) -> None:
        self._require_in(self._manifest.session_ids, row["session_id"], "a session")
        self._sessions.add(row["session_id"])

    def _task(self, row: dict[str, Any]) -> None:
        task, status, key = row["task_id"], row["status"], row["key"]
        self._require_in(self._manifest.task_ids, task, "a task")
        if task <= self._last_task:
            raise self._damaged(f"task {task} is not in order")
        self._last_task = task
        if status not in FINAL or type(key) is not str or not 0 < len(key) <= MAX_KEY_CHARS:
            raise self._damaged(f"task {task} has an impossible status or key")
        if (status == "done") != (row["attempt"] is None) and status != "cancelled":
            raise self._damaged(f"task {task} is {status}, which its attempt does not say")
        self._statuses[task] = sys.intern(status)
        if len(self._statuses) > MAX_RANGE_TASKS:
            raise self._damaged(f"it has more than {MAX_RANGE_TASKS} tasks")
        self.tasks += 1
        counted = self.counted.setdefault(self._range[0], dict.fromkeys(FINAL, 0))
        counted[status] += 1

    def _attempt(self, row: dict[str, Any]) -> None:
        place = task, _ = row["task_id"], row["attempt"]
        if task not in self._statuses or None in place or place <= self._last_attempt:
            raise self._damaged(f"attempt {place} is of no task there, or not in order")
        self._last_attempt = place
        if row["session_id"] not in self._sessions:
            raise self._damaged(f"attempt {place} is of no session there")
        if row["outcome"] not in _OUTCOMES:
            raise self._damaged(f"attempt {place} has an impossible outcome")
        if row["outcome"] == "done":
            if task in self._leases:
                raise self._damaged(f"task {task} has two results")
            self._leases[task] = row["lease_id"]

    def _withdrawal(self, row: dict[str, Any]) -> None:
        if row["task_id"] not in self._statuses:
            raise self._damaged("a withdrawal is of no task there")

    def _output(self, row: dict[str, Any]) -> None:
        if row["lease_id"] is None or self._leases.get(row["task_id"]) != row["lease_id"]:
            raise self._damaged("output files are of no result there")
        self._blob(row)

    def _blob(self, row: dict[str, Any]) -> None:
        digest, size = row["digest"], row["size"]
        if type(digest) is not str or _DIGEST.fullmatch(digest) is None:
            raise self._damaged("it names a file by something that is not a digest")
        if type(size) is not int or not 0 <= size <= MAX_INPUT_BYTES:
            raise self._damaged(f"the file {digest} has an impossible size")

    def _require_in(self, ids: Ids, number: Any, what: str) -> None:
        if type(number) is not int or not ids.first <= number <= ids.last:
            raise self._damaged(f"{what} has an id that the manifest does not announce")

    def _damaged(self, why: str) -> ArchiveDamaged:
        return ArchiveDamaged(self._file.name, why)


def rows_of(place: ArchivePlace, entry: FileEntry) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file that was checked; raise `ArchiveDamaged` if it changed since."""
    with place.reading(entry) as stream:
        yield from tables.read(stream, entry.table, entry.name)
