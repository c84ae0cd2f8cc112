"""Options of `taskq-agent run`; `taskq agent run` has those that make sense there."""

from __future__ import annotations

import argparse
from pathlib import Path

from taskq_agent import arguments
from taskq_agent.handlers import RunnerSettings
from taskq_agent.settings import AgentSettings


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    _add_queue(parser.add_argument_group("the queue"))
    _add_work(parser.add_argument_group("the work"))
    _add_node(parser.add_argument_group("the node"))
    _add_times(parser.add_argument_group("times, in seconds"))
    logs = parser.add_mutually_exclusive_group()
    logs.add_argument("-v", "--verbose", action="store_true", help="log every detail")
    logs.add_argument("-q", "--quiet", action="store_true", help="log warnings and errors only")


def _add_queue(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--gateway",
        dest="gateways",
        action="append",
        required=True,
        type=arguments.gateway,
        metavar="URL",
        help="may be repeated: when one fails, another is asked",
    )
    add("--token-file", type=Path, metavar="FILE", help="holds the enrolment token of the site")
    add("--ca", type=Path, metavar="FILE", help="trust these authorities, not the system's")
    add("--cert", type=Path, metavar="FILE", help="certificate to present")
    add("--key", type=Path, metavar="FILE", help="its key, if that is not in the same file")
    add(
        "--insecure-http",
        action="store_true",
        help="allow http:// beyond this machine: everybody on the way can read the token",
    )


def _add_work(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--campaign",
        default="/",
        type=arguments.campaign,
        metavar="PATH",
        help="serve this one with all below it; default: all that the token is for",
    )
    add("--slots", type=int, metavar="N", help="tasks that run at the same time; default: 1")
    add(
        "--path",
        action="append",
        default=[],
        type=arguments.existing_folder,
        metavar="FOLDER",
        help="search Python callables here first; may be repeated",
    )
    add(
        "--offer",
        dest="offers",
        action="append",
        default=[],
        type=arguments.text,
        metavar="TAG",
        help="what this machine has: NAME or NAME=VALUE, as gpu or mem=64; may be repeated",
    )
    add("--until-empty", action="store_true", help="leave when nothing is left to be done")
    add("--max-tasks", type=int, metavar="N", help="leave after so many attempts")


def _add_node(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--name",
        type=arguments.text,
        help=f"what people call this agent; default: {AgentSettings.name}",
    )
    add("--host", type=arguments.text, help="default: the name of this machine")
    add("--site", type=arguments.text, help="the place it runs at, as a cluster")
    add(
        "--spool",
        dest="spool_dir",
        type=arguments.folder,
        metavar="FOLDER",
        help="keep reports here until they are delivered; agents of one queue may share it",
    )
    add("--scratch", type=arguments.folder, metavar="FOLDER", help="make the tasks' folders here")
    add("--keep-scratch", action="store_true", help="leave the tasks' folders, to look at them")
    add(
        "--cache",
        type=arguments.folder,
        metavar="FOLDER",
        help="keep inputs of campaigns here; agents of a node share it; default: "
        "taskq-inputs-UID in the user's cache or the folder for temporary files",
    )
    cache_gb = RunnerSettings.cache_bytes / 1e9
    add(
        "--cache-gb",
        type=arguments.amount,
        default=cache_gb,
        metavar="N",
        help=f"remove the inputs used longest ago when they take up more; default: {cache_gb:g}",
    )
    add(
        "--self-test",
        default=[],
        type=arguments.command,
        metavar="COMMAND",
        help="run this first, without a shell; unless it exits with 0, nothing is claimed",
    )


def _add_times(group: argparse._ArgumentGroup) -> None:
    def add(flag: str, default: float, text: str) -> None:
        group.add_argument(
            flag,
            dest=flag[2:].replace("-", "_") + "_s",
            type=arguments.amount,
            default=default,
            metavar="S",
            help=f"{text}; default: {default:g}",
        )

    group.add_argument(
        "--max-seconds",
        type=arguments.seconds,
        metavar="S",
        help="time limit of the batch job: no task is taken that cannot end in time",
    )
    add("--spread", 0.0, "begin at random within this time, so that many do not begin at once")
    add("--grace", AgentSettings.grace_s, "after SIGTERM: how long running tasks may go on")
    add("--stop", AgentSettings.stop_s, "how long a task that was told to stop may take")
    add("--payload-grace", RunnerSettings.grace_s, "of this: between SIGTERM and SIGKILL")
    add("--farewell", AgentSettings.farewell_s, "how long to try to deliver the last reports")
    add(
        "--campaign-backoff",
        AgentSettings.campaign_backoff_s,
        "how long to leave out a campaign that cannot be run here, at first",
    )
    add("--ahead", AgentSettings.ahead_s, "how much work to claim ahead while tasks are short")
    add("--watchdog", AgentSettings.watchdog_s, "leave when a part of the agent hangs so long")
