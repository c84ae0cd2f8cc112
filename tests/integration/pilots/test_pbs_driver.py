"""The driver of PBS, with programs that say what a real one has said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskq.pilots.drivers import Driver, with_exit_codes
from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.reconcile import SeenJob
from tests.helpers.programs import NAME, Programs, driver_on
from tests.helpers.variants import rest_thorough

RUN = "Job run at Mon Nov 23 at 03:16 on (pbs:ncpus=2)"
BY_ADA, BY_SIZE = " and terminated by ada@pbs", " and exceeded resource mem"


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """Give programs that say nothing."""
    return Programs(tmp_path / "bin", "qsub", "qselect", "qstat", "qdel")


def driver(programs: Programs, **table: Any) -> Driver:
    """Return the driver that finds them."""
    return driver_on(programs, "pbs", **table)


def job(number: str = "42.pbs", name: str = NAME, **attributes: object) -> str:
    """Return a job as `qstat -f` shows it, long values in several lines."""
    lines = [f"Job Id: {number}", f"    Job_Name = {name[:9]}\n\t{name[9:]}"]
    lines += [f"    {attribute} = {value}" for attribute, value in attributes.items()]
    return "\n".join([*lines, "", ""])


def say(programs: Programs, name: str, text: str) -> None:
    """Have a program say a text."""
    programs.say(name, f"cat <<'END'\n{text}\nEND")


def test_script_goes_through_standard_input(programs: Programs) -> None:
    """With what is asked for; the database's address is in no job's environment."""
    programs.say("qsub", f"cat > {programs.folder}/text; env > {programs.folder}/env; echo 42.pbs")
    made = driver(
        programs,
        cores=8,
        time_limit=90,
        memory="16G",
        gpus="2",
        partition="long",
        account="physics",
        options=["model=bro", "-P wisdom"],
    )
    script = made.script([NAME], "/c", ["taskq"])
    assert made.submit([NAME], script, None) == [SeenJob("42.pbs", "queued")]
    assert programs.arguments("qsub") == ""
    text = (programs.folder / "text").read_text()
    assert text == script
    assert text.splitlines()[1:12] == [
        f"#PBS -N {NAME}",
        "#PBS -l select=1:ncpus=8:mem=16G:ngpus=2:model=bro",
        "#PBS -l walltime=90",
        "#PBS -S /bin/sh",
        "#PBS -o /dev/null",
        "#PBS -e /dev/null",
        "#PBS -r n",
        "#PBS -m n",
        "#PBS -q long",
        "#PBS -A physics",
        "#PBS -P wisdom",
    ]
    assert "TASKQ_DSN" not in (programs.folder / "env").read_text()


@pytest.mark.parametrize("said", ["", "Welcome!", "qsub: waiting for job 42.pbs to start"])
def test_malformed_number_of_a_job_is_an_error(programs: Programs, said: str) -> None:
    """The job may be there, says a later round."""
    programs.say("qsub", f"echo '{said}'")
    with pytest.raises(BatchSystemError, match="qsub gave no number"):
        driver(programs).submit([NAME], "", None)


def finished(substate: int, code: int | None = None, how: str | None = None) -> dict[str, Any]:
    """Return what a job has that has ended. how: the end of its comment."""
    more = {"Exit_status": code, "comment": None if how is None else RUN + how}
    said = {name: value for name, value in more.items() if value is not None}
    return {"job_state": "F", "substate": substate, **said}


@pytest.mark.parametrize(
    ("attributes", "expected", "why", "code", "reason"),
    rest_thorough(
        [
            ({"job_state": "Q"}, "queued", "QUEUED", None, None),
            (finished(93, 7, " and failed"), "ended", f"FINISHED: {RUN} and failed", 7, None),
            (finished(91, 271, BY_ADA), "ended", f"FINISHED: {RUN}{BY_ADA}", None, "cancelled"),
            (
                {"job_state": "R", "Variable_List": "A=() {\n    job_state = F\n}", "comment": RUN},
                "running",
                f"RUNNING: {RUN}",
                None,
                None,
            ),
            (finished(91), "ended", "FINISHED", None, "cancelled"),
            (finished(93, -29), "ended", "FINISHED", None, "time"),
            # Of a node that went down: the server ends the job, and leaves the comment as it was.
            (finished(93, -20, ""), "ended", f"FINISHED: {RUN}", None, "node"),
            (finished(93, -4, " and failed"), "ended", f"FINISHED: {RUN} and failed", None, "node"),
            (finished(93, -27, BY_SIZE), "ended", f"FINISHED: {RUN}{BY_SIZE}", None, "memory"),
            ({"job_state": "H"}, "queued", "HELD", None, None),
            ({"job_state": "E", "substate": 51}, "running", "EXITING", None, None),
            ({"job_state": "y"}, "running", "y", None, None),
        ],
        4,
    ),
)
def test_states_are_those_of_qstat(
    programs: Programs,
    attributes: dict[str, Any],
    expected: str,
    why: str,
    code: int | None,
    reason: str | None,
) -> None:
    """One that is not known counts as live; what a job's environment says does not count."""
    say(programs, "qselect", "41.pbs\n42.pbs")
    say(programs, "qstat", job("41.pbs", "other", job_state="R") + job(**attributes))
    made = driver(programs)
    for _ in range(2):
        (seen,) = made.jobs([NAME]).values()
        assert (seen.native_id, seen.state, seen.why) == ("42.pbs", expected, why)
        assert (seen.exit_code, seen.reason) == (code, reason)
    # The second time, of ours alone.
    assert programs.arguments("qstat") == "-E -f -x 42.pbs"


