"""`taskq agent`: direct agents on this machine, with their own connections to PostgreSQL."""

from __future__ import annotations

import os
import time
from functools import partial

import click

from taskq.dispatch.direct import DirectTransport
from taskq.files.blobs import open_blobs
from taskq.front.address import FrontAddress
from taskq.model.errors import Unavailable
from taskq.upkeep.keeper import keeping
from taskq_agent.batch_end import within_batch_job
from taskq_agent.handlers import RunnerSettings
from taskq_agent.loop import AgentSummary, run_agent
from taskq_agent.self_test import Node, Unfit, check_node, unfit
from taskq_agent.settings import AgentSettings
from taskq_cli.display.output import as_record, facts, write_record
from taskq_cli.log import log_to_stderr, verbosity_options
from taskq_cli.options.agent import agent_options
from taskq_cli.options.front import front_option
from taskq_cli.shared import Invocation, blobs_option, shared_options


@click.group()
def agent() -> None:
    """Run agents on this machine.

    Example:
      taskq agent run --campaign /demo --slots 2
    """


@agent.command()
@agent_options
@blobs_option
@front_option
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
    front: FrontAddress | None,
    verbose: bool,
    quiet: bool,
) -> None:
    """Claim tasks of a campaign and all below it, and execute them.

    On SIGTERM or Ctrl-C the agent claims no more, hands back tasks that have not begun, lets
    running ones continue for the grace period, then stops them and hands them back. A second
    signal skips the grace period. The exit code is 0. SIGKILL loses no task: other agents get
    them after the lease.

    A campaign that cannot be run here, because its program or module is missing or its preparation
    fails, is left to other agents for a while; `taskq failures` shows the reason.

    With --redis, the agent also claims from the front (Redis lists of tasks leased ahead), even
    while the database restarts. It does not fill the lists: `taskq keeper --redis` or a gateway
    must.

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
    with invocation.client(waits=True) as client:
        client.campaign(agent.campaign)  # a wrong path is an error before anything is started
        store = open_blobs(client.database, blobs)
        ahead = None
        if front is not None:
            from taskq.front.blocking import BlockingPool  # noqa: PLC0415  # the extra may be missing

            ahead = partial(BlockingPool, address=front)
        transport = DirectTransport(
            client.database,
            lease_s=lease_s,
            blobs=store,
            front=ahead,
        )
        try:
            if self_test:
                check_node(Node(runner.scratch_root, None, None, self_test))
            agent = within_batch_job(agent, os.environ, begun=begun)
            with keeping(client.database):
                summary = run_agent(transport, agent, runner)
        except Unfit as error:
            summary = unfit(str(error))
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
