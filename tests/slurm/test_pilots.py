"""Pilots on a real Slurm: nobody starts an agent, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from taskq import Client
from taskq.pilots.drivers.slurm import Slurm
from taskq.pilots.loop import PilotLoop
from taskq.views import PilotJob
from tests.fixtures.gateways import StartGateway
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.command_line import CommandLine
from tests.helpers.waiting import wait_until
from tests.slurm.cluster import SlurmCluster

TASKS = 200
TASK = 'sleep 3; echo "{{\\"n\\": $1}}"'  # the result is the task's number


class Site:
    """The campaign /c, a gateway, and the pilot `hpc` whose jobs Slurm runs."""

    def __init__(
        self, dsn: str, queue: Client, slurm: SlurmCluster, url: str, folder: Path
    ) -> None:
        self.queue = queue
        self.slurm = slurm
        self.folder = folder
        self.taskq = CommandLine(dsn)
        self.taskq.environment |= slurm.environment | {"TASKQ_DSN": dsn}
        self.taskq.out("campaign", "create", "/c", "--", "sh", "-c", TASK, "sh", "{n}")
        token = folder / "site.token"
        self.taskq.out("token", "create", "hpc", "--site", "--campaign", "/c", "--to", token)
        self._gateway = ("--gateway", url, "--token-file", token)

    def add(self, *words: object, gateway: bool = True) -> None:
        """Add the pilot."""
        self.taskq.out(
            *("pilots", "add", "slurm", "hpc", "--campaign", "/c", "--cores", 2),
            *("--least-work", "5s", "--idle-timeout", "4s", "--folder", self.folder / "jobs"),
            *(self._gateway if gateway else ()),
            *words,
        )

    def seed(self, count: int) -> None:
        """Add tasks."""
        self.taskq.out("seed", "/c", "--sweep", f"n=1:{count}")

    def pilot(self) -> dict[str, Any]:
        """Return the pilot as `list` shows it."""
        (pilot,) = self.taskq.json("pilots", "list")
        return dict(pilot)

    def jobs(self) -> dict[int, PilotJob]:
        """Return its jobs by number."""
        return {job.number: job for job in self.queue.pilots.jobs("hpc")}

    def done(self) -> int:
        """Return how many tasks are done."""
        return self.queue.campaign("/c").status().done

    def told(self) -> str:
        """Return what an operator would look at when it goes wrong."""
        views = [self.taskq.out("pilots", "explain", "hpc"), self.taskq("pilots", "log", "hpc")]
        outputs = [file.read_text()[-500:] for file in self.folder.glob("jobs/*.out")]
        return "\n".join([*map(str, views), self.slurm.said("squeue"), *outputs])

    def wait(self, condition: Any, timeout_s: float = 90.0) -> None:
        """Wait until a condition holds."""
        wait_until(condition, timeout_s=timeout_s, on_timeout=self.told)


@pytest.fixture
def site(
    dsn: str,
    queue: Client,
    slurm: SlurmCluster,
    start_gateway: StartGateway,  # the fixture of conftest
    tmp_path: Path,
) -> Site:
    """Give a site with its gateway, and no pilot yet."""
    gateway = start_gateway(keeper=True, expected=[""])
    return Site(dsn, queue, slurm, gateway.url, tmp_path)


def test_pilots_bring_a_campaign_to_its_end(site: Site, tmp_path: Path) -> None:
    """One job is cancelled, one hits its wall, the loop is restarted: nothing is lost."""
    site.seed(TASKS)
    site.add("--max-jobs", 3, "--time-limit", "10m")
    with site.taskq.process("pilots", "run", "--period", "0.5") as loop:
        site.wait(lambda: site.pilot()["serving"] == 3)
        explained = site.taskq.out("pilots", "explain", "hpc")
        assert "Live jobs of 2 cores: 3 serving, of 3 at most" in explained
        assert "So none is submitted: there may be 3 at most (max_jobs)." in explained
        site.wait(lambda: site.done() > 6)
        jobs = site.jobs()
        site.slurm.said("scancel", jobs[1].native_id)
        site.slurm.said("scontrol", "update", f"jobid={jobs[2].native_id}", "timelimit=1")
        site.wait(lambda: 4 in site.jobs(), 60)  # another takes the place of the first
        loop.terminate()
        assert loop.wait(20) == 0
    with site.taskq.process("pilots", "run", "--period", "0.5") as loop:
        site.wait(lambda: site.done() == TASKS, 180)
        site.wait(lambda: all(job.status == "ended" for job in site.jobs().values()))
        loop.terminate()
        assert loop.wait(20) == 0
    assert site.slurm.jobs() == {}, "the pilots vanish"

    jobs = site.jobs()
    assert {job.outcome for job in jobs.values()} == {"served"}
    assert (jobs[1].why or "").startswith("CANCELLED")
    assert (jobs[2].why or "").startswith("TIMEOUT")
    assert jobs[1].left_why == jobs[2].left_why == "it was told to"
    others = {job.left_why for number, job in jobs.items() if number > 2}
    assert others == {"it has had no task for 4 s"}

    status = site.queue.campaign("/c").status()
    assert (status.done, status.failures, status.losses) == (TASKS, 0, 0)
    assert_audit_is_clean(site.queue, "/c")
    site.taskq.out("export", "/c", "--to", tmp_path / "results.jsonl")
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    results = [json.loads(line) for line in lines]
    assert sorted(one["result"]["n"] for one in results) == [*range(1, TASKS + 1)]
    assert all(one["payload"]["n"] == one["result"]["n"] for one in results)
    script = "\n".join(file.read_text() for file in (tmp_path / "jobs").glob("*.out"))
    assert (tmp_path / "site.token").read_text().strip() not in script


def test_loop_that_is_killed_after_sbatch_finds_its_job(site: Site) -> None:
    """By its name: Slurm has one job, and the next loop submits no other."""

    class Killed(BaseException):
        pass

    class DiesAfterSbatch(Slurm):
        def submit(self, *words: Any) -> Any:
            super().submit(*words)
            raise Killed

    site.seed(2)
    site.add("--max-jobs", 1, "--time-limit", "2m", "--option", "--hold")
    environment, database = site.taskq.environment, site.queue.database
    first = PilotLoop(
        database, environment, make=lambda _, settings, found: DiesAfterSbatch(settings, found)
    )
    with pytest.raises(Killed):
        first.round()
    assert [job.status for job in site.jobs().values()] == ["submitting"]
    first.leave()
    second = PilotLoop(database, environment)
    (done,) = second.round()
    assert (done.acted, done.submitted, done.trouble) == (True, 0, None)
    (job,) = site.jobs().values()
    assert (job.status, job.native_id is not None) == ("queued", True)
    assert len(site.slurm.jobs()) == 1
    assert "PENDING, JobHeldUser" in (job.why or "")
    site.taskq.out("pilots", "rm", "hpc", "--yes")
    second.round()
    site.wait(lambda: second.round() == [])
    assert site.slurm.jobs() == {}


def test_what_slurm_refuses_is_said_in_its_words(site: Site) -> None:
    """And the pilot waits."""
    site.seed(2)
    site.add("--partition", "nosuch")
    (done,) = PilotLoop(site.queue.database, site.taskq.environment).round()
    assert done.trouble is not None
    assert "invalid partition specified: nosuch" in done.trouble
    assert "invalid partition" in site.taskq.out("pilots", "explain", "hpc")
    assert site.jobs()[1].outcome == "refused"


def test_job_that_dies_before_its_agent_is_heard_is_shown_with_its_output(site: Site) -> None:
    """Here the interpreter is not there."""
    site.seed(2)
    site.add("--python", "/no/such/python3", "--time-limit", "2m", "--max-jobs", 1)
    loop = PilotLoop(site.queue.database, site.taskq.environment)
    loop.round()
    site.wait(lambda: loop.round() and site.jobs()[1].outcome == "died")
    job = site.jobs()[1]
    assert (job.exit_code, (job.why or "")[:6]) == (127, "FAILED")
    assert "/no/such/python3: not found" in (job.tail or "")
    assert "/no/such/python3: not found" in site.taskq.out("pilots", "log", "hpc", 1)
    assert site.pilot()["failures"] == 1


def test_direct_agents_get_the_address_of_the_database(site: Site) -> None:
    """In their environment, not in a script or a command line."""
    site.seed(2)
    site.add("--time-limit", "2m", "--max-jobs", 1, gateway=False)
    with site.taskq.process("pilots", "run", "--period", "0.5") as loop:
        site.wait(lambda: site.done() == 2)
        site.wait(lambda: all(job.status == "ended" for job in site.jobs().values()))
        loop.terminate()
        assert loop.wait(20) == 0
    assert site.taskq.dsn not in site.taskq.out("pilots", "show", "hpc", "--dry-run")
    assert shutil.which("sbatch", path=site.slurm.environment["PATH"])
