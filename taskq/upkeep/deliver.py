"""Process that delivers one message by mail or webhook, and reports why if it could not.

It is a separate process, since only a process can surely be stopped, whatever a receiver or name
resolver does. Its standard input is the order, its standard output the reason. A webhook is one
POST, signed by standardwebhooks.com's rules, without redirects.
"""

from __future__ import annotations

import json
import os
import smtplib
import ssl
import sys
from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from http.client import HTTPException
from pathlib import Path
from typing import Any

from taskq.model.errors import TaskqError, Unavailable
from taskq.upkeep.channels import PASSWORD_VARIABLE, TIMEOUT_S, SmtpServer, Webhook, read_webhook
from taskq.upkeep.webhooks import post


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
            server.host, server.port, timeout=TIMEOUT_S, context=context
        )
    else:
        connection = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_S)
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
