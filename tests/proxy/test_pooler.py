"""PostgreSQL through PgBouncer in transaction mode; Debian's knows no prepared statements."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from os import environ
from pathlib import Path

import pytest
from psycopg import sql

from benchmarks.pooler import pooled
from taskq import CampaignSpec, Client, Handler
from taskq.db import sessions
from taskq.db.connections import Database
from taskq.model.errors import ServerUnsuitable
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.command_line import CommandLine
from tests.helpers.hostile_settings import OTHER, PINNED
from tests.helpers.paths import PAYLOADS
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.worker_node import AgentResult
from tests.integration.gateway.site import Site

ROUNDS = 3
CARRIED = {"client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings"}
COUNTED = "do $$ begin assert (select count(*) {} from pg_prepared_statements); end $$"


@pytest.fixture(scope="module")
def program() -> str:
    """Give the pooler's program."""
    found = shutil.which("pgbouncer", path=f"{environ['PATH']}:/usr/sbin")
    assert found, "these tests need PgBouncer: `apt-get install pgbouncer` as root"
    return found


@pytest.fixture
def door(database: Database, program: str) -> Iterator[Database]:
    """Give the same database through PgBouncer."""
    assert program
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
    direct = CommandLine(door.dsn)
    direct.environment["DIARY_AGENT"] = "direct"
    words = ("--campaign", place.path, "--until-empty", "--path", PAYLOADS, "--output", "json")
    with ExitStack() as stack:
        far = [site.node(place.site) for _ in range(2)]
        agents = [
            *(
                stack.enter_context(node.at_work(gateway.url, path=PAYLOADS, until_empty=True))
                for node in far
            ),
            *(stack.enter_context(direct.process("agent", "run", *words)) for _ in range(2)),
        ]
        ran = [AgentResult(agent) for agent in agents]
    assert [agent.code for agent in ran] == [0] * len(ran), [agent.err for agent in ran]
    assert not any("WARNING" in agent.err for agent in ran), [agent.err for agent in ran]
    assert site.executions() == dict.fromkeys(range(100), 1)
    assert campaign.status().done == 100
    assert direct.json("audit", place.path) == []


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


def set_for_all(postgres: Postgres, settings: Mapping[str, str]) -> None:
    """Set what new connections to the test's database have."""
    database = sql.Identifier(postgres.info.dbname)
    for name, its in settings.items():
        alter = sql.SQL("alter database {} set {} = {}")
        value = sql.SQL(its) if name == "search_path" else sql.Literal(its)
        postgres.execute(alter.format(database, sql.SQL(name), value))


def test_settings_that_a_pooler_carries_are_set_through_it(
    database: Database, postgres: Postgres, program: str
) -> None:
    """Encoding, dates and texts are as they should be on each of the server's connections."""
    assert program
    set_for_all(postgres, {name: PINNED[name] for name in CARRIED} | OTHER)
    with pooled(database) as through:
        queue, both = Client(through), {"n": 1, "name": "größer als 日本"}
        campaign = queue.create_campaign("/c")
        campaign.seed([both])
        agent = ScriptedAgent(through)
        (task,) = agent.claim(1)
        assert task.payload == both
        assert agent.done(task) == "accepted"
        agent.close()
        assert [result.result for result in campaign.results()] == [{}]
        shown = through.value("tests.helpers/settings_shown", names=list(CARRIED))
    wanted = {**sessions.START_UP, **sessions.PINNED}
    assert shown == {name: wanted[name] for name in CARRIED}


def test_search_path_that_hides_nothing_passes_through_a_pooler(
    database: Database, postgres: Postgres, program: str
) -> None:
    """PostgreSQL's own schema comes first wherever it is not named; most databases set some."""
    assert program
    set_for_all(postgres, {"search_path": '"$user", public'})
    with pooled(database) as through:
        assert Client(through).create_campaign("/c").status().total == 0


@pytest.mark.parametrize("name", sorted(PINNED.keys() - CARRIED))
def test_setting_that_a_pooler_does_not_carry_is_refused_with_a_remedy(
    database: Database, postgres: Postgres, program: str, name: str
) -> None:
    """It would hold on some of the server's connections only, and for other clients too."""
    assert program
    set_for_all(postgres, {name: PINNED[name]})
    with pytest.raises(ServerUnsuitable, match=f"has {name} = ") as refused, pooled(database):
        pass
    (remedy, _) = re.findall("`(.*?)`", str(refused.value))
    postgres.execute(remedy.encode())
    try:
        with pooled(database) as through:
            assert Client(through).create_campaign("/c").status().total == 0
    finally:
        postgres.execute(remedy.partition(" set ")[0].encode() + b" reset all")
