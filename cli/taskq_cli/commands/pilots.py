"""`taskq pilot`: agents that are started as jobs of batch systems."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from taskq import Client
from taskq.db.connections import Database
from taskq.diagnosis.tables.pilots import JOBS, PILOTS
from taskq.model.errors import NotFound, Unavailable, UsageError
from taskq.model.pilot_views import PilotView
from taskq.model.words import counted, duration
from taskq.pilots.drivers import make_driver
from taskq.pilots.loop import PERIOD_S, PilotLoop
from taskq.pilots.pilot_file import DescribedPilot, check_name, pilot_settings, read_pilot_file
from taskq.pilots.settings import DRIVERS, FILE, LINES, SETTINGS
from taskq.pilots.store import PilotStatus
from taskq_agent.paths import is_file
from taskq_cli.display.output import as_record, write_record, write_records
from taskq_cli.display.pilots import (
    ROUND_COLUMNS,
    described,
    imagined,
    script_for,
    write_job,
)
from taskq_cli.display.text import one_line, printable
from taskq_cli.early_exits import confirm, stopped_by_signals
from taskq_cli.invocation import Invocation
from taskq_cli.last_words import noted
from taskq_cli.options.serving import log_to_stderr, verbosity_options
from taskq_cli.options.shared import (
    campaign_option,
    dry_run_option,
    limit_option,
    setting_option,
    setting_value,
    shared_options,
    together,
    yes_option,
)
from taskq_cli.options.values import time_option
from taskq_cli.program import ListGroup

_UNSEEN_S = 60.0
_SHOWN_JOBS = 20


@click.group("pilot", cls=ListGroup)
def pilots() -> None:
    """Start agents as jobs of batch systems, as many as the tasks need.

    A pilot says where and how; `run` is the loop that submits its jobs.

    Example:
      taskq pilot list
    """


@pilots.command()
@click.argument("driver", required=False, metavar="[DRIVER]")
@click.argument("name", required=False, metavar="[NAME]")
@campaign_option("path", help="Campaign that the agents serve, with all below it.")
@together(*map(setting_option, SETTINGS.values()))
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Add the pilots of a TOML file instead.",
)
@click.option("--replace", is_flag=True, help="Change pilots that exist; their jobs go on.")
@click.option("--dry-run", is_flag=True, help="Store nothing; print the script of a job.")
@shared_options
def add(
    invocation: Invocation,
    *,
    driver: str | None,
    name: str | None,
    path: str | None,
    file: Path | None,
    replace: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Add a pilot; `taskq pilot run` then submits its jobs.

    DRIVER is slurm, pbs, htcondor, kubernetes, local (processes on this machine) or ssh. NAME has
    lower-case letters, digits and hyphens. Scripts do not contain the gateway's token.

    Example:
      taskq pilot add slurm hpc --campaign /demo --cores 32 --time-limit 12h --max-jobs 200
    """
    if file is not None:
        if name or driver or path or any(options.values()):
            raise UsageError("--file replaces DRIVER, NAME and all other options: leave them out")
        wanted = read_pilot_file(file, folder=_default_folder())
    else:
        if driver is None or name is None or path is None:
            raise UsageError(f"give DRIVER ({', '.join(DRIVERS)}), NAME and --campaign; or --file")
        settings = pilot_settings(driver, _as_table(check_name(name), options))
        wanted = [DescribedPilot(name, driver, path, settings)]
    if dry_run:
        for pilot in wanted:
            click.echo(script_for(imagined(pilot)), nl=False)
        return
    with invocation.client() as client:
        for pilot in wanted:
            client.campaign(pilot.path)  # raises an error that proposes a similar path
        for pilot in wanted:
            new = client.pilots.create(
                pilot.name, pilot.driver, pilot.path, pilot.settings, replace=replace
            )
            done = "is added" if new else "is changed"
            record = {"pilot": pilot.name, "new": new}
            write_record(invocation.output, record, f"The pilot {pilot.name} {done}.")
        if all(found.looked_ago_s is None for found in client.pilots.list()):
            click.echo("`taskq pilot run` submits its jobs.", err=True)


