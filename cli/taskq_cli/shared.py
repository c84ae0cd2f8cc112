"""Shared parts of commands: options as `--dsn` and `--url`, campaign paths, the connection."""

from __future__ import annotations

import functools
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

import taskq
from taskq import Campaign, Client
from taskq.db.address import display_name, is_starting
from taskq.db.connections import Database
from taskq.db.queue_address import check_gateway, is_gateway, queue_address
from taskq.db.standby import MOST_BEHIND_S
from taskq.embedded import Server, ServerInfo
from taskq.model.errors import NotFound, NotOverGateway, TaskqError, UnknownCampaign, UsageError
from taskq.model.seed import check_path
from taskq.model.views import Status
from taskq.model.words import duration
from taskq_agent.arguments import time_s
from taskq_agent.text import size_in_bytes
from taskq_cli.decorators import together
from taskq_cli.display.output import Column
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import Declined
from taskq_cli.hints import OutputType

#: Seconds between two looks at a server that is starting up.
START_POLL_S: Final = 0.5


@dataclass
class Invocation:
    """Values of the shared options, given before or after the name of the sub-command."""

    dsn: str | None = None
    url: str | None = None
    read_dsn: str | None = None
    read_behind: float = MOST_BEHIND_S
    output: str = "table"

    def address(self) -> str | None:
        """Return the DSN or the gateway in use; None for the embedded server."""
        if self.dsn and self.url:
            raise UsageError("--dsn and --url are two addresses; give one")
        if self.url:
            check_gateway(self.url, "--url")
        return queue_address(self.dsn or self.url)

    def client(self, *, waits: bool = False) -> AbstractContextManager[Client]:
        """Connect to the queue; start the embedded server if it is the one in use and down.

        waits: for a PostgreSQL that is starting up or recovers, for as long as that takes.
        An `UnknownCampaign` raised in the block proposes a campaign with a similar path;
        `NotOverGateway` names the command.
        """
        if waits:
            self._await_server()
        return self._client(None)

    def _await_server(self) -> None:
        address = self.address()
        said = False
        while address is not None and not is_gateway(address) and is_starting(address):
            if not said:
                _warn(f"{display_name(address)} is starting up, or recovers; waiting for it")
                said = True
            time.sleep(START_POLL_S)

    @property
    def standby(self) -> str | None:
        """The address that `reader` reads from, where that is not the primary."""
        return self.read_dsn or os.environ.get("TASKQ_READ_DSN") or None

    @contextmanager
    def reader(self, say: Callable[[str], None] | None = None) -> Iterator[Client]:
        """Connect for reading: to the standby of `--read-dsn` or `TASKQ_READ_DSN`, if there is one.

        Otherwise as `client`. In the end it is said how old at most what was read is. say: told
        whenever the standby is left for the primary, by default people are.
        """
        with self._client(self.standby, say or _warn) as client:
            yield client
            behind_s = client.behind_s
        if behind_s is not None:
            text = f"Read from a standby, {duration(behind_s)} behind at most."
            click.get_current_context().call_on_close(lambda: click.echo(text, err=True))

    @contextmanager
    def _client(
        self, read_dsn: str | None, say: Callable[[str], None] | None = None
    ) -> Iterator[Client]:
        address = self.address()
        if address is None:
            start_server()
        with (
            taskq.connect(address)
            if read_dsn is None
            else taskq.connect_to_read(read_dsn, address, most_behind_s=self.read_behind, say=say)
        ) as client:
            try:
                yield client
            except NotOverGateway:
                command = click.get_current_context().command_path
                raise NotOverGateway(f"`{command}`") from None
            except UnknownCampaign as error:
                similar = _similar(client, error.path)
                if similar is None:
                    raise
                raise NotFound(f"no campaign {error.path}; did you mean {similar}?") from None

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Connect to the server without checking its schema."""
        address = self.address()
        if is_gateway(address):
            raise NotOverGateway(f"`{click.get_current_context().command_path}`")
        if address is None:
            database = Database(start_server().dsn, server="the embedded PostgreSQL").open()
        else:
            database = Database(address).open()
        try:
            yield database
        finally:
            database.close()


def start_server(port: int | None = None) -> ServerInfo:
    """Return the embedded server; start it if it is down, and say so on standard error."""
    info = Server().up(port=port)
    if info.started_now:
        click.echo(
            f"The embedded PostgreSQL was started; its data are in {info.data_dir}.", err=True
        )
    return info


def _warn(text: str) -> None:
    click.echo(f"Warning: {one_line(text)}.", err=True)


def _keep(context: click.Context, parameter: click.Parameter, value: str | float | None) -> None:
    if value == "":
        name = (parameter.name or "").replace("_", "-")
        raise UsageError(f"--{name} is empty; leave it out or give a value")
    if value is not None:
        setattr(context.ensure_object(Invocation), parameter.name or "", value)


def seconds(least: float = 0, most: float = math.inf) -> Callable[[str | float], float]:
    """Return an option type: a time within a range of seconds, as 90s, 30m, 2h or 7d."""

    def convert(value: str | float) -> float:
        try:
            number = time_s(f"{value}")
        except ValueError:
            number = math.nan
        if not least <= number <= most or math.isinf(number):
            least_text = duration(least) if least else "0"
            limits = f" of {least_text} or more"
            if math.isfinite(most):
                limits = f", from {least_text} to {duration(most)}"
            raise click.BadParameter(
                f"{value!r} must be a time, as 90s, 30m, 2h or 7d{limits}; a number alone is "
                "seconds."
            )
        return number

    return convert


def size(value: str | int) -> int:
    """Return the bytes of an option's size, as 512M, 4G or a number of bytes."""
    try:
        return 0 if f"{value}" == "0" else size_in_bytes(f"{value}")
    except ValueError:
        raise click.BadParameter(
            f"{value!r} must be a size, as 512M or 4G; a number alone is bytes."
        ) from None


