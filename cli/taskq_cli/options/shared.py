"""Options that commands share: the queue's address, campaigns and output."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

import taskq
from taskq.campaign.filter_compiler import compiled
from taskq.db.standby import MOST_BEHIND_S
from taskq.embedded import Server
from taskq.model.errors import TaskqError, UsageError
from taskq.model.seed import check_path
from taskq.model.settings import CHOICE, FLAG, NAMED, REQUIRED, TEXTS, Setting
from taskq_cli.invocation import Invocation
from taskq_cli.options.values import Decorator, seconds

OUTPUTS: Final = ("table", "json", "jsonl")

_FORMATS: Final = {"csv", "parquet", "sdf"}

yes_option: Final = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
blobs_option: Final = click.option(
    "--blobs",
    type=click.Path(),  # or a URL
    metavar="URL",
    help="Store of inputs and large results, the same for all users of the queue: a folder, "
    "s3://bucket/prefix, or a URL that fsspec supports. [default: TASKQ_BLOBS, else the database]",
)
below_option: Final = click.option(
    "--below/--no-below",
    default=True,
    show_default=True,
    help="Include all campaigns below, or not.",
)
campaign_file_option: Final = click.option(
    "--campaign-file",
    "file",
    type=click.Path(path_type=Path),
    metavar="TOML",
    help="Read the settings from a campaign file; PATH and other options take precedence.",
)
dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Show what would happen; change nothing."
)
limit_option: Final = click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Write at most N records. [default: 1,000 in a table, otherwise all]",
)


def together(*options: Decorator) -> Decorator:
    """Return a decorator that adds options, or arguments, in this order."""

    def decorated(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def setting_option(setting: Setting, several: str = "") -> Decorator:
    """Return the option of a declared setting. several: more help if it may be repeated."""
    text = f"{setting.plain[0].upper()}{setting.plain[1:]}."
    if setting.drivers:
        text = f"{', '.join(setting.drivers)}: {setting.plain}."
    if setting.kind is FLAG:
        flags = f"{setting.flag}/--no-{setting.flag[2:]}"
        usual = flags.split("/")[not setting.default]
        return click.option(flags, default=None, help=f"{text} [default: {usual}]")
    if setting.kind in (TEXTS, NAMED):
        text += f" May be repeated{'; ' * bool(several)}{several}."
        return click.option(
            setting.flag, setting.name, multiple=True, metavar=setting.placeholder, help=text
        )
    if setting.default not in ("", REQUIRED):
        usual = "none" if setting.default in (None, ()) else setting.kind.written(setting.default)
        text += f" [default: {usual}]"
    if setting.kind is CHOICE:
        return click.option(setting.flag, type=click.Choice(setting.choices), help=text)
    metavar = f"{setting.placeholder}|none" if setting.optional else setting.placeholder
    return click.option(setting.flag, setting.name, metavar=metavar, help=text)


def setting_value(setting: Setting, given: Any) -> Any:
    """Return the value of a setting from the value of its option."""
    if setting.kind in (TEXTS, NAMED):
        return tuple(filter(None, given))
    if setting.kind is FLAG:
        return given
    try:
        return setting.parsed(given)
    except ValueError:
        none = ", or none" if setting.optional else ""
        raise UsageError(
            f"{setting.flag} {given!r:.80} must be {setting.kind.form}{none}"
        ) from None


class OutputType(click.Choice[str]):
    """Type of `--output`. The error for a name or format of a file proposes the right option."""

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
            known += f"; `{'--to' if 'to' in options else '>'} {text}` names a file"
        return self.fail(f"{text!r} {known}.", param, ctx)


def _keep(context: click.Context, parameter: click.Parameter, value: str | float | None) -> None:
    if value == "":
        name = (parameter.name or "").replace("_", "-")
        raise UsageError(f"--{name} is empty; give a value or leave it out")
    if value is not None:
        setattr(context.ensure_object(Invocation), parameter.name or "", value)


_DSN: Final = click.option(
    "--dsn",
    expose_value=False,
    callback=_keep,
    metavar="DSN",
    help="PostgreSQL server of the queue, such as postgresql://user@host/database. Default: "
    "TASKQ_DSN, else the embedded server. All users of a machine can read its command lines: put a "
    "password into TASKQ_DSN or ~/.pgpass.",
)
_URL: Final = click.option(
    "--url",
    expose_value=False,
    callback=_keep,
    metavar="URL",
    help="Gateway of the queue instead, such as https://gw.example.org, with a manager's token. "
    "Default: TASKQ_URL; TASKQ_TOKEN_FILE names the token's file.",
)
_OUTPUT: Final = click.option(
    "--output",
    "-o",
    expose_value=False,
    callback=_keep,
    type=OutputType(),
    help="Output format. [default: table]",
)
#: Adds `--dsn` and `--url`, for commands that write no records or have their own `--output`; the
#: command gets the `Invocation` as its first argument.
connection_options: Final = together(_DSN, _URL, click.make_pass_decorator(Invocation, ensure=True))
#: Adds `--output`, too.
shared_options: Final = together(_OUTPUT, connection_options)
_reading: Final = together(
    click.option(
        "--read-dsn",
        expose_value=False,
        callback=_keep,
        metavar="DSN",
        help="Read from this hot standby of the server instead; it may be some seconds behind. "
        "Default: TASKQ_READ_DSN. Put a password there, not here.",
    ),
    click.option(
        "--read-behind",
        expose_value=False,
        callback=_keep,
        type=seconds(0.001),
        metavar="TIME",
        help="Longest lag of a standby: if it lags more, commands read from the primary. "
        f"[default: {MOST_BEHIND_S:g}s]",
    ),
)
#: Adds `--read-dsn` and `--read-behind` to one of the above, for commands that use `reader`.
reading_options: Final = together(_reading, shared_options)
connection_reading_options: Final = together(_reading, connection_options)


def campaign_path(text: str) -> str:
    """Return a campaign's path, without a slash at its end; raise `InvalidPath`."""
    return check_path(text.rstrip("/") or "/" if text.startswith("/") else text)


def complete_path(
    context: click.Context,
    _: click.Parameter,
    incomplete: str,
) -> list[CompletionItem]:
    """Return the campaigns at the next level, for shell completion; [] if no server answers."""
    invocation = context.find_object(Invocation) or Invocation()
    try:
        if invocation.address() is None and Server().status() is None:
            return []
        with taskq.connect(invocation.address()) as client:
            children = client.campaign(incomplete.rpartition("/")[0] or "/").children()
    except TaskqError:
        return []
    return [CompletionItem(child.path) for child in children if child.path.startswith(incomplete)]


path_argument: Final = functools.partial(
    click.argument, "path", type=campaign_path, shell_complete=complete_path
)
campaign_option: Final = functools.partial(
    click.option,
    "--campaign",
    type=campaign_path,
    shell_complete=complete_path,
    metavar="PATH",
)


def _readable(_: click.Context, __: click.Parameter, where: str | None) -> str | None:
    compiled(where)
    return where


where_option: Final = click.option(
    "--where",
    metavar="FILTER",
    callback=_readable,
    help="Only tasks that match, such as 'error ~ \"timeout\" and attempts < 3'; docs/manager.md "
    "has the fields.",
)
