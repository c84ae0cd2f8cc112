"""`taskq usage`: core-hours and GPU-hours, by who used them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

import click

from taskq.db.usage import ALL_LINES, PER, Per
from taskq.diagnosis.tables.usage import columns
from taskq.model.words import instant
from taskq_cli.display.output import as_record, paragraph, write_records
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import limit_option, path_argument, reading_options
from taskq_cli.options.values import since as parse_since


@click.command()
@path_argument(default="/")
@click.option(
    "--per",
    multiple=True,
    type=click.Choice(PER),
    default=("owner",),
    show_default=True,
    help="A line for each of these; repeatable.",
)
@click.option(
    "--since",
    type=parse_since,
    metavar="TIME|DURATION",
    help="What ended from then on, such as 7d or 2026-11-01; in whole hours, days or months.",
)
@limit_option
@reading_options
def usage(
    invocation: Invocation,
    *,
    path: str,
    per: tuple[Per, ...],
    since: datetime | timedelta | None,
    limit: int | None,
) -> None:
    """Show core-hours and GPU-hours of PATH, all below, and what was removed.

    A core-hour is an hour of one core of a slot; an attempt counts while its payload ran. DONE,
    FAILED and LOST show what became of it. A GPU-hour is an hour of a GPU that a task needs, or its
    share. Attempts count when they have ended, some seconds later.
    Days and months are those of UTC. The sums keep hours for three days, days for a hundred days,
    then months.

    Example:
      taskq usage --per owner --per month
    """
    at = datetime.now(timezone.utc) - since if isinstance(since, timedelta) else since
    with invocation.reader() as client:
        found = client.usage(path, per=per, since=at, limit=min(limit or ALL_LINES, ALL_LINES))

    def record(used: object) -> Mapping[str, object]:
        return {name: value for name, value in as_record(used).items() if value is not None}

    write_records(invocation.output, found.lines, columns(per), limit=limit, record=record)
    if invocation.output == "table":
        click.echo(paragraph(f"Attempts that ended until {instant(found.until)}."), nl=False)
