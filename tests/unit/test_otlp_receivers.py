"""Addresses and headers of receivers of traces."""

from __future__ import annotations

import pytest

from taskq.model.errors import UsageError
from taskq.results.otlp import Receiver


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("https://x/", "https://x:443/v1/traces"),
        ("https://[::1]:9/otlp/v1/traces", "https://[::1]:9/otlp/v1/traces"),
    ],
)
def test_address_without_a_path_is_the_usual_one(url: str, shown: str) -> None:
    """As the specification has it."""
    assert str(Receiver(url)) == shown


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        *((url, "") for url in ("", "localhost:4318", "ftp://x", "http://", "http://a b")),
        *((url, "") for url in ("http://x:y", "http://u:p@x", "http://x/?a=b", "http://x\n")),
        ("http://\u0440x", ""),
        *(("http://x", headers) for headers in ("a", "=b", "a b=c", "a=%0d%0ab: c", "a%3A=b")),
    ],
)
def test_address_or_header_that_makes_no_sense_is_refused(url: str, headers: str) -> None:
    """Before anything is read; a header is not repeated, since it may hold a secret."""
    with pytest.raises(UsageError) as refused:
        Receiver(url, headers)
    assert not headers or headers not in str(refused.value)
