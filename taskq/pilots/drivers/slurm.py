"""Slurm: sbatch, squeue and scancel, as on any login node."""

from __future__ import annotations

import math
import os
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.drivers.folder import BatchDriver
from taskq.pilots.reconcile import EndReason, JobState, SeenJob
from taskq.pilots.script import job_script
from taskq.pilots.settings import PilotSettings

_NUMBER = re.compile(r"\d{1,18}")
_SUBMITTED = re.compile(r"(\d{1,18})(;[\w.-]+)?")
_LINE = re.compile(r"(\d{1,18})[^|]*\|([A-Z_]{2,30})\|([^|]*)\|(.*)")
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
#: The variables that a job's environment gets from the loop's, apart from those that taskq reads.
_PASSED: Final = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER")


class Slurm(BatchDriver):
    """The Slurm that this machine's commands talk to."""

    system: Final = "slurm"
    programs = ("sbatch", "squeue", "scancel")

    def __init__(self, settings: PilotSettings, environment: Mapping[str, str]) -> None:
        super().__init__(settings, environment)
        # Jobs inherit it. The agent's token is in a file; jobs must not get the loop's secrets.
        direct = ("TASKQ_",) if not settings.gateways else ()
        self._environment = {
            name: value
            for name, value in environment.items()
            if name in _PASSED or name.startswith(("SLURM_CONF", "MUNGE_", *direct))
        }

    def script(self, name: str, path: str, program: Sequence[str]) -> str:
        """Return the script; its time limit is rounded up to minutes, Slurm's unit."""
        minutes = math.ceil(self._settings.time_limit / 60)
        day = self._folder.day
        head = [f"#SBATCH {option}" for option in self._options(name, minutes, day)]
        settings = replace(self._settings, time_limit=minutes * 60)
        return job_script(settings, path=path, name=name, program=program, head=head, day=day)

    def submit(self, name: str, script: str, place: str | None) -> SeenJob:
        """Submit a job; its script goes through standard input."""
        del name, place
        said = self._run("sbatch", "--parsable", text=script)
        lines = said.split()  # a site's own messages may come before the number
        found = _SUBMITTED.fullmatch(lines[-1]) if lines else None
        if found is None:
            raise BatchSystemError(f"sbatch gave no number of a job: {said[:200]!r}")
        return SeenJob(found[1], "queued")

    def jobs(self, names: Sequence[str]) -> dict[str, SeenJob]:
        """Return what squeue says; it forgets jobs some minutes after their end."""
        wanted = set(names)
        seen: dict[str, SeenJob] = {}
        for line in self._lines(names):
            found = _LINE.fullmatch(line.strip())
            if found is None:
                raise BatchSystemError(f"squeue says what makes no sense: {line[:200]!r}")
            number, state, reason, name = found.groups()
            if name in wanted:
                seen[name] = _seen(number, state, reason)
        return seen

    def cancel(self, jobs: Sequence[SeenJob]) -> None:
        """Cancel jobs that still wait, many with one command."""
        numbers = [job.native_id for job in jobs if _NUMBER.fullmatch(job.native_id)]
        for n in range(0, len(numbers), _AT_ONCE):
            some = numbers[n : n + _AT_ONCE]
            try:
                self._run("scancel", "--state=PENDING", *some)
            except BatchSystemError:  # also raised for a job that is over
                waiting = self._squeue("--states=PENDING", "--format=%i").split()
                if not set(some).isdisjoint(waiting):
                    raise

    def _lines(self, names: Sequence[str]) -> Iterator[str]:
        """Yield a line for each job of these names; other jobs may have names with line ends."""
        for n in range(0, len(names), _AT_ONCE):
            asked = ",".join(names[n : n + _AT_ONCE])
            said = self._squeue("--states=all", f"--name={asked}", f"--format={_FORMAT}")
            yield from said.splitlines()

    def _squeue(self, *words: str) -> str:
        user = pwd.getpwuid(os.getuid()).pw_name
        return self._run("squeue", "--noheader", f"--user={user}", *words)

    def _options(self, name: str, minutes: int, day: str) -> list[str]:
        settings = self._settings
        options = [
            f"--job-name={name}",
            f"--output={settings.folder}/{day}/{name}.out",
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
        return [*options, *map(_quoted, settings.options)]


def _seen(number: str, state: str, reason: str) -> SeenJob:
    where: JobState = "running"
    if state in _QUEUED:
        where = "queued"
    elif state in _ENDED:
        where = "ended"
    plain = reason in {"", "None"} or state == "RUNNING"
    return SeenJob(
        number,
        where,
        state if plain else f"{state}, {reason}",
        reason=_REASONS.get(state) if where == "ended" else None,
    )


def _quoted(option: str) -> str:
    """Return an option in the form of a script's line."""
    name, _, value = option.partition("=")
    return f'{name}="{value}"' if " " in value else option
