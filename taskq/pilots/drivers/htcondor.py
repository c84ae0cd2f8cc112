"""HTCondor: condor_submit, condor_q and condor_rm, as on any access point.

The lines of the submit description are in the job script, each behind `#HTCONDOR`. HTCondor
transfers the agent and the token, the token encrypted, so that nodes need not see the folder.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from taskq.pilots.agent_file import AGENT_FILE
from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.drivers.folder import BatchDriver
from taskq.pilots.reconcile import EndReason, JobState, SeenJob
from taskq.pilots.script import job_script, shared_name

_MARK: Final = "#HTCONDOR "
_SUBMITTED = re.compile(r"(\d{1,18})\.0 - \1\.(\d{1,9})")
#: The number of a job: its cluster and, if it has several jobs, its place in it.
_NUMBER = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?")
#: The job attribute that holds the job's name.
_NAME: Final = "TaskqJob"
_ATTRIBUTES: Final = (
    _NAME, "ClusterId", "ProcId", "JobStatus", "LastJobStatus", "HoldReason", "HoldReasonCode",
    "HoldReasonSubCode", "LastHoldReason", "LastHoldReasonCode", "LastHoldReasonSubCode",
    "VacateReasonCode", "VacateReasonSubCode", "RemoveReason", "ExitCode",
)  # fmt: skip
_IDLE, _RUNNING, _REMOVED, _COMPLETED, _HELD = 1, 2, 3, 4, 5
_STATES: Final = {_IDLE: "IDLE", _RUNNING: "RUNNING", _REMOVED: "REMOVED", _COMPLETED: "COMPLETED"}
_BY_RULE: Final = "The job attribute PeriodicRemove"
#: Codes of holds and of evictions: JobOutOfResources, which is memory unless its subcode is that of
#: disk; policies of the job, the machine and the pool, which say by a subcode or in words what they
#: are about; durations that the pool allows; ReconnectFailed and StartdException.
_OUT_OF_RESOURCES, _POLICIES, _TOO_LONG, _NODE_LOST = 34, {3, 21, 26}, {46, 47}, {1008, 1012}
_MEMORY, _DISK = 102, 104
#: Seconds for which the queue keeps jobs that have ended: longer than a loop is away.
_KNOWN_S: Final = 3_600
#: Seconds that a job may run beyond its end, which its agent knows.
_GRACE_S: Final = 60


class HTCondor(BatchDriver):
    """The HTCondor that this machine's commands talk to."""

    system: Final = "htcondor"
    programs = ("condor_submit", "condor_q", "condor_rm")

    def script(self, names: Sequence[str], path: str, program: Sequence[str]) -> str:
        """Return the script, which runs in the folder that HTCondor makes for the job."""
        settings = self._settings
        head = [f"{_MARK}{line}" for line in (*settings.all_options, *self._description(names))]
        there = replace(
            settings,
            folder=".",
            token_file=f"./{Path(settings.token_file or '').name}",
            ca=settings.ca and f"./{Path(settings.ca).name}",
        )
        # A job has no PATH here, and Python needs one to find itself.
        head += ["exec 2>&1", "export PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}"]
        return job_script(there, path=path, names=names, program=program, head=head, index="$1")

    def submit(self, names: Sequence[str], script: str, place: str | None) -> list[SeenJob]:
        """Store the jobs' script in the folder, and submit its description through a pipe."""
        del place
        self._folder.store_script(shared_name(names[0]), script)
        marked = takewhile(lambda line: line.startswith(_MARK), script.splitlines()[1:])
        text = "".join(line.removeprefix(_MARK) + "\n" for line in marked)
        text += f"queue {len(names)}\n"
        said = self._run("condor_submit", "-terse", "-", text=text)
        lines = said.splitlines()
        found = _SUBMITTED.fullmatch(lines[-1].strip()) if lines else None
        if found is None or int(found[2]) != len(names) - 1:
            raise BatchSystemError(f"condor_submit gave no numbers of jobs: {said[:200]!r}")
        if len(names) == 1:
            return [SeenJob(found[1], "queued")]
        return [SeenJob(f"{found[1]}.{n}", "queued") for n in range(len(names))]

    def jobs(self, names: Sequence[str]) -> dict[str, SeenJob]:
        """Return what condor_q says; jobs stay in the queue for an hour after their end."""
        wanted = set(names)
        ads = [ad for ad in self._ads(f"{_NAME} =!= undefined") if ad[_NAME] in wanted]
        try:
            return {ad[_NAME]: _seen(ad) for ad in ads}
        except TypeError:
            raise BatchSystemError(
                f"condor_q gave an answer that makes no sense: {ads!r:.200}"
            ) from None

    def cancel(self, jobs: Sequence[SeenJob]) -> None:
        """Remove jobs that still wait, many with one command."""
        numbers = [found.groups() for job in jobs if (found := _NUMBER.fullmatch(job.native_id))]
        if not numbers:
            return
        ours = " || ".join(
            f"ClusterId == {number}"
            if part is None
            else f"ClusterId == {number} && ProcId == {part}"
            for number, part in numbers
        )
        waits = f"({ours}) && JobStatus == {_IDLE} && {_NAME} =!= undefined"
        try:
            self._run("condor_rm", "-constraint", waits)
        except BatchSystemError:
            if self._ads(waits):  # else they began meanwhile, and condor_rm complains of that
                raise

    def _description(self, names: Sequence[str]) -> list[str]:
        settings, day = self._settings, self._folder.day
        shared = shared_name(names[0])
        name = shared if len(names) == 1 else f"{shared}_$(Process)"
        folder = settings.folder
        files = [f"{folder}/{AGENT_FILE}", settings.token_file, settings.ca]
        limit_s = math.ceil(settings.time_limit) + _GRACE_S
        lines = [
            f"batch_name = {shared}",
            f'+{_NAME} = "{name}"',
            "universe = vanilla",
            f"executable = {folder}/{day}/{shared}.sh",
            "arguments = $(Process)",
            f"output = {folder}/{day}/{name}.out",
            "should_transfer_files = yes",
            "when_to_transfer_output = on_exit",
            f"transfer_input_files = {','.join(filter(None, files))}",
            f"encrypt_input_files = {Path(settings.token_file or '').name}",
            'transfer_output_files = ""',
            f"request_cpus = {settings.cores}",
        ]
        for command, value in (
            ("accounting_group", settings.account),
            ("request_memory", settings.memory),
            ("request_gpus", settings.gpus),
        ):
            if value is not None:
                lines.append(f"{command} = {value}")
        since = "(time() - EnteredCurrentStatus)"
        # One job is one agent: it is not run again elsewhere, nor kept where it cannot begin.
        sent_away = f"JobStatus == {_IDLE} && NumJobStarts > 0"
        over = f"JobStatus == {_RUNNING} && {since} > {limit_s}"
        ended = f"JobStatus == {_REMOVED} || JobStatus == {_COMPLETED}"
        return [
            *lines,
            f"periodic_remove = JobStatus == {_HELD} || ({sent_away}) || ({over})",
            f"leave_in_queue = ({ended}) && {since} < {_KNOWN_S}",
            "want_graceful_removal = true",
            f"job_max_vacate_time = {_GRACE_S}",
        ]

    def _ads(self, constraint: str) -> list[dict[str, Any]]:
        """Return the attributes of the jobs that meet a constraint."""
        attributes = ",".join(_ATTRIBUTES)
        argv = ("condor_q", "-json", "-attributes", attributes, "-constraint", constraint)
        said = self._run(*argv)
        ads: list[dict[str, Any]] = []
        try:
            ads += json.loads(said or "[]")  # if there are no jobs it says nothing
            known = all(
                isinstance(ad[_NAME], str)
                and type(ad["ClusterId"]) is type(ad["ProcId"]) is type(ad["JobStatus"]) is int
                and type(ad.get("LastJobStatus", 0)) is int
                for ad in ads
            )
        except (ValueError, RecursionError, TypeError, KeyError):
            known = False
        if not known:
            raise BatchSystemError(f"condor_q gave an answer that makes no sense: {said[:200]!r}")
        return ads


