"""Top-level command group, groups whose default is `list`, and how errors end the program.

Sub-commands are imported on demand. An error is one line on standard error, for a filter with an
excerpt that shows the place, and an exit code: that of the `TaskqError`, 2 for a wrong call, 130
for Ctrl-C, 74 if standard output cannot be written. A reader that closes the pipe (`| head`) is not
an error: the command completes its work, and a listing ends there. Any other exception shows its
traceback.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, cast
from weakref import WeakSet

import click

from taskq.model.errors import InvalidFilter, TaskqError
from taskq_agent import streams
from taskq_agent.streams import argument
from taskq_agent.text import is_unicode
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import Declined, Interrupted

#: Options that say where the queue is; help texts list them under their own heading.
CONNECTION: Final = ("dsn", "url", "read_dsn", "read_behind")
_SECRET: Final = frozenset({"dsn", "front"})  # may contain a password

_ELSEWHERE: Final = {
    "--json": "`-o json` writes JSON",
    "--jsonl": "`-o jsonl` writes JSON Lines",
    "--table": "the default output is a table",
    "--top": "`--best N --by FIELD --lowest`, or --highest, chooses the best results",
    "--ascending": "`--lowest` takes the lowest numbers as the best",
    "--file": "--campaign-file names a campaign file",
    "--csv": "`taskq export CAMPAIGN --to FILE.csv` writes CSV",
    "--parquet": "`taskq export CAMPAIGN --to FILE.parquet` writes Parquet",
    "--gateway": "commands use `--url` for a gateway; `taskq-agent run` starts agents that use one",
    "--token-file": "commands read TASKQ_TOKEN_FILE; `taskq-agent run` starts agents with a token",
}

_LIST = "list"

_MARK: Final = "\b"  # see "Preventing Rewrapping" in click's documentation

#: Plural forms of commands, which the help does not list.
_OTHER_NAMES: Final = {
    "agents": "agent",
    "hosts": "host",
    "owners": "owner",
    "pilots": "pilot",
    "sites": "site",
}
_PREPARED: Final = WeakSet[click.Command]()

Sections = Mapping[str, Mapping[str, str]]


def _utf_8_only(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a callback of a parameter that refuses values that are not UTF-8.

    Python decodes each invalid byte to a lone surrogate, which PostgreSQL and JSON refuse.
    """

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if isinstance(value, tuple):
            value = tuple(argument(part) if isinstance(part, str) else part for part in value)
        elif isinstance(value, str):
            value = argument(value)
        for word in value if isinstance(value, tuple) else (value,):
            if isinstance(word, str) and not is_unicode(word):
                shown = os.fsencode(word).decode("ascii", "backslashreplace")
                subject = "it" if parameter.name in _SECRET else f"'{shown}'"
                raise click.BadParameter(
                    f"{subject} is not UTF-8; only file names may be other bytes.",
                    ctx=context,
                    param=parameter,
                )
        return value if callback is None else callback(context, parameter, value)

    return check


def _unknown_option(error: click.NoSuchOption) -> str | None:
    """Return a message for an unknown option; None where click's own message is enough."""
    hint = _ELSEWHERE.get(error.option_name)
    parameters = () if error.ctx is None else error.ctx.command.params
    if hint is None and any(parameter.name == "program" for parameter in parameters):
        hint = "a program and its arguments follow after `--`"
    return None if hint is None else f"No such option {error.option_name!r}; {hint}."


def _write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options, and below them those of `CONNECTION`."""
    sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Connection": []}
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is not None:
            sections["Connection" if parameter.name in CONNECTION else "Options"].append(record)
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


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
        """Return a message that proposes a sub-command."""
        text = f"No such sub-command {first!r}"
        if close := get_close_matches(first, self.commands, n=1):
            return f"{text}; did you mean `{called} {close[0]}`?"
        if any(isinstance(parameter, click.Argument) for parameter in self.commands[_LIST].params):
            text += "; a campaign's path begins with /"
        if "show" in self.commands:
            text += f"; `{called} show {first}` shows one"
        return f"{text}."

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sub-commands, then the arguments and options of `list`, the default."""
        super().format_options(ctx, formatter)
        listing = self.commands[_LIST]
        inner = click.Context(listing, info_name=_LIST, parent=ctx)
        rows = [
            (parameter.make_metavar(inner), "The campaign, with all below it.")
            for parameter in listing.params
            if isinstance(parameter, click.Argument)
        ]
        options = (parameter for parameter in listing.params if isinstance(parameter, click.Option))
        records = (option.get_help_record(inner) for option in options)
        with formatter.section("Without a sub-command, the same as list"):
            formatter.write_dl([*rows, *(record for record in records if record is not None)])


