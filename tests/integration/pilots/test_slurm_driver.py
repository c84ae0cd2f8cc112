"""The driver of Slurm, with programs that say what the test lets them say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskq.pilots.drivers import Driver, with_exit_codes
from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.drivers.slurm import Slurm
from taskq.pilots.pilot_file import pilot_settings
from taskq.pilots.reconcile import SeenJob
from tests.helpers.programs import Programs
from tests.helpers.variants import rest_thorough

NAME = "taskq-hpc-0a1b2c3d-1"


def known(driver: Driver, name: str) -> SeenJob | None:
    """Return what a loop knows of a job."""
    return with_exit_codes(driver, [name], driver.jobs([name])).get(name)


def day_of(folder: Path) -> Path:
    """Return the folder of this day, which is the only one."""
    (day,) = folder.glob("????-??-??")
    return day


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """Give programs that say nothing."""
    return Programs(tmp_path / "bin", "sbatch", "squeue", "scancel", "scontrol")


@pytest.fixture
def slurm(programs: Programs, tmp_path: Path) -> Slurm:
    """Give the driver that finds them."""
    settings = pilot_settings("slurm", {"folder": str(tmp_path / "jobs")})
    path = f"{programs.folder}:{os.environ['PATH']}"
    environment = {"PATH": path, "TASKQ_TOKEN": "secret", "HOME": "/h", "AWS_SECRET": "secret"}
    driver = Slurm(settings, environment)
    driver.prepare({})
    return driver


def test_missing_program_is_named(tmp_path: Path) -> None:
    """With what to do about it."""
    driver = Slurm(pilot_settings("slurm", {"folder": "/jobs"}), {"PATH": str(tmp_path)})
    assert driver.missing() == (
        "sbatch is not on PATH here: run the loop where it is, such as on a login node"
    )


@pytest.mark.parametrize("said", ["Welcome!\\nYou have mail.\\n42;cluster-b"])
def test_number_of_a_job_is_found_behind_what_a_site_says(
    slurm: Slurm, programs: Programs, said: str
) -> None:
    """As wrappers of sbatch do."""
    programs.say("sbatch", f'printf "{said}\\n"')
    assert slurm.submit([NAME], "#!/bin/sh\n", None) == [SeenJob("42", "queued")]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            'echo "sbatch: error: invalid account" >&2; exit 1',
            "code 1: sbatch: error: invalid acc",
        ),
        ("exit 3", "code 3: it said nothing"),
        ("echo Submitted", "sbatch gave no number of a job: 'Submitted"),
        ("", "sbatch gave no number of a job: ''"),
        ("head -c 100000 /dev/urandom >&2; exit 1", "code 1: "),
    ],
)
def test_refusal_is_in_the_batch_systems_words(
    slurm: Slurm, programs: Programs, body: str, words: str
) -> None:
    """Whatever they are, a database can store them."""
    programs.say("sbatch", body)
    with pytest.raises(BatchSystemError) as raised:
        slurm.submit([NAME], "#!/bin/sh\n", None)
    assert words in str(raised.value)
    assert "\0" not in str(raised.value)
    assert len(str(raised.value)) < 1_200


def test_script_goes_through_standard_input(slurm: Slurm, programs: Programs) -> None:
    """Nothing of it is in a command line, and the loop's secrets are in no job's environment."""
    programs.say("sbatch", f"cat > {programs.folder}/script; env > {programs.folder}/env; echo 1")
    slurm.submit([NAME], "#!/bin/sh\necho x\n", None)
    assert (programs.folder / "script").read_text() == "#!/bin/sh\necho x\n"
    assert programs.arguments("sbatch") == "--parsable"
    environment = (programs.folder / "env").read_text()
    assert "HOME=/h" in environment
    assert "AWS_SECRET" not in environment


def test_environment_of_jobs_behind_a_gateway_has_nothing_of_the_loop(
    programs: Programs, tmp_path: Path
) -> None:
    """Direct agents get the address of the database, others nothing."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    for gateways, expected in (([], True), (["https://gw"], False)):
        table = {"gateways": gateways, "token_file": str(token)} if gateways else {}
        settings = pilot_settings("slurm", {"folder": str(tmp_path / "jobs"), **table})
        path = f"{programs.folder}:{os.environ['PATH']}"
        driver = Slurm(settings, {"PATH": path, "TASKQ_DSN": "postgresql://q"})
        programs.say("sbatch", f"env > {programs.folder}/env; echo 1")
        driver.submit([NAME], "", None)
        assert ("TASKQ_DSN" in (programs.folder / "env").read_text()) == expected