def _seen(ad: Mapping[str, Any]) -> SeenJob:
    status, number = ad["JobStatus"], str(ad["ClusterId"])
    if "_" in ad[_NAME]:
        number += f".{ad['ProcId']}"
    state: JobState = "running"  # also while it transfers files or is suspended
    if status == _IDLE:
        state = "queued"
    elif status in {_REMOVED, _COMPLETED, _HELD}:
        state = "ended"
    # Our rule removes jobs that are held or overdue, and jobs that somebody has sent away.
    before = ad.get("LastJobStatus") if status == _REMOVED else None
    held = "Hold" if status == _HELD else "LastHold" if before == _HELD else None
    words = ad.get(f"{held}Reason" if held else "RemoveReason")
    reason: EndReason | None = None
    if held:
        reason = _by_code(ad, f"{held}Reason")
    elif status == _REMOVED and not str(words).startswith(_BY_RULE):
        reason = "cancelled"
    elif before == _RUNNING:
        reason = "time"
    elif before == _IDLE:
        reason = _by_code(ad, "VacateReason") or "preempted"
    code = ad.get("ExitCode")
    return SeenJob(
        number,
        state,
        ": ".join(filter(None, ("HELD" if held else _STATES.get(status, f"{status}"), words))),
        exit_code=code if state == "ended" and type(code) is int else None,
        reason=reason,
    )


def _by_code(ad: Mapping[str, Any], attribute: str) -> EndReason | None:
    """Return why a job was held or sent away, by the code next to this attribute."""
    code, part = ad.get(f"{attribute}Code"), ad.get(f"{attribute}SubCode")
    if code == _OUT_OF_RESOURCES:
        return None if part == _DISK else "memory"
    if code in _POLICIES:
        named = "memory" in str(ad.get(attribute)).lower()
        return "memory" if part == _MEMORY or (named and part != _DISK) else None
    if code in _TOO_LONG:
        return "time"
    return "node" if code in _NODE_LOST else None
