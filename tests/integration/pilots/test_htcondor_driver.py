"""The driver of HTCondor, with programs that say what a real one has said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taskq.pilots.drivers import Driver
from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.reconcile import SeenJob
from tests.helpers.programs import NAME, Programs, driver_on
from tests.helpers.variants import rest_thorough


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """Give programs that say nothing."""
    return Programs(tmp_path / "bin", "condor_submit", "condor_q", "condor_rm")


def driver(programs: Programs, **table: Any) -> Driver:
    """Return the driver that finds them."""
    return driver_on(programs, "htcondor", **table)


def ad(**more: Any) -> dict[str, Any]:
    """Return a job as condor_q shows it."""
    return {"ClusterId": 42, "ProcId": 0, "JobStatus": 1, "TaskqJob": NAME, **more}


def test_description_goes_through_standard_input(programs: Programs) -> None:
    """What is asked for, and nothing that taskq depends on is anybody else's."""
    programs.say("condor_submit", f'cat > {programs.folder}/text; echo "42.0 - 42.0"')
    made = driver(
        programs, cores=8, memory="16G", gpus="1", account="physics", options=['+Project = "x"']
    )
    script = made.script([NAME], "/c", ["taskq"]) + "#HTCONDOR queue 9\n"
    assert made.submit([NAME], script, None) == [SeenJob("42", "queued")]
    jobs = programs.folder.parent / "jobs"
    (stored,) = jobs.glob(f"????-??-??/{NAME}.sh")
    assert stored.read_text() == script
    lines = (programs.folder / "text").read_text().splitlines()
    assert lines[0] == '+Project = "x"'
    assert {
        f'+TaskqJob = "{NAME}"',
        f"executable = {stored}",
        f"output = {stored.with_suffix('.out')}",
        f"transfer_input_files = {jobs}/taskq-agent.pyz,{programs.folder}/token",
        "encrypt_input_files = token",
        "request_cpus = 8",
        "request_memory = 16G",
        "request_gpus = 1",
        "accounting_group = physics",
    } <= {*lines}
    assert (lines[-1], "queue 9" in lines) == ("queue 1", False)
    assert "python3 ./taskq-agent.pyz run" in script
    assert "--token-file ./token" in script


_RULE = "The job attribute PeriodicRemove expression 'JobStatus == 5' evaluated to TRUE"
_CGROUP = (
    "Error from slot1_1@node7: Job has gone over cgroup memory limit of 10624 megabytes. Last "
    "measured usage: 404 megabytes.  Consider resubmitting with a higher request_memory."
)
_POLICY = "The system macro SYSTEM_PERIODIC_HOLD expression '{}' evaluated to TRUE"
_BY_MEMORY = _POLICY.format("MemoryUsage > RequestMemory")
_BY_RUNS = _POLICY.format("NumJobStarts > 3")
_BY_STARTD = "Error from slot1@node7: Disk usage exceeds request_disk, not memory"
_BY_ADA = "via condor_rm (by user ada)"
_BY_TIME = "The job exceeded allowed execute duration of 3+00:00:00"


def held(why: str, code: int, part: int = 0) -> dict[str, Any]:
    """Return what a job has that is held."""
    return {"JobStatus": 5, "HoldReason": why, "HoldReasonCode": code, "HoldReasonSubCode": part}


#: What a job has that was held before it was removed.
_HELD_BEFORE = {f"Last{name}": value for name, value in held(_CGROUP, 34).items() if "Hold" in name}


def vacated(code: int, part: int) -> dict[str, Any]:
    """Return what a job has that had to leave its machine."""
    return {"VacateReasonCode": code, "VacateReasonSubCode": part}


def removed(before: int, why: str = _RULE, **more: Any) -> dict[str, Any]:
    """Return what a job has that was removed. before: its status until then."""
    return {"JobStatus": 3, "LastJobStatus": before, "RemoveReason": why, **more}


