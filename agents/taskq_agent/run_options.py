"""Options of `taskq-agent run`, and the part of them that `taskq agent run` has too.

Both commands have `OPTIONS`; argparse and Click build their options from it. `settings` turns the
values that either has parsed into the agent's settings.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from taskq_agent import arguments, resources
from taskq_agent.handlers import RunnerSettings
from taskq_agent.settings import AgentSettings
from taskq_agent.spool import PATIENCE_S, default_folder

_WORK = "the work"
_NODE = "the node"
_TIMES = "times"

#: Options that `taskq-agent try` has too.
OF_CONTAINERS = ("--container-runtime", "--bind", "--allow-bind", "--allow-env")

_METAVARS = {
    int: "N",
    arguments.count: "N",
    arguments.size: "SIZE",
    arguments.command: "COMMAND",
    arguments.existing_folder: "FOLDER",
    arguments.folder: "FOLDER",
    arguments.seconds: "TIME",
    arguments.seconds_above_0: "TIME",
    arguments.text: "TEXT",
}


@dataclass(frozen=True)
class Option:
    """An option of both commands.

    check: a function of `arguments`, or int; None: a switch. usual: the default to show to people,
    if the value does not say it. dest: the name of the parsed value, if it is not the flag's.
    placeholder: of the value in the help, if its kind does not say it.
    """

    group: str
    flag: str
    check: Optional[Callable[[str], Any]]
    text: str
    default: Any = None
    usual: str = ""
    repeated: bool = False
    dest: str = ""
    placeholder: str = ""

    @property
    def name(self) -> str:
        """The name of the parsed value."""
        return self.dest or self.flag[2:].replace("-", "_")

    @property
    def metavar(self) -> Optional[str]:
        """The placeholder for the value in the help."""
        return self.placeholder or _METAVARS.get(self.check)

    @property
    def help(self) -> str:
        """The help text, a part of a sentence."""
        usual = f"; default: {self.usual_text}" if self.usual_text else ""
        return f"{self.text}{'; may be repeated' * self.repeated}{usual}"

    @property
    def usual_text(self) -> str:
        """The default to show to people; "" if there is none."""
        return self.usual or ("" if self.default is None else f"{self.default}")


def _work(flag: str, check: Optional[Callable[[str], Any]], text: str, **more: Any) -> Option:
    return Option(_WORK, flag, check, text, **more)


def _node(flag: str, check: Optional[Callable[[str], Any]], text: str, **more: Any) -> Option:
    return Option(_NODE, flag, check, text, **more)


def _time(flag: str, default: float, text: str) -> Option:
    name = flag[2:].replace("-", "_") + "_s"
    return Option(_TIMES, flag, arguments.seconds, text, default, f"{default:g}s", dest=name)


OPTIONS = (
    _work("--slots", int, "tasks that run at the same time", default=AgentSettings.slots),
    _work(
        "--path",
        arguments.existing_folder,
        "search Python callables here first",
        repeated=True,
        dest="python_path",
    ),
    _work(
        "--offer",
        arguments.text,
        "what this machine has, for campaigns that require it: NAME or NAME=VALUE, such as "
        "gpu or mem=64",
        repeated=True,
        dest="offers",
        placeholder="TAG",
    ),
    _work(
        "--cores",
        arguments.count,
        "cores that it shares out among its slots",
        usual="those of its affinity and batch job",
    ),
    _work(
        "--memory",
        arguments.size,
        "memory that it shares out among its slots, such as 64G",
        usual="that of the machine, its cgroup and batch job",
    ),
    _work(
        "--resource",
        arguments.resource,
        "what this machine has of something that campaigns count, such as scratch=200GB or "
        "licence=2",
        repeated=True,
        dest="named_resources",
        placeholder="NAME=AMOUNT",
    ),
    _work("--until-empty", None, "leave when nothing is left to be done"),
    _work("--max-tasks", int, "leave after so many attempts that could be run"),
    _work(
        "--idle-timeout",
        arguments.seconds_above_0,
        "leave after so long without a task, such as 120s or 5m",
        dest="idle_timeout_s",
    ),
    _node(
        "--name",
        arguments.text,
        "name of this agent, for people",
        default=AgentSettings.name,
        placeholder="NAME",
    ),
    _node(
        "--host",
        arguments.text,
        "where it runs",
        usual="the name of this machine",
        placeholder="HOST",
    ),
    _node("--site", arguments.text, "the place it runs at, such as a cluster", placeholder="SITE"),
    _node(
        "--spool",
        arguments.folder,
        "keep reports here until they are delivered; agents of one queue may share it",
        usual="what is undelivered goes below $XDG_CACHE_HOME or ~/.cache",
        dest="spool_dir",
    ),
    _node(
        "--scratch",
        arguments.folder,
        "make the tasks' folders here",
        usual="the system's for temporary files",
        dest="scratch_root",
    ),
    _node("--keep-scratch", None, "leave the tasks' folders, to look at them"),
    _node(
        "--cache",
        arguments.folder,
        "keep inputs of campaigns here, for all agents of this machine",
        usual="taskq-inputs-UID in $XDG_CACHE_HOME or among temporary files",
        dest="cache_dir",
    ),
    _node(
        "--cache-size",
        arguments.size,
        "above this size, remove inputs there that no task uses, oldest first",
        default=RunnerSettings.cache_bytes,
        usual="20G",
        dest="cache_bytes",
    ),
    _node(
        "--container-runtime",
        arguments.text,
        "run containers with this program",
        usual="the first found of podman, docker, apptainer, singularity",
    ),
    _node(
        "--bind",
        arguments.bind,
        "what all containers see of this machine, HOST[:INSIDE][:rw], such as /cvmfs, read-only "
        "without rw; :optional leaves it out where it is absent",
        repeated=True,
        dest="binds",
        placeholder="BIND",
    ),
    _node(
        "--allow-bind",
        arguments.bind_allowed,
        "let campaigns bind this path, or one below it, PATH[:rw]",
        repeated=True,
        dest="allow_binds",
        placeholder="PATH",
    ),
    _node(
        "--allow-env",
        arguments.variable,
        "let campaigns have this variable of the agent's environment, such as OE_LICENSE",
        repeated=True,
        placeholder="NAME",
    ),
    _node(
        "--mps",
        None,
        "start NVIDIA's Multi-Process Service for its devices, and stop it at the end: programs "
        "work on a device at the same time",
    ),
    _node(
        "--self-test",
        arguments.command,
        "run this first, without a shell; unless it exits with 0, nothing is claimed",
    ),
    Option(
        _TIMES,
        "--time-limit",
        arguments.seconds_above_0,
        "time limit of the batch job, if the batch system does not give it: the agent takes no "
        "task that cannot end in time",
        dest="max_seconds",
    ),
    _time(
        "--grace",
        AgentSettings.grace_s,
        "after SIGTERM: how long running tasks may go on before they are stopped",
    ),
    _time("--stop", AgentSettings.stop_s, "how long a task may take to stop"),
    _time(
        "--payload-grace",
        RunnerSettings.grace_s,
        "part of --stop: between SIGTERM and SIGKILL for the task's processes",
    ),
    _time("--farewell", AgentSettings.farewell_s, "how long to try to deliver the last reports"),
    _time(
        "--campaign-backoff",
        AgentSettings.campaign_backoff_s,
        "how long to leave out a campaign that cannot run here, at first",
    ),
    _time(
        "--ahead",
        AgentSettings.ahead_s,
        "how much work to claim ahead of free slots while tasks are short; 0: none",
    ),
    _time(
        "--watchdog",
        AgentSettings.watchdog_s,
        "leave with an error if a part of the agent hangs for so long",
    ),
)


def settings(parsed: Mapping[str, Any], **further: Any) -> Tuple[AgentSettings, RunnerSettings]:
    """Return the settings of parsed options; ValueError if they contradict each other.

    further: fields of `AgentSettings` without an option, or with a further check.
    """
    values = {**parsed, **further}
    names = [field.name for field in fields(AgentSettings)]
    agent = AgentSettings(**{name: values[name] for name in names if values.get(name) is not None})
    node = resources.found(os.environ, parsed["cores"], parsed["memory"], parsed["named_resources"])
    agent = replace(agent, offers=resources.offers(node, agent.slots, agent.offers))
    runner = RunnerSettings(
        scratch_root=parsed["scratch_root"],
        python_path=tuple(map(str, parsed["python_path"])),
        grace_s=parsed["payload_grace_s"],
        keep_scratch=parsed["keep_scratch"],
        cache_dir=parsed["cache_dir"],
        cache_bytes=parsed["cache_bytes"],
        spool_dir=agent.spool_dir,
        **container_settings(parsed),
        slots=agent.slots,
        node=node,
        mps=parsed["mps"],
    )
    if runner.grace_s >= agent.stop_s:
        raise ValueError("--stop must be longer than --payload-grace, which is a part of it")
    return agent, runner


def with_spool(
    agent: AgentSettings, runner: RunnerSettings, *queue: str
) -> Tuple[AgentSettings, RunnerSettings]:
    """Give an agent that names no spool the one of its user for a queue known by these words."""
    if agent.spool_dir is not None:
        return agent, runner
    folder = default_folder(*queue)
    agent = replace(agent, spool_dir=folder, spool_patience_s=PATIENCE_S)
    return agent, replace(runner, spool_dir=folder)


def container_settings(parsed: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the fields of `RunnerSettings` about what payloads have of the machine."""
    several = {name: tuple(parsed[name]) for name in ("binds", "allow_binds", "allow_env")}
    return {"container_runtime": parsed["container_runtime"], **several}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of `taskq-agent run`."""
    _add_queue(parser.add_argument_group("the queue"))
    groups = {title: parser.add_argument_group(title) for title in (_WORK, _NODE, _TIMES)}
    groups[_WORK].add_argument(
        "--campaign",
        default="/",
        type=arguments.campaign,
        metavar="PATH",
        help="serve this one with all below it; default: all that the token is for",
    )
    groups[_TIMES].add_argument(
        "--spread",
        dest="spread_s",
        type=arguments.seconds,
        default=0.0,
        metavar="TIME",
        help="begin at random within this time, so that many do not begin at once; default: 0s",
    )
    for option in OPTIONS:
        add_option(groups[option.group], option)
    logs = parser.add_mutually_exclusive_group()
    logs.add_argument("-v", "--verbose", action="store_true", help="log every detail")
    logs.add_argument("-q", "--quiet", action="store_true", help="log warnings and errors only")


def add_option(group: argparse._ActionsContainer, option: Option) -> None:
    """Add an option to a parser or a group of it."""
    if option.check is None:
        group.add_argument(option.flag, dest=option.name, action="store_true", help=option.help)
        return
    group.add_argument(
        option.flag,
        dest=option.name,
        type=option.check,
        metavar=option.metavar,
        help=option.help,
        action="append" if option.repeated else "store",
        default=[] if option.repeated else option.default,
    )


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
    add("--token-file", type=Path, metavar="FILE", help="holds the token of the site")
    add("--ca", type=Path, metavar="FILE", help="trust these authorities, not the system's")
    add("--tls-cert", type=Path, metavar="FILE", help="certificate to present")
    add("--tls-key", type=Path, metavar="FILE", help="its key, if it is in a file of its own")
    add(
        "--insecure-http",
        action="store_true",
        help="allow http:// to other machines: everybody on the way can read the token",
    )
