"""Options of `taskq pilots add`: those of all drivers, and how they become settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from taskq.model.errors import NotFound, UsageError
from taskq.pilots.settings import PilotSettings
from taskq_cli.options.shared import together


def _option(flag: str, text: str, metavar: str = "TEXT", **more: Any) -> Callable[..., Any]:
    return click.option(flag, help=text, metavar=metavar, **more)


def _number(flag: str, text: str, default: int) -> Callable[..., Any]:
    return _option(f"--{flag}", f"{text} [default: {default}]", "N", type=click.IntRange(min=1))


def _several(flag: str, name: str, text: str, metavar: str) -> Callable[..., Any]:
    return click.option(flag, name, multiple=True, metavar=metavar, help=f"{text} May be repeated.")


#: The names of the parsed values are those of `PilotSettings`, but for the files `setup` and `pod`.
pilot_options: Final = together(
    _number("cores", "Cores of a job.", PilotSettings.cores),
    _option(
        "--slots",
        "Slots of its agent, which share the job's cores, memory and GPUs. [default: one a core]",
        "N",
        type=click.IntRange(min=1),
    ),
    _option("--time-limit", "Time limit of a job, such as 12h. [default: 1h]", "TIME"),
    _number("max-jobs", "Most jobs, queued and running together.", PilotSettings.max_jobs),
    _number("backlog", "Most jobs that wait in the batch queue.", PilotSettings.backlog),
    _option("--least-work", "Work for each slot that justifies another job. [default: 5m]", "TIME"),
    _option(
        "--idle-timeout", "An agent without tasks leaves after this time. [default: 2m]", "TIME"
    ),
    _several("--offer", "offers", "Tag that the agents offer, such as gpu=a100.", "TAG"),
    _option("--site", "Site of the agents. [default: their token's name]"),
    _several(
        "--gateway",
        "gateways",
        "Gateway of the agents. [default: none; they connect to the loop's database]",
        "URL",
    ),
    _option("--token-file", "File with the site's token for the gateway; mode 0600.", "FILE"),
    _option("--ca", "Certificates to trust instead of the system's.", "FILE"),
    click.option("--insecure-http", is_flag=True, help="Allow http:// gateways on other machines."),
    _option(
        "--folder",
        "Where jobs write; the nodes must see it. [default: ~/taskq-pilots/NAME]",
        "FOLDER",
    ),
    click.option(
        "--interpreter",
        "python",
        metavar="PROGRAM",
        help="Python of the nodes, with --gateway. [default: python3]",
    ),
    click.option(
        "--setup",
        type=click.File(),
        metavar="FILE",
        help="Lines of shell that a job runs before its agent, such as `module load python`.",
    ),
    _several("--agent-option", "agent_options", "Further option of the agent.", "--NAME=VALUE"),
    _option("--partition", "Slurm: the partition; PBS: the queue."),
    _option("--account", "Slurm, PBS: the account; HTCondor: the accounting group."),
    _option("--qos", "Slurm: the quality of service."),
    _option("--memory", "Memory of a job, as the batch system spells it: 64G, 64Gi."),
    _option("--gpus", "GPUs of a job: 2, of Slurm also a100:2, of Kubernetes amd.com/gpu:2."),
    _several(
        "--option",
        "options",
        "Slurm: further option of sbatch; PBS: of qsub, such as `-P wisdom`, or resource of a "
        "chunk, such as model=bro; HTCondor: line of the submit description, NAME = VALUE.",
        "--NAME=VALUE",
    ),
    _option("--image", "Kubernetes: image of the container, with Python or that of --interpreter."),
    _option("--namespace", "Kubernetes: where the jobs are. [default: kubectl's]", "NAME"),
    _option(
        "--context", "Kubernetes: the cluster, as kubectl knows it. [default: its own]", "NAME"
    ),
    click.option(
        "--pod",
        type=click.File(),
        metavar="FILE",
        help="Kubernetes: further fields of the pod, as JSON: nodeSelector, tolerations, volumes.",
    ),
    _several("--host", "hosts", "ssh: a host, such as me@node7.", "HOST"),
    _number("jobs-per-host", "ssh: most jobs on each host.", PilotSettings.jobs_per_host),
)


def default_folder() -> Path:
    """Return the folder under which each pilot has its own."""
    try:
        return Path.home() / "taskq-pilots"
    except RuntimeError:
        raise UsageError("there is no home folder: give --folder") from None


def as_table(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, with the keys of a pilot file."""
    table = {key: value for key, value in options.items() if value not in (None, (), False)}
    for key in ("setup", "pod"):
        if key in table:
            table[key] = table[key].read()
    for key in ("token_file", "ca"):
        if key in table:
            file = Path(table[key]).absolute()
            if not file.is_file():
                raise NotFound(f"{file}: no such file")
            table[key] = str(file)
    table["folder"] = str(Path(table.get("folder") or default_folder() / name).absolute())
    return table
