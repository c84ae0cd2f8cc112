"""The address of a front: what can be written, and that no message shows the password."""

from __future__ import annotations

import pytest

from taskq.front.address import FrontAddress, RedisNode
from taskq.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "told"),
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
def test_address_is_told_without_its_password(text: str, told: str) -> None:
    """Logs and errors name the server, and nothing that opens it."""
    address = FrontAddress.parsed(text)
    assert address.display_name == told
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
