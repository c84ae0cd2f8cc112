"""Explanations of nodes whose devices and named resources others hold."""

from __future__ import annotations

from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from taskq.db.sql_files import files_of
from taskq.diagnosis.reasons import Reason
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import ScriptedAgent
from tests.integration.explaining.support import explained

pytestmark = pytest.mark.both_transports(near=["test_explanation_names_who_holds_a_named_resource"])

HANDLER = Handler("command", argv=("dock",))


def needing(queue: Client, path: str, **needs: Any) -> Campaign:
    """Return a campaign of ten tasks."""
    campaign = queue.create_campaign(CampaignSpec(path, handler=HANDLER, **needs))
    campaign.seed({"n": n} for n in range(10))
    return campaign


def say(agent: ScriptedAgent, *shares: tuple[Campaign, dict[str, Any]]) -> None:
    """Send a heartbeat that says which campaign has what, a slot each."""
    said = [
        {"slot": slot, "campaign": campaign.campaign_id, "task": 1, **has}
        for slot, (campaign, has) in enumerate(shares)
    ]
    agent.heartbeat(says={"shares": said})


def device(name: str, parts: int = 1_000) -> dict[str, Any]:
    return {"name": name, "parts": parts}


def licences(amount: int) -> dict[str, Any]:
    return {"resources": [{"name": "licence", "amount": amount}]}


def held(campaign: Campaign) -> list[Reason]:
    return [reason for reason in explained(campaign).reasons if reason.code == "resource-held"]


def test_explanation_names_who_holds_a_named_resource(queue: Client, hire: Hire) -> None:
    """Only of agents where too little is free, and only for campaigns that need it."""
    waits = needing(queue, "/c/waits", named_resources={"licence": 2})
    holds = needing(queue, "/c/holds", named_resources={"licence": 1})
    plain = needing(queue, "/c/plain")
    agents = [hire("/c", host=f"n{n}", slots=4, offers=("resource.licence=3",)) for n in range(3)]
    hire("/c", host="n9", offers=("resource.licence=1",))
    say(agents[0], (holds, licences(1)), (holds, licences(1)))
    say(agents[1], (waits, licences(2)), (holds, licences(1)))
    say(agents[2], (holds, licences(1)), (plain, {}))
    (reason,) = held(waits)
    assert reason.text == (
        "2 agents (n0, n1) have too little of licence free for one more start of /c/waits: "
        "/c/holds (3 slots), /c/waits (1 slot) hold it there."
    )
    assert reason.figures["holders"] == {"/c/holds": 3, "/c/waits": 1}
    assert reason.commands == ["taskq agent list /c/waits"]
    (other,) = held(holds)
    assert (other.figures["agents"], other.figures["campaign"]) == (1, "/c/holds")
    assert held(plain) == []
    assert {it.figures["campaign"] for it in held(queue.campaign("/c"))} == {
        "/c/waits",
        "/c/holds",
    }


@pytest.mark.parametrize(
    ("needs", "used", "is_short"),
    [
        (0.5, [("a", 1_000), ("b", 600)], True),
        (0.4, [("a", 1_000), ("b", 600)], False),
        (0.5, [("a", 300), ("a", 300), ("b", 600)], True),
        (0.5, [("a", 1_000)], False),
        (1, [("a", 1_000), ("b", 10)], True),
        (2, [("a", 10)], True),
        (1, [("a", 1_000)], False),
        (3, [("a", 10)], False),
    ],
)
def test_explanation_names_who_holds_devices(
    queue: Client, hire: Hire, needs: float, used: list[tuple[str, int]], is_short: bool
) -> None:
    """A share needs room on one device; whole ones need so many that nobody has a part of.

    The agent has two; what needs three is never claimed there.
    """
    waits = needing(queue, "/c/waits", gpus=needs)
    holds = needing(queue, "/c/holds", gpus=0.01)
    agent = hire("/c", slots=8, offers=("gpus=2",))
    say(agent, *((holds, {"devices": [device(name, parts)]}) for name, parts in used))
    found = held(waits)
    assert bool(found) is is_short
    if is_short:
        assert "too little of devices free" in found[0].text
        assert found[0].figures["holders"] == {"/c/holds": len(used)}


def test_holder_that_a_token_is_not_for_has_no_name(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    waits = needing(queue, "/c", named_resources={"licence": 1})
    secret = needing(queue, "/secret", named_resources={"licence": 1})
    agent = hire("/", offers=("resource.licence=1",))
    say(agent, (secret, licences(1)))
    asked = {"path": "/c", "chosen": [waits.campaign_id], "limit": 9}
    with postgres.transaction():
        postgres.execute("select set_config('taskq.token_paths', '{/c}', true)")
        (row,) = postgres.execute(files_of("queries")["explain_held"].read_text("utf-8"), asked)
    assert row["holders"] == {"": 1}
