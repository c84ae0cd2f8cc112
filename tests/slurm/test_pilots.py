"""Pilots on a real Slurm: nobody starts an agent, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, Handler
from tests.fixtures.gateways import StartGateway
from tests.helpers.pilot_site import PilotSite
from tests.helpers.postgres import Postgres, is_lost
from tests.slurm.cluster import SlurmCluster

TASKS = 200


@pytest.fixture
def site(
    queue: Client,
    slurm: SlurmCluster,
    start_gateway: StartGateway,  # the fixture of conftest
    tmp_path: Path,
) -> PilotSite:
    """Give a site with its gateway, and no pilot yet."""
    gateway = start_gateway(keeper=True, expected=[""])
    return PilotSite(queue, "slurm", gateway.url, tmp_path, environment=slurm.environment)


def test_pilots_bring_a_campaign_to_its_end(site: PilotSite, slurm: SlurmCluster) -> None:
    """Jobs of an array: one is cancelled, one hits its wall, the loop is restarted."""
    site.seed(TASKS)
    site.add("--max-jobs", 3, "--time-limit", "10m", "--array", 3, "--backlog", 3)
    with site.taskq.process("pilots", "run", "--interval", "0.5") as loop:
        site.wait(lambda: site.pilot()["serving"] == 3)
        explained = site.taskq.out("pilots", "explain", "hpc")
        assert "Live jobs of 2 cores: 3 serving, of 3 at most" in explained
        at_most = "So none is submitted: there may be 3 at most (max_jobs)."
        site.wait(lambda: at_most in _explained(site))  # when the agents have settled
        site.wait(lambda: site.done() > 6)
        jobs = site.jobs()
        assert [(jobs[n].native_id or "").partition("_")[2] for n in (1, 2, 3)] == ["0", "1", "2"]
        slurm.said("scancel", jobs[1].native_id)
        slurm.said("scontrol", "update", f"jobid={jobs[2].native_id}", "timelimit=1")
        site.wait(lambda: 4 in site.jobs(), 60)  # another takes the place of the first
        loop.terminate()
        assert loop.wait(20) == 0
    site.run_to_the_end(TASKS)
    assert slurm.jobs() == {}, "the pilots vanish"

    jobs = site.jobs()
    assert {job.outcome for job in jobs.values()} == {"served"}
    assert (jobs[1].why or "").startswith("CANCELLED")
    assert (jobs[2].why or "").startswith("TIMEOUT")
    assert jobs[1].left_why == jobs[2].left_why == "it got a signal to stop"
    others = {job.left_why for number, job in jobs.items() if number > 2}
    assert others == {"it has had no task for 4 s"}

    site.assert_nothing_is_lost(TASKS)


@pytest.mark.parametrize("count", [1, 3])
def test_loop_that_is_killed_after_sbatch_finds_its_jobs(
    site: PilotSite, slurm: SlurmCluster, count: int
) -> None:
    """By their names: Slurm has one job or array, and the next loop submits no other."""
    site.seed(6)
    many = ("--max-jobs", count, "--backlog", count, "--array", count)
    site.add(*many, "--time-limit", "2m", "--option", "--hold")
    jobs = site.find_after_death(count)
    assert len(slurm.said("squeue", "--noheader").splitlines()) == 1
    assert all("PENDING, JobHeldUser" in (job.why or "") for job in jobs)
    site.remove()
    assert slurm.jobs() == {}


def test_agents_of_a_job_of_two_nodes_live_and_die_each_for_itself(
    site: PilotSite, slurm: SlurmCluster, postgres: Postgres
) -> None:
    """One is killed, and the loop; the next one adopts the job, whose end reaches the other."""
    site.seed(40, task_s=2)
    site.add("--nodes", 2, "--max-jobs", 1, "--time-limit", "10m")
    agents = ("pilots", "run", "--interval", "0.5")
    with site.taskq.process(*agents) as loop:
        site.wait(lambda: len(site.queue.agents("/c")) == 2)
        site.wait(lambda: "Live jobs of 2 nodes, each of 2 cores: 1 serving" in _explained(site))
        loop.kill()
    job = site.jobs()[1]
    killed, other = site.queue.agents("/c")
    assert (killed.agent, other.agent, killed.slots) == (job.name, job.name, 2)
    site.wait(lambda: site.done() > 8)
    os.kill(killed.pid, signal.SIGKILL)
    site.wait(lambda: is_lost(postgres, killed.session_id))
    with site.taskq.process(*agents) as loop:
        site.wait(lambda: (site.pilot()["looked_ago_s"] or 9.0) < 1.0)
        adopted = site.jobs()
        assert (adopted[1].native_id, adopted[1].status) == (job.native_id, "running")
        before = site.done()
        site.wait(lambda: site.done() > before + 4)
        assert [agent.session_id for agent in site.queue.agents("/c")] == [other.session_id]
        assert [*site.jobs()] == [1]
        slurm.said("scancel", job.native_id)
        site.wait(lambda: 2 in site.jobs(), 60)
        loop.terminate()
        assert loop.wait(20) == 0
    site.run_to_the_end(40)
    jobs = site.jobs()
    assert (jobs[1].why or "").startswith("CANCELLED")
    left = {agent.session_id: agent.reason for agent in site.queue.left_agents("/c")}
    assert left[other.session_id] == "it got a signal to stop"
    lost = postgres.execute("select session_id from taskq.attempt where outcome = 'lost'")
    assert {row["session_id"] for row in lost} == {killed.session_id}
    site.assert_nothing_is_lost(40, losses=lost.rowcount)


def test_jobs_ask_for_what_tasks_need(site: PilotSite, slurm: SlurmCluster) -> None:
    """Whole devices that slots share, cores, memory, scratch: tasks find what they need."""
    say = """
        echo "{{\\"gpu\\": $CUDA_VISIBLE_DEVICES, \\"bytes\\": $TASKQ_RESOURCE_SCRATCH}}"
    """
    campaign = site.queue.campaign("/c")
    campaign.change(
        CampaignSpec(
            "/c",
            handler=Handler("command", argv=("sh", "-c", say)),
            cores=2,
            memory=(1 << 30,),
            gpus=0.25,
            named_resources={"scratch": 1 << 30},
        )
    )
    site.seed(12)
    site.add("--slots", 4, "--as-needed", "--resource-option", "scratch=--tmp={MiB}")
    assert _explained(site).startswith(
        "Jobs have what /c needs: cores 8; memory 4G; GPUs 1; scratch 4G."
    )
    site.run_to_the_end(12)
    job = slurm.said("scontrol", "show", "job", site.jobs()[1].native_id)
    for asked in ("NumCPUs=8", "MinMemoryNode=4G", "gpu:1", "MinTmpDiskNode=4G"):
        assert asked in job, job
    results = [record.result or {} for record in campaign.results()]
    assert [result["bytes"] for result in results] == [1 << 30] * 12
    assert {result["gpu"] for result in results} <= {0, 1}


def test_explain_says_that_the_node_is_drained(site: PilotSite, slurm: SlurmCluster) -> None:
    """In Slurm's words."""
    site.seed(2)
    site.add("--max-jobs", 1, "--time-limit", "2m")
    loop = site.loop()
    slurm.said("scontrol", "update", "nodename=ALL", "state=drain", "reason=disk")
    try:
        loop.round()
        site.wait(lambda: loop.round() and "The queue says" in _explained(site))
        site.wait(lambda: loop.round() and "DRAIN" in _explained(site))
    finally:
        slurm.said("scontrol", "update", "nodename=ALL", "state=resume")
    site.remove()


