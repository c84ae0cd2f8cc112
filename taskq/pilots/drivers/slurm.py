"""Slurm: sbatch, squeue, scontrol and scancel, as on any login node."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.drivers.folder import BatchDriver
from taskq.pilots.reconcile import EndReason, JobState, SeenJob
from taskq.pilots.script import job_script, shared_name
from taskq.pilots.settings import PilotSettings

#: The numbers of a job, and of an element of an array.
_NUMBER = re.compile(r"\d{1,18}(_\d{1,9})?")
_SUBMITTED = re.compile(r"(\d{1,18})(;[\w.-]+)?")
_LINE = re.compile(r"(\d{1,18})(_\d{1,9})?[^|]*\|([A-Z_]{2,30})\|([^|]*)\|(.*)")
_FORMAT: Final = "%i|%T|%r|%j"
#: Names in one squeue, numbers in one scancel: as many as a command line can hold.
_AT_ONCE: Final = 500

#: squeue's words for jobs that wait and for jobs that are over. Any other word, also of a later
#: release, is of a job that has begun: it counts against `max_jobs`.
_QUEUED: Final = {
    "CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD",
    "SPECIAL_EXIT",
}  # fmt: skip
_ENDED: Final = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
}  # fmt: skip
_REASONS: Final[Mapping[str, EndReason]] = {
    "BOOT_FAIL": "node",
    "CANCELLED": "cancelled",
    "DEADLINE": "time",
    "NODE_FAIL": "node",
    "OUT_OF_MEMORY": "memory",
    "PREEMPTED": "preempted",
    "REVOKED": "cancelled",
    "TIMEOUT": "time",
}
#: Agents get what `setup` exports, even if the job itself gets nothing (sbatch --export=NONE).
#: One that fails, leaves, or is lost with its node is no reason to kill the others.
_STEP: Final = ("--export=ALL", "--label", "--kill-on-bad-exit=0", "--no-kill", "--wait=0")
#: SIGTERM for all agents of a job; srun itself would take it for an order to kill them.
_STOP_STEPS: Final = 'scancel --signal=TERM "$SLURM_JOB_ID"'
#: The variables that a job's environment gets from the loop's, apart from those that taskq reads.
_PASSED: Final = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER")


class Slurm(BatchDriver):
    """The Slurm that this machine's commands talk to."""

    system: Final = "slurm"
    programs = ("sbatch", "squeue", "scancel", "scontrol")

    def __init__(self, settings: PilotSettings, environment: Mapping[str, str]) -> None:
        super().__init__(settings, environment)
        # Jobs inherit it. The agent's token is in a file; jobs must not get the loop's secrets.
        direct = ("TASKQ_",) if not settings.gateways else ()
        self._environment = {
            name: value
            for name, value in environment.items()
            if name in _PASSED or name.startswith(("SLURM_CONF", "MUNGE_", *direct))
        }

    def script(self, names: Sequence[str], path: str, program: Sequence[str]) -> str:
        """Return the script; its time limit is rounded up to minutes, Slurm's unit."""
        minutes = math.ceil(self._settings.time_limit / 60)
        day = self._folder.day
        head = [f"#SBATCH {option}" for option in self._options(names, minutes, day)]
        settings = replace(self._settings, time_limit=minutes * 60)
        many: dict[str, Any] = {}
        if settings.nodes > 1:
            each = ("--ntasks-per-node=1", f"--cpus-per-task={settings.cores}")
            many = {"launcher": ("srun", *each, *_STEP), "stop": _STOP_STEPS}
        return job_script(
            settings,
            path=path,
            names=names,
            program=program,
            head=head,
            day=day,
            index="$SLURM_ARRAY_TASK_ID",
            **many,
        )

    def submit(self, names: Sequence[str], script: str, place: str | None) -> list[SeenJob]:
        """Submit a job, or several as an array; the script goes through standard input."""
        del place
        said = self._run("sbatch", "--parsable", text=script)
        lines = said.split()  # a site's own messages may come before the number
        found = _SUBMITTED.fullmatch(lines[-1]) if lines else None
        if found is None:
            raise BatchSystemError(f"sbatch gave no number of a job: {said[:200]!r}")
        return [SeenJob(f"{found[1]}{_index(name)}", "queued") for name in names]

    def jobs(self, names: Sequence[str]) -> dict[str, SeenJob]:
        """Return what squeue says; it forgets jobs some minutes after their end."""
        found: dict[str, tuple[str, str, str]] = {}
        for line in self._lines(names):
            read = _LINE.fullmatch(line.strip())
            if read is None:
                raise BatchSystemError(f"squeue gave an answer that makes no sense: {line[:200]!r}")
            number, index, state, reason, name = read.groups()
            found[f"{name}{index or ''}"] = number, state, reason
        # Elements that are cancelled before they begin have one line together.
        lines = {name: found.get(name) or found.get(shared_name(name)) for name in names}
        return {name: _seen(name, *line) for name, line in lines.items() if line is not None}

    def cancel(self, jobs: Sequence[SeenJob]) -> None:
        """Cancel jobs that still wait, many with one command."""
        numbers = [job.native_id for job in jobs if _NUMBER.fullmatch(job.native_id)]
        for n in range(0, len(numbers), _AT_ONCE):
            some = numbers[n : n + _AT_ONCE]
            elements = ",".join(number for number in some if "_" in number)
            if elements:
                # Elements that wait are one record, all of which scancel with a state would end.
                # An update splits those that it names off; this one changes nothing in them.
                with suppress(BatchSystemError):  # also raised for a job that is over
                    self._run("scontrol", "update", f"jobid={elements}", "requeue=0")
            try:
                self._run("scancel", "--state=PENDING", *some)
            except BatchSystemError:  # also raised for a job that is over
                waiting = self._squeue("--states=PENDING", "--format=%i").split()
                if not set(some).isdisjoint(waiting):
                    raise

    def _lines(self, names: Sequence[str]) -> Iterator[str]:
        """Yield a line for each job of these names; other jobs may have names with line ends."""
        shared = sorted({*map(shared_name, names)})
        for n in range(0, len(shared), _AT_ONCE):
            asked = ",".join(shared[n : n + _AT_ONCE])
            said = self._squeue("--states=all", f"--name={asked}", f"--format={_FORMAT}")
            yield from said.splitlines()

    def _squeue(self, *words: str) -> str:
        # By number: the user's name may be out of reach for a while, such as that of an LDAP.
        return self._run("squeue", "--noheader", "--array", f"--user={os.getuid()}", *words)

    def _options(self, names: Sequence[str], minutes: int, day: str) -> list[str]:
        settings, name = self._settings, shared_name(names[0])
        array = len(names) > 1
        options = [
            f"--job-name={name}",
            *([f"--array=0-{len(names) - 1}"] if array else []),
            f"--output={settings.folder}/{day}/{name}{'_%a' if array else ''}.out",
            f"--nodes={settings.nodes}",
            f"--ntasks={settings.nodes}",
            f"--cpus-per-task={settings.cores}",
            f"--time={minutes}",
            "--no-requeue",
            *(["--no-kill"] if settings.nodes > 1 else []),
        ]
        for option, value in (
            ("partition", settings.partition),
            ("account", settings.account),
            ("qos", settings.qos),
            ("mem", settings.memory),
            ("gpus-per-node", settings.gpus),
        ):
            if value is not None:
                options.append(f"--{option}={value}")
        return [*options, *map(_quoted, settings.all_options)]


def _index(name: str) -> str:
    """Return the end of a name and of a number that tells an element of an array: `_0`."""
    return name[len(shared_name(name)) :]


def _seen(name: str, number: str, state: str, reason: str) -> SeenJob:
    where: JobState = "running"
    if state in _QUEUED:
        where = "queued"
    elif state in _ENDED:
        where = "ended"
    plain = reason in {"", "None"} or state == "RUNNING"
    return SeenJob(
        f"{number}{_index(name)}",
        where,
        state if plain else f"{state}, {reason}",
        reason=_REASONS.get(state) if where == "ended" else None,
    )


def _quoted(option: str) -> str:
    """Return an option in the form of a script's line."""
    name, _, value = option.partition("=")
    return f'{name}="{value}"' if " " in value else option