def test_server_without_a_history_knows_the_jobs_that_live(programs: Programs) -> None:
    """It calls it no error to ask for others; those are known by what their script has written."""
    asked_for_history = "qselect: PBS is not configured to maintain job history"
    programs.say(
        "qselect", f'case "$*" in *-x*) echo "{asked_for_history}" >&2;; *) echo 42.pbs;; esac'
    )
    say(programs, "qstat", job(job_state="R"))
    made = driver(programs)
    ended = f"{NAME}0"
    (programs.folder.parent / f"jobs/{ended}.exit").write_text("75\n")
    seen = with_exit_codes(made, [NAME, ended], made.jobs([NAME, ended]))
    assert programs.arguments("qstat") == "-E -f 42.pbs"
    assert seen[NAME].state == "running"
    assert (seen[ended].state, seen[ended].exit_code) == ("ended", 75)


@pytest.mark.parametrize(
    ("program", "body"),
    rest_thorough(
        [
            (
                "qselect",
                "echo 'pbs_connect: cannot connect to server pbs, error=15010' >&2; exit 255",
            ),
            ("qstat", "echo rubbish"),
            ("qstat", "echo 'Job Id: 42.pbs'"),
            ("qselect", "echo rubbish"),
            ("qselect", "echo -x"),
            ("qselect", "printf '\\000\\377\\n'"),
            ("qstat", "echo 'qstat: Unknown Job Id 42.pbs' >&2; exit 153"),
            ("qstat", "printf 'Job Id: 41.pbs\\n    Job_Name = a\\n    job_state = R\\n'"),
            ("qstat", ""),
        ],
        3,
    ),
)
def test_rubbish_is_an_error_and_not_the_end_of_a_job(
    programs: Programs, program: str, body: str
) -> None:
    """Nothing is concluded from it."""
    programs.say("qselect", "echo 42.pbs")
    programs.say(program, body)
    with pytest.raises(BatchSystemError, match=program):
        driver(programs).jobs([NAME])


def test_job_that_goes_while_it_is_looked_at_hides_no_other(programs: Programs) -> None:
    """As jobs do that end on a server without a history."""
    known = programs.folder / "known"
    known.write_text("41.pbs\n42.pbs\n")
    programs.say("qselect", f'case "$*" in *-x*) ;; *) cat {known};; esac')
    script = f"echo 42.pbs > {known}\ncat <<'END'\n{job(job_state='R')}\nEND"
    programs.say("qstat", script)
    assert driver(programs).jobs([NAME])[NAME].state == "running"
    assert programs.arguments("qstat") == "-E -f 42.pbs"
    programs.say("qstat", f"rm -f {known}; touch {known}\necho Unknown Job Id; exit 153")
    assert driver(programs).jobs([NAME]) == {}


@pytest.mark.parametrize("waits", [True, False])
def test_only_a_job_that_waits_is_deleted(programs: Programs, waits: bool) -> None:
    """One that began meanwhile goes on."""
    programs.say("qsub", "echo 42.pbs")
    programs.say("qselect", f"echo {'42' if waits else '41'}.pbs")
    programs.say("qdel", f"touch {programs.folder}/deleted")
    made = driver(programs)
    made.cancel(made.submit([NAME], "", None))
    assert (programs.folder / "deleted").exists() == waits


@pytest.mark.parametrize("left", [True, False])
def test_job_that_is_over_is_no_error(programs: Programs, left: bool) -> None:
    """To qdel it is one; it is one if the job still waits."""
    forget = "" if left else f"rm {programs.folder}/waits"
    (programs.folder / "waits").write_text("42.pbs\n")
    programs.say("qsub", "echo 42.pbs")
    programs.say("qselect", f"cat {programs.folder}/waits 2>/dev/null || true")
    programs.say("qdel", f"{forget}\necho 'qdel: Job has finished 42.pbs' >&2; exit 35")
    made = driver(programs)
    submitted = made.submit([NAME], "", None)
    if left:
        with pytest.raises(BatchSystemError, match="Job has finished"):
            made.cancel(submitted)
    else:
        made.cancel(submitted)
