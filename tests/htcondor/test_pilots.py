"""Pilots on a real HTCondor: nobody starts an agent, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq import Client
from taskq.pilots.loop import PilotLoop
from tests.fixtures.gateways import StartGateway
from tests.helpers.pilot_site import PilotSite
from tests.htcondor.pool import HTCondorPool

TASKS = 60


@pytest.fixture
def site(
    queue: Client, htcondor: HTCondorPool, start_gateway: StartGateway, tmp_path: Path
) -> PilotSite:
    """Give a site with its gateway, and no pilot yet."""
    gateway = start_gateway(keeper=True, expected=[""])
    return PilotSite(queue, "htcondor", gateway.url, tmp_path, environment=htcondor.environment)


def test_pilots_bring_a_campaign_to_its_end(site: PilotSite, htcondor: HTCondorPool) -> None:
    """One job is removed in the midst of its work; nothing is lost."""
    site.seed(TASKS)
    site.add("--max-jobs", 3, "--time-limit", "10m")
    with site.taskq.process("pilots", "run", "--period", "0.5") as loop:
        site.wait(lambda: site.pilot()["serving"] == 3)
        site.wait(lambda: site.done() > 6)
        htcondor.run("condor_rm", site.jobs()[1].native_id)
        site.wait(lambda: site.jobs()[1].status == "ended")
        loop.terminate()
        assert loop.wait(20) == 0
    site.run_to_the_end(TASKS)
    jobs = site.jobs()
    assert {job.outcome for job in jobs.values()} == {"served"}
    assert (jobs[1].why or "").startswith("REMOVED: via condor_rm")
    assert jobs[1].left_why == "it was told to"
    site.assert_nothing_is_lost(TASKS)


def test_job_that_dies_before_its_agent_is_heard_is_shown_with_its_output(site: PilotSite) -> None:
    """Here the interpreter is not there."""
    site.seed(2)
    site.add("--python", "/no/such/python3", "--time-limit", "2m", "--max-jobs", 1)
    loop = PilotLoop(site.queue.database, site.taskq.environment)
    loop.round()
    site.wait(lambda: loop.round() and site.jobs()[1].outcome == "died")
    assert (site.jobs()[1].exit_code, site.jobs()[1].why) == (127, "COMPLETED")
    assert "/no/such/python3: not found" in (site.jobs()[1].tail or "")
    assert site.pilot()["failures"] == 1
