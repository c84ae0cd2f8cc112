"""`taskq agent run`: direct agents on this machine, with their own connections to PostgreSQL."""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from taskq.dispatch.direct import DirectTransport
from taskq.files.blobs import open_blobs
from taskq.model.errors import Unavailable, UsageError
from taskq.model.requirements import check_offers
from taskq.model.version import VERSION
from taskq.upkeep.looking import keeping_and_looking
from taskq_agent import arguments
from taskq_agent.batch_end import within_batch_job
from taskq_agent.handlers import RunnerSettings
from taskq_agent.loop import AgentSummary, agent_of_processes
from taskq_agent.run_options import OPTIONS, Option, settings, with_spool
from taskq_agent.self_test import Node, Unfit, check_node, unfit
from taskq_agent.settings import AgentSettings
from taskq_cli.commands.agents import agents
from taskq_cli.display.output import as_record, facts, write_record
from taskq_cli.invocation import Invocation
from taskq_cli.last_words import noted
from taskq_cli.options.serving import lease_option, log_to_stderr, verbosity_options
from taskq_cli.options.shared import blobs_option, campaign_option, shared_options, together


def agent_options(command: Callable[..., Any]) -> Any:
    """Add the options; the command gets `agent` and `runner`, the settings, and other options."""

    @functools.wraps(command)
    def collected(*args: Any, **kwargs: Any) -> Any:
        names = ("campaign", *(option.name for option in OPTIONS if option.name != "self_test"))
        parsed = {name: kwargs.pop(name) for name in names}
        offers = check_offers(parsed["offers"])
        try:
            agent, runner = settings(parsed, offers=offers, release=VERSION)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return command(*args, agent=agent, runner=runner, **kwargs)

    campaign = campaign_option(required=True, help="Campaign to serve, with all below it.")
    return together(campaign, *map(_as_click, OPTIONS), lease_option(1))(collected)


def _as_click(option: Option) -> Callable[..., Any]:
    text = f"{option.text[0].upper()}{option.text[1:]}."
    text += " May be repeated." * option.repeated
    text += f" [default: {option.usual_text}]" * bool(option.usual_text)
    if option.check is None:
        return click.option(option.flag, option.name, is_flag=True, help=text)
    return click.option(
        option.flag,
        option.name,
        type=_click_type(option.check),
        default=option.default,
        multiple=option.repeated,
        metavar=option.metavar,
        help=text,
    )


def _click_type(check: Callable[[str], Any]) -> Any:
    """Return the type of an option whose value the agent checks by this function.

    Folders get the type by which Click completes them, and `program` knows file names.
    """
    if check in {arguments.folder, arguments.existing_folder}:
        exists = check is arguments.existing_folder
        return click.Path(exists=exists, file_okay=False, resolve_path=True, path_type=Path)
    if check is int:
        return int

    def convert(value: Any) -> Any:
        try:
            return check(value) if isinstance(value, str) else value  # a default
        except argparse.ArgumentTypeError as error:
            raise click.BadParameter(f"{error}.") from None

    return convert


@agents.command()
@agent_options
@blobs_option
@verbosity_options
@shared_options
@click.pass_context
def run(
    context: click.Context,
    invocation: Invocation,
    *,
    agent: AgentSettings,
    runner: RunnerSettings,
    lease_s: float,
    self_test: list[str] | None,
    blobs: str | None,
    verbose: bool,
    quiet: bool,
) -> None:
    """Claim tasks of a campaign and all below it, and execute them.

    On SIGTERM or Ctrl-C the agent claims no more, hands back tasks that have not begun, lets
    running ones continue for the grace period, then stops them and hands them back. A second
    signal skips the grace period. The exit code is 0. After SIGKILL no task is lost: other agents
    get them when the lease expires.

    If a campaign cannot run here, because its program or module is missing or its preparation
    fails, the agent leaves it to others for a while; `taskq failures` shows the reason.

    Exit codes:
      0   normal end: nothing left, a limit reached, or a signal
      3   with --until-empty: tasks are left that this agent cannot claim
      69  this machine is broken: it can execute no task of any campaign
      70  the agent hung
      75  reports could not be delivered
      77  the queue refuses the agent

    Example:
      taskq agent run --campaign /demo --slots 2 --until-empty --path .
    """
    begun = time.time()
    log_to_stderr(verbose=verbose, quiet=quiet)
    with (
        invocation.client(waits=True, keeps=False) as client,
        noted(client.queries, agent.campaign) as note,
    ):
        client.campaign(agent.campaign)  # report a wrong path before anything starts
        store = open_blobs(client.database, blobs)
        transport = DirectTransport(client.database, lease_s=lease_s, blobs=store)
        try:
            if self_test:
                check_node(Node(runner.scratch_root, None, None, self_test))
            agent = within_batch_job(agent, os.environ, begun=begun)
            agent, runner = with_spool(agent, runner, client.database.dsn)
            with keeping_and_looking(client.database):
                summary = agent_of_processes(transport, agent, runner).run()
        except Unfit as error:
            summary = unfit(str(error))
            note(str(error))
        except OSError as error:
            raise Unavailable(f"this machine cannot start the agent's slots: {error}") from error
    write_record(invocation.output, as_record(summary), _as_text(summary))
    context.exit(summary.exit_code)


def _as_text(summary: AgentSummary) -> str:
    return facts(
        {
            "done": summary.done,
            "failed": summary.failed,
            "handed back": summary.released,
            "superseded": summary.superseded or None,
            "undelivered": summary.undelivered or None,
            "left because": summary.reason,
        }
    )
