"""PBS: qsub, qselect, qstat and qdel of OpenPBS and PBS Professional, as on any login node.

qstat is read as text: its JSON leaves jobs out in one release, and is invalid in others if a job's
environment contains a quote. qselect finds the jobs, since qstat alone would list all users' jobs.
"""

from __future__ import annotations

import math
import os
import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.drivers.folder import BatchDriver
from taskq.pilots.reconcile import EndReason, JobState, SeenJob
from taskq.pilots.script import job_script, shell_of
from taskq.pilots.settings import PilotSettings

_ID = re.compile(r"\d{1,18}(\[\])?\.[A-Za-z0-9._-]{1,250}")
_JOB = re.compile(r"^Job Id: (\S+)$", re.MULTILINE)
_ATTRIBUTE = re.compile(
    r"^    (Job_Name|job_state|substate|Exit_status|comment) = (.*)$", re.MULTILINE
)
_KNOWN: Final = {"Job_Name", "job_state"}
_STATES: Final = {
    "E": "EXITING", "F": "FINISHED", "H": "HELD", "M": "MOVED", "Q": "QUEUED", "R": "RUNNING",
    "S": "SUSPENDED", "T": "TRANSIT", "W": "WAITING",
}  # fmt: skip
_QUEUED: Final = "HQTW"
#: The substate of a job that somebody has deleted.
_TERMINATED: Final = "91"
#: Exit statuses by which PBS says why it has ended a job: walltime and CPU time; memory of each
#: kind; a node whose daemon was restarted, cannot be reached, or does not know the job any more.
_KILLED: Final[Mapping[str, EndReason]] = {
    **dict.fromkeys(("-29", "-28"), "time"),
    **dict.fromkeys(("-27", "-26", "-31"), "memory"),
    **dict.fromkeys(("-4", "-5", "-6", "-14", "-20", "-32"), "node"),
}
_MAX_CODE: Final = 255
#: Jobs of one qstat: about 3 kB each, far below the limit of a program's output.
_AT_ONCE: Final = 500
#: Seconds that an agent's tasks may go on after SIGTERM. After 10 s, by default, PBS kills the
#: agent.
_GRACE_S: Final = 2


