"""`taskq front`: status, flush and rebuild of the front (Redis lists of tasks leased ahead)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final

import click

from taskq.front.address import FrontAddress
from taskq.model.errors import ExtraMissing, Unavailable, UsageError
from taskq.model.words import counted, duration, instant
from taskq_cli.display.output import Column, Record, facts, write_record, write_records
from taskq_cli.options.front import front_option
from taskq_cli.shared import Invocation, seconds, shared_options

STOCK_S: Final = 10.0


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

    Without the address of a Redis, or if it does not answer, shows what PostgreSQL knows. The exit
    code is 69 if it does not answer.

    Example:
      taskq front status --redis redis://cache.example.org
    """
    with _extra():
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
                Column("low water", lambda one: one["low_water"]),
                Column("leased ahead", lambda one: one["leased_ahead"]),
            ],
        )
    if report.trouble is not None:
        raise Unavailable(f"{report.trouble}; agents are served from PostgreSQL meanwhile")


@front.command()
@front_option
@shared_options
def flush(invocation: Invocation, *, front: FrontAddress | None) -> None:
    """Empty the lists; their tasks are waiting again at once.

    Copies of entries elsewhere become invalid. A refiller fills the lists again.

    Example:
      taskq front flush --redis redis://cache.example.org
    """
    with _extra():
        from taskq.front import administration  # noqa: PLC0415
    address = _required(front)
    with invocation.client() as client:
        done = administration.flush(client.database, address)
    write_record(invocation.output, asdict(done), _flush_summary(done.withdrawn, done.returned))


@front.command()
@click.option(
    "--within",
    "within_s",
    type=seconds(0, 3_600),
    default=STOCK_S,
    show_default=True,
    metavar="TIME",
    help="How long to wait for the refill.",
)
@front_option
@shared_options
def rebuild(invocation: Invocation, *, front: FrontAddress | None, within_s: float) -> None:
    """Empty the lists, and wait until a refiller fills them again.

    Refused if no refiller runs. Only lists of campaigns that agents ask for are filled.

    Example:
      taskq front rebuild --redis redis://cache.example.org
    """
    with _extra():
        from taskq.front import administration  # noqa: PLC0415
    address = _required(front)
    with invocation.client() as client:
        flushed, stocked = administration.rebuild(client.database, address, within_s=within_s)
    text = (
        f"{counted(stocked.entries, 'task')} of {counted(stocked.lists, 'campaign')} in the lists "
        f"after {duration(stocked.took_s)}."
        if stocked.entries
        else f"Nothing was put into them within {duration(within_s)}: no agent asks for such "
        "tasks, or the refiller does not reach this Redis."
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
            "front": begun if record["epoch"] else "none has been begun",
            "refiller": "at work"
            if record["refilled"]
            else "none: `taskq keeper --redis` runs one",
            "deadline": f"{record['pool_s']:g} s",
            "redis": server or "not asked: no --redis, no TASKQ_REDIS",
            "contents": "not of this epoch: a refiller begins it anew" if doubtful else "",
        }
    )


def _required(front: FrontAddress | None) -> FrontAddress:
    if front is None:
        raise UsageError("say which Redis: --redis, or TASKQ_REDIS in the environment")
    return front


@contextmanager
def _extra() -> Iterator[None]:
    """Turn a failed import in the block into `UsageError`: the extra `front` is optional."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraMissing(f"the front needs {error.name}", "front") from None
