"""Group whose default sub-command is `list`: `taskq agents /demo` is `taskq agents list /demo`."""

from __future__ import annotations

from difflib import get_close_matches

import click

_LIST = "list"


class ListGroup(click.Group):
    """A group that runs its sub-command `list` when none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list` unless the first argument is a sub-command or a help option."""
        first = args[0] if args else ""
        if first not in self.commands and first not in self.get_help_option_names(ctx):
            if first and not first.startswith(("/", "-")) and not ctx.resilient_parsing:
                ctx.fail(self._no_such(first, ctx.command_path))
            args = [_LIST, *args]
        return super().parse_args(ctx, args)

    def _no_such(self, first: str, called: str) -> str:
        """Return a message with what was meant, perhaps."""
        text = f"No such sub-command {first!r}"
        if close := get_close_matches(first, self.commands, n=1):
            return f"{text}; did you mean `{called} {close[0]}`?"
        if any(isinstance(one, click.Argument) for one in self.commands[_LIST].params):
            text += "; a campaign's path begins with /"
        if "show" in self.commands:
            text += f"; `{called} show {first}` shows a single one"
        return f"{text}."

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sub-commands, and the arguments and options of `list`, which has none named."""
        super().format_options(ctx, formatter)
        listing = self.commands[_LIST]
        inner = click.Context(listing, info_name=_LIST, parent=ctx)
        rows = [
            (one.make_metavar(inner), "The campaign, with all below it.")
            for one in listing.params
            if isinstance(one, click.Argument)
        ]
        options = (one for one in listing.params if isinstance(one, click.Option))
        records = (one.get_help_record(inner) for one in options)
        with formatter.section("Without a sub-command, as list"):
            formatter.write_dl([*rows, *(one for one in records if one is not None)])
