"""Checked parts of requests: the client's address, the target, and the body."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.requests import Request

from taskq.gateway.errors import TooLarge
from taskq.gateway.messages import BadRequest
from taskq.model.errors import Forbidden

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def check_target(request: Request) -> None:
    """Raise `BadRequest` unless path and query are text that a database can store."""
    for part in (request.scope["raw_path"], request.scope["query_string"]):
        if b"%" in part:
            try:
                text = unquote_to_bytes(part).decode()
            except UnicodeDecodeError:
                raise BadRequest("path or query are not UTF-8") from None
            if _CONTROL.search(text):
                raise BadRequest("a control character in path or query")


def address_of(request: Request) -> str:
    """Return the client's IP address; raise `Forbidden` if a proxy does not pass it on."""
    # Without the zone of a link-local address, which means nothing elsewhere.
    address = request.client.host.partition("%")[0] if request.client else ""
    try:
        return str(ip_address(address))
    except ValueError:
        raise Forbidden(f"{address!r:.80}, where this comes from, is no address") from None


async def read_body(request: Request, most: int) -> bytes:
    """Return the body; raise `TooLarge` before more than `most` bytes are kept."""
    if length_of(request) > most:
        raise TooLarge(f"a body of at most {most} bytes is allowed here")
    chunks, size = [], 0
    async for chunk in request.stream():
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            raise TooLarge(f"a body of at most {most} bytes is allowed here")
    return b"".join(chunks)


def length_of(request: Request) -> int:
    """Return the length of the body in bytes, according to the head."""
    return int(request.headers.get("content-length", 0))
