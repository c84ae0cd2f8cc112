"""Job scripts: what a batch system is given, complete, with every value quoted."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Final

from taskq.pilots.settings import PilotSettings

AGENT_FILE: Final = "taskq-agent.pyz"

_HEAD = """\
umask 077
cd {folder} || exit 73
# When the agent must have ended, for batch systems that do not say it.
TASKQ_END_TIME=${{SLURM_JOB_END_TIME:-$(($(date +%s) + {time_limit_s}))}}
export TASKQ_END_TIME
"""
# SIGTERM may come to this shell alone. A wait that it interrupts is no end of the agent.
_RUN = """\
{agent} &
agent=$!
trap 'kill -TERM "$agent"' TERM INT
while :; do
    wait "$agent"
    code=$?
    kill -0 "$agent" 2>/dev/null || break
done
echo "$code" > {name}.exit
exit "$code"
"""


def job_script(
    driver: str,
    settings: PilotSettings,
    *,
    path: str,
    name: str,
    program: Sequence[str],
    token_file: str | None = None,
) -> str:
    """Return the script of one job.

    path: the campaign to serve. name: the job's and the agent's. program: words that start `taskq`,
    for a direct agent. token_file: where the token is on the node; by default as the settings say.
    """
    token_file = token_file or settings.token_file
    argv = _agent(settings, path, name, program, token_file)
    minutes = math.ceil(settings.time_limit / 60)
    lines = ["#!/bin/sh"]
    if driver == "slurm":
        lines += [f"#SBATCH {option}" for option in _slurm_options(settings, name, minutes)]
    limit_s = minutes * 60 if driver == "slurm" else math.ceil(settings.time_limit)
    text = "\n".join(lines) + "\n"
    text += _HEAD.format(folder=shlex.quote(settings.folder), time_limit_s=limit_s)
    if settings.setup:
        text += settings.setup.rstrip("\n") + "\n"
    return text + _RUN.format(agent=" \\\n    ".join(map(shlex.join, argv)), name=name)


def _agent(
    settings: PilotSettings, path: str, name: str, program: Sequence[str], token_file: str | None
) -> list[list[str]]:
    """Return the command that starts the agent, grouped as it is shown.

    What taskq depends on comes last, so that it wins over further options.
    """
    further = [[option] for option in settings.agent_options]
    if settings.gateways:
        argv = [[settings.python, f"{settings.folder}/{AGENT_FILE}", "run"], *further]
        argv += [["--gateway", url] for url in settings.gateways]
        argv += [["--token-file", token_file or ""]]
        argv += [["--ca", settings.ca]] if settings.ca else []
        argv += [["--insecure-http"]] if settings.insecure_http else []
    else:
        argv = [[*program, "agent", "run"], *further]
    argv += [["--campaign", path], ["--name", name], ["--slots", str(settings.cores)]]
    argv += [["--idle-timeout", f"{settings.idle_timeout:g}"]]
    argv += [["--offer", tag] for tag in settings.offers]
    argv += [["--site", settings.site]] if settings.site else []
    return argv


def _slurm_options(settings: PilotSettings, name: str, minutes: int) -> list[str]:
    options = [
        f"--job-name={name}",
        f"--output={settings.folder}/{name}.out",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={settings.cores}",
        f"--time={minutes}",
        "--no-requeue",
    ]
    for option, value in (
        ("partition", settings.partition),
        ("account", settings.account),
        ("qos", settings.qos),
        ("mem", settings.memory),
        ("gpus", settings.gpus),
    ):
        if value is not None:
            options.append(f"--{option}={value}")
    return [*options, *settings.options]
