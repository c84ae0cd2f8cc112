"""Named resources of nodes: campaigns that need some, and the agents that have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taskq import CampaignSpec, Client, Handler
from taskq.model.errors import InvalidCampaign
from tests.fixtures.queues import Hire
from tests.helpers.command_line import TIMEOUT_S, CommandLine
from tests.helpers.postgres import Postgres, value
from tests.integration.explaining.support import only

GIB = 1 << 30
FILE = """
path = "/c"
[resources]
cores = 1
scratch = "20GB"
licence = 1
[handler]
kind = "command"
argv = ["sh", "-c", {script}]
"""
#: Waits for the others, so that as many run as may; then says how many ran with it.
SCRIPT = (
    "touch {folder}/$TASKQ_TASK; sleep 0.2; n=$(ls {folder} | wc -l); "
    'echo "{{{{\\"n\\": $n, \\"scratch\\": $TASKQ_RESOURCE_SCRATCH, '
    '\\"licence\\": $TASKQ_RESOURCE_LICENCE}}}}" > $TASKQ_RESULT; rm {folder}/$TASKQ_TASK'
)


def test_named_resources_are_stored_and_become_requirements(
    queue: Client, postgres: Postgres
) -> None:
    spec = CampaignSpec("/c", named_resources={"scratch": "20GB", "licence": 1})  # type: ignore[dict-item]
    campaign = queue.create_campaign(spec)
    assert campaign.spec() == spec
    assert campaign.spec().named_resources == {"scratch": 20 * GIB, "licence": 1}
    required = value(postgres, "select requires from taskq.campaign where path = '/c'")
    assert required == ["resource.licence>=1", f"resource.scratch>={20 * GIB}"]
    assert CampaignSpec.from_json(spec.to_json()) == spec
    assert spec.to_json()["resources"]["licence"] == 1
    campaign.change(CampaignSpec("/c"))
    assert value(postgres, "select requires from taskq.campaign where path = '/c'") == []


@pytest.mark.parametrize(
    ("offers", "gets"),
    [
        ((), False),
        (("resource.licence=1",), False),
        ((f"resource.scratch={20 * GIB}", "resource.licence=0"), False),
        ((f"resource.scratch={20 * GIB}", "resource.licence=1"), True),
    ],
)
def test_tasks_go_to_agents_that_can_ever_have_what_they_need(
    queue: Client, hire: Hire, offers: tuple[str, ...], *, gets: bool
) -> None:
    needs = {"scratch": 20 * GIB, "licence": 1}
    queue.create_campaign(CampaignSpec("/c", named_resources=needs)).seed([{"n": 1}])
    assert bool(hire(offers=offers).claim()) == gets


def test_explanation_names_the_resource_that_no_agent_has(queue: Client, hire: Hire) -> None:
    handler = Handler("command", argv=("true",))
    spec = CampaignSpec("/c", handler=handler, named_resources={"scratch": 20 * GIB, "licence": 1})
    campaign = queue.create_campaign(spec)
    campaign.seed([{"n": 1}])
    hire("/c", offers=("resource.licence=1",))
    reason = only(campaign)
    assert reason.code == "tags"
    assert "no agent at work offers the resource scratch (20G)" in reason.text
    assert any("--resource scratch=20G" in command for command in reason.commands)


@pytest.mark.parametrize(
    ("needs", "fault"),
    [
        ({"Scratch": 1}, "must be a name"),
        ({"a" * 33: 1}, "must be a name"),
        ({"licence": 0}, "must be a whole number"),
        ({"licence": 1.5}, "must be a whole number"),
        ({"licence": True}, "must be a whole number"),
        ({"licence": "many"}, "must be a whole number"),
        ({"memory": 1}, "memory is a setting of its own"),
        (3, "no table of amounts"),
        ({f"r{number}": 1 for number in range(9)}, "9 named resources; 8 at most"),
    ],
)
def test_malformed_need_is_refused(needs: Any, fault: str) -> None:
    with pytest.raises(InvalidCampaign, match=fault):
        CampaignSpec("/c", named_resources=needs)


@pytest.mark.parametrize(
    ("key", "hint"), [("core", "did you mean 'cores'"), ("time_limit_s", "stands in the table")]
)
def test_misspelt_key_of_a_campaign_file_is_no_named_resource(key: str, hint: str) -> None:
    """Its campaign would wait for an agent that has such a thing."""
    with pytest.raises(InvalidCampaign, match=hint):
        CampaignSpec.from_json({"path": "/c", "resources": {key: 4}})


@pytest.mark.parametrize(
    "needs", ['["a"]', '{"A": 1}', '{"a": 0}', '{"a": "x"}', '{"a": 1.5}', '{"a": null}']
)
def test_server_refuses_needs_that_no_client_sends(
    queue: Client, postgres: Postgres, needs: str
) -> None:
    queue.create_campaign(CampaignSpec("/c"))
    spec = json.dumps({"named_resources": json.loads(needs)})
    with pytest.raises(Exception, match="named resource"):
        postgres.execute("select taskq.change_campaign('/c', %s)", [spec])


@pytest.mark.thorough
def test_agent_starts_no_more_than_its_node_has(
    taskq: CommandLine, queue: Client, tmp_path: Path
) -> None:
    """Four slots and two licences, from a campaign file; programs learn their share."""
    folder = tmp_path / "at-work"
    folder.mkdir()
    file = tmp_path / "c.toml"
    file.write_text(FILE.format(script=json.dumps(SCRIPT.format(folder=folder))))
    taskq.out("campaign", "create", "--campaign-file", str(file))
    assert "licence 1; scratch 20G" in taskq.out("campaign", "show", "/c")
    campaign = queue.campaign("/c")
    campaign.seed({"n": number} for number in range(8))
    run = ["agent", "run", "--campaign", "/c", "--until-empty", "--slots", 4, "--cores", 4]
    run += ["--resource", "scratch=100GB", "--resource", "licence=2", "-o", "json"]
    with taskq.process(*run) as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert (agent.returncode, json.loads(out)["done"]) == (0, 8), log
    results = [dict(found.result or {}) for found in campaign.results()]
    assert {found["n"] for found in results} <= {1, 2}
    assert {(found["scratch"], found["licence"]) for found in results} == {(20 * GIB, 1)}
    assert "/c waits for room here: 0 of 2 licence are free, and it needs 1" in log
