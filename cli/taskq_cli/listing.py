"""Nouns that list when no verb is given: `taskq agents /demo` means `taskq agents list /demo`."""

from __future__ import annotations

import click

_LIST = "list"


class Listing(click.Group):
    """A group with a sub-command `list`, which is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in what goes without saying."""
        first = args[0] if args else ""
        if first not in self.commands and first not in self.get_help_option_names(ctx):
            args = [_LIST, *args]
        return super().parse_args(ctx, args)
