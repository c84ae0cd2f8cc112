"""`taskq traces`: send traces of attempts to an OpenTelemetry receiver."""

from __future__ import annotations

import os
from typing import Final

import click

from taskq import Cursor
from taskq.model.errors import Unavailable
from taskq.model.words import counted
from taskq.results.traces import TraceExport
from taskq_cli.commands.export import renewal
from taskq_cli.display.output import write_record
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import wait_out
from taskq_cli.invocation import Invocation, needs
from taskq_cli.options.shared import path_argument, reading_options

_HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
#: Seconds until the command asks an absent server or receiver again, at first and at most.
_SOON_S: Final = 2.0
_LATE_S: Final = 60.0


@click.group()
def traces() -> None:
    """Send traces of attempts to an OpenTelemetry receiver.

    Example:
      taskq traces export /demo --to http://localhost:4318
    """


@traces.command()
@path_argument(metavar="CAMPAIGN")
@click.option(
    "--to",
    metavar="DEST",
    required=True,
    envvar="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    help="Receiver of OTLP over HTTP, such as http://HOST:4318.",
    show_envvar=True,
)
@click.option(
    "--cursor",
    "file",
    metavar="FILE",
    type=click.Path(),
    help="Only tasks that this cursor file does not list yet. The file is created if missing, and "
    "updated when the receiver has them.",
)
@click.option(
    "--follow",
    "follows",
    is_flag=True,
    help="Continue with tasks as they end, until all have ended.",
)
@reading_options
def export(
    invocation: Invocation,
    *,
    path: str,
    to: str,
    file: str | None,
    follows: bool,
) -> None:
    """Send traces of the ended tasks of CAMPAIGN and all below it.

    A trace shows one task: its attempts, from claim to report, with their phases, and the waits
    between them. Sent again, it has the same ids. The command needs the extra otel; it reads
    headers, such as a token, from OTEL_EXPORTER_OTLP_HEADERS.

    Example:
      taskq traces export /demo --to http://localhost:4318
      taskq traces export /demo --to http://localhost:4318 --cursor demo.traces --follow
    """
    with needs("traces need", "otel"):
        from taskq.results.otlp import Receiver  # noqa: PLC0415  # the extra may be missing
    cursor = Cursor() if file is None else Cursor.read(file)
    receiver = Receiver(to, os.environ.get(_HEADERS, ""))
    with invocation.reader() as client:
        sending = TraceExport(
            client.queries,
            path,
            cursor,
            receiver,
            save=renewal(cursor, file),
            on_complaint=lambda text: click.echo(f"Warning: {one_line(text)}", err=True),
        )
        if follows:
            _follow(sending)
        else:
            sending.once()
    if file is not None:
        cursor.write(file)
    sent = {"campaign": path, "traces": sending.traces, "spans": sending.spans, "to": str(receiver)}
    text = (
        f"{counted(sending.traces, 'trace')} of {path} with {counted(sending.spans, 'span')} sent."
    )
    write_record(invocation.output, sent, text)


def _follow(sending: TraceExport) -> None:
    """Send until all tasks have ended; while the server or the receiver is away, wait."""
    rest_s = _SOON_S
    while True:
        before = sending.traces
        try:
            sending.follow()
        except Unavailable as error:
            rest_s = _SOON_S if sending.traces > before else rest_s
            wait_out(error, rest_s, f"trying again in {rest_s:g} s")
        else:
            return
        rest_s = min(2 * rest_s, _LATE_S)