@pytest.mark.parametrize(
    ("more", "expected", "why", "code", "reason"),
    rest_thorough(
        [
            ({}, "queued", "IDLE", None, None),
            ({"JobStatus": 2}, "running", "RUNNING", None, None),
            ({"JobStatus": 6}, "running", "6", None, None),
            ({"JobStatus": 4, "ExitCode": 7}, "ended", "COMPLETED", 7, None),
            (removed(2, _BY_ADA), "ended", f"REMOVED: {_BY_ADA}", None, "cancelled"),
            (removed(2), "ended", f"REMOVED: {_RULE}", None, "time"),
            (removed(1), "ended", f"REMOVED: {_RULE}", None, "preempted"),
            (removed(1, **vacated(1017, 0)), "ended", f"REMOVED: {_RULE}", None, "preempted"),
            (removed(1, VacateReasonCode=1008), "ended", f"REMOVED: {_RULE}", None, "node"),
            (removed(1, **vacated(34, 102)), "ended", f"REMOVED: {_RULE}", None, "memory"),
            (removed(5, LastHoldReason="no"), "ended", "HELD: no", None, None),
            (removed(5, **_HELD_BEFORE), "ended", f"HELD: {_CGROUP}", None, "memory"),
            (held("via condor_hold (by user ada)", 1), "ended", "HELD: via condor_", None, None),
            (held(_CGROUP, 34), "ended", f"HELD: {_CGROUP}", None, "memory"),
            (held("over", 34, 104), "ended", "HELD: over", None, None),
            (held("too much", 21, 102), "ended", "HELD: too much", None, "memory"),
            (held(_BY_STARTD, 21, 104), "ended", f"HELD: {_BY_STARTD}", None, None),
            (held(_BY_MEMORY, 26), "ended", f"HELD: {_BY_MEMORY}", None, "memory"),
            (held(_BY_RUNS, 26), "ended", f"HELD: {_BY_RUNS}", None, None),
            (held(_BY_TIME, 47), "ended", f"HELD: {_BY_TIME}", None, "time"),
        ],
        4,
    ),
)
def test_states_are_those_of_condor_q(
    programs: Programs,
    more: dict[str, Any],
    expected: str,
    why: str,
    code: int | None,
    reason: str | None,
) -> None:
    """With the reason of an end: by the codes of holds and evictions, else by who removed it."""
    said = json.dumps([ad(**more), ad(TaskqJob="taskq-other-0a1b2c3d-1")])
    programs.say("condor_q", f"cat <<'END'\n{said}\nEND")
    (job,) = driver(programs).jobs([NAME]).values()
    assert (job.native_id, job.state) == ("42", expected)
    assert (job.why or "").startswith(why)
    assert (job.exit_code, job.reason) == (code, reason)


def test_no_jobs_is_no_answer(programs: Programs) -> None:
    """So condor_q shows that there are none."""
    assert driver(programs).jobs([NAME]) == {}


@pytest.mark.parametrize(
    "body",
    rest_thorough(
        [
            "echo '-- Failed to fetch ads from: <127.0.0.1:9618> : here' >&2; exit 1",
            "echo rubbish",
            "echo '[1]'",
            "echo '{}x'",
            """echo '[{"TaskqJob": "a", "ClusterId": "1", "JobStatus": 1}]'""",
            """echo '[{"TaskqJob": "a", "ClusterId": 1}]'""",
            f"echo '{json.dumps([ad(JobStatus=5, HoldReason={'a': 1})])}'",
            f"echo '{json.dumps([ad(JobStatus=3, LastJobStatus=[5])])}'",
            "printf '\\000\\377\\n'",
        ],
        3,
    ),
)
def test_rubbish_is_an_error_and_not_the_end_of_a_job(programs: Programs, body: str) -> None:
    """Nothing is concluded from it."""
    programs.say("condor_q", body)
    with pytest.raises(BatchSystemError, match="condor_q"):
        driver(programs).jobs([NAME])


@pytest.mark.parametrize(("left", "fails"), [("", False), (json.dumps([ad()]), True)])
def test_job_that_began_meanwhile_is_not_removed(
    programs: Programs, left: str, fails: bool
) -> None:
    """condor_rm calls it an error that none waits; it is one if one still does."""
    programs.say("condor_submit", 'echo "42.0 - 42.0"')
    programs.say("condor_rm", "echo 'Could not find/remove all jobs' >&2; exit 1")
    programs.say("condor_q", f"cat <<'END'\n{left}\nEND" if left else "")
    made = driver(programs)
    job = made.submit([NAME], "", None)
    if fails:
        with pytest.raises(BatchSystemError, match="Could not find"):
            made.cancel(job)
    else:
        made.cancel(job)
    waits = "-constraint (ClusterId == 42) && JobStatus == 1 && TaskqJob =!= undefined"
    assert programs.arguments("condor_rm") == waits


def test_jobs_that_are_submitted_together_are_one_cluster(programs: Programs) -> None:
    """Each with its own name, output and number in it, by which it is seen and removed."""
    names = [f"{NAME}_0", f"{NAME}_1"]
    programs.say("condor_submit", f'cat > {programs.folder}/text; echo "42.0 - 42.1"')
    made = driver(programs, array=2)
    script = made.script(names, "/c", ["taskq"])
    assert f'--name {NAME}_"$1" ' in script
    assert f'> {NAME}_"$1".exit\n' in script
    jobs = made.submit(names, script, None)
    assert jobs == [SeenJob("42.0", "queued"), SeenJob("42.1", "queued")]
    lines = (programs.folder / "text").read_text().splitlines()
    (stored,) = (programs.folder.parent / "jobs").glob(f"????-??-??/{NAME}.sh")
    assert {
        f'+TaskqJob = "{NAME}_$(Process)"',
        f"executable = {stored}",
        f"output = {stored.with_name(NAME)}_$(Process).out",
        "arguments = $(Process)",
    } <= {*lines}
    assert lines[-1] == "queue 2"
    ads = [ad(TaskqJob=name, ProcId=n, JobStatus=n + 1) for n, name in enumerate(names)]
    programs.say("condor_q", f"cat <<'END'\n{json.dumps(ads)}\nEND")
    seen = made.jobs(names)
    assert [(seen[name].native_id, seen[name].state) for name in names] == [
        ("42.0", "queued"),
        ("42.1", "running"),
    ]
    made.cancel(jobs)
    assert "(ClusterId == 42 && ProcId == 0 || ClusterId == 42 && ProcId == 1) && " in (
        programs.arguments("condor_rm")
    )
