"""Warnings about a campaign whose tasks no agent can run, before agents find out."""

from __future__ import annotations

import click

from taskq import Campaign
from taskq_agent.handlers.placeholders import inputs_of
from taskq_cli.display.text import one_line


def warn_unrunnable(campaign: Campaign) -> None:
    """Warn on standard error of a handler or inputs that are missing; name the remedy."""
    handler, path = campaign.spec().handler, campaign.path
    if handler is None:
        _warn(
            f"{path} has no handler: nobody can run its tasks; "
            f"`taskq campaign change {path} -- PROGRAM ARGUMENT...`, or with "
            "--python MODULE:FUNCTION, gives it one"
        )
        return
    argv = [*handler.argv, *filter(None, [handler.container])]
    for name in sorted(inputs_of(argv) - campaign.inputs().keys()):
        _warn(
            f"the program of {path} takes the input {name!r}, which is not there: "
            f"`taskq input add {path} FILE --name {name}` adds it"
        )


def _warn(text: str) -> None:
    click.echo(f"Warning: {one_line(text)}.", err=True)
