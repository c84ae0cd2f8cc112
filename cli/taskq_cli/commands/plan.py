"""`taskq plan`: capacity planning, the load of a number of agents on a server."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from taskq.model.words import counted, duration
from taskq.planning.capacity import (
    AGENTS_OF_GATEWAY,
    AMGA_ACCESSES,
    BACKUP_MB_S,
    COMFORTABLE,
    SEEN,
    Capacity,
    Costs,
    Need,
    capacity,
)
from taskq.planning.trial import Check, measured_costs
from taskq_agent.protocol import MAX_CLAIM
from taskq_cli.display.output import as_record, facts, write_record
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import shared_options
from taskq_cli.options.values import seconds


def _count(text: str | float) -> int:
    """Return a whole number, such as 1000 or 1e9."""
    try:
        number = float(text)
        if number.is_integer() and 1 <= number <= 1e15:  # noqa: PLR2004  # more is a slip
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise click.BadParameter(f"{text!r} must be a whole number from 1 on, such as 1000 or 1e9.")


@click.command()
@click.option(
    "--agents",
    type=_count,
    required=True,
    metavar="N",
    help="Agents that work at the same time, one task each.",
)
@click.option(
    "--task-time",
    "task_seconds",
    type=seconds(0.001),
    required=True,
    metavar="TIME",
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
@click.option(
    "--tasks", type=_count, metavar="N", help="Tasks of the campaign. [default: those of a day]"
)
@click.option(
    "--cores",
    type=click.IntRange(min=1),
    metavar="N",
    help="Cores of the server. [default: those of this machine]",
)
@click.option(
    "--measure",
    is_flag=True,
    help="Measure the server first, for half a minute in a scratch database. It must run on this "
    "machine, and should be idle.",
)
@shared_options
def plan(
    invocation: Invocation,
    *,
    agents: int,
    task_seconds: float,
    batch: int,
    tasks: int | None,
    cores: int | None,
    measure: bool,
) -> None:
    """Compute the load of a number of agents on a server.

    Shows cores, log, disk, and how long vacuums and backups take. An agent makes one exchange for
    each batch of tasks, through gateways, and a heartbeat every 30 s. The costs were measured on
    two cores of a virtual machine; --measure measures this server, and shows the error of the
    model. Other work of the server, such as seeding and reading, is not included.

    Example:
      taskq plan --tasks 1e9 --agents 1e6 --task-time 300 --cores 16
      taskq plan --agents 20000 --task-time 5m --measure
    """
    costs = SEEN
    checks: list[Check] = []
    if measure:
        with invocation.database() as server:
            costs, checks = measured_costs(server)
    need = Need(agents, task_seconds, batch, tasks, cores or os.cpu_count() or 1)
    found = capacity(need, costs)
    record = as_record(need) | as_record(found) | {"costs": costs}
    record["checks"] = [as_record(check) | {"error": check.error} for check in checks]
    write_record(invocation.output, record, _as_text(need, found, costs, checks))


def _as_text(need: Need, found: Capacity, costs: Costs, checks: Sequence[Check]) -> str:
    tasks = need.tasks or round(found.tasks_per_s * 86_400)
    busy = found.exchange_cores + found.heartbeat_cores
    ends = "comfortable" if found.share <= COMFORTABLE else "too much to be comfortable"
    together = "alone" if found.together == 1 else f"{found.together:.1f} in a statement"
    return facts(
        {
            "agents": f"{need.agents:,}, one task of {duration(need.task_s)} at a time",
            "tasks": f"{_number(found.tasks_per_s)}/s, {found.tasks_per_s * 86_400:,.0f} a day",
            "exchanges": f"{_number(found.exchanges_per_s)}/s, each reports and claims "
            f"{need.batch}; {together}",
            "heartbeats": f"{_number(found.heartbeats_per_s)}/s",
            "with AMGA": f"{_number(found.amga_per_s)} requests/s, {AMGA_ACCESSES} for each task",
            "gateways": f"{found.gateways:,}, of {AGENTS_OF_GATEWAY:,} agents each",
            "server": f"{busy:.3g} cores at work: {found.exchange_cores:.3g} for exchanges, "
            f"{found.heartbeat_cores:.3g} for heartbeats",
            "of its cores": f"{100 * found.share:,.1f} % of {need.cores}; "
            f"{'more than it can' if found.share > 1 else ends}",
            "it carries": f"{found.most_agents:,} such agents with half of its cores",
            "log": f"{_size(found.log_bytes_per_s)}/s, {_size(found.log_bytes_per_s * 86_400)} a "
            f"day; {100 * found.log_heartbeat_share:.0f} % of it for heartbeats",
            "campaign": f"{counted(tasks, 'task')} in {duration(found.duration_s)}",
            "disk": f"{_size(found.disk_bytes)} for it when it has ended, until it is removed",
            "vacuum": f"{duration(found.vacuum_s)} to go through all of that at "
            f"{costs.vacuum_mb_s:,.0f} MB/s",
            "backup": f"{duration(found.backup_s)} for as much, if {BACKUP_MB_S:,.0f} MB/s are "
            "copied",
            "measured": _measured(costs, checks),
        }
    )


def _measured(costs: Costs, checks: Sequence[Check]) -> str:
    if not checks:
        return "elsewhere, see docs/planning.md; --measure measures this server"
    found = ", ".join(
        f"{check.together} x {check.batch} tasks {check.seen_us:,.0f} µs "
        f"(the model: {check.error:+.0%})"
        for check in checks
    )
    return (
        f"an exchange alone {costs.exchanges_us(1, 1):,.0f} µs, a task in batches "
        f"{costs.task_us:,.1f} µs, a heartbeat {costs.heartbeat_us:,.1f} µs; {found}"
    )


def _number(value: float) -> str:
    return f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"  # noqa: PLR2004  # all digits


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:  # noqa: PLR2004  # the next unit
            return f"{count:.3g} {unit}"
        count /= 1_000
    return f"{count:,.3g} TB"
