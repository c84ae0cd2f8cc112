"""Sessions that tokens open: where, how often, and until when."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import psycopg
import pytest

from taskq import Client
from taskq.db.connections import Database
from taskq.db.tokens import Tokens, hashed, session_token
from taskq.gateway.http.proxies import Proxies, parsed_address
from taskq.model.errors import Forbidden, NotFound, Unauthorized, UsageError
from tests.helpers.postgres import Postgres, value
from tests.helpers.variants import rest_thorough
from tests.integration.sessions.tokens.support import Enrol, identify


def test_token_of_a_session_identifies_it_and_what_it_serves(
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


def test_each_token_and_each_key_makes_another_session_token(site: str) -> None:
    """Nobody can work out the session token of another site's agent."""
    keys = [str(uuid.uuid4()) for _ in range(2)]
    made = {session_token(token, key) for token in (site, site + "x") for key in keys}
    assert len(made) == 4
    with pytest.raises(UsageError, match="draw a UUID"):
        session_token(site, keys[0].upper() + "A")


@pytest.mark.parametrize("spoilt", ["unknown", "expired", "revoked", "manager"])
def test_token_that_is_not_valid_is_refused_without_saying_why(
    spoilt: str, site: str, tokens: Tokens, enrol: Enrol, postgres: Postgres
) -> None:
    """Anyone who tries tokens learns nothing about any; nothing is opened."""
    if spoilt == "unknown":
        site = "tqe_made-up"
    elif spoilt == "expired":
        postgres.execute("update taskq.token set expires_at = clock_timestamp()")
    elif spoilt == "revoked":
        tokens.revoke("site")
    else:
        site, _ = tokens.create("manager", "ada", ["/c"])
    with pytest.raises(Unauthorized) as refused:
        enrol(site)
    assert str(refused.value) == (
        "the token is not valid: unknown, expired or revoked; ask for another"
    )
    assert value(postgres, "select count(*) from taskq.session") == 0


@pytest.mark.parametrize(
    ("paths", "asked", "served"),
    rest_thorough(
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
        6,
    ),
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
def test_token_for_a_missing_campaign_is_refused(tokens: Tokens, enrol: Enrol) -> None:
    """When a token is created, and when its agent asks for a campaign below."""
    with pytest.raises(NotFound, match="/nowhere"):
        tokens.create("site", "some", ["/c", "/nowhere"])
    token, _ = tokens.create("site", "some", ["/c"])
    with pytest.raises(NotFound, match="/c/nowhere"):
        enrol(token, "/c/nowhere")


def test_token_is_good_where_it_is_meant_to_be(tokens: Tokens, enrol: Enrol) -> None:
    """Its networks say where."""
    networks = ["192.0.2.0/24", "2001:db8::/32", "198.51.100.3"]
    token, made = tokens.create("site", "near", ["/c"], networks=networks)
    assert made.networks == ["192.0.2.0/24", "2001:db8::/32", "198.51.100.3/32"]
    for near in ("192.0.2.255", "2001:db8::5", "198.51.100.3"):
        enrol(token, address=near)
    for far in ("192.0.3.0", "2001:db9::5", "198.51.100.4", None):
        with pytest.raises(Forbidden, match="the token near is not for agents at"):
            enrol(token, address=far)


def test_address_of_a_socket_for_both_families_is_the_older_one() -> None:
    """Otherwise no network of IPv4 would hold it."""
    assert str(parsed_address("::ffff:192.0.2.1")) == "192.0.2.1"
    assert str(parsed_address("2001:db8::5%eth0")) == "2001:db8::5"
    with pytest.raises(ValueError, match="does not appear to be"):
        parsed_address("")


FORWARDED = b"x-forwarded-for"


@pytest.mark.parametrize(
    ("peer", "lines", "client"),
    [
        ("192.0.2.9", ["198.51.100.1"], "192.0.2.9"),  # it is no trusted proxy
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.7, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.7, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.7", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.1", ["[2001:db8::5]:4711"], "2001:db8::5"),
        ("10.0.0.1", ["2001:db8::5"], "2001:db8::5"),
        ("10.0.0.1", ["198.51.100.1, unknown"], "unknown"),
        ("10.0.0.1", ["", " , "], "10.0.0.1"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_client_is_the_last_address_that_no_trusted_proxy_has(
    peer: str, lines: list[str], client: str
) -> None:
    """What stands before it is what the client says of itself."""
    proxies = Proxies(["10.0.0.0/24"])
    assert proxies.client(peer, [(FORWARDED, line.encode()) for line in lines]) == client
    assert Proxies().client(peer, [(FORWARDED, b"203.0.113.7")]) == peer


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
    max_uses: int | None, tokens: Tokens, enrol: Enrol, postgres: Postgres
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
        served = Counter(item for some in pool.map(arrive, range(8)) for item in some)
    assert len(served) == (max_uses or 8)
    assert value(postgres, "select count(*) from taskq.session") == len(served)
    assert value(postgres, "select uses from taskq.token") == (max_uses or 0)
    (seen,) = tokens.list()
    assert seen.uses == len(served)


def test_key_of_somebody_elses_session_opens_nothing(
    site: str, tokens: Tokens, enrol: Enrol, postgres: Postgres
) -> None:
    """Neither with another token, nor that of a session next to the database, nor the reverse."""
    other, _ = tokens.create("site", "other", ["/c"])
    open_directly = "select taskq.open_session('/c', %s)"
    key, direct = str(uuid.uuid4()), str(uuid.uuid4())
    enrol(site, key=key)
    value(postgres, open_directly, direct)
    with pytest.raises(Forbidden, match="somebody else's"):
        enrol(other, key=key)
    with pytest.raises(Forbidden, match="somebody else's"):
        enrol(site, key=direct)
    with pytest.raises(psycopg.Error, match="somebody else's"):
        value(postgres, open_directly, key)
