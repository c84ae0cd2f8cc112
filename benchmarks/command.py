"""Commands of the benchmarks: list the cases, and run some of them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from benchmarks import cases, machine, plot, report
from benchmarks.findings import Finding
from benchmarks.scale import SHORT, Scale
from benchmarks.stage import Bench
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.embedded import Server
from taskq.model.columns import Column
from taskq.model.errors import TaskqError, UsageError
from taskq_cli.display.output import write_records
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import shared_options

LEAST_TASKS: Final = 100
LEAST_CAMPAIGNS: Final = 10
LEAST_SECONDS: Final = 0.1


class Missed(TaskqError):
    """A goal was missed that does not depend on the load of the machine."""


@click.command(name="list")
@shared_options
def listed(invocation: Invocation) -> None:
    """List the cases.

    Example:
      python -m benchmarks list
    """
    rows = ({"case": name, "what": cases.summary(name)} for name in cases.CASES)
    write_records(invocation.output, rows, [Column("case"), Column("what")])


@click.command()
@click.argument(
    "names", metavar="[CASE|GROUP]...", nargs=-1, type=click.Choice([*cases.CASES, *cases.GROUPS])
)
@click.option("--short", is_flag=True, help="Small and quick: to see that all works, not how fast.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=LEAST_SECONDS),
    metavar="S",
    help="Length of each measurement. [default: 5]",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    metavar="N",
    help="Measurements of each, in turn with what it is compared with. [default: 5]",
)
@click.option(
    "--tasks",
    type=click.IntRange(min=LEAST_TASKS),
    metavar="N",
    help="Size of a large backlog or history, of an archived campaign, and of each one of "
    "`endurance`. [default: 10,000,000; 1,000,000; 100,000]",
)
@click.option(
    "--campaigns",
    type=click.IntRange(min=LEAST_CAMPAIGNS),
    metavar="N",
    help="Campaigns of `endurance`. [default: 1,000]",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the findings here too.",
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Draw them here, as SVG.",
)
@shared_options
def run(
    invocation: Invocation,
    *,
    names: tuple[str, ...],
    short: bool,
    seconds: float | None,
    rounds: int | None,
    tasks: int | None,
    campaigns: int | None,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Measure this release on this server, next to the server's limit.

    In databases of its own, which are dropped afterwards; the user must be allowed to create
    some. All cases but `endurance` take most of two hours and want a quiet machine; that one takes
    hours more, on a server of its own, and runs only by name. Writes a Markdown table.
    Refuses to measure where commits are not durable. The exit code is 1 if counts or touched
    rows are not what they must be.

    Example:
      python -m benchmarks run one-row batches --json bench.json --plot bench.svg
      python -m benchmarks run gateway
      python -m benchmarks run backlog --tasks 1000000
      python -m benchmarks run endurance --campaigns 100 --tasks 10000 --plot curve.svg
    """
    _check_files(json_file, plot_file)
    scale = _scale(seconds, rounds, tasks, campaigns, short=short)
    findings: list[Finding] = []
    with invocation.database() as server, tempfile.TemporaryDirectory() as folder:
        looked = _look(server, _disk(invocation, Path(folder)))
        bench = Bench(server, Path(folder), scale, lambda line: click.echo(f"  {line}", err=True))
        for found in cases.run(bench, cases.chosen(names)):
            findings.append(found)
            click.echo(report.line(found), err=True)
    _write(invocation.output, looked, scale, findings)
    if json_file is not None:
        text = json.dumps(report.as_json(looked, scale, findings), indent=2)
        json_file.write_text(f"{text}\n", encoding="utf-8")
    if plot_file is not None:
        plot_file.write_text(plot.svg(findings), encoding="utf-8")
    missed = [
        finding.what
        for finding in findings
        if finding.goal and not finding.goal.timed and not finding.reached
    ]
    if missed:
        raise Missed(f"missed, however fast the machine is: {'; '.join(missed)}")


def _check_files(json_file: Path | None, plot_file: Path | None) -> None:
    """Refuse files that could not be written after hours of measuring."""
    if plot_file is not None and plot_file.suffix != ".svg":
        raise UsageError(f"{plot_file}: a plot is written as SVG, so its name must end with .svg")
    for file in (json_file, plot_file):
        if file is not None and not os.access(file.parent, os.W_OK):
            raise UsageError(f"{file}: its folder is not there or cannot be written in")


def _scale(
    seconds: float | None,
    rounds: int | None,
    tasks: int | None,
    campaigns: int | None,
    *,
    short: bool,
) -> Scale:
    scale = SHORT if short else Scale()
    if seconds is not None:
        scale = replace(scale, seconds=seconds)
    if rounds is not None:
        scale = replace(scale, rounds=rounds, pairs=min(rounds, scale.pairs))
    if tasks is not None:
        scale = replace(scale, tasks=tasks, archived=tasks, endured_tasks=tasks)
    if campaigns is not None:
        scale = replace(scale, endured=campaigns)
    return scale


def _look(server: Database, disk: Path) -> machine.Machine:
    """Return the environment of the figures, as the scratch databases see it."""
    with server.scratch() as scratch:
        migrations.migrate(scratch)
        return machine.look(scratch, disk)


def _disk(invocation: Invocation, otherwise: Path) -> Path:
    """Return a folder on the disk that the server writes to, as far as that is known."""
    info = Server().status() if invocation.address() is None else None
    return otherwise if info is None else info.log_file.parent


def _write(output: str, looked: machine.Machine, scale: Scale, findings: list[Finding]) -> None:
    if output == "table":
        sys.stdout.writelines(f"{line}\n" for line in report.lines(looked, scale, findings))
    else:
        write_records(output, (finding.as_json() for finding in findings), [])
