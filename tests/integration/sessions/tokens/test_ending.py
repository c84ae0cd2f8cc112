"""Ends of tokens, which expire or are revoked, and of their sessions."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from taskq import Campaign, Seed
from taskq.db.connections import Database
from taskq.db.tokens import Tokens, hashed, session_token
from taskq.model.errors import SessionEnded, Unauthorized
from tests.helpers.postgres import Postgres, assert_counts_are_true, statuses, value
from tests.helpers.waiting import wait_until
from tests.integration.sessions.tokens.support import Enrol, identify


def test_open_sessions_outlive_the_expiry_of_their_token(
    site: str, enrol: Enrol, database: Database, postgres: Postgres
) -> None:
    """What they have in hand is worth more than punctuality; no more are opened."""
    key = str(uuid.uuid4())
    session = enrol(site, key=key)["session_id"]
    postgres.execute("update taskq.token set expires_at = clock_timestamp()")
    postgres.execute("select taskq.heartbeat(%s)", [session])
    assert [record["ended"] for record in identify(database, session_token(site, key))] == [False]
    with pytest.raises(Unauthorized):
        enrol(site)


def test_expired_manager_may_nothing(tokens: Tokens, postgres: Postgres) -> None:
    """Whatever a gateway remembers of it: the database looks again, with each statement."""
    text, _ = tokens.create("manager", "m", ["/c"])
    query = "select kind from taskq.permit(%s, 'manager', '{/c}', '{}', false, 60)"
    assert value(postgres, query, hashed(text)) == "manager"
    postgres.execute("update taskq.token set expires_at = clock_timestamp()")
    with pytest.raises(psycopg.Error, match="token is not valid"):
        value(postgres, query, hashed(text))


def test_revoked_token_takes_its_sessions_with_it(
    site: str, campaign: Campaign, tokens: Tokens, enrol: Enrol, postgres: Postgres
) -> None:
    """Their tasks wait again, counted neither as failed nor as lost; other sessions go on."""
    campaign.seed(Seed({"n": n}, key) for n, key in enumerate("abc"))
    other, _ = tokens.create("site", "other", ["/c"])
    sessions = [enrol(site)["session_id"], enrol(site)["session_id"], enrol(other)["session_id"]]
    for session in sessions:
        postgres.execute("select taskq.claim('/c', %s, gen_random_uuid())", [session])
    revoked = tokens.revoke("site")
    assert (revoked.sessions, revoked.attempts) == (2, 2)
    assert sorted(statuses(postgres).values()) == ["waiting", "waiting", "working"]
    assert {attempt.outcome for key in "abc" for attempt in campaign.attempts(key)} == {"released"}
    status = campaign.status()
    assert (status.failures, status.losses) == (0, 0)
    for session in sessions[:2]:
        with pytest.raises(psycopg.Error, match="has ended"):
            postgres.execute("select taskq.heartbeat(%s)", [session])
        with pytest.raises(psycopg.Error, match="has ended"):
            postgres.execute("select taskq.claim('/c', %s, gen_random_uuid())", [session])
    postgres.execute("select taskq.heartbeat(%s)", [sessions[2]])
    again = tokens.revoke("site")
    assert (again.sessions, again.attempts) == (0, 0)
    assert_counts_are_true(postgres)


def test_heartbeat_of_an_enrolled_session_writes_one_tuple(
    site: str, enrol: Enrol, postgres: Postgres
) -> None:
    """What a session has from its token is in indexes that a beat does not touch (HOT)."""
    session = enrol(site)["session_id"]
    with postgres.transaction():
        postgres.execute("select taskq.heartbeat(%s)", [session])
        counts = postgres.execute(
            "select pg_stat_get_xact_tuples_updated(c) as updated,"
            "       pg_stat_get_xact_tuples_hot_updated(c) as hot"
            "  from (select 'taskq.session'::regclass::oid as c) s"
        ).fetchone()
    assert counts == {"updated": 1, "hot": 1}


def test_ended_session_is_not_found_again(
    site: str, enrol: Enrol, tokens: Tokens, database: Database, postgres: Postgres
) -> None:
    """Neither by its token, nor by a repeated hello."""
    key = str(uuid.uuid4())
    session = enrol(site, key=key)["session_id"]
    postgres.execute("select taskq.end_session(%s)", [session])
    with pytest.raises(SessionEnded, match="open another"):
        enrol(site, key=key)
    assert [record["ended"] for record in identify(database, session_token(site, key))] == [True]
    assert [(token.uses, token.sessions) for token in tokens.list()] == [(1, 0)]


def test_no_session_slips_through_a_revocation(
    site: str, tokens: Tokens, dsn: str, postgres: Postgres
) -> None:
    """One that is being opened at this moment is waited for, and ended."""
    with ThreadPoolExecutor(1) as pool:
        with psycopg.connect(dsn) as slow:
            slow.execute(
                "select taskq.enrol(%s, %s, '192.0.2.7', '/c', gen_random_uuid())",
                [hashed(site), hashed("tqs_of this one")],
            )
            revoking = pool.submit(tokens.revoke, "site")
            wait_until(
                lambda: value(postgres, "select count(*) from pg_locks where not granted") > 0
            )
        assert revoking.result().sessions == 1
    assert value(postgres, "select count(*) from taskq.session where ended_at is null") == 0
