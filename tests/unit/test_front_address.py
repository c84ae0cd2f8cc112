"""Addresses of fronts and databases: what can be written. No message shows a password."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskq.db.dsn import display_name
from taskq.db.starting import is_starting
from taskq.front.address import FrontAddress, RedisNode
from taskq.model.errors import UsageError
from tests.helpers.variants import rest_thorough


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://localhost", "redis://localhost:6379"),
        ("redis://localhost:7000/3", "redis://localhost:7000/3"),
        ("redis://[::1]:7000/", "redis://[::1]:7000"),
        ("rediss://taskq:s3cret@example.org", "rediss://example.org:6379"),
        ("rediss://example.org/0?ssl_ca_certs=/etc/ca.pem", "rediss://example.org:6379/0"),
        ("redis://:s3cret@example.org:6380?cluster=true", "redis://example.org:6380"),
        ("redis://:s3cret@a,b:7000,[::1]?cluster=true", "redis://a:6379,b:7000,[::1]:6379"),
        ("redis+sentinel://a,b:7000/queue", "redis+sentinel://a:26379,b:7000/queue"),
        ("rediss+sentinel://u:s3cret@a/queue/3", "rediss+sentinel://a:26379/queue/3"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("unix://taskq:s3cret@/run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_address_is_shown_without_its_password(text: str, shown: str) -> None:
    """Logs and errors name the server, and nothing that opens it."""
    address = FrontAddress.parsed(text)
    assert address.display_name == shown
    assert address.has_password == ("s3cret" in text)
    assert (address.kind == "cluster") == ("cluster=true" in text)
    assert not any("cluster" in address.url(node) for node in address.nodes)
    assert "s3cret" not in repr(address)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "redis://",
        "redis://localhost:port",
        "redis://localhost:70000",
        "redis://localhost/zero",
        "redis://localhost?cluster=maybe",
        "redis://localhost?db=1",
        "redis://localhost?ssl_ca_certs=/etc/ca.pem",
        "rediss://localhost?ssl_cert_reqs=none",
        "unix://",
        "unix:///run/redis.sock?cluster=true",
        "redis://one,two",
        "redis://one,,two?cluster=true",
        "redis://one?cluster=true,two",
        "redis://" + ",".join(f"n{n}" for n in range(99)) + "?cluster=true",
        "redis+sentinel://one",
        "redis+sentinel://one/",
        "redis+sentinel://one/two words",
        "redis+sentinel://one/name/zero",
        "redis+sentinel://one/name?cluster=true",
        "unix+sentinel:///socket/name",
        "redis://taskq:s3cret@one,two:port?cluster=true",
        "redis+sentinel://taskq:s3cret@one,[two/name",
        "redis://taskq:s3cret@[broken",
        "redis://taskq:s3cret@localhost/zero",
        "redis://taskq:s3cret@localhost?unknown=1",
        "http://taskq:s3cret@localhost",
    ],
)
def test_other_addresses_are_refused_without_showing_a_password(text: str) -> None:
    """Options that nobody has thought of, such as to trust any certificate, are not passed on."""
    with pytest.raises(UsageError) as refused:
        FrontAddress.parsed(text)
    assert "redis://HOST:PORT" in str(refused.value)
    assert "None" not in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_each_server_gets_the_password_and_sentinels_get_none() -> None:
    """A Sentinel is asked where the server is, and needs no more."""
    address = FrontAddress.parsed("rediss+sentinel://u:s3cret@a,b:1/name/3?ssl_ca_certs=/ca.pem")
    assert address.master == "name"
    urls = [address.url(node, sentinel=True) for node in address.nodes]
    assert urls == [
        "rediss://a:26379?ssl_ca_certs=%2Fca.pem",
        "rediss://b:1?ssl_ca_certs=%2Fca.pem",
    ]
    server = address.url(RedisNode("::1", 7000))
    assert server == "rediss://u:s3cret@[::1]:7000/3?ssl_ca_certs=%2Fca.pem"
    cluster = FrontAddress.parsed("redis://:s3cret@a,b:1?cluster=true")
    assert [*map(cluster.url, cluster.nodes)] == ["redis://:s3cret@a:6379", "redis://:s3cret@b:1"]


MARKS = ("hunter", "31337")
#: What URLs and key=value lists take for structure, and what is nothing to them.
PIECES = st.sampled_from(["@", "/", ":", "?", "#", "%", "=", "&", " ", "'", '"', "[", "]", "x"])
PASSWORDS = st.lists(st.one_of(PIECES, st.sampled_from(MARKS)), min_size=1, max_size=8).map("".join)
POSTGRES = (
    "postgresql://me:{}@db.example.org:5432/queue",
    "postgresql://me:{}@/queue?host=/run",
    "postgres://:{}@db.example.org",
    "host=db.example.org password={} dbname=queue",
    "host=db.example.org password='{}' dbname=queue port=5432",
)
REDIS = (
    "redis://:{}@cache.example.org:6379/0",
    "rediss://me:{}@cache.example.org",
    "unix://me:{}@/run/redis.sock",
    ":{}@cache.example.org:6379",
    "redis:/{}@cache.example.org",
)


def assert_hidden(password: str, text: str) -> None:
    """Fail if a piece of the password is shown."""
    for mark in MARKS:
        assert mark not in text, (password, text)


@pytest.mark.parametrize("form", rest_thorough(POSTGRES, 2))
@given(password=PASSWORDS)
@example("31337/hunter")
@example("x@hunter")
@example("x hunter")
def test_address_of_postgresql_shows_no_password(form: str, password: str) -> None:
    """Neither its name in messages, nor the error if it cannot be read."""
    try:
        shown = display_name(form.format(password))
    except UsageError as error:
        shown = str(error)
    assert_hidden(password, shown)


@pytest.mark.parametrize("form", rest_thorough(REDIS, 2))
@given(password=PASSWORDS)
@example("31337/hunter")
def test_address_of_redis_shows_no_password(form: str, password: str) -> None:
    """Neither its name in messages, nor its representation, nor the error if it is none."""
    try:
        address = FrontAddress.parsed(form.format(password))
        shown = f"{address.display_name} {address!r}"
    except UsageError as error:
        shown = str(error)
    assert_hidden(password, shown)


@pytest.mark.parametrize("password", ["p%40ss", "a%2Fb%3Fc", "plain", "a:b"])
def test_password_that_is_written_as_it_should_is_taken(password: str) -> None:
    """The hint that errors give is right."""
    assert (
        display_name(f"postgresql://me:{password}@host:5432/queue")
        == "the database queue at host:5432"
    )


@pytest.mark.parametrize(
    ("dsn", "places"),
    [
        ("postgresql://db1,db2,db3/queue", "db1,db2,db3"),
        ("postgresql://db1:5432,db2:5433/queue", "db1:5432,db2:5433"),
        ("postgresql://db1:5432,db2/queue", "db1:5432,db2"),
        ("host=db1,db2 port=6000 dbname=queue", "db1:6000,db2:6000"),
        ("host=db1,db2 port=6000,6001 dbname=queue", "db1:6000,db2:6001"),
        ("hostaddr=127.0.1.1,127.0.1.2 dbname=queue", "127.0.1.1,127.0.1.2"),
        ("host=/run/a,/run/b dbname=queue", "/run/a,/run/b"),
        ("dbname=queue", "the local socket"),
    ],
)
def test_each_host_of_several_is_named_with_its_port(dsn: str, places: str) -> None:
    """As it would be written in an address; nothing if it names no port."""
    assert display_name(dsn) == f"the database queue at {places}"


def test_each_host_is_asked_whether_it_starts_whatever_the_address_sets() -> None:
    """The limit on connecting that an address sets is one for each of its hosts as well."""
    assert not is_starting("host=127.0.0.1,127.0.0.2 port=1 connect_timeout=1")
