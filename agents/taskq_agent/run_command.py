"""Command `taskq-agent run`: work for a queue behind gateways."""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional

from taskq_agent.batch_end import within_batch_job
from taskq_agent.http.connections import Dialer, tls_context
from taskq_agent.http.gateways import GatewayList
from taskq_agent.http.transport import HttpTransport, is_sendable, token_in
from taskq_agent.last_words import last_words
from taskq_agent.loop import agent_of_processes
from taskq_agent.protocol import LONGEST_WAIT_S
from taskq_agent.release import release
from taskq_agent.run_options import add_options, settings, with_spool
from taskq_agent.self_test import TOKEN_VARIABLE, Node, Unfit, check_node, unfit
from taskq_agent.streams import LineFormatter, log_to_stderr

_MANAGER_PREFIX = "tqm_"


def add_to(actions: Any) -> None:
    """Add the command to the actions of a parser."""
    run = actions.add_parser(
        "run",
        usage="%(prog)s --gateway URL --token-file FILE [OPTION ...]",
        help="work for a queue behind gateways",
        description="Claim tasks through a gateway and execute them. On SIGTERM, or any other "
        "signal that ends or warns a job, the agent claims no more, hands back tasks that have not "
        "begun, lets running ones continue for the grace period, then stops them and hands them "
        "back; a second signal skips the grace period. At its end it prints a summary as JSON. "
        "Exit code: 0 a normal end (nothing left, limits reached, drained, or a signal), 3 with "
        "--until-empty: tasks are left that it cannot get, 69 this machine is broken, 70 the agent "
        "hung, 75 reports could not be delivered, 77 the queue refuses the agent.",
        epilog=f"The token is read from --token-file or from {TOKEN_VARIABLE}. Proxies are taken "
        "from https_proxy, http_proxy and no_proxy.",
    )
    run.set_defaults(action=_run, parser=run)
    add_options(run)


def _run(options: argparse.Namespace) -> int:
    begun = time.time()
    parser: argparse.ArgumentParser = options.parser
    log_to_stderr(LineFormatter(), verbose=options.verbose, quiet=options.quiet)
    try:
        token = _token(options.token_file)
        gateways = GatewayList(options.gateways, insecure=options.insecure_http)
        dialer = Dialer(tls_context(options.ca, options.tls_cert, options.tls_key))
        agent, runner = settings(vars(options), release=release(), longest_wait_s=LONGEST_WAIT_S)
        agent, runner = with_spool(agent, runner, *sorted(options.gateways), token)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if options.spread_s > 0:
        time.sleep(random.uniform(0, options.spread_s))  # noqa: S311 - no secret
    try:
        check_node(Node(runner.scratch_root, gateways, dialer, options.self_test or ()))
        agent = within_batch_job(agent, os.environ, begun=begun)
        with HttpTransport(gateways, token, dialer, release=agent.release) as transport:
            summary = agent_of_processes(transport, agent, runner).run()
    except (Unfit, OSError) as error:
        many = isinstance(error, OSError) and error.errno == errno.EMFILE
        hint = f"; `ulimit -n` allows too few for {agent.slots} slots" if many else ""
        summary = unfit(f"{error}{hint}")
        last_words(HttpTransport(gateways, token, dialer, release=agent.release), agent, summary)
    sys.stdout.write(json.dumps(asdict(summary)) + "\n")
    return summary.exit_code


def _token(file: Optional[Path]) -> str:
    """Return the token; never from the command line, which all users of the node can read."""
    if file is None:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            raise ValueError(f"no token: give --token-file or set {TOKEN_VARIABLE}")
    else:
        try:
            token = token_in(file)
        except OSError as error:
            raise ValueError(f"--token-file {file}: {error.strerror}") from None
    if not is_sendable(token):
        raise ValueError(f"{file or TOKEN_VARIABLE}: this is not a token")
    if token.startswith(_MANAGER_PREFIX):
        raise ValueError(
            f"{file or TOKEN_VARIABLE}: this is a manager's token; agents need a site's, from "
            "`taskq token create NAME --kind site --campaign PATH --to FILE`"
        )
    return token
