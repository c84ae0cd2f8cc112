"""Destinations of output: a file, or a folder, that appears only when it is complete; a stream."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Literal

from taskq.model.errors import NotFound, OutputFailed, UsageError
from taskq_agent.paths import exists, is_dir, is_file, is_link

_MOST_LINKS: Final = 40  # as many as Linux follows


@contextmanager
def opened(destination: str | Path | BinaryIO) -> Iterator[BinaryIO]:
    """Open a destination for writing: a path, or a binary stream, which is not closed.

    A file is written next to its path and renamed when the block ends well; otherwise the path
    stays as it was. A path that is not an ordinary file, such as a named pipe, is written directly.
    So is a file that this process has open already, such as /dev/stdout or a shell's `>(...)`,
    after its present content. If the reader of a pipe goes away, the block ends quietly.

    Raise `NotFound` if the folder is absent, `UsageError` if the path is that of a folder,
    `OutputFailed` if writing there is not allowed, or if the disk is full or fails.
    """
    if not isinstance(destination, (str, Path)):
        with _until_broken(destination):
            yield destination
        return
    descriptor = _descriptor(Path(destination))
    if descriptor is not None:
        with _duplicate(descriptor, destination) as stream, _until_broken(stream):
            yield stream
        return
    path = Path(os.path.realpath(destination))  # a symbolic link stays one
    if is_dir(path):
        raise UsageError(f"{str(destination)!r} is a directory; name a file in it")
    if exists(path) and not is_file(path):
        with _create(path, "wb", path) as stream, _until_broken(stream):
            yield stream
        return
    with _replacing(path) as stream:
        yield stream


def _is_empty(folder: Path) -> bool:
    """Return whether a folder surely holds nothing."""
    try:
        return not any(folder.iterdir())
    except OSError:
        return False


def _descriptor(path: Path) -> int | None:
    """Return the descriptor that a path names, such as /dev/stdout or /dev/fd/63; None otherwise.

    Opening the path again would not do: a pipe has no path, and a file would have another position,
    perhaps other contents.
    """
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if folder in ("/dev/fd", f"/proc/{os.getpid()}/fd") and path.name.isdecimal():
            return int(path.name)
        if not is_link(path):
            return None
        path = Path(folder, path.readlink())
    return None


def _duplicate(descriptor: int, destination: str | Path) -> BinaryIO:
    try:
        return os.fdopen(os.dup(descriptor), "wb")
    except OSError as error:
        raise UsageError(f"nothing can be written to {str(destination)!r}: {error}") from None


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    stream = _create(unfinished, "xb", path)
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(path)
        with suppress(OSError):  # a folder that may be written but not read
            sync_folder(path.parent)
    except OSError as error:
        raise OutputFailed(f"{str(path)!r} cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def new_folder(destination: str | Path) -> Iterator[Path]:
    """Make a folder next to a path; rename it to the path if the block ends well, else remove it.

    Raise `UsageError` if the path exists and is not an empty folder, otherwise as `opened` does.
    """
    path = Path(os.path.realpath(destination))
    if exists(path) and not (is_dir(path) and _is_empty(path)):
        raise UsageError(f"{str(destination)!r} exists already; name a new folder, or an empty one")
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    with _making(path):
        unfinished.mkdir()
    try:
        yield unfinished
        sync_folder(unfinished)
        unfinished.rename(path)
        with suppress(OSError):  # a folder that may be written but not read
            sync_folder(path.parent)
    except OSError as error:
        raise OutputFailed(f"{str(path)!r} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _until_broken(stream: BinaryIO) -> Iterator[None]:
    try:
        yield
        stream.flush()
    except OSError as error:
        # Data that the stream still buffers would fail again when it closes or the program ends.
        with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            raise OutputFailed(f"the output cannot be written: {error.strerror}") from error


def _create(path: Path, mode: Literal["wb", "xb"], shown: Path) -> BinaryIO:
    with _making(shown):
        return path.open(mode)


@contextmanager
def _making(path: Path) -> Iterator[None]:
    """Translate errors. path: the caller's, not the temporary name."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"there is no folder {str(path.parent)!r} to write to") from None
    except OSError as error:
        raise OutputFailed(f"{str(path)!r} cannot be written: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
