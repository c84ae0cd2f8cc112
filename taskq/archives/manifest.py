"""The manifest of an archive: what its files are; written last, so an archive has one when whole.

It is JSON of a few fields. An archive may come from anybody, so each field is checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Final

from taskq.archives.columns import OF_CAMPAIGN, RANGES, TABLES
from taskq.model.errors import ArchiveDamaged

NAME: Final = "manifest.json"
#: Proves which database made the archive, if it is there; see `archive_seal`.
SEAL: Final = "manifest.seal"
FORMAT: Final = 1

MAX_BYTES: Final = 1 << 26
MAX_FILES: Final = 1_000_000
MAX_CAMPAIGNS: Final = 100_000
MAX_TEXT_CHARS: Final = 1_000
#: Of an archive; more than any queue has.
MAX_ROWS: Final = 1 << 40
#: Between the smallest and the largest id: a restore draws as many new ones.
MAX_ID_SPAN: Final = 1 << 40

_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_ORDER: Final = ("campaigns", *OF_CAMPAIGN, *RANGES, "blobs")
_FILE: Final = re.compile(rf"(?:c([0-9]{{6}})/)?({'|'.join(TABLES)})-([0-9]{{6}})\.parquet")
_INT64: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of an archive: its table, its campaign and its range, by their numbers, and digest."""

    name: str
    rows: int
    bytes: int
    sha256: str

    @property
    def table(self) -> str:
        """The name of the table that is in the file."""
        return _parts(self.name)[1]

    @property
    def campaign(self) -> int:
        """The number of the campaign among those of the archive, from 1; 0: of all."""
        return _parts(self.name)[0]

    @property
    def part(self) -> int:
        """The number of the range; 0: of the campaign itself."""
        return _parts(self.name)[2]

    def place(self) -> tuple[int, int, int]:
        """Return where the file stands in the order in which a restore reads them."""
        return self.campaign, self.part, _ORDER.index(self.table)


@lru_cache(maxsize=16)  # asked for each row of a file
def _parts(name: str) -> tuple[int, str, int]:
    match = _FILE.fullmatch(name)
    if match is None:
        raise ArchiveDamaged(NAME, f"{name!r:.100} is not the name of a file of an archive")
    return int(match[1] or 0), match[2], int(match[3])


def file_name(table: str, campaign: int, part: int) -> str:
    """Return the name of a file in an archive."""
    return f"{f'c{campaign:06}/' if campaign else ''}{table}-{part:06}.parquet"


@dataclass(frozen=True, slots=True)
class Ids:
    """The smallest and the largest id; 0 and 0: there are none."""

    first: int = 0
    last: int = 0

    def with_(self, number: int) -> Ids:
        """Return the ids with one more."""
        if not self.last:
            return Ids(number, number)
        return Ids(min(self.first, number), max(self.last, number))


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive holds.

    archive: the number that the database has drawn for it. campaigns: how many; tasks: of all.
    """

    archive: str
    path: str
    release: str
    created_at: str
    campaigns: int
    tasks: int
    task_ids: Ids = field(default_factory=Ids)
    session_ids: Ids = field(default_factory=Ids)
    blobs: int = 0
    lost_blobs: int = 0
    files: tuple[FileEntry, ...] = ()

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(file.rows for file in self.files)

    def encoded(self) -> bytes:
        """Return the manifest as the content of its file."""
        body = {"taskq_archive": FORMAT, **asdict(self)}
        return json.dumps(body, indent=1, ensure_ascii=False).encode() + b"\n"


def digest_of(content: bytes) -> str:
    """Return the digest of a manifest, by which people and the queue name the archive."""
    return hashlib.sha256(content).hexdigest()


def parsed(content: bytes) -> Manifest:
    """Return the manifest; raise `ArchiveDamaged` if it is none, or of a later format."""
    try:
        body = json.loads(content)
        _require(isinstance(body, dict), "it is not an object")
        found = body.pop("taskq_archive", None)
        _require(type(found) is int, "it is not the manifest of an archive")
        _require(found == FORMAT, f"it has the format {found}; this release reads {FORMAT}")
        entries = body.pop("files", None)
        _require(isinstance(entries, list) and len(entries) <= MAX_FILES, "it lists no files")
        files = tuple(_entry(entry) for entry in entries)
        tasks, sessions = (_ids(body.pop(name, None)) for name in ("task_ids", "session_ids"))
        manifest = Manifest(**body, task_ids=tasks, session_ids=sessions, files=files)
    except (ValueError, TypeError, RecursionError) as error:
        raise ArchiveDamaged(NAME, f"{error}"[:200]) from None
    _check(manifest)
    return manifest


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _entry(entry: Any) -> FileEntry:
    _require(isinstance(entry, dict), "a file is not an object")
    file = FileEntry(**entry)
    _require(type(file.name) is str and _FILE.fullmatch(file.name) is not None, "a name of a file")
    _require(type(file.rows) is int and 0 < file.rows <= MAX_ROWS, f"the rows of {file.name}")
    _require(type(file.bytes) is int and 0 < file.bytes < _INT64, f"the bytes of {file.name}")
    _require(
        type(file.sha256) is str and _DIGEST.fullmatch(file.sha256) is not None,
        f"the digest of {file.name}",
    )
    return file


def _ids(ids: Any) -> Ids:
    _require(isinstance(ids, dict), "there are no ids")
    found = Ids(**ids)
    numbers = (found.first, found.last)
    _require(all(type(number) is int for number in numbers), "an id is not a number")
    _require(
        numbers == (0, 0) or 0 < found.first <= found.last < _INT64 - 1, "the ids are not in order"
    )
    _require(found.last - found.first < MAX_ID_SPAN, "its ids are too far apart")
    return found


def _check(manifest: Manifest) -> None:
    try:
        for name in ("archive", "path", "release", "created_at"):
            value = getattr(manifest, name)
            _require(type(value) is str and len(value) <= MAX_TEXT_CHARS, f"{name} is not a text")
        for name, most in (("campaigns", MAX_CAMPAIGNS), ("tasks", MAX_ROWS)):
            _require(0 <= _whole(manifest, name) <= most, f"{name} is out of range")
        for name in ("blobs", "lost_blobs"):
            _require(0 <= _whole(manifest, name) <= MAX_ROWS, f"{name} is out of range")
        _require(_UUID.fullmatch(manifest.archive) is not None, "archive is not a number of one")
        places = [file.place() for file in manifest.files]
        _require(places == sorted(set(places)), "its files are not in order")
        _require(places[:1] == [(0, 0, 0)], "it has no campaigns")
        for file in manifest.files:
            kinds = ("campaigns",) if not file.campaign else (*OF_CAMPAIGN, "blobs")
            _require(
                file.table in (kinds if not file.part else (*RANGES, "blobs"))
                and (file.campaign > 0 or file.part == 0),
                f"{file.name} is in the wrong place",
            )
            _require(file.campaign <= manifest.campaigns, f"{file.name} is of no campaign")
    except ValueError as error:
        raise ArchiveDamaged(NAME, str(error)) from None


def _whole(manifest: Manifest, name: str) -> int:
    value = getattr(manifest, name)
    _require(type(value) is int, f"{name} is not a number")
    return int(value)
