"""Tokens: who gets a session, for what, how often, from where; and how all that ends."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import Any, TypeAlias

import psycopg
import pytest

from taskq import Campaign, Client, Seed
from taskq.database import Database
from taskq.errors import (
    Conflict,
    Forbidden,
    InvalidPath,
    NotFound,
    SessionEnded,
    Unauthorized,
    UsageError,
)
from taskq.tokens import Tokens, hashed, session_token
from tests.backstage import Backstage, assert_counts_are_true, statuses, value
from tests.support import wait_until

Enrol: TypeAlias = Callable[..., dict[str, Any]]


@pytest.fixture
def tokens(queue: Client, campaign: Campaign) -> Tokens:
    """Give the tokens of a queue with the campaigns /c, /c/below and /d."""
    queue.create_campaign(f"{campaign.path}/below")
    queue.create_campaign("/d")
    return queue.tokens


@pytest.fixture
def site(tokens: Tokens) -> str:
    """Give a token for /c."""
    return tokens.create("site", "site", ["/c"])[0]


@pytest.fixture
def enrol(database: Database) -> Enrol:
    """Give a function that says hello with a token as a gateway does."""

    def say_hello(token: str, path: str = "/c", **changed: object) -> dict[str, Any]:
        key = changed.setdefault("key", str(uuid.uuid4()))
        words: dict[str, object] = {
            "token_hash": hashed(token),
            "session_hash": hashed(session_token(token, str(key))),
            "address": "192.0.2.7",
            "path": path,
            "lease_s": 120.0,
            "agent": "",
            "host": "",
            "site": "",
            "pid": 1,
            "slots": 1,
            "release": "",
            "offers": ["gpu"],
        }
        row = database.row("enrol", **(words | changed))
        assert row is not None
        return row

    return say_hello


def identify(database: Database, *found: str) -> list[dict[str, Any]]:
    """Return what is known of some tokens."""
    return database.rows("identify", hashes=[hashed(one) for one in found])


def test_database_never_sees_a_token(site: str, tokens: Tokens, backstage: Backstage) -> None:
    """256 random bits in the hands of whoever created it, and a hash in the database."""
    assert re.fullmatch("tqe_[A-Za-z0-9_-]{43}", site)
    manager, made = tokens.create("manager", "ada", ["/"])
    assert re.fullmatch("tqm_[A-Za-z0-9_-]{43}", manager)
    rows = str(backstage.execute("select * from taskq.token").fetchall())
    assert repr(hashed(site)) in rows
    assert site[4:] not in rows
    assert manager[4:] not in str(made)


def test_token_opens_sessions_that_can_be_told_by_their_own(
    site: str, enrol: Enrol, database: Database
) -> None:
    """The session's token is found with what the session serves."""
    key = str(uuid.uuid4())
    row = enrol(site, key=key)
    assert row["path"] == "/c"
    (found,) = identify(database, session_token(site, key), "tqs_nobody")
    assert found["hash"] == hashed(session_token(site, key))
    assert (found["session_id"], found["path"]) == (row["session_id"], "/c")
    assert (found["offers"], found["ended"], found["paths"]) == (["gpu"], False, None)


def test_hello_may_be_repeated(site: str, enrol: Enrol, tokens: Tokens) -> None:
    """The same key finds the same session, with the same token, and counts once."""
    key = str(uuid.uuid4())
    assert enrol(site, key=key) == enrol(site, key=key)
    assert session_token(site, key) == session_token(site, key)
    assert [one.uses for one in tokens.list()] == [1]


def test_each_token_and_each_key_makes_another_session_token(site: str) -> None:
    """Nobody can work out the session token of another site's agent."""
    keys = [str(uuid.uuid4()) for _ in range(2)]
    made = {session_token(token, key) for token in (site, site + "x") for key in keys}
    assert len(made) == 4
    with pytest.raises(UsageError, match="draw a UUID"):
        session_token(site, keys[0].upper() + "A")