def _default_folder() -> Path:
    """Return the folder under which each pilot has its own."""
    try:
        return Path.home() / "taskq-pilots"
    except RuntimeError:
        raise UsageError("there is no home folder: give --folder") from None


def _as_table(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options under the keys of a pilot file; read those that name files."""
    table = {
        key: setting_value(SETTINGS[key], value)
        for key, value in options.items()
        if value not in (None, (), False)
    }
    for key, value in table.items():
        kind, file = SETTINGS[key].kind, Path(f"{value}").absolute()
        if kind is FILE and not is_file(file):
            raise NotFound(f"{file}: no such file")
        if kind is FILE:
            table[key] = str(file)
        elif kind is LINES:
            try:
                table[key] = file.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise NotFound(f"{file} cannot be read: {error}") from None
    table["folder"] = str(Path(table.get("folder") or _default_folder() / name).absolute())
    return table


@pilots.command("list")
@shared_options
def list_(invocation: Invocation) -> None:
    """List the pilots with their live jobs.

    Example:
      taskq pilot list
    """
    with invocation.client() as client:
        found = client.pilots.list()
    write_records(invocation.output, found, PILOTS)


@pilots.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only print the script of its next job.")
@shared_options
def show(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Show a pilot's settings and how many jobs it has.

    Example:
      taskq pilot show hpc
    """
    with invocation.client() as client:
        pilot = client.pilots.pilot(name)
        if dry_run:
            click.echo(script_for(pilot), nl=False)
            return
    write_record(invocation.output, as_record(pilot), described(pilot))


def _steer(invocation: Invocation, name: str, status: PilotStatus, outcome: str) -> None:
    with invocation.client() as client:
        live = client.pilots.set_status(name, status)
    jobs = f"; {counted(live, 'job')} still to end" if live else ""
    record = {"pilot": name, "status": status, "live": live}
    write_record(invocation.output, record, f"The pilot {name} {outcome}{jobs}.")


@pilots.command()
@click.argument("name")
@shared_options
def pause(invocation: Invocation, *, name: str) -> None:
    """Submit no more jobs of a pilot; its jobs go on.

    Example:
      taskq pilot pause hpc
    """
    _steer(invocation, name, "paused", "is paused")


@pilots.command()
@click.argument("name")
@shared_options
def resume(invocation: Invocation, *, name: str) -> None:
    """Submit jobs of a pilot again, and forget what went wrong.

    Example:
      taskq pilot resume hpc
    """
    _steer(invocation, name, "active", "is active")


@pilots.command()
@click.argument("name")
@dry_run_option
@yes_option
@shared_options
def rm(invocation: Invocation, *, name: str, dry_run: bool, yes: bool) -> None:
    """Remove a pilot: the loop cancels its queued jobs.

    Running agents go on until they are idle or their time is over; the pilot disappears when the
    last job has ended.

    Example:
      taskq pilot rm hpc --yes
    """
    with invocation.client() as client:
        pilot = client.pilots.pilot(name)
    jobs = counted(pilot.live, "live job")
    if dry_run:
        would = f"The pilot {name} would be removed, with {jobs}; nothing was changed."
        write_record(invocation.output, {"pilot": name, "live": pilot.live, "dry_run": True}, would)
        return
    confirm(f"Remove the pilot {name} with {jobs}?", yes=yes)
    outcome = "is being removed" if pilot.live else "is removed"
    _steer(invocation, name, "removed", outcome)


@pilots.command()
@click.argument("name")
@shared_options
def explain(invocation: Invocation, *, name: str) -> None:
    """Show why a pilot has so many jobs, and what comes next.

    Example:
      taskq pilot explain hpc
    """
    with invocation.client() as client:
        pilot = client.pilots.pilot(name)
        made = client.pilots.plan(name)
    lines = [*made.why]
    if pilot.looked_ago_s is None:
        lines.append("No loop has looked at it yet: `taskq pilot run` submits its jobs.")
    elif pilot.looked_ago_s > _UNSEEN_S:
        lines.append(
            f"No loop has looked at it for {duration(pilot.looked_ago_s)} (the last one on "
            f"{pilot.looked_from}): `taskq pilot run` submits its jobs."
        )
    record = {"pilot": name, "submit": made.submit, "cancel": made.cancel, "why": lines}
    write_record(invocation.output, record, "\n".join(map(one_line, lines)))


@pilots.command()
@click.argument("name")
@click.argument("number", required=False, type=int, metavar="[JOB]")
@limit_option
@shared_options
def log(invocation: Invocation, *, name: str, number: int | None, limit: int | None) -> None:
    """List a pilot's jobs, latest first, or show one with all details.

    For a job that died before its agent connected, these include the end of its output.

    Example:
      taskq pilot log hpc
      taskq pilot log hpc 17
    """
    with invocation.client() as client:
        if number is not None:
            write_job(invocation.output, client, name, number)
            return
        found = client.pilots.jobs(name, ended=limit or _SHOWN_JOBS)
    write_records(invocation.output, found, JOBS, limit=limit)


@pilots.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--once", is_flag=True, help="Make one round, and end.")
@time_option(
    "--interval",
    "period_s",
    least=0.1,
    most=3_600,
    default=PERIOD_S,
    text="Time between two rounds.",
)
@dry_run_option
@verbosity_options
@shared_options
def run(
    invocation: Invocation,
    *,
    names: tuple[str, ...],
    once: bool,
    period_s: float,
    dry_run: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Submit the jobs of pilots: of all, or of those named.

    Run it where the jobs can be submitted: for slurm on a login node. It runs until SIGTERM or
    Ctrl-C. It also works over a gateway, with a manager's token, for the pilots of the token's
    campaigns. You may run any number; one acts for each pilot at a time. The command keeps no
    state: another one continues at any moment, and no job is submitted twice. Jobs run as the user
    who runs this command.

    Example:
      taskq pilot run
      taskq pilot run hpc --dry-run
    """
    log_to_stderr(verbose=verbose, quiet=quiet)
    with invocation.client(waits=True) as client, noted(client.queries, " ".join(names)):
        for name in names:
            _check_here(client.pilots.pilot(name))
        if dry_run:
            _show_plans(invocation, client, names)
            return
        environment, queries = dict(os.environ), client.queries
        # Jobs find the embedded server by themselves.
        if isinstance(queries, Database) and invocation.address() is not None:
            environment["TASKQ_DSN"] = queries.dsn
        direct = isinstance(queries, Database)
        loop = PilotLoop(queries, environment, names=names, direct=direct)
        if once:
            rounds = loop.round()
            loop.leave()
            write_records(invocation.output, map(as_record, rounds), ROUND_COLUMNS)
            return
        with stopped_by_signals() as stop:
            loop.run(stop, period_s)


def _check_here(pilot: PilotView) -> None:
    """Raise `Unavailable` if this machine cannot submit the jobs of a pilot."""
    driver = make_driver(pilot, pilot_settings(pilot.driver, pilot.settings), os.environ)
    if (missing := driver.missing()) is not None:
        raise Unavailable(f"the pilot {pilot.name}: {missing}")


def _show_plans(invocation: Invocation, client: Client, names: tuple[str, ...]) -> None:
    for pilot in client.pilots.list():
        if names and pilot.name not in names:
            continue
        made, script = client.pilots.plan(pilot.name), printable(script_for(pilot))
        record = {
            "pilot": pilot.name,
            "submit": made.submit,
            "cancel": made.cancel,
            "why": made.why,
            "script": script,
        }
        lines = [f"# {pilot.name}: {one_line(sentence)}" for sentence in made.why]
        write_record(invocation.output, record, "\n".join([*lines, script]))
