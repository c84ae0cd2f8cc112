"""The pages' clients cost as little as a gateway's: the same server has them."""

from __future__ import annotations

import json
import socket

import pytest

from tests.integration.web.conftest import WebProcess

#: Requests that a gateway refuses too, each with the status.
REFUSED = {
    "endless head": (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 40_000, 431),
    "no HTTP": (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
    "two lengths": (
        b"POST /sign-in HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        400,
    ),
}


@pytest.mark.parametrize(("data", "status"), REFUSED.values(), ids=REFUSED)
def test_request_that_a_gateway_refuses_gets_no_page(
    web: WebProcess, data: bytes, status: int
) -> None:
    """It gets an error, and the connection ends."""
    with socket.create_connection(("127.0.0.1", web.port), 60) as client:
        client.sendall(data)
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert b"connection: close" in head
    assert json.loads(body)["error"]["code"] == "malformed"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_page_without_a_length_ends_as_its_version_of_http_says(
    web: WebProcess, version: str
) -> None:
    """In chunks, or with the end of the connection: each client sees where it ends."""
    lines = (
        f"GET /live HTTP/{version}",
        f"host: 127.0.0.1:{web.port}",
        f"authorization: Bearer {web.secret}",
    )
    with socket.create_connection(("127.0.0.1", web.port), 60) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = b""
        while b"retry: 3000" not in answer:
            part = client.recv(65_536)
            assert part, answer
            answer += part
    assert (b"transfer-encoding: chunked" in answer) == (version == "1.1")
    assert (b"connection: close" in answer) == (version == "1.0")