class PBS(BatchDriver):
    """The PBS that this machine's commands talk to."""

    system: Final = "pbs"
    programs = ("qsub", "qselect", "qstat", "qdel")

    def __init__(self, settings: PilotSettings, environment: Mapping[str, str]) -> None:
        super().__init__(settings, environment)
        # The names of jobs seen so far, by number, so that other people's jobs are looked up only
        # once.
        self._names: dict[str, str] = {}

    def script(self, names: Sequence[str], path: str, program: Sequence[str]) -> str:
        """Return the script, which writes to the folder: PBS delivers output at the end only."""
        settings, day = self._settings, self._folder.day
        (name,) = names
        there = replace(settings, agent_options=(f"--grace={_GRACE_S}", *settings.agent_options))
        head = [f"#PBS {option}" for option in self._options(name)]
        begin = f"exec > {day}/{name}.out 2>&1\n"
        return job_script(
            there, path=path, names=names, program=program, head=head, day=day, begin=begin
        )

    def submit(self, names: Sequence[str], script: str, place: str | None) -> list[SeenJob]:
        """Submit a job; its script goes through standard input."""
        del names, place
        said = self._run("qsub", text=script)
        lines = said.split()  # a site's own messages may come before the number
        if not lines or not _ID.fullmatch(lines[-1]):
            raise BatchSystemError(f"qsub gave no number of a job: {said[:200]!r}")
        return [SeenJob(lines[-1], "queued")]

    def jobs(self, names: Sequence[str]) -> dict[str, SeenJob]:
        """Return what qstat says; it knows ended jobs only if the server keeps a history."""
        wanted = set(names)
        history = ["-x"]
        numbers = self._select(*history)
        if not numbers:  # which is not an error, if the server keeps no history
            history = []
            numbers = self._select()
        asked = [job for job in numbers if self._names.get(job) in {None, *wanted}]
        found: dict[str, dict[str, str]] = {}
        for n in range(0, len(asked), _AT_ONCE):
            found |= self._stat(asked[n : n + _AT_ONCE], *history)
        known = {**self._names, **{number: job["Job_Name"] for number, job in found.items()}}
        self._names = {number: known[number] for number in numbers if number in known}
        return {
            job["Job_Name"]: _seen(number, job)
            for number, job in found.items()
            if job["Job_Name"] in wanted
        }

    def cancel(self, jobs: Sequence[SeenJob]) -> None:
        """Delete jobs that still wait, many with one command."""
        asked = {job.native_id for job in jobs}
        waiting = [job for job in self._select("-s", _QUEUED) if job in asked]
        for n in range(0, len(waiting), _AT_ONCE):
            some = waiting[n : n + _AT_ONCE]
            try:
                self._run("qdel", *some)
            except BatchSystemError:  # also raised for a job that is over
                if not set(some).isdisjoint(self._select("-s", _QUEUED)):
                    raise

    def _select(self, *words: str) -> list[str]:
        """Return the numbers of this user's jobs."""
        try:
            user = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:  # such as while an LDAP is away
            why = f"the name of user id {os.getuid()}, which qselect needs, is not to be had now"
            raise BatchSystemError(why) from None
        said = self._run("qselect", "-u", user, *words)
        numbers = said.split()
        if not all(map(_ID.fullmatch, numbers)):
            raise BatchSystemError(f"qselect gave an answer that makes no sense: {said[:200]!r}")
        return numbers

    def _stat(self, numbers: Sequence[str], *history: str) -> dict[str, dict[str, str]]:
        """Return what is known of each of these jobs, by number, without those that just went."""
        try:
            return self._asked(numbers, *history)
        except BatchSystemError:
            listed = {*self._select(*history)}
            left = [number for number in numbers if number in listed]
            if len(left) == len(numbers):
                raise
            return self._stat(left, *history) if left else {}

    def _asked(self, numbers: Sequence[str], *history: str) -> dict[str, dict[str, str]]:
        # -E: without it, a job that has just gone hides those behind it.
        said = self._run("qstat", "-E", "-f", *history, *numbers)
        _, *parts = _JOB.split(said.replace("\n\t", ""))
        found = {
            # The first line of an attribute counts: others come from a job's environment.
            number: dict(reversed(_ATTRIBUTE.findall(lines)))
            for number, lines in zip(parts[::2], parts[1::2], strict=True)
        }
        for number in numbers:
            if not found.get(number, {}).keys() >= _KNOWN:
                raise BatchSystemError(f"qstat does not say how {number} is: {said[:200]!r}")
        return found

    def _options(self, name: str) -> list[str]:
        settings = self._settings
        chunk = [f"ncpus={settings.cores}"]
        for resource, value in (("mem", settings.memory), ("ngpus", settings.gpus)):
            if value is not None:
                chunk.append(f"{resource}={value}")
        chunk += [option for option in settings.all_options if not option.startswith("-")]
        options = [
            f"-N {name}",
            f"-l select=1:{':'.join(chunk)}",
            f"-l walltime={math.ceil(settings.time_limit)}",
            f"-S {shell_of(settings)}",
            "-o /dev/null",
            "-e /dev/null",
            "-r n",
            "-m n",
        ]
        for option, value in (("-q", settings.partition), ("-A", settings.account)):
            if value is not None:
                options.append(f"{option} {value}")
        return options + [option for option in settings.all_options if option.startswith("-")]


def _seen(number: str, job: Mapping[str, str]) -> SeenJob:
    letter = job["job_state"]
    state: JobState = "running"  # also if it is suspended or another server has it
    if letter in _QUEUED:
        state = "queued"
    elif letter == "F":
        state = "ended"
    code = job.get("Exit_status", "")  # of a killed job: its signal plus 256, or below 0
    return SeenJob(
        number,
        state,
        ": ".join(filter(None, (_STATES.get(letter, letter), job.get("comment")))),
        exit_code=int(code) if code.isdecimal() and int(code) <= _MAX_CODE else None,
        reason="cancelled" if job.get("substate") == _TERMINATED else _KILLED.get(code),
    )
