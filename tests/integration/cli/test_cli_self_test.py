"""`taskq agent run --self-test`: a machine that is not fit claims nothing."""

from __future__ import annotations

import json

import pytest

from taskq import Campaign, Client
from tests.helpers.campaigns import servable
from tests.helpers.command_line import TIMEOUT_S, CommandLine


@pytest.fixture
def ready(queue: Client) -> Campaign:
    """Give a campaign with a task."""
    campaign = servable(queue)
    campaign.submit({"n": 1})
    return campaign


@pytest.mark.thorough
def test_an_agent_runs_the_test_of_its_site_first(taskq: CommandLine, ready: Campaign) -> None:
    """As one behind a gateway does: 69 and the reason, or the tasks are done; no secret is told."""
    run = ["agent", "run", "--campaign", "/c", "--until-empty", "--quiet", "-o", "json"]
    test = "sh -c 'test -n \"$TASKQ_DSN\" && echo a secret; echo no GPU; exit 3'"
    with taskq.process(*run, "--self-test", test) as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 69, log
    assert json.loads(out)["reason"] == "this node is unfit: sh exited with 3: no GPU"
    assert ready.status().waiting == 1
    with taskq.process(*run, "--self-test", "true") as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert (agent.returncode, json.loads(out)["done"]) == (0, 1), log
    code, error = taskq.refused(*run, "--self-test", "sh 'open")
    assert (code, "No closing quotation" in error) == (2, True), error