def _explained(site: PilotSite) -> str:
    return site.taskq.out("pilots", "explain", "hpc")


def test_refusal_of_slurm_is_reported_in_its_words(site: PilotSite) -> None:
    """And the pilot waits."""
    site.seed(2)
    site.add("--partition", "nosuch")
    (done,) = site.loop().round()
    assert done.trouble is not None
    assert "invalid partition specified: nosuch" in done.trouble
    assert "invalid partition" in site.taskq.out("pilots", "explain", "hpc")
    assert site.jobs()[1].outcome == "refused"


def test_job_that_dies_before_its_agent_starts_is_shown_with_its_output(site: PilotSite) -> None:
    """Here the interpreter is missing."""
    assert (site.run_one_that_dies().why or "").startswith("FAILED")
    assert "/no/such/python3: not found" in site.taskq.out("pilots", "log", "hpc", 1)


def test_direct_agents_get_the_address_of_the_database(
    site: PilotSite, slurm: SlurmCluster
) -> None:
    """In their environment, not in a script or a command line."""
    site.seed(2)
    site.add("--time-limit", "2m", "--max-jobs", 1, gateway=False)
    site.run_to_the_end(2)
    assert site.taskq.dsn not in site.taskq.out("pilots", "show", "hpc", "--dry-run")
    assert shutil.which("sbatch", path=slurm.environment["PATH"])
