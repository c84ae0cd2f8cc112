"""Explanations of batches: agents that give fewer tasks to a start, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskq import Client, Handler
from taskq.dispatch.heartbeats import encoded
from taskq_agent.protocol import Heartbeat, SmallerBatch
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import ScriptedAgent
from tests.integration.explaining.support import Make, explained

pytestmark = pytest.mark.both_transports(
    near=["test_explanation_names_agents_with_smaller_batches_and_why"]
)


def say(postgres: Postgres, agent: ScriptedAgent, *batches: SmallerBatch) -> None:
    """Send a heartbeat of an agent."""
    beat = f"[{encoded(Heartbeat(agent.session, batches=batches))}]"
    postgres.execute("select from taskq.beat(%s)", [beat])


def test_explanation_names_agents_with_smaller_batches_and_why(
    make: Make, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    handler = Handler("command", argv=("dock", "{tasks}"), batch=400)
    campaign = make()
    campaign.change(replace(campaign.spec(), handler=handler))
    other = queue.create_campaign("/other")
    agents = [hire("/c", host=f"node{n}") for n in range(3)]
    for agent, size in zip(agents, (50, 25), strict=False):
        say(
            postgres,
            agent,
            SmallerBatch(campaign.campaign_id, size, "out-of-memory"),
            SmallerBatch(other.campaign_id, 1, "exit-1"),
        )
    (reason,) = (
        reason for reason in explained(campaign).reasons if reason.code == "smaller-batches"
    )
    assert reason.text.startswith(
        "2 agents (node0, node1) give as few as 25 tasks of /c to one start, where the handler "
        "allows 400: larger starts failed (out-of-memory), though no task failed alone."
    )
    assert (reason.figures["least"], reason.figures["batch"]) == (25, 400)
    say(postgres, agents[0])
    (reason,) = (
        reason for reason in explained(campaign).reasons if reason.code == "smaller-batches"
    )
    assert reason.text.startswith("1 agent (node1) gives 25 tasks of /c to one start")
    say(postgres, agents[1])
    assert "smaller-batches" not in {reason.code for reason in explained(campaign).reasons}
