"""Delivery of a message by a webhook: one POST, signed by the rules of standardwebhooks.com."""

from __future__ import annotations

import base64
import hmac
import http.client
import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from taskq.model.errors import Unavailable
from taskq.model.version import VERSION
from taskq.upkeep.channels import TIMEOUT_S, Webhook

_SUCCESS: Final = range(200, 300)
_REDIRECT: Final = range(300, 400)
#: Networks whose addresses contain an IPv4 address, which may be private: NAT64, 6to4, Teredo.
_WRAPPED: Final = tuple(
    ipaddress.ip_network(net)
    for net in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")
)


def is_public(address: str) -> bool:
    """Return whether an IP address is in the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif any(ip in net for net in _WRAPPED):
            return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


def post(webhook: Webhook, message: Mapping[str, Any], *, public_only: bool) -> None:
    """Send a message; raise `Unavailable`, `OSError` or `HTTPException` unless it is accepted.

    public_only: connect to no private address, whatever the host's name resolves to: the address
    that was checked is the one connected to. Only the head of the answer is read. A redirect is not
    followed.
    """
    parts = urlsplit(webhook.url)
    host, encrypted = parts.hostname or "", parts.scheme == "https"
    body = json.dumps(message).encode()
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT_S)
    raw = _connect(host, parts.port or (443 if encrypted else 80), public_only=public_only)
    try:
        connection.sock = (
            ssl.create_default_context().wrap_socket(raw, server_hostname=host)
            if encrypted
            else raw
        )
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        connection.request("POST", target, body, _headers(webhook, parts.netloc, message, body))
        answer = connection.getresponse()
        if answer.status in _REDIRECT:
            raise Unavailable(
                f"{host} answered {answer.status}: it redirects, which is not followed; give the "
                "address that it redirects to"
            )
        if answer.status not in _SUCCESS:
            raise Unavailable(f"{host} answered {answer.status}")
    finally:
        raw.close()
        connection.close()


def _headers(
    webhook: Webhook, netloc: str, message: Mapping[str, Any], body: bytes
) -> dict[str, str]:
    at = str(int(time.time()))
    headers = {
        "Host": netloc.rpartition("@")[2],
        "Content-Type": "application/json",
        "User-Agent": f"taskq/{VERSION}",
        "Webhook-Id": message["id"],
        "Webhook-Timestamp": at,
    }
    if webhook.key is not None:
        signed = b".".join([message["id"].encode(), at.encode(), body])
        digest = hmac.digest(webhook.key, signed, "sha256")
        headers["Webhook-Signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return headers


def _connect(host: str, port: int, *, public_only: bool) -> socket.socket:
    """Connect to the first allowed address of a host that answers."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    allowed = [resolved for resolved in found if not public_only or is_public(str(resolved[4][0]))]
    if not allowed:
        raise Unavailable(
            f"{host} has no public address; only the operator of the keeper can allow a private "
            "one, in a file of its --webhooks"
        )
    trouble: OSError | None = None
    for family, kind, protocol, _, address in allowed[:4]:
        sock = socket.socket(family, kind, protocol)
        sock.settimeout(TIMEOUT_S)
        try:
            sock.connect(address)
        except OSError as error:
            sock.close()
            trouble = error
        else:
            return sock
    raise trouble or OSError("no address answered")
