"""`taskq input` and `taskq fetch`: files that tasks share, and files that tasks have left."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from taskq import Campaign, Client
from taskq.files.blobs import open_blobs
from taskq.files.fetching import Fetched
from taskq.model.columns import Column
from taskq.model.errors import NotFound, ResultLost, UsageError
from taskq.model.words import counted
from taskq.results.selection import select
from taskq_agent.paths import exists
from taskq_cli.display.output import as_record, write_record, write_records
from taskq_cli.early_exits import confirm_mixing
from taskq_cli.invocation import Invocation
from taskq_cli.options.best import best_of, check_ranking, group_option, ranked_by, ranking_options
from taskq_cli.options.shared import (
    below_option,
    blobs_option,
    dry_run_option,
    path_argument,
    shared_options,
    where_option,
    yes_option,
)


@click.group("input")
def inputs() -> None:
    """Give files to all tasks of a campaign.

    Each machine fetches a file once. A command gets its path by the placeholder {inputs.NAME};
    docs/handlers.md describes the other handlers. Campaigns below do not inherit inputs.

    Example:
      taskq input add /demo/dock receptor.pdbqt
    """


@inputs.command()
@path_argument()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="Name of the input. [default: the name of FILE]")
@blobs_option
@yes_option
@shared_options
def add(
    invocation: Invocation,
    *,
    path: str,
    file: Path,
    name: str | None,
    blobs: str | None,
    yes: bool,
) -> None:
    """Store FILE, at most 1 GiB, as an input of the campaign at PATH.

    It replaces an input of the same name for tasks that agents claim afterwards. If there are
    results already, it asks first; `taskq campaign changes` lists such changes.

    Example:
      taskq input add /demo/dock receptors/1lf3.pdbqt --name receptor.pdbqt
    """
    with invocation.client() as client:
        store = open_blobs(client.queries, blobs)
        target = client.campaign(path)
        confirm_mixing(target, yes=yes)
        added = target.add_input(file, name, blobs=store)
    name = file.name if name is None else name
    record = {"path": path, "name": name, "digest": added.digest, "size": added.size}
    text = f"The input {name} of {path} is stored: {added.size:,} bytes."
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


@inputs.command("fetch")
@path_argument()
@click.argument("name")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="DEST",
    help="File to write; it replaces one of this name. [default: NAME, if there is no such file]",
)
@click.option(
    "--recipe",
    type=click.IntRange(min=1),
    metavar="N",
    help="As it was in this recipe (`taskq campaign changes`).",
)
@blobs_option
@shared_options
def fetch_(
    invocation: Invocation,
    *,
    path: str,
    name: str,
    to: Path | None,
    recipe: int | None,
    blobs: str | None,
) -> None:
    """Write the input NAME of the campaign at PATH to a file.

    Content that was replaced stays stored only if the campaign keeps it (`--keep-inputs`).

    Examples:
      taskq input fetch /demo/dock receptor.pdbqt
      taskq input fetch /demo/dock receptor.pdbqt --recipe 1 --to receptor-before.pdbqt
    """
    target = Path(name) if to is None else to
    if to is None and exists(target):
        raise UsageError(f"{name!r} exists already; name another file by --to")
    with invocation.client() as client:
        store = None if blobs is None else open_blobs(client.queries, blobs)
        found = client.campaign(path).fetch_input(name, target, recipe=recipe, blobs=store)
    record = {"path": path, "name": name, "to": str(target), **asdict(found)}
    text = f"The input {name} of {path} is in {target}: {found.size:,} bytes."
    write_record(invocation.output, record, text)


@inputs.command()
@path_argument()
@click.argument("name")
@dry_run_option
@shared_options
def rm(invocation: Invocation, *, path: str, name: str, dry_run: bool) -> None:
    """Remove the input NAME of the campaign at PATH.

    Working tasks keep it.

    Example:
      taskq input rm /demo/dock receptor.pdbqt
    """
    text = f"The input {name} of {path} is removed."
    with invocation.client() as client:
        campaign = client.campaign(path)
        if not dry_run:
            campaign.remove_input(name)
        elif (found := campaign.inputs().get(name)) is None:
            raise NotFound(f"{path} has no input {name}; `taskq input list {path}` shows all")
        else:
            would = f"{found.size:,} bytes, would be removed; nothing was changed."
            text = f"The input {name} of {path}, {would}"
    write_record(invocation.output, {"path": path, "name": name, "dry_run": dry_run}, text)


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DEST",
    help="Folder to write to; it is created. Each task has a folder in it, named by its key.",
)
@ranking_options()
@group_option
@click.option(
    "--so-far",
    is_flag=True,
    help="Choose now, although tasks are unfinished and may give better results.",
)
@where_option
@below_option
@blobs_option
@shared_options
def fetch(
    invocation: Invocation, *, path: str, tasks: tuple[str, ...], to: Path, **options: Any
) -> None:
    """Fetch the files that tasks have left in $TASKQ_OUT.

    Fetches the files of the named tasks, of the best results, of the tasks that match a filter, or
    of all results of CAMPAIGN and all below it. A file appears when it is complete, and replaces an
    older one.

    Examples:
      taskq fetch /demo/dock --best 100 --by result.score --lowest --to poses
      taskq fetch /demo/dock CHEMBL25 --to poses
    """
    ways = [bool(tasks), options["best"] is not None, options["where"] is not None]
    if sum(ways) > 1:
        raise UsageError("choose one of TASK..., --best and --where")
    check_ranking(options["best"], options["by"], options["lowest"], options["recipe"])
    with invocation.client() as client:
        fetched = _fetched(client, client.campaign(path), tasks, to, options)
    text = (
        f"{counted(fetched.files, 'file')} of {counted(fetched.tasks, 'task')} in {to}, "
        f"{fetched.bytes:,} bytes."
    )
    if fetched.empty:
        text += f" {counted(fetched.empty, 'task')} left none."
    write_record(invocation.output, as_record(fetched, to=str(to)), text)
    if fetched.lost:
        raise ResultLost(f"the files of {counted(fetched.lost, 'task')} could not be read")


def _fetched(
    client: Client, campaign: Campaign, tasks: tuple[str, ...], to: Path, options: dict[str, Any]
) -> Fetched:
    where, below, best = options["where"], options["below"], options["best"]
    named: Any = tasks or None
    if best is not None:
        by, lowest = ranked_by(campaign, options["by"], options["lowest"])
        group, recipe = options["group"], options["recipe"]
        wanted = best_of(best, by, lowest=lowest, group=group, recipe=recipe)
        named = select(client.queries, campaign, wanted, below=below, so_far=options["so_far"])
    blobs = options["blobs"]
    return campaign.fetch(
        to,
        named,
        where=where,
        below=below,
        blobs=None if blobs is None else open_blobs(client.queries, blobs),
        on_lost=lambda error: click.echo(f"Warning: {error}", err=True),
    )
