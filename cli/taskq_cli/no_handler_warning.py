"""Warning about a campaign without a handler, whose tasks no agent can run."""

from __future__ import annotations

import click


def warn_no_handler(path: str) -> None:
    """Warn on standard error that no agent can run the campaign's tasks; name the remedy."""
    click.echo(
        f"Warning: {path} has no handler: nobody can run its tasks; "
        f"`taskq campaign change {path} -- PROGRAM ARGUMENT...`, or with "
        "--python MODULE:FUNCTION, gives it one.",
        err=True,
    )
