"""Gateways that say that they are there, to whom, and what becomes of those that die."""

from __future__ import annotations

import uuid

import pytest

from taskq import Client
from taskq.db.gateway_queries import GatewayQueries
from taskq.diagnosis.servers import read_servers
from taskq.model.errors import Unavailable
from taskq.model.version import VERSION
from tests.fixtures.gateways import Agent, Realm, StartGateway
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import free_port, wait_until


@pytest.mark.thorough
def test_gateway_is_known_from_its_start_to_its_end(
    queue: Client, start_gateway: StartGateway
) -> None:
    """By host and port, with its release; to tokens that are for the whole queue only."""
    queue.create_campaign("/a")
    gateway = start_gateway()
    wait_until(lambda: read_servers(queue.queries).gateways, timeout_s=60)
    (known,) = read_servers(queue.queries).gateways
    assert known.name.endswith(f":{gateway.port}")
    assert (known.release, known.sessions, known.front, known.state) == (VERSION, 0, None, "")
    for path, count in (("/", 1), ("/a", 0)):
        token, _ = queue.tokens.create("manager", path, [path])
        with Client(GatewayQueries(gateway.url, token, patience_s=0)) as manager:
            seen = read_servers(manager.queries)
        assert (len(seen.gateways), seen.database is not None) == (count, bool(count))
    gateway.stop()
    assert read_servers(queue.queries).gateways == []


@pytest.mark.thorough
def test_sessions_and_exchanges_are_counted(queue: Client, start_gateway: StartGateway) -> None:
    """Those that were heard lately, until they leave."""
    servable(queue, "/a", 100)
    token, _ = queue.tokens.create("site", "here", ["/a"])
    gateway = start_gateway()
    agent = Agent.enrolled(gateway.peer(), token, {"campaign": "/a"})
    agent.beat()
    for _ in range(50):
        agent.claim()

    def are_seen() -> bool:
        (load,) = read_servers(queue.queries).gateways
        return load.sessions == 1 and load.per_s > 0

    wait_until(are_seen, timeout_s=60)
    gateway.hang_up()


@pytest.mark.thorough
def test_gateway_whose_record_was_refused_once_is_recorded_again(
    queue: Client, start_gateway: StartGateway, postgres: Postgres
) -> None:
    """Whatever the refusal looked like: the loop goes on, and the log has it once."""
    definition = value(
        postgres,
        "select pg_get_functiondef(oid) from pg_proc where proname = 'note_gateway'",
    )
    postgres.execute("alter function taskq.note_gateway rename to note_gateway_before")
    postgres.execute(
        "create function taskq.note_gateway(p_holder uuid, p_name text, p_release text,"
        " p_sessions integer, p_per_s double precision, p_front boolean,"
        " p_certificate_ends_s double precision)"
        " returns setof double precision language sql as 'select 1.0 where false'"
    )
    gateway = start_gateway(expected=[".*"])
    wait_until(
        lambda: "this gateway's presence cannot be done now" in gateway.errors(), timeout_s=60
    )
    postgres.execute("drop function taskq.note_gateway")
    postgres.execute(definition)
    wait_until(lambda: read_servers(queue.queries).gateways, timeout_s=60)
    assert gateway.errors().count("presence cannot be done now") == 1


def test_gateways_that_died_are_silent_for_an_hour_and_then_forgotten(
    queue: Client, postgres: Postgres
) -> None:
    """However many have come and gone, at most 1,000 are known."""

    def note(name: str, sessions: int | None = 3, holder: str = "") -> None:
        queue.queries.rows(
            "note_gateway",
            holder=holder or str(uuid.uuid4()),
            name=name,
            release="1",
            sessions=sessions,
            per_s=1.5,
            front=True,
            certificate_ends_s=None,
        )

    note("a")
    note("b" * 300)
    postgres.execute("update taskq.gateway set seen_at = seen_at - interval '59 min'")
    first, second = read_servers(queue.queries).gateways
    assert first.state.startswith("silent for 59 min")
    assert len(second.name) == 200
    postgres.execute("update taskq.gateway set seen_at = seen_at - interval '2 min'")
    assert read_servers(queue.queries).gateways == []
    note("c")
    assert value(postgres, "select count(*) from taskq.gateway") == 1
    postgres.execute(
        "insert into taskq.gateway select gen_random_uuid(), n::text, '1', 0, 0, null, now()"
        "  from generate_series(1, 999) n"
    )
    holder = value(postgres, "select holder from taskq.gateway where name = 'c'")
    note("d")
    note("c", 7, str(holder))
    known = {gateway.name: gateway.sessions for gateway in read_servers(queue.queries).gateways}
    assert (len(known), "d" in known, known["c"]) == (1_000, False, 7)
    note("c", None, str(holder))
    assert len(read_servers(queue.queries).gateways) == 999


@pytest.mark.thorough
def test_unreachable_gateway_is_reported_in_a_line(
    queue: Client, start_gateway: StartGateway
) -> None:
    """Not with a traceback of sockets."""
    gateway = start_gateway()
    realm = Realm(queue, gateway)
    with Client(GatewayQueries(gateway.url, realm.token("submitter"), patience_s=0)) as far:
        gateway.kill()
        with pytest.raises(Unavailable, match=r"cannot reach the gateway at http://127\.0\.0\.1"):
            far.campaign(realm.path)


@pytest.mark.thorough
def test_of_several_gateways_another_is_asked(queue: Client, start_gateway: StartGateway) -> None:
    """One that never was, or one that goes away, is no matter while another serves."""
    first, second = start_gateway(), start_gateway()
    realm = Realm(queue, first)
    urls = f"http://127.0.0.1:{free_port()},{first.url},{second.url}"
    with Client(GatewayQueries(urls, realm.token("submitter"))) as far:
        far.queries.open()
        campaign = far.campaign(realm.path)
        campaign.seed([{"n": 1}])
        first.kill()
        assert [campaign.status().waiting for _ in range(3)] == [1, 1, 1]
        assert campaign.seed([{"n": 1}, {"n": 2}]).added == 1
