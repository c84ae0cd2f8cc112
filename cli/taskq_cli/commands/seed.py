"""`taskq seed`: add tasks to a campaign from files or parameter sweeps."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from taskq.ingest.campaign_file import read_campaign_file
from taskq.ingest.key_conflicts import ON_CONFLICT, OnConflict
from taskq.ingest.seeding import SeedCount
from taskq.ingest.sources import (
    FORMATS,
    Crossed,
    Source,
    SourceOptions,
    check_read_once,
    open_source,
    sweep,
)
from taskq.model.errors import UsageError
from taskq.model.words import counted, duration
from taskq_agent.paths import exists
from taskq_cli.display.output import as_record, write_record
from taskq_cli.invocation import Invocation
from taskq_cli.last_words import noted
from taskq_cli.options.best import BestOptions, best_options
from taskq_cli.options.shared import path_argument, shared_options
from taskq_cli.seeder import Seeder, SeedInput, feed, seed_display, warn_unrunnable


@click.command()
@path_argument(required=False, metavar="CAMPAIGN")
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]...")
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME=VALUES",
    help="Every combination of parameters, alone or with each record of the files: a range such as "
    "seed=1:1000 or ph=6:8:0.5, or a list such as temperature=280,300,320. May be repeated.",
)
@click.option(
    "--campaign-file",
    type=click.Path(path_type=Path),
    metavar="TOML",
    help="Read the tasks from the table [seed] of a campaign file, and its path if none is given.",
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="At a bad line: end with an error, or report it and continue.",
)
@click.option(
    "--on-conflict",
    type=click.Choice(ON_CONFLICT),
    default="fail",
    show_default=True,
    help="At a record whose key is stored with another payload: end with an error, skip the "
    "record, or add it as KEY#2, KEY#3 and so on.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    help="Format of the files. [default: by the suffix, such as .smi or .smi.gz]",
)
@click.option(
    "--key-field",
    "key",
    metavar="FIELDS",
    help="Field that holds the key, or several such as a,b. [CSV, TSV, JSON, SDF]",
)
@click.option(
    "--priority-field",
    "priority",
    metavar="FIELD",
    help="Field that holds the priority. [CSV, TSV, JSON, SDF]",
)
@click.option(
    "--types",
    type=click.Choice(["guess", "number", "text"]),
    default="guess",
    show_default=True,
    help="What values that look like numbers become: numbers in columns where no text would change "
    "by that (1.10 would), numbers always, or text. [CSV, TSV]",
)
@click.option(
    "--delimiter",
    metavar="CHARACTER",
    help="The character, or its name: tab, space, comma, semicolon, pipe. [SMILES, CSV]",
)
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line has titles. [SMILES, CSV, TSV]",
)
@click.option(
    "--smiles-field",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of the field that holds the SMILES; the name is the first of the others. [SMILES]",
)
@click.option(
    "--encoding",
    metavar="NAME",
    help="Encoding of the text, such as cp1252 or latin-1. [default: utf-8, or utf-16 with a mark]",
)
@best_options
@shared_options
def seed(
    invocation: Invocation,
    *,
    path: str | None,
    files: tuple[str, ...],
    sweeps: tuple[str, ...],
    campaign_file: Path | None,
    on_error: str,
    on_conflict: OnConflict,
    form: str | None,
    best: BestOptions | None,
    **options: Any,
) -> None:
    """Add tasks from files, sweeps, or the best results of a campaign.

    A FILE is SMILES, CSV, TSV, JSON Lines or SDF, plain or compressed, regular or a pipe; - is
    standard input. With a sweep, each record makes a task with each combination. Seeding is
    idempotent: a record that CAMPAIGN already has adds nothing. So after Ctrl-C or an error you can
    repeat the command: tasks that were added stay, and it continues from there. A record with the
    key of a task but another payload is an error.

    Examples:
      taskq seed /demo/dock ligands.smi.gz --sweep seed=101:104
      taskq seed /demo/dock ligands.csv --key-field target,id --on-error skip
      taskq seed --campaign-file campaign.toml
      taskq seed /demo/md --from /demo/dock --best 1% --by result.score --lowest --live
    """
    source_options = SourceOptions(**options)
    inputs: list[SeedInput] = []
    if campaign_file is not None or best is not None:
        if files or sweeps or form or source_options != SourceOptions():
            says = "--from" if campaign_file is None else "--campaign-file"
            raise UsageError(f"{says} names the tasks; leave files and their options out")
        if campaign_file is not None:
            if best is not None:
                raise UsageError("--campaign-file and --from exclude each other: choose one")
            path, inputs = _from_campaign_file(path, campaign_file)
    else:
        inputs = _inputs(files, sweeps, form, source_options)
    if path is None:
        raise UsageError("name the CAMPAIGN to seed, as in `taskq seed /demo ligands.smi`")
    began = time.monotonic()
    with invocation.client() as client:
        campaign = client.campaign(path)
        if best is not None and best.live:
            if on_conflict != "fail":
                raise UsageError("--live takes no --on-conflict: leave it out")
            with noted(client.queries, path):
                feed(invocation.output, best.feeder(client, campaign), best.path, path)
            return
        if best is not None:
            inputs = [best.input(client, path)]
        with seed_display(path) as show:
            skip_bad = on_error == "skip"
            seeder = Seeder(campaign, show, skip_bad=skip_bad, on_conflict=on_conflict)
            count = seeder.run(inputs)
        warn_unrunnable(campaign)
    record = as_record(count, path=path)
    text = _summary(path, count, time.monotonic() - began, kept=on_conflict == "keep-both")
    write_record(invocation.output, record, text)


def _from_campaign_file(path: str | None, file: Path) -> tuple[str, list[SeedInput]]:
    content = read_campaign_file(file)
    if content.seed is None:
        raise UsageError(f"{file} has no table [seed]; add one that says where the tasks come from")
    return path or content.spec.path, [SeedInput(content.seed.open)]


def _inputs(
    files: Sequence[str], sweeps: Sequence[str], form: str | None, options: SourceOptions
) -> list[SeedInput]:
    if not files:
        if not sweeps:
            raise UsageError("nothing to seed: name files, - for standard input, or use --sweep")
        if form or options != SourceOptions():
            raise UsageError("the options of files do not apply to a sweep alone")
        return [SeedInput(functools.partial(sweep, sweeps))]
    for file in files:
        if "://" in file and not exists(Path(file)):
            raise UsageError(
                f"{file} is not a file on this machine: download it, or read it from a pipe, such "
                "as `curl URL | taskq seed CAMPAIGN - --format csv`"
            )
    check_read_once(files)
    return [SeedInput(functools.partial(_open, file, sweeps, form, options)) for file in files]


def _open(file: str, sweeps: Sequence[str], form: str | None, options: SourceOptions) -> Source:
    over = sweep(sweeps) if sweeps else None
    source = open_source(file, format=form, options=options)
    return source if over is None else Crossed(source, over)


def _summary(path: str, count: SeedCount, took_s: float, *, kept: bool) -> str:
    parts = [f"{counted(count.added, 'task')} added to {path}"]
    if count.conflicts and kept:
        keys = "a numbered key" if count.conflicts == 1 else "numbered keys"
        parts.append(f"{count.conflicts:,} of them under {keys}")
    if count.known:
        parts.append(f"{count.known:,} known before")
    if count.conflicts and not kept:
        parts.append(f"{counted(count.conflicts, 'conflict')} skipped")
    if count.bad:
        parts.append(f"{counted(count.bad, 'bad line')} skipped")
    return f"{', '.join(parts)}; {counted(count.read, 'record')} in {duration(took_s)}."
