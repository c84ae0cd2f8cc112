"""Addresses hold passwords: whatever is wrong with one, no message tells a piece of it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskq.db.address import display_name
from taskq.front.address import FrontAddress
from taskq.model.errors import UsageError
from tests.helpers.variants import rest_thorough

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


def told_of(password: str, told: str) -> None:
    """Fail if a piece of the password is told."""
    for mark in MARKS:
        assert mark not in told, (password, told)


@pytest.mark.parametrize("form", rest_thorough(POSTGRES, 2))
@given(password=PASSWORDS)
@example("31337/hunter")
@example("x@hunter")
@example("x hunter")
def test_address_of_postgresql_tells_no_password(form: str, password: str) -> None:
    """Neither its name in messages, nor the error if it cannot be read."""
    try:
        told = display_name(form.format(password))
    except UsageError as error:
        told = str(error)
    told_of(password, told)


@pytest.mark.parametrize("form", rest_thorough(REDIS, 2))
@given(password=PASSWORDS)
@example("31337/hunter")
def test_address_of_redis_tells_no_password(form: str, password: str) -> None:
    """Neither its name in messages, nor its representation, nor the error if it is none."""
    try:
        address = FrontAddress.parsed(form.format(password))
        told = f"{address.display_name} {address!r}"
    except UsageError as error:
        told = str(error)
    told_of(password, told)


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
    """As it would be written in an address; nothing where no port is said."""
    assert display_name(dsn) == f"the database queue at {places}"
