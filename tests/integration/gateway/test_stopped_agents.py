"""Agents that are stopped for longer than their lease, and go on as if nothing had happened."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult
from tests.integration.gateway.site import Site

pytestmark = pytest.mark.thorough

#: Longer than a busy machine keeps a process waiting: nobody may be lost by that.
LEASE_S = 8.0
LATER_S = 100.0
#: A task that is noted and ends when there is a file.
SCRIPT = 'echo "$1 agent" >> "$2"; until [ -e "$3" ]; do sleep 0.05; done'
ARGV = ("sh", "-c", SCRIPT, "sh", "{n}", "{params.diary}", "{params.go}")


class Scene:
    """A campaign with one task, which ends when `go` is there, and an agent that works on it."""

    def __init__(self, queue: Client, start_gateway: StartGateway, folder: Path) -> None:
        self.site = Site(folder)
        self.go = folder / "go"
        self.queue = queue
        words = (*self.site.certificate, "--lease", LEASE_S)
        self.gateway = start_gateway(*words, keeper=True, expected=["attempts lost"])
        self.realm = Realm(queue, self.gateway)

    def campaign(self, late_results: str) -> Campaign:
        """Return the campaign, which treats late results so."""
        campaign = self.queue.create_campaign(
            CampaignSpec(
                f"{self.realm.path}/c",
                handler=Handler("command", argv=ARGV),
                late_results=late_results,
                params=self.site.params(go=str(self.go)),
            )
        )
        campaign.submit({"n": 1}, key="a")
        return campaign

    @contextmanager
    def lost(self, campaign: Campaign) -> Iterator[subprocess.Popen[str]]:
        """Give an agent that was stopped at its task until the queue gave it up."""
        options = {"ca": self.site.ca, "spool": "spool", "until_empty": True, "slots": 1}
        node = self.site.node(self.realm.site)
        with node.at_work(self.gateway.url, **options) as agent:
            wait_until(self.site.executions, timeout_s=LATER_S)
            agent.send_signal(signal.SIGSTOP)
            try:
                wait_until(lambda: campaign.status().losses == 1, timeout_s=LATER_S)
                yield agent
            finally:
                agent.send_signal(signal.SIGCONT)


@pytest.fixture
def scene(queue: Client, start_gateway: StartGateway, tmp_path: Path) -> Scene:
    """Give a gateway that is the keeper too."""
    return Scene(queue, start_gateway, tmp_path)


def attempts(campaign: Campaign) -> list[tuple[str, str | None]]:
    return [(attempt.outcome, attempt.error_class) for attempt in campaign.attempts("a")]


@pytest.mark.parametrize("late_results", ["reject", "salvage"])
def test_task_that_ended_while_its_agent_was_stopped(late_results: str, scene: Scene) -> None:
    """Its result counts where late ones are salvaged; else the task is executed again."""
    campaign = scene.campaign(late_results)
    with scene.lost(campaign) as agent:
        scene.go.touch()
        agent.send_signal(signal.SIGCONT)
        ran = AgentResult(agent)
    assert ran.code == 0, ran.err
    assert campaign.status().done == 1
    if late_results == "salvage":
        assert attempts(campaign) == [("done", "agent-lost")]
        assert scene.site.executions() == {1: 1}
    else:
        assert attempts(campaign) == [("lost", "agent-lost"), ("done", None)]
        assert scene.site.executions() == {1: 2}


def test_task_that_still_runs_when_its_agent_goes_on_is_finished(
    scene: Scene, postgres: Postgres
) -> None:
    """The heartbeats of its next session name the task, and it gets no order to stop."""
    campaign = scene.campaign("salvage")
    heard = "select count(*) from taskq.session where heartbeat_at > opened_at + interval '1 s'"
    with scene.lost(campaign) as agent:
        before = value(postgres, heard)
        agent.send_signal(signal.SIGCONT)
        wait_until(lambda: value(postgres, heard) > before, timeout_s=LATER_S)
        scene.go.touch()
        ran = AgentResult(agent)
    assert ran.code == 0, ran.err
    assert attempts(campaign) == [("done", "agent-lost")]
    assert scene.site.executions() == {1: 1}
