"""Process that delivers one message by mail or webhook, and reports why if it could not.

It is a separate process, since only a process can surely be stopped, whatever a receiver or name
resolver does. Its standard input is the order, its standard output the reason.
"""

from __future__ import annotations

import json
import os
import smtplib
import sys
from http.client import HTTPException
from pathlib import Path
from typing import Any

from taskq.model.errors import TaskqError
from taskq.upkeep.channels import SmtpServer, Webhook, read_webhook
from taskq.upkeep.mail import send_mail
from taskq.upkeep.webhook import post


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
        password = os.environ.get("TASKQ_SMTP_PASSWORD") or None
        send_mail(SmtpServer(**order["smtp"]), password, order["from"], order["to"], message)
    elif order["channel"] == "named-webhook":
        post(read_webhook(Path(order["file"])), message, public_only=False)
    else:
        post(Webhook(order["to"], None), message, public_only=True)


if __name__ == "__main__":
    sys.exit(main())
