"""Fetching of the output files of results, each task's into a folder of its own.

The files may come from any agent. Nothing is written outside the given folder: each folder on the
way is opened by its name in the one above, and no link is followed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Final
from urllib.parse import quote

from taskq.files.archives import Outputs
from taskq.model.errors import ResultLost, UsageError
from taskq.model.views import Result
from taskq_agent.archive import OF_THE_NODE, Member

#: Results whose archives one statement looks up.
PAGE: Final = 1_000
_KEPT_IN_NAMES: Final = " ,+=@()[]{}#&;!'"
_NAME_BYTES: Final = 200
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Fetched:
    """Counts of a fetch so far: tasks with files, their files and bytes; empty: tasks without any.

    lost: tasks whose files could not be read.
    """

    tasks: int = 0
    files: int = 0
    bytes: int = 0
    empty: int = 0
    lost: int = 0

    def note(self, listed: Sequence[Member]) -> None:
        """Count the output files of a task."""
        contents = [member.content for member in listed if member.content is not None]
        self.tasks += 1
        self.files += len(contents)
        self.bytes += sum(map(len, contents))


def fetch(
    outputs: Outputs,
    campaigns: Mapping[str, int],
    results: Iterable[Result],
    to: Path,
    *,
    on_lost: Callable[[ResultLost], None] | None = None,
) -> Fetched:
    """Write the output files of results to the folder `to` as KEY/FILE; create the folder.

    campaigns: their ids by path, first the campaign above all others: for a campaign below it, the
    names on the way there come before the key. A file appears when it is complete, and replaces one
    of the same name. on_lost: called for each task whose files are missing or damaged, or cannot be
    made since a link or folder has the name of one; without it, raise that `ResultLost`. Raise
    `UsageError` if the disk fails, or a result belongs to another campaign.
    """
    fetched, top = Fetched(), next(iter(campaigns))
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{str(to)!r}: {error.strerror}") from None
    rest = iter(results)
    while page := list(islice(rest, PAGE)):
        for path, group in groupby(page, attrgetter("campaign")):
            if path not in campaigns:
                raise UsageError(f"a result of {path}, which is neither {top} nor below it")
            of_one = list(group)
            found = outputs.find(campaigns[path], [result.task_id for result in of_one])
            above = [*filter(None, path.removeprefix(top).split("/"))]
            fetched.empty += len(of_one) - len(found)
            for result in of_one:
                if result.task_id not in found:
                    continue
                archive = campaigns[path], result.task_id, found[result.task_id]
                try:
                    listed = outputs.read(*archive)
                    _write(to, [*above, folder_name(result.key)], listed)
                except ResultLost as error:
                    if on_lost is None:
                        raise
                    fetched.lost += 1
                    on_lost(ResultLost(f"the files of task {result.key!r:.100}: {error}"))
                else:
                    fetched.note(listed)
    return fetched


def folder_name(key: str) -> str:
    """Return the name of a task's folder: its key, with %XX for characters unfit for a name."""
    name = quote(key, safe=_KEPT_IN_NAMES).replace("~", "%7E")
    name = name.replace(".", "%2E", 1) if name.startswith(".") else name
    if len(name) > _NAME_BYTES:
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        name = f"{name[: _NAME_BYTES - 17]}~{digest}"
    return name


def _write(to: Path, above: Sequence[str], listed: Sequence[Member]) -> None:
    for member in listed:
        folders = [*above, *member.parts]
        name = folders.pop() if member.content is not None else ""
        try:
            with _inside(to, folders) as folder:
                if member.content is not None:
                    _write_file(folder, name, member.content, executable=member.executable)
        except OSError as error:
            text = f"{str(to.joinpath(*folders, name))!r:.300} cannot be written: {error.strerror}"
            raise (UsageError if error.errno in OF_THE_NODE else ResultLost)(text) from error


@contextmanager
def _inside(to: Path, parts: Sequence[str]) -> Iterator[int]:
    """Open a folder below `to`; make missing ones on the way; a link on the way is an error."""
    folder = os.open(to, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, 0o777, dir_fd=folder)
            deeper = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
        yield folder
    finally:
        os.close(folder)


def _write_file(folder: int, name: str, content: bytes, *, executable: bool) -> None:
    unfinished = f".{secrets.token_hex(8)}.part"
    file = os.open(unfinished, _FILE, 0o777 if executable else 0o666, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished, dir_fd=folder)
        raise
