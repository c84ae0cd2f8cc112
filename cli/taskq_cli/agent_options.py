"""Options of `taskq agent run`, which fill all fields of `AgentSettings` and `RunnerSettings`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from taskq.direct import LEASE_S
from taskq.errors import UsageError
from taskq.spec.tags import check_offers
from taskq.version import VERSION
from taskq_agent.handlers import RunnerSettings
from taskq_agent.settings import AgentSettings
from taskq_cli.shared import campaign_path, complete_path, seconds

Command = TypeVar("Command", bound=Callable[..., Any])


def agent_options(command: Command) -> Command:
    """Add the options; the command gets `agent` and `runner`, the settings, and `lease_s`."""

    @functools.wraps(command)
    def collected(*args: Any, **kwargs: Any) -> Any:
        values = {field.name: kwargs.pop(field.name, None) for field in fields(AgentSettings)}
        runner = RunnerSettings(
            scratch_root=kwargs.pop("scratch_root"),
            python_path=kwargs.pop("python_path"),
            grace_s=kwargs.pop("payload_grace_s"),
            keep_scratch=kwargs.pop("keep_scratch"),
            cache_dir=kwargs.pop("cache_dir"),
            cache_bytes=round(kwargs.pop("cache_gb") * 1e9),
        )
        values["release"] = VERSION
        values["offers"] = check_offers(values["offers"])
        try:
            agent = AgentSettings(**{name: it for name, it in values.items() if it is not None})
        except ValueError as error:
            raise UsageError(str(error)) from None
        if runner.grace_s >= agent.stop_s:
            raise UsageError("--stop must be longer than --payload-grace, which is a part of it")
        return command(*args, agent=agent, runner=runner, **kwargs)

    decorated: Any = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]  # the same callable, with other arguments


def _seconds(flag: str, name: str, default: float | None, text: str) -> Callable[..., Any]:
    return click.option(
        flag,
        name,
        type=seconds(),
        default=default,
        show_default=default is not None,
        metavar="SECONDS",
        help=text,
    )


_FOLDER: Final = click.Path(file_okay=False, resolve_path=True, path_type=Path)

_OPTIONS: Final = (
    click.option(
        "--campaign",
        type=campaign_path,
        shell_complete=complete_path,
        required=True,
        metavar="PATH",
        help="Campaign to serve, with all below it.",
    ),
    click.option(
        "--slots",
        type=int,
        default=AgentSettings.slots,
        show_default=True,
        metavar="N",
        help="Tasks that run at the same time.",
    ),
    click.option(
        "--path",
        "python_path",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, resolve_path=True),
        metavar="FOLDER",
        help="Search Python callables here first. May be repeated.",
    ),
    click.option("--until-empty", is_flag=True, help="Leave when nothing is left to be done."),
    click.option("--max-tasks", type=int, metavar="N", help="Leave after so many attempts."),
    click.option(
        "--offer",
        "offers",
        multiple=True,
        metavar="TAG",
        help="What this machine has, for campaigns that require it: NAME or NAME=VALUE, as gpu or "
        "mem=64. May be repeated.",
    ),
    _seconds(
        "--max-seconds",
        "max_seconds",
        None,
        "Time limit of the batch job: the agent claims no task that cannot end in time.",
    ),
    click.option(
        "--name",
        default=AgentSettings.name,
        show_default=True,
        help="What people call this agent.",
    ),
    click.option("--host", help="Default: the name of this machine."),
    click.option("--site", default=AgentSettings.site, help="The place it runs at, as a cluster."),
    click.option(
        "--spool",
        "spool_dir",
        type=_FOLDER,
        metavar="FOLDER",
        help="Keep reports here until they are delivered; agents of one queue may share it.",
    ),
    click.option(
        "--scratch",
        "scratch_root",
        type=_FOLDER,
        metavar="FOLDER",
        help="Make the tasks' folders here. [default: the system's for temporary files]",
    ),
    click.option("--keep-scratch", is_flag=True, help="Leave the tasks' folders, to look at them."),
    click.option(
        "--cache",
        "cache_dir",
        type=_FOLDER,
        metavar="FOLDER",
        help="Keep the inputs of campaigns here, for all agents of this machine. "
        "[default: taskq-inputs-UID in $XDG_CACHE_HOME or among temporary files]",
    ),
    click.option(
        "--cache-gb",
        type=click.FloatRange(min=0),
        default=RunnerSettings.cache_bytes / 1e9,
        show_default=True,
        metavar="GB",
        help="Above this size, remove inputs there that no task uses, oldest first.",
    ),
    _seconds(
        "--grace",
        "grace_s",
        AgentSettings.grace_s,
        "After SIGTERM: how long running tasks may continue before they are stopped.",
    ),
    _seconds(
        "--stop",
        "stop_s",
        AgentSettings.stop_s,
        "How long a task may take to stop after it was ordered to.",
    ),
    _seconds(
        "--payload-grace",
        "payload_grace_s",
        RunnerSettings.grace_s,
        "Part of --stop: time between SIGTERM and SIGKILL for the task's processes.",
    ),
    _seconds(
        "--farewell",
        "farewell_s",
        AgentSettings.farewell_s,
        "How long to try to deliver the last reports.",
    ),
    _seconds(
        "--campaign-backoff",
        "campaign_backoff_s",
        AgentSettings.campaign_backoff_s,
        "First delay before a campaign that cannot be run here is tried again.",
    ),
    _seconds(
        "--ahead",
        "ahead_s",
        AgentSettings.ahead_s,
        "How much work to claim ahead of free slots while tasks are short. 0: none.",
    ),
    _seconds(
        "--watchdog",
        "watchdog_s",
        AgentSettings.watchdog_s,
        "Exit with an error when a part of the agent hangs for this long.",
    ),
    click.option(
        "--lease",
        "lease_s",
        type=seconds(1, 86_400),
        default=LEASE_S,
        show_default=True,
        metavar="SECONDS",
        help="Time without a heartbeat after which its tasks are handed to other agents.",
    ),
)
