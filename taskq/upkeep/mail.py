"""Messages as mail, by SMTP."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Any, Final

from taskq.model.errors import Unavailable
from taskq.upkeep.channels import SmtpServer

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
                raise Unavailable("the mail server offers no TLS: it is told no password")
            if password is None:
                raise Unavailable("the mail server wants a password, and the keeper has none")
            connection.login(server.user, password)
        connection.send_message(letter, sender, [to])
