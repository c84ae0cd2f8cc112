"""Hints for options and formats that users try but that another command or option provides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

OUTPUTS: Final = ("table", "json", "jsonl")

_ELSEWHERE: Final = {
    "--json": "JSON is written with `-o json`",
    "--jsonl": "JSON Lines are written with `-o jsonl`",
    "--table": "a table is what is written without `-o`",
    "--file": "a campaign file is named by --campaign-file",
    "--csv": "`taskq export CAMPAIGN --to FILE.csv` writes CSV",
    "--parquet": "`taskq export CAMPAIGN --to FILE.parquet` writes Parquet",
    "--gateway": "commands take a gateway by `--url`; agents that are to use one are run by "
    "`taskq-agent run`",
    "--token-file": "for commands TASKQ_TOKEN_FILE names it; agents that show a token are run by "
    "`taskq-agent run`",
}
_FORMATS: Final = {"csv", "parquet", "sdf"}


def unknown_option(error: click.NoSuchOption) -> str | None:
    """Return a message for an unknown option; None where click's own message is enough."""
    hint = _ELSEWHERE.get(error.option_name)
    parameters = () if error.ctx is None else error.ctx.command.params
    if hint is None and any(one.name == "program" for one in parameters):
        hint = "a program and its arguments follow after `--`"
    return None if hint is None else f"No such option {error.option_name!r}; {hint}."


def unexpected_arguments(command: click.Command) -> str | None:
    """Return a hint for words that a command has no arguments for; None: there is none."""
    options = {option for one in command.params for option in one.opts}
    return "a task is named by --key" if "--key" in options else None


class OutputType(click.Choice[str]):
    """Type of `--output`. A file name or a file format in its place gets a hint to the option."""

    def __init__(self, formats: Sequence[str] = OUTPUTS) -> None:
        super().__init__(formats)
        self._formats = formats

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the value, or fail with a hint."""
        text = str(value)
        if text in self._formats:
            return text
        options = {} if ctx is None else {it.name: it for it in ctx.command.params}
        known = f"is not one of {', '.join(self._formats)}"
        if text in _FORMATS:
            known += f"; `taskq export -o {text}` writes that"
        elif "." in text or "/" in text:
            known += f"; a file is named by `{'--to' if 'to' in options else '>'} {text}`"
        return self.fail(f"{text!r} {known}.", param, ctx)
