"""Group whose default sub-command is `list`: `taskq agents /demo` is `taskq agents list /demo`."""

from __future__ import annotations

import click

_LIST = "list"


class ListGroup(click.Group):
    """A group that runs its sub-command `list` when none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list` unless the first argument is a sub-command or a help option."""
        first = args[0] if args else ""
        if first not in self.commands and first not in self.get_help_option_names(ctx):
            args = [_LIST, *args]
        return super().parse_args(ctx, args)
