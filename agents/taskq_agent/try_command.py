"""`taskq-agent try`: run one payload by hand, without a queue, to debug its code."""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

from taskq_agent import arguments
from taskq_agent.handlers import Ended, RunnerSettings, check_handler, make_runner
from taskq_agent.protocol import DONE, Campaign, Task

_STOP_AGAIN_S = 0.1


def add_to(actions: Any) -> None:
    """Add the command to the actions of a parser."""
    attempt = actions.add_parser(
        "try",
        help="run one payload by a handler and print how it ended",
        description="Run one payload by a handler, exactly as an agent does, and print as JSON "
        "how it ended. Exit code: 0 done, 75 failed but may be tried again, 65 failed for good, "
        "69 this machine cannot do such tasks. JSON is given as a file's name or in place.",
    )
    attempt.set_defaults(action=_try, parser=attempt)
    attempt.add_argument("--handler", required=True, type=arguments.json_object, metavar="JSON")
    attempt.add_argument("--payload", default={}, type=arguments.json_object, metavar="JSON")
    attempt.add_argument(
        "--params",
        default={},
        type=arguments.json_object,
        metavar="JSON",
        help="the campaign's parameters",
    )
    attempt.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="FOLDER",
        help="search Python callables here first; may be repeated",
    )
    attempt.add_argument(
        "--time-limit", type=arguments.seconds, metavar="SECONDS", help="default: none"
    )
    attempt.add_argument(
        "--grace",
        type=arguments.seconds,
        default=5.0,
        metavar="SECONDS",
        help="between SIGTERM and SIGKILL at the time limit; default: 5",
    )
    attempt.add_argument("--scratch", type=Path, metavar="FOLDER", help="make scratch folders here")
    attempt.add_argument(
        "--keep-scratch", action="store_true", help="leave the scratch folder for inspection"
    )


def _try(options: argparse.Namespace) -> int:
    try:
        check_handler(options.handler, options.params)
    except ValueError as error:
        options.parser.error(str(error))
    settings = RunnerSettings(
        scratch_root=options.scratch,
        python_path=tuple(options.path),
        grace_s=options.grace,
        keep_scratch=options.keep_scratch,
    )
    campaign = Campaign(1, 1, "/try", options.handler, options.params, options.time_limit)
    task = Task(1, 1, 1, "try", 1, "", options.payload)
    runner = make_runner(0, settings)
    # in a thread, as in an agent: Ctrl-C must not strike in the midst of starting a process
    with ThreadPoolExecutor(1) as pool:
        attempt = pool.submit(runner.run, task, campaign)
        try:
            ended = attempt.result()
        except KeyboardInterrupt:
            while not attempt.done():
                runner.stop()
                wait([attempt], timeout=_STOP_AGAIN_S)
            raise
        finally:
            pool.submit(runner.close).result()
    sys.stdout.write(json.dumps(asdict(ended), indent=2) + "\n")
    return _exit_code(ended)


def _exit_code(ended: Ended) -> int:
    if ended.outcome == DONE:
        return os.EX_OK
    if ended.node_broken or ended.refused:
        return os.EX_UNAVAILABLE
    return os.EX_TEMPFAIL if ended.retry else os.EX_DATAERR
