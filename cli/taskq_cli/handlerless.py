"""What is said of a campaign that nobody can run, since it has no handler."""

from __future__ import annotations

import click


def warn_of_no_handler(path: str) -> None:
    """Say on standard error that nobody can run what is added to a campaign, and what helps."""
    click.echo(
        f"Warning: {path} has no handler: nobody can run its tasks; "
        f"`taskq campaign change {path} -- PROGRAM ARGUMENT...`, or with "
        "--python MODULE:FUNCTION, gives it one.",
        err=True,
    )
