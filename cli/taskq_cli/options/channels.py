"""Options of `taskq keeper` that say what it may send, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from taskq.model.errors import UsageError
from taskq.upkeep.channels import PASSWORD_VARIABLE, Channels, SmtpServer
from taskq.upkeep.targets import check_mail_address
from taskq_cli.decorators import together

_folder: Final = click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True)

channel_options: Final = together(
    click.option(
        "--smtp",
        metavar="URL",
        help="Mail server for notifications, as smtp://mail.example.org:587 or smtps://USER@HOST; "
        f"its password is in {PASSWORD_VARIABLE}. [default: no mail]",
    ),
    click.option("--mail-from", metavar="ADDRESS", help="Sender of mail."),
    click.option(
        "--webhooks",
        type=_folder,
        metavar="FOLDER",
        help="Folder with the addresses and secrets of webhooks: a rule names a file of it. Only "
        "these may be private addresses. [default: webhooks to public addresses only]",
    ),
    click.option(
        "--programs",
        type=_folder,
        metavar="FOLDER",
        help="Folder with programs that rules may have run here, as this user. [default: none]",
    ),
)


def channels(
    *, smtp: str | None, mail_from: str | None, webhooks: Path | None, programs: Path | None
) -> Channels:
    """Return what the options say; raise `UsageError`."""
    if (smtp is None) != (mail_from is None):
        raise UsageError("mail wants both --smtp and --mail-from")
    return Channels(
        smtp=None if smtp is None else SmtpServer.parsed(smtp),
        mail_from=None if mail_from is None else check_mail_address(mail_from),
        webhooks=webhooks,
        programs=programs,
    )