@pytest.mark.parametrize(
    ("state", "expected", "why", "reason"),
    rest_thorough(
        [
            ("PENDING|Priority", "queued", "PENDING, Priority", None),
            ("CONFIGURING|None", "queued", "CONFIGURING", None),
            ("RUNNING|None", "running", "RUNNING", None),
            ("COMPLETING|None", "running", "COMPLETING", None),
            ("SOMETHING_NEW|None", "running", "SOMETHING_NEW", None),
            ("COMPLETED|None", "ended", "COMPLETED", None),
            ("TIMEOUT|TimeLimit", "ended", "TIMEOUT, TimeLimit", "time"),
            ("CANCELLED|None", "ended", "CANCELLED", "cancelled"),
            ("NODE_FAIL|None", "ended", "NODE_FAIL", "node"),
            ("PREEMPTED|None", "ended", "PREEMPTED", "preempted"),
            ("OUT_OF_MEMORY|OutOfMemory", "ended", "OUT_OF_MEMORY, OutOfMemory", "memory"),
        ],
        4,
    ),
)
def test_states_are_those_of_squeue(
    slurm: Slurm, programs: Programs, state: str, expected: str, why: str, reason: str | None
) -> None:
    """One that is not known counts as live."""
    programs.say("squeue", f'echo "42|{state}|{NAME}"\necho "43|RUNNING|None|a job | of others"')
    (job,) = slurm.jobs([NAME]).values()
    assert (job.native_id, job.state, job.why, job.reason) == ("42", expected, why, reason)


@pytest.mark.parametrize(
    "body",
    rest_thorough(
        [
            "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
            "echo rubbish",
            f"echo '42|RUNNING|{NAME}'",
            f"echo '|RUNNING|None|{NAME}'",
            "printf '\\000\\377\\n'",
            "exit 137",
        ],
        2,
    ),
)
def test_rubbish_is_an_error_and_not_the_end_of_a_job(
    slurm: Slurm, programs: Programs, body: str
) -> None:
    """Nothing is concluded from it."""
    programs.say("squeue", body)
    with pytest.raises(BatchSystemError, match="squeue"):
        slurm.jobs([NAME])


def test_job_of_any_name_keeps_none_from_being_seen(slurm: Slurm, programs: Programs) -> None:
    """Slurm takes names with line ends, and shows them so."""
    other = f"case $* in *--name={NAME}*) ;; *) printf '7|RUNNING|None|a\\nb\\n';; esac"
    programs.say("squeue", f"{other}\necho '42|RUNNING|None|{NAME}'")
    for times in (1, 9_000):  # which are too many for a word of a command line
        assert slurm.jobs([NAME] * times)[NAME].state == "running"


def test_job_that_squeue_forgot_is_known_by_its_exit_code(
    slurm: Slurm, programs: Programs, tmp_path: Path
) -> None:
    """Which its script has written."""
    programs.say("squeue", "true")
    assert known(slurm, NAME) is None
    (day_of(tmp_path / "jobs") / f"{NAME}.exit").write_text("75\n")
    job = known(slurm, NAME)
    assert job is not None
    assert (job.state, job.exit_code) == ("ended", 75)


