"""`taskq campaign archive` and `restore`: ended campaigns leave the queue, and come back."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from taskq.archives.manifest import MAX_BYTES, NAME
from taskq.archives.opening import open_place
from taskq.archives.restoring import restore as read_archive
from taskq.archives.writing import archive as write_archive
from taskq.archives.writing import end_archive
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from taskq.model.errors import NotOverGateway
from taskq.model.words import counted
from taskq.results.parquet import spare_memory
from taskq_cli.display.output import write_record
from taskq_cli.display.progress import chunk_display
from taskq_cli.early_exits import confirm, resumable
from taskq_cli.invocation import Invocation, warn
from taskq_cli.options.shared import blobs_option, path_argument, shared_options, yes_option

#: Address space that a restore may add: pyarrow reserves much more than it uses.
MOST_MEMORY_BYTES: Final = 1 << 32


@click.command()
@path_argument()
@click.option(
    "--to",
    metavar="DEST",
    required=True,
    help="A new folder for the archive, or s3://bucket/prefix.",
)
@click.option("--remove", is_flag=True, help="Then remove the campaign from the queue.")
@blobs_option
@yes_option
@shared_options
def archive(
    invocation: Invocation, *, path: str, to: str, remove: bool, blobs: str | None, yes: bool
) -> None:
    """Archive an ended campaign, with all below it, to a folder or S3.

    The archive gets all that the queue knows: settings and recipes, tasks with keys and payloads,
    all attempts with their results and output, and the files, each once. Tables are Parquet files,
    which DuckDB, pandas and polars read. The archive is read back and verified at the end.

    The campaign stays in the queue, archived: nothing can change it until it is resumed. --remove
    removes it once the archive is verified. Repeat an interrupted command to continue.

    Example:
      taskq campaign archive /demo --to /archive/demo
      taskq campaign archive /demo --to s3://archives/demo --remove --yes
    """
    spare_memory()
    place = open_place(to)
    if remove:
        confirm(f"Archive {path} to {place} and remove it from the queue?", yes=yes)
        invocation.make_room()
    with invocation.client() as client:
        database = direct(client.queries)
        store = open_blobs(database, blobs)
        with resumable(), chunk_display(f"archiving {path}") as show:
            made = write_archive(database, store, path, place, show)
        if remove:
            with resumable(), chunk_display(f"deleting {path}") as show:
                end_archive(database, path, made, remove=True)
                client.campaign(path).remove(lambda gone, of: show(gone, of, "deleted"))
    lost = made.manifest.lost_blobs
    if lost:
        warn(
            f"{counted(lost, 'file')} could not be archived: results or recipes name them, but the "
            "store has lost them"
        )
    tasks = counted(made.manifest.tasks, "task")
    then = (
        "removed from the queue" if remove else "archived, and refuses changes until it is resumed"
    )
    text = (
        f"{tasks} are in {place}, verified. The campaign {path} is {then}.\nDigest: {made.digest}"
    )
    record = {
        "path": path,
        "archive": str(place),
        "digest": made.digest,
        "tasks": made.manifest.tasks,
        "campaigns": made.manifest.campaigns,
        "lost_files": lost,
        "removed": remove,
    }
    write_record(invocation.output, record, text)


@click.command()
@click.argument("archive", type=click.Path())
@click.option("--as", "to", metavar="PATH", help="Restore to this path instead of the old one.")
@blobs_option
@shared_options
def restore(invocation: Invocation, *, archive: str, to: str | None, blobs: str | None) -> None:
    """Restore the campaign of an archive, with all below it.

    ARCHIVE is a folder, or s3://bucket/prefix. It is checked first: digests, types, and whether
    all of it fits together. In the database that has made it the campaign gets the ids that it had,
    if they are free; elsewhere new ones. Nobody can claim or change it until it is whole. Repeat an
    interrupted command to continue, or remove the campaign.

    A restored campaign has the program that the archive names: agents run it if you retry tasks.

    Example:
      taskq campaign restore /archive/demo
      taskq campaign restore s3://archives/demo --as /old/demo
    """
    spare_memory()
    place = open_place(archive)
    # The first request makes a thread for each core, which must not count below.
    place.content_of(NAME, MAX_BYTES)
    with invocation.client() as client, bounded_memory():
        database = direct(client.queries)
        store = open_blobs(database, blobs)
        with resumable(), chunk_display(f"restoring {place}") as show:
            made = read_archive(database, store, place, to, show)
    below = f", with {counted(made.campaigns - 1, 'campaign')} below" if made.campaigns > 1 else ""
    whose = "" if made.is_own else "\nIt was made by another database: ids and owner are new."
    text = f"The campaign {made.path} is restored{below}: {counted(made.tasks, 'task')}.{whose}"
    write_record(invocation.output, asdict(made), text)


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Keep a file that unpacks to very much from taking the memory of the machine.

    It ends in a `MemoryError` instead, on Linux.
    """
    before = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        most = pages * resource.getpagesize() + MOST_MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, before)


def direct(queries: object) -> Database:
    """Return the database of a client; raise `NotOverGateway` if it has a gateway instead."""
    if not isinstance(queries, Database):
        raise NotOverGateway("archives")
    return queries
