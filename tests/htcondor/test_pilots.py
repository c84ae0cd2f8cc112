"""Pilots on a real HTCondor: nobody starts an agent, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq import Client
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
    jobs = site.run_with_one_ended(TASKS, lambda number: htcondor.run("condor_rm", number))
    assert (jobs[1].why or "").startswith("REMOVED: via condor_rm")


def test_job_that_dies_before_its_agent_starts_is_shown_with_its_output(site: PilotSite) -> None:
    """Here the interpreter is missing."""
    assert site.run_one_that_dies().why == "COMPLETED"
