"""What a manager's token sees of the rest of the queue: nothing, whatever goes on there."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest

from taskq import Client, Seed
from taskq.db.catalogue import all_statements
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres
from tests.helpers.usage import sum_up

#: Statements that change nothing, though no standby answers them.
CHANGE_NOTHING = {"agent_slots", "pilot_demand", "pilot_jobs", "pilots"}
#: Types of columns that differ from one moment to the next.
MOVING = {"timestamptz", "float8", "float4"}
EVERYWHERE: dict[str, Any] = {
    "scope": "/",
    **dict.fromkeys(("limit", "most", "scan", "top", "minutes", "ended"), 100),
    **dict.fromkeys(("after", "task", "attempt", "depth"), 0),
    **{name: [] for name in ("offers", "tasks", "keys", "attempts", "firsts", "lasts")},
    **dict.fromkeys(
        ("worst", "status", "group_part", "pilot", "lifetime_s", "since", "places", "verbs"), None
    ),
    **dict.fromkeys(("ascending", "inline", "below", "payloads", "dry_run", "whole"), True),
    "part": "result",
    "name": "score",
    "group_name": "x",
    "host": "h",
    "kind": "host",
    "error_class": "x",
    "filter": '["and"]',
    "states": ["waiting"],
    "parts": [],
    "per": ["owner", "campaign", "end"],
    "requires": [],
    "within": ["/"],
    "fields": '[["payload", "n"]]',
    "stretches": 5,
    "recipe": 1,
    "each": 5,
    "lately_s": 60.0,
    "sessions": [*range(50)],
}


def reads() -> list[str]:
    """Return the names of the statements that managers may run and that only read."""
    return sorted(
        name
        for name, statement in all_statements().items()
        if statement.offer is not None and (statement.on_standby or name in CHANGE_NOTHING)
    )


def answers(gateway: GatewayProcess, token: str, path: str, campaign: int) -> dict[str, Any]:
    """Return the answers to all of them, without what moves by itself."""
    known = {**EVERYWHERE, "path": path, "campaign": campaign, "chosen": [campaign]}
    found = {}
    for name in reads():
        values = {parameter: known[parameter] for parameter in all_statements()[name].parameters}
        reply = gateway.ask("POST", f"/v1/manage/{name}", token=token, body=values)
        assert reply.status == 200, (name, reply.body)
        columns, *rows = [json.loads(line) for line in gzip.decompress(reply.body).splitlines()]
        still = [n for n, (_, kind) in enumerate(columns) if kind not in MOVING]
        found[name] = [{columns[n][0]: row[n] for n in still} for row in rows]
    return found


def brake(postgres: Postgres, silent: int, of: int) -> None:
    """Set the brake for so many agents."""
    postgres.execute(
        "update taskq.brake set since = now(), heard_at = null, until = null,"
        "       silent = %s, open = %s",
        [silent, of],
    )


def work(queue: Client, path: str, hire: Hire, served: str) -> None:
    """Have tasks in all states at a campaign, and an agent that serves it, or one above it."""
    campaign = queue.create_campaign(path)
    campaign.seed(Seed({"n": n}, f"{path}-{n}") for n in range(9))
    agent = hire(served)
    done, failed, *_ = agent.claim(5)
    agent.done(done, {"score": 1})
    agent.report(failed, "failed", error_class="Odd", error=path, retry=False)


@pytest.fixture
def mine(queue: Client, start_gateway: StartGateway, hire: Hire, postgres: Postgres) -> Realm:
    """Give a campaign with some work, and an owner who has others."""
    realm = Realm(queue, start_gateway())
    work(queue, f"{realm.path}/a", hire, f"{realm.path}/a")
    hire("/")  # it serves all
    queue.owners.give(realm.path, "ada")
    queue.owners.set_quota("ada", {"max_running": 1_000, "max_waiting": 1_000})
    brake(postgres, 1, 2)
    return realm


@pytest.mark.thorough
def test_nothing_that_a_manager_reads_depends_on_others(
    mine: Realm, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """No statement, also none to come: the answers are the same, whatever else is in the queue."""
    campaign = queue.campaign(f"{mine.path}/a").campaign_id
    before = answers(mine.gateway, mine.manager, mine.path, campaign)
    for name in ("other", "further"):
        work(queue, f"/{name}", hire, f"/{name}")
        queue.owners.give(f"/{name}", "ada")
    queue.create_campaign("/other/b").seed([{"n": 1}])
    queue.tokens.create("site", "secret-token", ["/other"])
    brake(postgres, 17, 23)
    after = answers(mine.gateway, mine.manager, mine.path, campaign)
    assert before == after
    assert len(before) > 30
    text = json.dumps(after)
    assert not re.search("/other|/further|secret", text), text


@pytest.mark.thorough
def test_work_of_shared_agents_elsewhere_is_not_seen(
    mine: Realm, queue: Client, hire: Hire
) -> None:
    """An agent that serves all campaigns works for another."""
    campaign = queue.campaign(f"{mine.path}/a").campaign_id
    before = answers(mine.gateway, mine.manager, mine.path, campaign)["agents"]
    shared = hire("/")
    shared.campaign = servable(queue, "/other", tasks=5).campaign_id
    assert len(shared.claim(4)) == 4
    after = answers(mine.gateway, mine.manager, mine.path, campaign)["agents"]
    assert len(after) == len(before) + 1
    assert {record["working"] for record in after if record["path"] == "/"} == {0}
    assert sum(record["working"] for record in after) == 3


@pytest.mark.thorough
def test_owner_is_held_by_what_others_cannot_see(mine: Realm, queue: Client, hire: Hire) -> None:
    """Managers see whether the quota is used up, not by how much elsewhere."""
    queue.create_campaign("/other").seed({"n": n} for n in range(9))
    queue.owners.give("/other", "ada")
    assert len(hire("/other").claim(7)) == 7
    queue.owners.set_quota("ada", {"max_running": 5})
    campaign = queue.campaign(f"{mine.path}/a").campaign_id
    (owner,) = answers(mine.gateway, mine.manager, mine.path, campaign)["owners"]
    assert (owner["working"], owner["is_held"], owner["is_full"]) == (3, True, False)
    (owner_of_all,) = queue.owners.list(mine.path)
    assert (owner_of_all.working, owner_of_all.is_held) == (10, True)


@pytest.mark.thorough
def test_whole_queue_is_for_tokens_of_the_whole_queue(mine: Realm, queue: Client) -> None:
    """They see all of it, as before."""
    token = queue.tokens.create("manager", "all", ["/"])[0]
    found = answers(mine.gateway, token, mine.path, queue.campaign(mine.path).campaign_id)
    assert [(record["silent"], record["open"]) for record in found["brake"]] == [(1, 2)]
    assert found["explain_upkeep"][0]["agents"] == 2
    mine_alone = answers(
        mine.gateway, mine.manager, mine.path, queue.campaign(mine.path).campaign_id
    )
    assert [(record["silent"], record["open"]) for record in mine_alone["brake"]] == [(None, None)]
    assert mine_alone["explain_upkeep"][0]["agents"] == 1


def test_token_for_a_campaign_sees_no_ends_of_others(
    queue: Client, hire: Hire, postgres: Postgres, start_gateway: StartGateway
) -> None:
    """Neither of those next to it nor of those above it."""
    for path in ("/a", "/b"):
        servable(queue, path, tasks=1)
        agent = hire(path, host=f"node-of-{path[1:]}")
        agent.done(agent.claim()[0])
    sum_up(postgres)
    gateway = start_gateway()
    token = queue.tokens.create("manager", "a", ["/a"])[0]
    found = {}
    for path in ("/a", "/b", "/"):
        body = {
            "path": path,
            "per": ["host", "campaign"],
            "since": None,
            "most": 100,
            "places": None,
        }
        reply = gateway.ask("POST", "/v1/manage/end_sums", token=token, body=body)
        found[path] = reply.status
        if path == "/a":
            text = gzip.decompress(reply.body).decode()
            assert "node-of-a" in text
            assert "node-of-b" not in text
    assert found == {"/a": 200, "/b": 403, "/": 403}