def test_files_of_jobs_are_in_folders_by_day(slurm: Slurm, tmp_path: Path) -> None:
    """For a month; what is not a job's stays, and so does its folder."""
    folder = tmp_path / "jobs"
    day = day_of(folder)
    assert f"#SBATCH --output={day}/{NAME}.out\n" in slurm.script([NAME], "/c", ["taskq"])
    assert f" > {day.name}/{NAME}.exit\n" in slurm.script([NAME], "/c", ["taskq"])
    (day / f"{NAME}.out").write_text("up\n")
    for old in (folder / "2001-02-03" / f"{NAME}.out", folder / "2001-02-04" / "mine"):
        old.parent.mkdir()
        old.touch()
        os.utime(old, (1e9, 1e9))
    again = Slurm(pilot_settings("slurm", {"folder": str(folder)}), {"PATH": os.environ["PATH"]})
    again.prepare({})
    assert again.tail(NAME, None) == "up"
    assert {file.name for file in folder.iterdir()} == {day.name, "2001-02-04"}


def test_only_a_job_that_waits_is_cancelled(slurm: Slurm, programs: Programs) -> None:
    """One that began meanwhile goes on."""
    programs.say("sbatch", "echo 42")
    row = slurm.submit([NAME], "", None)
    slurm.cancel([*row, SeenJob("43", "queued"), SeenJob("", "queued")])
    assert programs.arguments("scancel") == "--state=PENDING 42 43"


@pytest.mark.parametrize(("left", "fails"), [("", False), ("42", True)])
def test_job_that_is_over_is_no_error(
    slurm: Slurm, programs: Programs, left: str, fails: bool
) -> None:
    """To scancel it is one; it is one if the job still waits."""
    programs.say("sbatch", "echo 42")
    programs.say("scancel", "echo 'Invalid job id specified' >&2; exit 1")
    programs.say("squeue", f"echo '{left}'")
    job = slurm.submit([NAME], "", None)
    if fails:
        with pytest.raises(BatchSystemError, match="Invalid job id"):
            slurm.cancel(job)
    else:
        slurm.cancel(job)


def test_jobs_that_are_submitted_together_are_an_array(slurm: Slurm, programs: Programs) -> None:
    """Each is known by the name that they share and its index, to all commands."""
    names = [f"{NAME}_{n}" for n in range(3)]
    script = slurm.script(names, "/c", ["taskq"])
    assert f"#SBATCH --job-name={NAME}\n#SBATCH --array=0-2\n" in script
    assert f"/{NAME}_%a.out\n" in script
    assert f'--name {NAME}_"$SLURM_ARRAY_TASK_ID" ' in script
    assert f'/{NAME}_"$SLURM_ARRAY_TASK_ID".exit\n' in script
    programs.say("sbatch", "echo 42")
    jobs = slurm.submit(names, script, None)
    assert [job.native_id for job in jobs] == ["42_0", "42_1", "42_2"]
    said = [f"42_0|RUNNING|None|{NAME}", f"42_2|PENDING|Resources|{NAME}"]
    programs.say("squeue", "\n".join(f"echo '{line}'" for line in said))
    seen = slurm.jobs(names)
    assert "--array --user=" in programs.arguments("squeue")
    assert f"--name={NAME} " in programs.arguments("squeue")
    assert {name: (job.native_id, job.state) for name, job in seen.items()} == {
        names[0]: ("42_0", "running"),
        names[2]: ("42_2", "queued"),
    }
    slurm.cancel([*jobs, SeenJob("7", "queued")])
    assert programs.arguments("scontrol") == "update jobid=42_0,42_1,42_2 requeue=0"
    assert programs.arguments("scancel") == "--state=PENDING 42_0 42_1 42_2 7"
    programs.say("squeue", f"echo '42|CANCELLED|None|{NAME}'; echo '42_0|RUNNING|None|{NAME}'")
    assert [slurm.jobs(names)[name].state for name in names] == ["running", "ended", "ended"]
    assert slurm.jobs(names)[names[1]].native_id == "42_1"
