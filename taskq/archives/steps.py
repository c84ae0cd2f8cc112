"""What is finished of an archive that is being written, so that a repetition goes on there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from taskq.archives import manifest as manifests
from taskq.archives.manifest import FileEntry, Ids
from taskq.archives.places import PROGRESS, ArchivePlace
from taskq.model.errors import Conflict

#: Of the file: a line has what the manifest has of its files, and little more.
_MOST_BYTES: Final = 2 * manifests.MAX_BYTES


@dataclass(slots=True)
class ArchiveStep:
    """What a range adds to an archive, or a campaign without its tasks. last: the last id.

    stored, lost: how many blobs are in the archive, and how many their store had lost.
    """

    last: int = 0
    files: list[FileEntry] = field(default_factory=list)
    task_ids: Ids = field(default_factory=Ids)
    session_ids: Ids = field(default_factory=Ids)
    stored: int = 0
    lost: int = 0

    @property
    def tasks(self) -> int:
        """How many tasks it adds."""
        return sum(file.rows for file in self.files if file.table == "tasks")

    def count(self, table: str, row: tuple[Any, ...]) -> None:
        """Count a row of a table."""
        if table == "tasks":
            self.task_ids = self.task_ids.with_(row[0])
        elif table == "sessions":
            self.session_ids = self.session_ids.with_(row[0])
        elif table == "blobs":
            self.stored, self.lost = self.stored + row[2], self.lost + (not row[2])

    def add(self, other: ArchiveStep) -> None:
        """Add what another step adds."""
        self.files += other.files
        self.stored, self.lost = self.stored + other.stored, self.lost + other.lost
        for number in (other.task_ids.first, other.task_ids.last):
            self.task_ids = self.task_ids.with_(number) if number else self.task_ids
        for number in (other.session_ids.first, other.session_ids.last):
            self.session_ids = self.session_ids.with_(number) if number else self.session_ids


class FinishedSteps:
    """The finished steps of an archive, in a file of its place; the first line is its number."""

    def __init__(self, place: ArchivePlace, archive: str) -> None:
        """Begin an archive, or continue it; raise `Conflict` if another one has begun there."""
        self._place = place
        self._content = place.content_of(PROGRESS, _MOST_BYTES) or b""
        whole = self._content.rfind(b"\n") + 1
        if whole < len(self._content) or not whole:  # a kill has cut the last line off
            self._content = self._content[:whole] or _line({"archive": archive})
            place.write(PROGRESS, self._content)
        require_no_other(place, archive)
        #: By campaign and range.
        self.steps = dict(map(_parsed, self._content.splitlines()[1:]))

    def note(self, campaign: int, part: int, step: ArchiveStep) -> None:
        """Add a step that is finished."""
        more = _line({"campaign": campaign, "part": part, **asdict(step)})
        self._place.grow(PROGRESS, self._content, more)
        self._content += more


def require_no_other(place: ArchivePlace, archive: str) -> None:
    """Raise `Conflict` if another archive has begun at a place: its files come among ours."""
    content = place.content_of(PROGRESS, _MOST_BYTES)
    if content is not None and content.partition(b"\n")[0] + b"\n" != _line({"archive": archive}):
        raise Conflict(
            f"{str(place)!r} holds an unfinished archive of another campaign, or one from before "
            "this one was resumed: remove it, or name another place"
        )


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _parsed(line: bytes) -> tuple[tuple[int, int], ArchiveStep]:
    step = json.loads(line)
    place = step.pop("campaign"), step.pop("part")
    files = [FileEntry(**file) for file in step.pop("files")]
    tasks, sessions = Ids(**step.pop("task_ids")), Ids(**step.pop("session_ids"))
    return place, ArchiveStep(files=files, task_ids=tasks, session_ids=sessions, **step)
