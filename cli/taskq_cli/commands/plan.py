"""`taskq plan`: capacity planning, the load of a number of agents on a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from taskq.errors import NotFound, UsageError
from taskq.planning.capacity import AMGA_ACCESSES, Capacity, Measured, Need, capacity, from_bench
from taskq.planning.trial import measured_rate
from taskq.words import duration
from taskq_agent.protocol import MAX_CLAIM
from taskq_cli.output import as_record, facts, write_record
from taskq_cli.shared import Invocation, seconds, shared_options

MAX_BENCH_BYTES: Final = 10_000_000
COMFORTABLE: Final = 0.5
"""Share of the measured rate above which waits grow and no room is left for seeding and reading."""


@click.command()
@click.option(
    "--agents",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="Agents that work at the same time, one task each.",
)
@click.option(
    "--task-seconds",
    type=seconds(0.001),
    required=True,
    metavar="S",
    help="How long a task takes.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, MAX_CLAIM),
    default=1,
    show_default=True,
    metavar="N",
    help="Tasks that an agent claims and reports at once.",
)
@click.option("--tasks", type=click.IntRange(min=1), metavar="N", help="Size of the campaign.")
@click.option(
    "--rate", type=click.FloatRange(min=1), metavar="R", help="Tasks a second in such batches."
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Read measured rates from a file that `make bench` wrote with --json.",
)
@click.option("--measure", is_flag=True, help="Measure for some seconds in a scratch database.")
@shared_options
def plan(
    invocation: Invocation,
    *,
    agents: int,
    task_seconds: float,
    batch: int,
    tasks: int | None,
    rate: float | None,
    json_file: Path | None,
    measure: bool,
) -> None:
    """Compute the load that a number of agents puts on the server.

    An agent makes one exchange for each batch of tasks and a heartbeat every 30 s, which counts as
    an exchange although it costs less. The server's rate is given by --rate, read with --json or
    measured with --measure.

    Example:
      taskq plan --agents 20000 --task-seconds 300 --tasks 1000000 --rate 6000
      taskq plan --agents 20000 --task-seconds 300 --measure
    """
    if (rate is not None) + (json_file is not None) + measure > 1:
        raise UsageError("give one of --rate, --json and --measure")
    measured = Measured(rate)
    if json_file is not None:
        measured = from_bench(_read(json_file), batch)
    if measure:
        with invocation.database() as server:
            measured = Measured(measured_rate(server, batch))
    need = Need(agents, task_seconds, batch, tasks)
    found = capacity(need, measured)
    write_record(
        invocation.output,
        as_record(need) | as_record(found) | {"share": found.share},
        _as_text(need, found),
    )


def _as_text(need: Need, found: Capacity) -> str:
    share = "not measured: add --rate, --json or --measure"
    if found.share is not None:
        ends = "comfortable" if found.share <= COMFORTABLE else "too much to be comfortable"
        share = (
            f"{_percent(found.share)}: {_percent(found.task_share)} for tasks at "
            f"{found.measured_per_s:,.0f}/s, {_percent(found.beat_share)} for heartbeats; "
            f"{'more than it can' if found.share > 1 else ends}"
        )
    return facts(
        {
            "agents": f"{need.agents:,}, one task of {duration(need.task_s)} at a time",
            "tasks": f"{found.tasks_per_s:,.4g}/s, {found.tasks_per_day:,.0f} a day",
            "exchanges": f"{found.exchanges_per_s:,.4g}/s, each reports and claims {need.batch}",
            "heartbeats": f"{found.beats_per_s:,.4g}/s",
            "with AMGA": f"{found.amga_per_s:,.4g} requests/s, {AMGA_ACCESSES} for each task",
            "of the server": share,
            "it carries": None
            if found.most_agents is None
            else f"{found.most_agents:,} agents at the most",
            "campaign": None
            if found.duration_s is None
            else f"{need.tasks:,} tasks in {duration(found.duration_s)}",
            "log": f"{_size(found.wal_bytes_per_day)} a day",
            "disk": f"{_size(found.disk_bytes_per_day)} a day, until campaigns are removed",
        }
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:,.1f} %"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:  # noqa: PLR2004  # the next unit
            return f"{count:.3g} {unit}"
        count /= 1_000
    return f"{count:,.3g} TB"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            report = json.loads(file.read(MAX_BENCH_BYTES))
    except FileNotFoundError:
        raise NotFound(
            f"no file {path}; `make bench CASES='one-row --json {path}'` makes it"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(report, dict):
        raise UsageError(f"{path} is no file of `make bench` with --json")
    return report
