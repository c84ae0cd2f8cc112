"""Pilots on a real PBS: nobody starts an agent, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskq import Client
from tests.fixtures.gateways import StartGateway
from tests.helpers.batch_commands import run_command
from tests.helpers.pilot_site import PilotSite
from tests.pbs.conftest import delete_job

TASKS = 60


@pytest.fixture
def site(queue: Client, start_gateway: StartGateway, tmp_path: Path) -> PilotSite:
    """Give a site with its gateway, and no pilot yet."""
    gateway = start_gateway(keeper=True, expected=[""])
    return PilotSite(queue, "pbs", gateway.url, tmp_path)


def test_pilots_bring_a_campaign_to_its_end(site: PilotSite) -> None:
    """One job is deleted in the midst of its work; nothing is lost."""
    jobs = site.run_with_one_ended(TASKS, delete_job)
    assert "terminated by" in (jobs[1].why or "")


def test_loop_that_is_killed_after_qsub_finds_its_job(site: PilotSite) -> None:
    """By its name: PBS has one job, and the next loop submits no other."""
    site.seed(2)
    site.add("--max-jobs", 1, "--time-limit", "2m", "--option=-h")
    (job,) = site.find_after_death()
    assert job.why == "HELD"
    of_that_name = ("qselect", "-N", job.name)
    assert run_command(of_that_name, os.environ).stdout.split() == [job.native_id]
    site.remove()
    assert run_command(of_that_name, os.environ).stdout == ""


def test_job_that_dies_before_its_agent_starts_is_shown_with_its_output(site: PilotSite) -> None:
    """Here the interpreter is missing."""
    assert (site.run_one_that_dies().why or "").endswith("and failed")