_DSN: Final = click.option(
    "--dsn",
    expose_value=False,
    callback=_keep,
    metavar="DSN",
    help="PostgreSQL server of the queue, as postgresql://user@host/database. Default: TASKQ_DSN, "
    "else the embedded server. All users of a machine can read its command lines: leave a password "
    "to TASKQ_DSN or ~/.pgpass.",
)
_URL: Final = click.option(
    "--url",
    expose_value=False,
    callback=_keep,
    metavar="URL",
    help="Gateway of the queue instead, as https://gw.example.org, with a manager's token. "
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
#: Adds `--output`, `--dsn` and `--url`; the command gets the `Invocation` as its first argument.
shared_options: Final = together(
    _OUTPUT, _DSN, _URL, click.make_pass_decorator(Invocation, ensure=True)
)
#: Adds `--dsn` alone, for commands that write no records.
dsn_option: Final = together(_DSN, click.make_pass_decorator(Invocation, ensure=True))
_reading: Final = together(
    click.option(
        "--read-dsn",
        expose_value=False,
        callback=_keep,
        metavar="DSN",
        help="Read from this hot standby of the server instead, which may be some seconds behind. "
        "Default: TASKQ_READ_DSN, where a password belongs.",
    ),
    click.option(
        "--read-behind",
        expose_value=False,
        callback=_keep,
        type=seconds(0.001),
        metavar="TIME",
        help="How far behind a standby may be, else the server itself is read. [default: "
        f"{MOST_BEHIND_S:g} s]",
    ),
)
#: Those of `shared_options` or `dsn_option`, with `--read-dsn`, for commands that use `reader`.
reading_options: Final = together(_reading, shared_options)
dsn_reading_options: Final = together(_reading, dsn_option)
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
    help="Whether it is about all campaigns below as well.",
)
campaign_file_option: Final = click.option(
    "--campaign-file",
    "file",
    type=click.Path(path_type=Path),
    metavar="TOML",
    help="Take it from a campaign file; PATH and other options take precedence.",
)
dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Say what would be done, and change nothing."
)
limit_option: Final = click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Write at most N records. [default: 1,000 in a table, otherwise all]",
)


def campaign_path(text: str) -> str:
    """Return a campaign's path, without a slash at its end; raise `InvalidPath`."""
    return check_path(text.rstrip("/") or "/" if text.startswith("/") else text)


def _similar(client: Client, path: str) -> str | None:
    """Return the campaign whose name is most similar on each level; None if a level has none."""
    found = "/"
    for name in path.split("/")[1:]:
        names = [child.path.rpartition("/")[2] for child in client.campaign(found).children()]
        close = get_close_matches(name, names, n=1)
        if not close:
            return None
        found = f"{found.rstrip('/')}/{close[0]}"
    return found


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


def stopped_by_signals() -> threading.Event:
    """Return an event that SIGTERM and Ctrl-C set from now on."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def campaigns_with(
    client: Client, path: str, wanted: Callable[[Status], object], *, below: bool = True
) -> Iterator[Campaign]:
    """Yield the campaigns at and below a path whose own status satisfies this, by path."""
    campaign = client.campaign(path)
    for node in campaign.tree() if below else [campaign.status(below=False)]:
        if wanted(node):
            yield Campaign(client.queries, node.campaign_id, node.path)


def campaign_column(client: Client, path: str, *, below: bool = True) -> list[Column]:
    """Return the column with the campaign's path, if there are campaigns below the path."""
    return [Column("campaign")] if below and client.campaign(path).status().children else []


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation unless `yes`; raise `UsageError` if standard input is no terminal.

    Raise `Declined` if the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Add --yes to confirm; nothing was changed")
    if not click.confirm(question, err=True):
        raise Declined("Nothing was changed.")
