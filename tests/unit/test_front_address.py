"""The address of a front: what can be written, and that no message shows the password."""

from __future__ import annotations

import pytest

from taskq.errors import UsageError
from taskq.front.address import FrontAddress


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("redis://localhost", "redis://localhost:6379"),
        ("redis://localhost:7000/3", "redis://localhost:7000/3"),
        ("redis://[::1]:7000/", "redis://[::1]:7000"),
        ("rediss://taskq:s3cret@example.org", "rediss://example.org:6379"),
        ("rediss://example.org/0?ssl_ca_certs=/etc/ca.pem", "rediss://example.org:6379/0"),
        ("redis://:s3cret@example.org:6380?cluster=true", "redis://example.org:6380"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("unix://taskq:s3cret@/run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_address_is_told_without_its_password(text: str, told: str) -> None:
    """Logs and errors name the server, and nothing that opens it."""
    address = FrontAddress.parsed(text)
    assert address.display_name == told
    assert address.has_password == ("s3cret" in text)
    assert address.cluster == ("cluster=true" in text)
    assert "cluster" not in address.url
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