class Program(click.Group):
    """The top-level command; each sub-command is imported when it is needed.

    sections: heading -> name of the sub-command -> `module:object` in the package.
    """

    def __init__(
        self, *args: Any, sections: Sections, package: str = "taskq_cli.commands", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        _prepared(self)
        self._package = package
        self._sections = sections
        self._places = {name: place for part in sections.values() for name, place in part.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the names in the order of the help text."""
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Import a sub-command."""
        place = self._places.get(_OTHER_NAMES.get(cmd_name, cmd_name))
        if place is None:
            return None
        module, _, name = place.partition(":")
        found = getattr(importlib.import_module(f"{self._package}.{module}"), name)
        return _prepared(cast("click.Command", found))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a sub-command; propose a similar one if there is none."""
        close = get_close_matches(args[0], self._places, n=1)
        known = {*self._places, *_OTHER_NAMES}
        if args[0] not in known and close and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options and the sub-commands, section by section."""
        _write_options(self, ctx, formatter)
        for heading, part in self._sections.items():
            rows = []
            for name in part:
                command = self.get_command(ctx, name)
                rows.append((name, command.get_short_help_str(100) if command else ""))
            with formatter.section(heading):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the sub-command; turn Ctrl-C into `Interrupted`, which prints one line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("Interrupted.") from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the program; in standalone mode, exit with its code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        # The pool's log repeats what the command reports once, as its error.
        logging.getLogger("psycopg").addHandler(logging.NullHandler())
        run = partial(self._run, args, prog_name, complete_var, extra)
        sys.exit(streams.exit_code_of(run, _write_error))

    def _run(
        self,
        args: Sequence[str] | None,
        prog_name: str | None,
        complete_var: str | None,
        extra: Mapping[str, Any],
    ) -> int:
        """Run the command; print its error, if any; return the exit code."""
        try:
            with _warnings_shown():
                code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            return cast("int | None", code) or 0
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            return error.exit_code
        except click.ClickException as error:
            _write_error(_usage_text(error))
            return error.exit_code
        except click.Abort:
            _write_error(Interrupted("Interrupted."))
            return Interrupted.exit_code
        except TaskqError as error:
            _write_error(error)
            return error.exit_code


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Show warnings of the library as those of commands."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, UserWarning):
                click.echo(f"Warning: {one_line(str(message))}.", err=True)
            else:
                others(message, category, *rest, **more)

        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _prepared(command: click.Command) -> click.Command:
    """Make a command refuse values that are not UTF-8, except file names; keep its help's lines.

    Paragraphs of the help that begin with `Title:` are marked for click. Idempotent.
    """
    if command in _PREPARED:
        return command
    _PREPARED.add(command)
    for parameter in command.params:
        if not isinstance(parameter.type, click.Path):
            parameter.callback = _utf_8_only(parameter.callback)
    if command.help is not None and _MARK not in command.help:
        text = inspect.cleandoc(command.help)
        command.help = re.sub(r"^(.+:)$", f"{_MARK}\n\\1", text, flags=re.MULTILINE)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _prepared(inner)
    else:
        command.format_options = partial(_write_options, command)  # type: ignore[method-assign]
    return command


def _usage_text(error: click.ClickException) -> str:
    text = error.format_message().rstrip()
    if isinstance(error, click.NoSuchOption):
        text = _unknown_option(error) or text
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return text
    if text.startswith("Got unexpected extra argument"):
        options = {option for parameter in context.command.params for option in parameter.opts}
        text += "; --key names a task" if "--key" in options else ""
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} See `{context.command_path} -h`."


def _write_error(error: TaskqError | str) -> None:
    text = one_line(error.reason if isinstance(error, InvalidFilter) else str(error))
    if isinstance(error, Interrupted) and sys.stderr.isatty():
        text = f"\n{text}"  # the terminal has just shown ^C
    elif not isinstance(error, (Interrupted, Declined)):
        text = f"Error: {text}"
        if sys.stderr.isatty():  # a terminal would break words
            from taskq_cli.display.render import folded  # noqa: PLC0415  # it is slow to import

            text = "\n".join(folded(text, shutil.get_terminal_size().columns))
    click.echo(text, err=True)
    if isinstance(error, InvalidFilter):
        click.echo(error.excerpt, err=True)
