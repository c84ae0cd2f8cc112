"""Pilots on a real cluster: nobody starts an agent, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq import Client
from tests.fixtures.gateways import StartGateway
from tests.helpers.pilot_site import PilotSite
from tests.kubernetes.conftest import Cluster

TASKS = 24


@pytest.fixture
def site(queue: Client, cluster: Cluster, start_gateway: StartGateway, tmp_path: Path) -> PilotSite:
    """Give a site with its gateway, and no pilot yet."""
    (tmp_path / "pod").write_text(cluster.table["pod"])
    gateway = start_gateway(keeper=True, expected=[""])
    words = ("--image", cluster.table["image"], "--namespace", cluster.namespace)
    words += ("--pod", str(tmp_path / "pod"))
    return PilotSite(queue, "kubernetes", gateway.url, tmp_path, words=words)


def test_pilots_bring_a_campaign_to_its_end(site: PilotSite, cluster: Cluster) -> None:
    """One pod is deleted in the midst of its work; nothing is lost."""
    site.seed(TASKS)
    site.add("--max-jobs", 2, "--cores", 1, "--time-limit", "10m", "--backlog", 1)
    with site.taskq.process("pilots", "run", "--interval", "0.5") as loop:
        site.wait(lambda: site.pilot()["serving"] >= 1)
        site.wait(lambda: site.done() > 1)
        pods = cluster.run("get", "pods", f"--selector=taskq/job={site.jobs()[1].name}", "-oname")
        cluster.run("delete", pods.strip(), "--wait=false")
        site.wait(lambda: site.jobs()[1].status == "ended")
        loop.terminate()
        assert loop.wait(60) == 0
    site.run_to_the_end(TASKS)
    jobs = site.jobs()
    assert {job.outcome for job in jobs.values()} <= {"served", "cancelled"}
    assert (jobs[1].outcome, jobs[1].left_why) == ("served", "it got a signal to stop")
    site.assert_nothing_is_lost(TASKS)
