"""PostgreSQL through PgBouncer in transaction mode; Debian's knows no prepared statements."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from os import environ
from pathlib import Path

import pytest

from benchmarks.pooler import pooled
from taskq import CampaignSpec, Client, Handler
from taskq.db.connections import Database
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import PAYLOADS
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.worker_node import AgentResult
from tests.integration.gateway.site import Site

ROUNDS = 3
COUNTED = "do $$ begin assert (select count(*) {} from pg_prepared_statements); end $$"


@pytest.fixture
def door(database: Database) -> Iterator[Database]:
    """Give the same database through PgBouncer."""
    program = shutil.which("pgbouncer", path=f"{environ['PATH']}:/usr/sbin")
    assert program, "these tests need PgBouncer: `apt-get install pgbouncer` as root"
    with pooled(database) as through:
        yield through


async def test_clients_are_not_taken_for_one_another(door: Database) -> None:
    """They speak in turn, with statements of their own each, and share the server's connections."""
    queue = Client(door)
    campaign = queue.create_campaign("/c")
    campaign.seed({"n": n} for n in range(2 * ROUNDS))
    agents = [ScriptedAgent(door), ScriptedAgent(door)]
    idle = door.dedicated_async_connection()
    for done in range(ROUNDS):
        for agent in agents:
            assert await idle.rows("installation")
            (task,) = agent.claim(1)
            assert agent.heartbeat([task]) == set()
            assert campaign.status().working == 1
            assert agent.done(task) == "accepted"
        assert len(list(campaign.tasks(status="done"))) == 2 * (done + 1)
    await idle.close()
    for agent in agents:
        agent.close()
    assert list(queue.audit()) == []


def test_farm_works_through_it(door: Database, start_gateway: StartGateway, tmp_path: Path) -> None:
    """A gateway with its keeper, agents of both kinds and the audit; nobody complains."""
    gateway = start_gateway(on=door.dsn, keeper=True)
    site = Site(tmp_path)
    queue = Client(door)
    place = Realm(queue, gateway)
    handler = Handler("python", target="unhurried:run")
    campaign = queue.create_campaign(
        CampaignSpec(f"{place.path}/c", handler=handler, params=site.params(takes_s=0.01))
    )
    campaign.seed({"n": n} for n in range(100))
    beside = CommandLine(door.dsn)
    beside.environment["DIARY_AGENT"] = "beside"
    words = ("--campaign", place.path, "--until-empty", "--path", PAYLOADS, "--output", "json")
    with ExitStack() as stack:
        far = [site.node(place.site) for _ in range(2)]
        agents = [
            *(
                stack.enter_context(one.at_work(gateway.url, path=PAYLOADS, until_empty=True))
                for one in far
            ),
            *(stack.enter_context(beside.process("agent", "run", *words)) for _ in range(2)),
        ]
        ran = [AgentResult(agent) for agent in agents]
    assert [agent.code for agent in ran] == [0] * len(ran), [agent.err for agent in ran]
    assert not any("WARNING" in agent.err for agent in ran), [agent.err for agent in ran]
    assert site.executions() == dict.fromkeys(range(100), 1)
    assert campaign.status().done == 100
    assert beside.json("audit", place.path) == []


@pytest.mark.parametrize("way", ["line", "pool"])
def test_statements_are_prepared_on_direct_connections_alone(
    database: Database, door: Database, way: str
) -> None:
    """There they save the server time; through the pooler nothing is prepared, unasked."""
    for there, prepared in ((database, "> 0"), (door, "= 0")):
        line = there.dedicated_connection()
        with line.connected() if way == "line" else there.connection() as statements:
            for _ in range(ROUNDS):
                statements.rows("installation")
            statements.script(COUNTED.format(prepared))
        line.close()
