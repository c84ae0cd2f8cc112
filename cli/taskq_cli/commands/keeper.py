"""`taskq keeper` runs the upkeep; `taskq front` shows, flushes and rebuilds the front in Redis."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from taskq.db.connections import Database
from taskq.front.address import FrontAddress
from taskq.model.columns import Column
from taskq.model.errors import Unavailable, UsageError
from taskq.model.words import counted, duration, instant
from taskq.upkeep.channels import PASSWORD_VARIABLE, Channels, SmtpServer
from taskq.upkeep.disks import Disks
from taskq.upkeep.keeper import Keeper
from taskq.upkeep.sender import sending
from taskq.upkeep.targets import check_mail_address
from taskq_cli.display.output import Record, facts, write_record, write_records
from taskq_cli.early_exits import stopped_by_signals
from taskq_cli.invocation import Invocation, needs
from taskq_cli.last_words import noted
from taskq_cli.options.serving import front_option, log_to_stderr, verbosity_options
from taskq_cli.options.shared import connection_options, dry_run_option, shared_options, together
from taskq_cli.options.values import size, time_option

if TYPE_CHECKING:
    from taskq.front.administration import FrontReport  # the extra may be missing

_folder: Final = click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True)

channel_options: Final = together(
    click.option(
        "--smtp",
        metavar="URL",
        help="Mail server for notifications, such as smtp://mail.example.org:587 or "
        f"smtps://USER@HOST; its password is in {PASSWORD_VARIABLE}. [default: no mail]",
    ),
    click.option("--mail-from", metavar="ADDRESS", help="Sender of mail."),
    click.option(
        "--webhooks",
        type=_folder,
        metavar="FOLDER",
        help="Folder with addresses and secrets of webhooks: a rule names a file in it. Only these "
        "may be private addresses. [default: webhooks to public addresses only]",
    ),
    click.option(
        "--programs",
        type=_folder,
        metavar="FOLDER",
        help="Folder with programs that rules may run here, as this user. [default: none]",
    ),
)

STOCK_S: Final = 10.0


def channels(
    *, smtp: str | None, mail_from: str | None, webhooks: Path | None, programs: Path | None
) -> Channels:
    """Return the channels that the options describe; raise `UsageError`."""
    if (smtp is None) != (mail_from is None):
        raise UsageError("mail needs both --smtp and --mail-from")
    return Channels(
        smtp=None if smtp is None else SmtpServer.parsed(smtp),
        mail_from=None if mail_from is None else check_mail_address(mail_from),
        webhooks=webhooks,
        programs=programs,
    )


@click.command()
@front_option
@channel_options
@click.option(
    "--disk",
    "disks",
    type=click.Path(exists=True, file_okay=False),
    multiple=True,
    metavar="FOLDER",
    help="Watch the disk of this folder, such as that of PostgreSQL's data: before it is full, "
    "seeds and large results are refused, and rules on the event disk report it. May be repeated. "
    "The disk of an embedded queue is watched in any case.",
)
@click.option(
    "--disk-size",
    type=size,
    metavar="SIZE",
    help="Size that the database and its log may have in all, such as 200G, if nobody can look at "
    "its disk. [default: not known]",
)
@click.option(
    "--archive-to",
    metavar="DEST",
    help="Archive campaigns with archive_first in this folder, or below s3://bucket/prefix, before "
    "they are removed for their keep. It needs the right of an operator. [default: they stay]",
)
@verbosity_options
@connection_options
def keeper(
    invocation: Invocation,
    *,
    front: FrontAddress | None,
    verbose: bool,
    quiet: bool,
    disks: tuple[str, ...],
    disk_size: int | None,
    archive_to: str | None,
    **options: Any,
) -> None:
    """Run the upkeep of the queue.

    Hands out the tasks of lost agents and delayed retries that are due; folds counters; removes
    campaigns when they have been kept for as long as they say; sends the notifications of `taskq
    notify`; with --redis, fills the lists of the front. Runs until SIGTERM or Ctrl-C. You may run
    any number; one acts at a time. Each `taskq agent run` does the same except for Redis, archives
    and notifications. So you need a keeper if agents do not reach the database, or if you want
    these.

    Example:
      taskq keeper
      taskq keeper --redis redis://cache.example.org
      taskq keeper --smtp smtp://mail.example.org --mail-from taskq@example.org
      taskq keeper --archive-to /archive
    """
    sends = channels(**options)
    log_to_stderr(verbose=verbose, quiet=quiet)
    with (
        stopped_by_signals() as stop,
        invocation.client(waits=True, keeps=False) as client,
        noted(client.queries),
        _refilling(client.database, front),
        sending(client.database, sends),
        _archiving(client.database, archive_to),
    ):
        Keeper(client.database, Disks(disks, disk_size)).run(stop)


def _archiving(database: Database, to: str | None) -> AbstractContextManager[None]:
    if to is None:
        return nullcontext()
    with needs("archives need", "parquet"):
        from taskq.archives.retaining import archiving, checked_place  # noqa: PLC0415
        from taskq.results.parquet import spare_memory  # noqa: PLC0415

    spare_memory()
    return archiving(database, checked_place(to))


def _refilling(database: Database, address: FrontAddress | None) -> AbstractContextManager[None]:
    if address is None:
        return nullcontext()
    from taskq.front.refiller import refilling  # noqa: PLC0415  # the extra may be missing

    return refilling(database, address)


@click.group()
def front() -> None:
    """Show, flush or rebuild the front (Redis lists of tasks leased ahead).

    Example:
      taskq front status
    """


@front.command()
@front_option
@shared_options
def status(invocation: Invocation, *, front: FrontAddress | None) -> None:
    """Show the entries in the lists, and whether a refiller fills them.

    Without the address of a Redis, or if Redis does not answer, shows what PostgreSQL knows. The
    exit code is 69 if Redis does not answer.

    Example:
      taskq front status --redis redis://cache.example.org
    """
    with needs("the front needs", "front"):
        from taskq.front import administration  # noqa: PLC0415
    with invocation.client() as client:
        report = administration.report(client.database, front)
    record = {"redis": None if front is None else front.display_name} | asdict(report)
    write_record(invocation.output, record, _as_text(record))
    if invocation.output == "table" and record["lists"]:
        write_records(
            "table",
            record["lists"],
            [
                Column("campaign"),
                Column("entries"),
                Column("low water", lambda campaign: campaign["low_water"]),
                Column("leased ahead", lambda campaign: campaign["leased_ahead"]),
            ],
        )
    if report.trouble is not None:
        raise Unavailable(f"{report.trouble}; agents are served from PostgreSQL meanwhile")


@front.command()
@front_option
@dry_run_option
@shared_options
def flush(invocation: Invocation, *, front: FrontAddress | None, dry_run: bool) -> None:
    """Empty the lists; their tasks wait again at once.

    Copies of entries elsewhere become invalid. A refiller fills the lists again.

    Example:
      taskq front flush --redis redis://cache.example.org
    """
    with needs("the front needs", "front"):
        from taskq.front import administration  # noqa: PLC0415
    address = _required(front)
    with invocation.client() as client:
        if dry_run:
            _write_entries(invocation, administration.report(client.database, address))
            return
        done = administration.flush(client.database, address)
    write_record(invocation.output, asdict(done), _flush_summary(done.withdrawn, done.returned))


def _write_entries(invocation: Invocation, known: FrontReport) -> None:
    entries = sum(front_list.entries or 0 for front_list in known.lists)
    would = f"{counted(entries, 'task')} would be taken out of the lists; nothing was changed."
    record = {"withdrawn": entries, "trouble": known.trouble, "dry_run": True}
    write_record(invocation.output, record, known.trouble or would)


@front.command()
@time_option(
    "--timeout", "within_s", most=3_600, default=STOCK_S, text="How long to wait for the refill."
)
@front_option
@dry_run_option
@shared_options
def rebuild(
    invocation: Invocation, *, front: FrontAddress | None, within_s: float, dry_run: bool
) -> None:
    """Empty the lists, and wait until a refiller fills them again.

    Refused if no refiller runs. Only lists of campaigns that agents ask for are filled.

    Example:
      taskq front rebuild --redis redis://cache.example.org
    """
    with needs("the front needs", "front"):
        from taskq.front import administration  # noqa: PLC0415
    address = _required(front)
    with invocation.client() as client:
        if dry_run:
            administration.check_refilled(client.database)
            _write_entries(invocation, administration.report(client.database, address))
            return
        flushed, stocked = administration.rebuild(client.database, address, within_s=within_s)
    text = (
        f"{counted(stocked.entries, 'task')} of {counted(stocked.lists, 'campaign')} in the lists "
        f"after {duration(stocked.took_s)}."
        if stocked.entries
        else f"The lists are still empty after {duration(within_s)}: no agent asks for such tasks, "
        "or the refiller does not reach this Redis."
    )
    write_record(
        invocation.output,
        asdict(flushed) | asdict(stocked),
        f"{_flush_summary(flushed.withdrawn, flushed.returned)}\n{text}",
    )


def _flush_summary(withdrawn: int, returned: int) -> str:
    return f"{counted(withdrawn, 'task')} taken out of the lists; {returned:,} wait again."


def _as_text(record: Record) -> str:
    begun = f"epoch {record['epoch']}, since {instant(record['begun_at'])}"
    server = f"{record['version']} at {record['redis']}" if record["version"] else record["redis"]
    doubtful = record["version"] and record["redis_epoch"] != record["epoch"]
    return facts(
        {
            "front": begun if record["epoch"] else "never used",
            "refiller": "at work"
            if record["refilled"]
            else "none: `taskq keeper --redis` runs one",
            "deadline": f"{record['pool_s']:g} s",
            "redis": server or "not asked: no --redis, no TASKQ_REDIS",
            "contents": "of another epoch: a refiller starts a new one" if doubtful else "",
        }
    )


def _required(front: FrontAddress | None) -> FrontAddress:
    if front is None:
        raise UsageError("no Redis named: give --redis, or TASKQ_REDIS in the environment")
    return front
