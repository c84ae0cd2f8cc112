"""Job scripts: the complete text for a batch system, with every value quoted."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Final

from taskq.pilots.agent_file import AGENT_FILE
from taskq.pilots.settings import PilotSettings
from taskq_agent.named_resources import is_tag
from taskq_agent.resources import PROTOCOL_TAG

_HEAD = """\
#!{shell}
{head}umask 077
cd {folder} || exit 73
{begin}# When the agent must have ended, for batch systems that do not say it.
TASKQ_END_TIME=${{SLURM_JOB_END_TIME:-$(($(date +%s) + {time_limit_s}))}}
export TASKQ_END_TIME
"""
#: The shell of a job with a set-up: a login shell knows what a site offers, such as `module`.
LOGIN_SHELL: Final = "/bin/bash -l"
_SETUP = """\
# The job ends with the first command that fails, unless the set-up says `set +e`.
trap 'code=$?
echo "taskq: the set-up of the pilot has ended with code $code" >&2
echo "$code" > {stem}.exit' EXIT
set -e
{setup}
set +e
trap - EXIT
"""
# A signal may reach this shell alone. It interrupts the wait; the agents have not ended then.
_RUN = """\
# A job that is ended before its agent is known ends it as soon as it is.
agent= early=
trap 'if [ -n "$agent" ]; then {stop}; else early=yes; fi' TERM INT HUP QUIT USR1 USR2 XCPU ALRM
{agent} &
agent=$!
[ -z "$early" ] || {stop}
while :; do
    wait "$agent"
    code=$?
    kill -0 "$agent" 2>/dev/null || break
done
echo "$code" > {stem}.exit
exit "$code"
"""


def job_script(
    settings: PilotSettings,
    *,
    path: str,
    names: Sequence[str],
    program: Sequence[str],
    head: Sequence[str] = (),
    day: str = "",
    begin: str = "",
    index: str = "",
    launcher: Sequence[str] = (),
    stop: str = 'kill -TERM "$agent"',
) -> str:
    """Return the script of one job, or of several that are the elements of an array.

    settings: with folder, token_file and ca as they are where the job runs. path: the campaign to
    serve. names: of the jobs and their agents. program: words that start `taskq`, for a direct
    agent. head: first lines, for the batch system. day: the folder for the job's files, below its
    own. begin: lines of shell before the set-up. index: what the shell expands to the index of an
    element. launcher: words that start an agent on each node of the job; without them there is one,
    here. stop: passes SIGTERM on.
    """
    name = names[0] if len(names) == 1 else f'{shared_name(names[0])}_"{index}"'
    argv = [[*launcher]] if launcher else []
    argv += _agent(settings, path, program)
    stem = f"{day}/{name}" if day else name
    text = _HEAD.format(
        shell=shell_of(settings),
        head="".join(f"{line}\n" for line in head),
        folder=shlex.quote(settings.folder),
        begin=begin,
        time_limit_s=math.ceil(settings.time_limit),
    )
    if settings.setup:
        text += _SETUP.format(setup=settings.setup.rstrip("\n"), stem=stem)
    return text + _RUN.format(
        agent=" \\\n    ".join([*map(shlex.join, argv), f"--name {name}"]), stop=stop, stem=stem
    )


def shell_of(settings: PilotSettings) -> str:
    """Return the shell of a pilot's jobs, with its options."""
    return LOGIN_SHELL if settings.setup else "/bin/sh"


def shared_name(name: str) -> str:
    """Return the name that the batch system has for a job; elements of an array share it."""
    return name.partition("_")[0]


def _is_own(tag: str) -> bool:
    """Return whether an agent has a tag by itself, and takes it from nobody."""
    return tag == PROTOCOL_TAG or is_tag(tag)


def _agent(settings: PilotSettings, path: str, program: Sequence[str]) -> list[list[str]]:
    """Return the command that starts the agent, grouped for display.

    taskq's own options come last, so that they win over further options.
    """
    further = [[option] for option in settings.agent_options]
    if settings.gateways:
        argv = [[settings.python, f"{settings.folder}/{AGENT_FILE}", "run"], *further]
        argv += [["--gateway", url] for url in settings.gateways]
        argv += [["--token-file", settings.token_file or ""]]
        argv += [["--ca", settings.ca]] if settings.ca else []
        argv += [["--insecure-http"]] if settings.insecure_http else []
    else:
        argv = [[*program, "agent", "run"], *further]
    argv += [["--campaign", path], ["--slots", str(settings.slot_count)]]
    argv += [["--idle-timeout", f"{settings.idle_timeout:g}"]]
    argv += [["--offer", tag] for tag in settings.all_offers if not _is_own(tag)]
    argv += [["--resource", resource] for resource in settings.resources]
    argv += [["--site", settings.site]] if settings.site else []
    return argv
