"""`taskq input`: add, list and remove the files that all tasks of a campaign share."""

from __future__ import annotations

from pathlib import Path

import click

from taskq.files.blobs import open_blobs
from taskq_cli.display.output import Column, write_record, write_records
from taskq_cli.shared import Invocation, blobs_option, path_argument, shared_options


@click.group("input")
def inputs() -> None:
    """Give files to all tasks of a campaign.

    Each machine fetches a file once. A command gets its path by the placeholder {inputs.NAME}; the
    page on handlers describes the other kinds. Campaigns below do not inherit inputs.

    Example:
      taskq input add /demo/dock receptor.pdbqt
    """


@inputs.command()
@path_argument()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="What tasks call it. [default: the name of FILE]")
@blobs_option
@shared_options
def add(
    invocation: Invocation, *, path: str, file: Path, name: str | None, blobs: str | None
) -> None:
    """Store FILE, at most 1 GiB, as an input of the campaign at PATH.

    An input of that name is replaced, for tasks that are claimed afterwards.

    Example:
      taskq input add /demo/dock receptors/1lf3.pdbqt --name receptor.pdbqt
    """
    with invocation.client() as client:
        store = open_blobs(client.queries, blobs)
        added = client.campaign(path).add_input(file, name, blobs=store)
    name = file.name if name is None else name
    record = {"path": path, "name": name, "digest": added.digest, "size": added.size}
    text = f"The tasks of {path} have the input {name} now: {added.size:,} bytes."
    write_record(invocation.output, record, text)


@inputs.command("list")
@path_argument()
@shared_options
def list_(invocation: Invocation, path: str) -> None:
    """List the inputs of the campaign at PATH.

    Example:
      taskq input list /demo/dock
    """
    with invocation.client() as client:
        found = client.campaign(path).inputs()
    records = ({"name": name, "size": it.size, "digest": it.digest} for name, it in found.items())
    write_records(invocation.output, records, [Column("name"), Column("size"), Column("digest")])


@inputs.command()
@path_argument()
@click.argument("name")
@shared_options
def remove(invocation: Invocation, *, path: str, name: str) -> None:
    """Take the input NAME from the campaign at PATH.

    Working tasks keep it.

    Example:
      taskq input remove /demo/dock receptor.pdbqt
    """
    with invocation.client() as client:
        client.campaign(path).remove_input(name)
    text = f"The tasks of {path} have the input {name} no more."
    write_record(invocation.output, {"path": path, "name": name}, text)