@pytest.mark.parametrize("spoilt", ["unknown", "expired", "revoked", "manager"])
def test_token_that_is_not_valid_is_refused_without_saying_why(
    spoilt: str, site: str, tokens: Tokens, enrol: Enrol, backstage: Backstage
) -> None:
    """Whoever tries tokens learns nothing about any; nothing is opened."""
    if spoilt == "unknown":
        site = "tqe_made-up"
    elif spoilt == "expired":
        backstage.execute("update taskq.token set expires_at = clock_timestamp()")
    elif spoilt == "revoked":
        tokens.revoke("site")
    else:
        site, _ = tokens.create("manager", "ada", ["/c"])
    with pytest.raises(Unauthorized) as refused:
        enrol(site)
    assert str(refused.value) == (
        "the token is not valid: unknown, expired or revoked; ask for another"
    )
    assert value(backstage, "select count(*) from taskq.session") == 0


@pytest.mark.parametrize(
    ("paths", "asked", "served"),
    [
        (["/c"], "/c", "/c"),
        (["/c"], "/c/below", "/c/below"),
        (["/"], "/", "/"),
        (["/"], "/c/below", "/c/below"),
        (["/c"], "/", "/c"),
        (["/c/below"], "/c", "/c/below"),
        (["/c/below", "/d"], "/c", "/c/below"),
        (["/c", "/d"], "/d", "/d"),
        (["/c", "/d"], "/", None),
        (["/c"], "/d", None),
        (["/c/below"], "/d", None),
    ],
)
def test_session_serves_what_its_token_is_for(
    paths: list[str], asked: str, served: str | None, tokens: Tokens, enrol: Enrol
) -> None:
    """A campaign or one below; who asks for more gets the only one that there is, or is refused."""
    token, _ = tokens.create("site", "some", paths)
    if served is not None:
        assert enrol(token, asked)["path"] == served
        return
    with pytest.raises(Forbidden, match=re.escape(f"not for {asked}, but for {', '.join(paths)}")):
        enrol(token, asked)


def test_names_that_begin_alike_are_not_below(queue: Client, tokens: Tokens, enrol: Enrol) -> None:
    """A token for /c opens nothing in /cc."""
    queue.create_campaign("/cc")
    token, _ = tokens.create("site", "some", ["/c"])
    with pytest.raises(Forbidden):
        enrol(token, "/cc")


@pytest.mark.usefixtures("site")
def test_campaign_that_is_missing_is_told(tokens: Tokens, enrol: Enrol) -> None:
    """When a token is created, and when its agent asks for one below."""
    with pytest.raises(NotFound, match="/nowhere"):
        tokens.create("site", "some", ["/c", "/nowhere"])
    token, _ = tokens.create("site", "some", ["/c"])
    with pytest.raises(NotFound, match="/c/nowhere"):
        enrol(token, "/c/nowhere")


def test_token_is_good_where_it_is_meant_to_be(tokens: Tokens, enrol: Enrol) -> None:
    """Also if a socket for both families writes the older address in the newer way."""
    networks = ["192.0.2.0/24", "2001:db8::/32", "198.51.100.3"]
    token, made = tokens.create("site", "near", ["/c"], networks=networks)
    assert made.networks == ["192.0.2.0/24", "2001:db8::/32", "198.51.100.3/32"]
    for near in ("192.0.2.255", "::ffff:192.0.2.1", "2001:db8::5", "198.51.100.3"):
        enrol(token, address=near)
    for far in ("192.0.3.0", "::ffff:192.0.3.1", "2001:db9::5", "198.51.100.4", None):
        with pytest.raises(Forbidden, match="the token near is not for agents at"):
            enrol(token, address=far)


def test_token_is_used_as_often_as_it_may_be(tokens: Tokens, enrol: Enrol) -> None:
    """Then it opens nothing more, but a repeated hello still finds its session."""
    token, _ = tokens.create("site", "few", ["/c"], max_uses=2)
    key = str(uuid.uuid4())
    first = enrol(token, key=key)
    enrol(token)
    with pytest.raises(Forbidden, match="the token few is used up: it is for 2 sessions"):
        enrol(token)
    assert enrol(token, key=key) == first
    (seen,) = tokens.list()
    assert (seen.uses, seen.sessions, seen.state) == (2, 2, "used up")


def test_hello_that_is_refused_uses_nothing_up(tokens: Tokens, enrol: Enrol) -> None:
    """A misspelt tag can be mended."""
    token, _ = tokens.create("site", "one", ["/c"], max_uses=1)
    with pytest.raises(UsageError, match="not well formed"):
        enrol(token, offers=["mem>=64"])
    enrol(token)


