"""Process that delivers one message by mail or webhook, and reports why if it could not.

It is a separate process, since only a process can surely be stopped, whatever a receiver or name
resolver does. Its standard input is the order, its standard output the reason. A webhook is one
POST, signed by standardwebhooks.com's rules, without redirects.
"""

from __future__ import annotations

import base64
import hmac
import http.client
import ipaddress
import json
import os
import smtplib
import socket
import ssl
import sys
import time
from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from taskq.model.errors import TaskqError, Unavailable
from taskq.model.version import VERSION
from taskq.upkeep.channels import PASSWORD_VARIABLE, SmtpServer, Webhook, read_webhook


def main() -> int:
    """Carry out the order of standard input; return the exit code."""
    order = json.load(sys.stdin)
    try:
        _deliver(order)
    except TaskqError as error:
        trouble = str(error)
    except (OSError, HTTPException, smtplib.SMTPException, ValueError) as error:
        trouble = f"{type(error).__name__}: {error}"
    else:
        return 0
    sys.stdout.write(trouble)
    return 1


def _deliver(order: dict[str, Any]) -> None:
    message = order["message"]
    if order["channel"] == "mail":
        password = os.environ.get(PASSWORD_VARIABLE) or None
        send_mail(SmtpServer(**order["smtp"]), password, order["from"], order["to"], message)
    elif order["channel"] == "named-webhook":
        post(read_webhook(Path(order["file"])), message, public_only=False)
    else:
        post(Webhook(order["to"], None), message, public_only=True)


_TIMEOUT_S: Final = 15.0


def send_mail(
    server: SmtpServer, password: str | None, sender: str, to: str, message: Mapping[str, Any]
) -> None:
    """Hand a message to a mail server; raise `Unavailable`, `OSError` or `SMTPException`.

    The connection is encrypted if the server supports it; otherwise no password is sent.
    """
    letter = EmailMessage(policy=SMTP)
    letter["Subject"] = message["subject"]
    letter["From"] = sender
    letter["To"] = to
    letter["Date"] = formatdate()
    # From the id of the message, so that a mail server that got it twice can drop one.
    letter["Message-ID"] = f"<{message['id']}@{sender.rpartition('@')[2]}>"
    letter["Auto-Submitted"] = "auto-generated"
    ids = [
        "Event ids, by which a repeated message is known:",
        *(e["id"] for e in message["events"]),
    ]
    letter.set_content("\n".join([message["text"], "", *ids, ""]), charset="utf-8")
    context = ssl.create_default_context()
    if server.encrypted:
        connection: smtplib.SMTP = smtplib.SMTP_SSL(
            server.host, server.port, timeout=_TIMEOUT_S, context=context
        )
    else:
        connection = smtplib.SMTP(server.host, server.port, timeout=_TIMEOUT_S)
    with connection:
        connection.ehlo()
        safe = server.encrypted
        if not safe and connection.has_extn("starttls"):
            connection.starttls(context=context)
            connection.ehlo()
            safe = True
        if server.user is not None:
            if not safe:
                raise Unavailable("the mail server offers no TLS, so it gets no password")
            if password is None:
                raise Unavailable("the mail server wants a password, and the keeper has none")
            connection.login(server.user, password)
        connection.send_message(letter, sender, [to])


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
    connection = http.client.HTTPConnection(host, timeout=_TIMEOUT_S)
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
    allowed = [one for one in found if not public_only or is_public(str(one[4][0]))]
    if not allowed:
        raise Unavailable(
            f"{host} has no public address; only the operator of the keeper can allow a private "
            "one, in a file of its --webhooks"
        )
    trouble: OSError | None = None
    for family, kind, protocol, _, address in allowed[:4]:
        sock = socket.socket(family, kind, protocol)
        sock.settimeout(_TIMEOUT_S)
        try:
            sock.connect(address)
        except OSError as error:
            sock.close()
            trouble = error
        else:
            return sock
    raise trouble or OSError("no address answered")
