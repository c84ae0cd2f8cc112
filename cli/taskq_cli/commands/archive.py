"""`taskq campaign archive` and `restore`: ended campaigns leave the queue, and come back."""

from __future__ import annotations

from pathlib import Path

import click

from taskq.archives.writing import archive as write_archive
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from taskq.model.errors import NotOverGateway, UsageError
from taskq.model.words import counted
from taskq_cli.display.output import write_record
from taskq_cli.display.progress import chunk_display
from taskq_cli.early_exits import confirm, resumable
from taskq_cli.invocation import Invocation, warn
from taskq_cli.options.shared import blobs_option, path_argument, shared_options, yes_option


@click.command()
@path_argument()
@click.option("--to", metavar="DEST", required=True, help="A new folder for the archive.")
@click.option("--remove", is_flag=True, help="Then remove the campaign from the queue.")
@blobs_option
@yes_option
@shared_options
def archive(
    invocation: Invocation, *, path: str, to: str, remove: bool, blobs: str | None, yes: bool
) -> None:
    """Archive the ended campaign at PATH, with all below it, to a folder.

    The folder gets all that the queue knows: settings and recipes, tasks with keys and payloads,
    all attempts with their results and output, and the files, each once. Tables are Parquet files,
    which DuckDB, pandas and polars read. The archive is read back and verified at the end.

    The campaign stays in the queue, archived: nothing can change it until it is resumed. --remove
    removes it once the archive is verified. Repeat an interrupted command to continue.

    Example:
      taskq campaign archive /demo --to /archive/demo
      taskq campaign archive /demo --to /archive/demo --remove --yes
    """
    if "://" in to:
        raise UsageError(f"{to}: an archive is written to a folder; copy the folder there")
    if remove:
        confirm(f"Archive {path} to {to} and remove it from the queue?", yes=yes)
        invocation.make_room()
    with invocation.client() as client:
        database = direct(client.queries)
        store = open_blobs(database, blobs)
        with resumable(), chunk_display(f"archiving {path}") as show:
            made = write_archive(database, store, path, Path(to), show)
        if remove:
            number = made.manifest.archive
            with resumable(), chunk_display(f"deleting {path}") as show:
                database.rows("end_archive", path=path, archive=number, remove=True)
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
    text = f"{tasks} are in {to}, verified. The campaign {path} is {then}.\nDigest: {made.digest}"
    record = {
        "path": path,
        "archive": to,
        "digest": made.digest,
        "tasks": made.manifest.tasks,
        "campaigns": made.manifest.campaigns,
        "lost_files": lost,
        "removed": remove,
    }
    write_record(invocation.output, record, text)


def direct(queries: object) -> Database:
    """Return the database of a client; raise `NotOverGateway` if it has a gateway instead."""
    if not isinstance(queries, Database):
        raise NotOverGateway("archives")
    return queries