@pytest.mark.parametrize("max_uses", [5, None])
def test_agents_that_arrive_at_once_are_counted_exactly(
    max_uses: int | None, tokens: Tokens, enrol: Enrol, backstage: Backstage
) -> None:
    """Eight at a time, each said twice: never more sessions than uses, nor two for one key."""
    token, _ = tokens.create("site", "few", ["/c"], max_uses=max_uses)
    keys = [str(uuid.uuid4()) for _ in range(8)]
    start = Barrier(8)

    def arrive(number: int) -> list[object]:
        start.wait()
        served: list[object] = []
        for turn in range(8):
            with suppress(Forbidden):
                served.append(enrol(token, key=keys[(number // 2 + turn) % 8])["session_id"])
        return served

    with ThreadPoolExecutor(8) as pool:
        served = Counter(one for some in pool.map(arrive, range(8)) for one in some)
    assert len(served) == (max_uses or 8)
    assert value(backstage, "select count(*) from taskq.session") == len(served)
    assert value(backstage, "select uses from taskq.token") == (max_uses or 0)
    (seen,) = tokens.list()
    assert seen.uses == len(served)


def test_key_of_somebody_elses_session_opens_nothing(
    site: str, tokens: Tokens, enrol: Enrol, backstage: Backstage
) -> None:
    """Neither with another token, nor that of a session beside the database, nor the reverse."""
    other, _ = tokens.create("site", "other", ["/c"])
    open_beside = "select taskq.open_session('/c', %s)"
    key, beside = str(uuid.uuid4()), str(uuid.uuid4())
    enrol(site, key=key)
    value(backstage, open_beside, beside)
    with pytest.raises(Forbidden, match="somebody else's"):
        enrol(other, key=key)
    with pytest.raises(Forbidden, match="somebody else's"):
        enrol(site, key=beside)
    with pytest.raises(psycopg.Error, match="somebody else's"):
        value(backstage, open_beside, key)


def test_open_sessions_outlive_the_expiry_of_their_token(
    site: str, enrol: Enrol, database: Database, backstage: Backstage
) -> None:
    """What they have in hand is worth more than punctuality; no more are opened."""
    key = str(uuid.uuid4())
    session = enrol(site, key=key)["session_id"]
    backstage.execute("update taskq.token set expires_at = clock_timestamp()")
    backstage.execute("select taskq.heartbeat(%s)", [session])
    assert [one["ended"] for one in identify(database, session_token(site, key))] == [False]
    with pytest.raises(Unauthorized):
        enrol(site)


def test_revoked_token_takes_its_sessions_with_it(
    site: str, campaign: Campaign, tokens: Tokens, enrol: Enrol, backstage: Backstage
) -> None:
    """Their tasks wait again, counted neither as failed nor as lost; other sessions go on."""
    campaign.seed(Seed({"n": n}, key) for n, key in enumerate("abc"))
    other, _ = tokens.create("site", "other", ["/c"])
    sessions = [enrol(site)["session_id"], enrol(site)["session_id"], enrol(other)["session_id"]]
    for session in sessions:
        backstage.execute("select taskq.claim('/c', %s, gen_random_uuid())", [session])
    revoked = tokens.revoke("site")
    assert (revoked.sessions, revoked.attempts) == (2, 2)
    assert sorted(statuses(backstage).values()) == ["waiting", "waiting", "working"]
    assert {one.outcome for key in "abc" for one in campaign.attempts(key)} == {"released"}
    status = campaign.status()
    assert (status.failures, status.losses) == (0, 0)
    for session in sessions[:2]:
        with pytest.raises(psycopg.Error, match="has ended"):
            backstage.execute("select taskq.heartbeat(%s)", [session])
        with pytest.raises(psycopg.Error, match="has ended"):
            backstage.execute("select taskq.claim('/c', %s, gen_random_uuid())", [session])
    backstage.execute("select taskq.heartbeat(%s)", [sessions[2]])
    again = tokens.revoke("site")
    assert (again.sessions, again.attempts) == (0, 0)
    assert_counts_are_true(backstage)


def test_beat_of_an_enrolled_session_writes_one_tuple(
    site: str, enrol: Enrol, backstage: Backstage
) -> None:
    """What a session has from its token is in indexes that a beat does not touch (HOT)."""
    session = enrol(site)["session_id"]
    with backstage.transaction():
        backstage.execute("select taskq.heartbeat(%s)", [session])
        counts = backstage.execute(
            "select pg_stat_get_xact_tuples_updated(c) as updated,"
            "       pg_stat_get_xact_tuples_hot_updated(c) as hot"
            "  from (select 'taskq.session'::regclass::oid as c) s"
        ).fetchone()
    assert counts == {"updated": 1, "hot": 1}


def test_ended_session_is_not_found_again(
    site: str, enrol: Enrol, tokens: Tokens, database: Database, backstage: Backstage
) -> None:
    """Neither by its token, nor by a repeated hello."""
    key = str(uuid.uuid4())
    session = enrol(site, key=key)["session_id"]
    backstage.execute("select taskq.end_session(%s)", [session])
    with pytest.raises(SessionEnded, match="open another"):
        enrol(site, key=key)
    assert [one["ended"] for one in identify(database, session_token(site, key))] == [True]
    assert [(one.uses, one.sessions) for one in tokens.list()] == [(1, 0)]


def test_no_session_slips_through_a_revocation(
    site: str, tokens: Tokens, dsn: str, backstage: Backstage
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
                lambda: value(backstage, "select count(*) from pg_locks where not granted") > 0
            )
        assert revoking.result().sessions == 1
    assert value(backstage, "select count(*) from taskq.session where ended_at is null") == 0


def test_name_is_free_again_when_its_token_is_revoked(tokens: Tokens, enrol: Enrol) -> None:
    """So that a successor can have it; until then it is taken."""
    old, _ = tokens.create("site", "site", ["/c"])
    with pytest.raises(Conflict, match="there is a token site; revoke it"):
        tokens.create("manager", "site", ["/c"])
    tokens.revoke("site")
    new, _ = tokens.create("site", "site", ["/c"])
    enrol(new)
    with pytest.raises(Unauthorized):
        enrol(old)
    assert [one.state for one in tokens.list()] == ["valid", "revoked"]


def test_managers_token_is_known_until_it_is_void(
    tokens: Tokens, database: Database, backstage: Backstage
) -> None:
    """With the campaigns that it is for; a site's token is nobody's here."""
    token, made = tokens.create("manager", "ada", ["/c", "/d"])
    stale, _ = tokens.create("manager", "bob", ["/"], days=1)
    site, _ = tokens.create("site", "site", ["/"])
    backstage.execute("update taskq.token set expires_at = now() where name = 'bob'")
    (found,) = identify(database, token, stale, site)
    assert (found["token_id"], found["session_id"]) == (made.token_id, None)
    assert found["paths"] == ["/c", "/d"]
    tokens.revoke("ada")
    assert identify(database, token) == []


def test_token_of_nobody_cannot_be_revoked(tokens: Tokens) -> None:
    """A misspelt name is told, not passed over."""
    with pytest.raises(NotFound, match="no token nobody; `taskq token list`"):
        tokens.revoke("nobody")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": ""}, "cannot be a token's name"),
        ({"name": "n" * 101}, "cannot be a token's name"),
        ({"name": "a\nb"}, "cannot be a token's name"),
        ({"paths": []}, "at least one campaign"),
        ({"days": 0}, "up to ten years"),
        ({"days": float("nan")}, "up to ten years"),
        ({"days": 4_000}, "up to ten years"),
        ({"max_uses": 0}, "token_max_uses_range"),
        ({"networks": ["192.0.2.1/24"]}, "has host bits set"),
        ({"networks": ["here"]}, "write 192.0.2.0/24"),
        ({"kind": "manager", "max_uses": 1}, "neither uses nor networks"),
        ({"kind": "manager", "networks": ["192.0.2.0/24"]}, "neither uses nor networks"),
    ],
    ids=str,
)
def test_token_is_not_created_from_nonsense(
    wrong: dict[str, Any], told: str, tokens: Tokens
) -> None:
    """The error names the value."""
    usual: dict[str, Any] = {"kind": "site", "name": "some", "paths": ["/c"]}
    with pytest.raises(UsageError, match=told):
        tokens.create(**(usual | wrong))
    assert tokens.list() == ()


def test_path_that_is_not_well_formed_is_told(tokens: Tokens) -> None:
    """Before anything is asked of the server."""
    with pytest.raises(InvalidPath, match="must start with '/'"):
        tokens.create("site", "some", ["c"])
