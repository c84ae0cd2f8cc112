"""The connection of a command to the queue, and the campaigns that it needs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

import click

import taskq
from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.db.dsn import display_name
from taskq.db.queue_address import check_gateway, is_gateway, queue_address
from taskq.db.standby import MOST_BEHIND_S
from taskq.db.starting import await_start
from taskq.db.stones import unknown_campaign
from taskq.db.translation import EMBEDDED
from taskq.embedded import Server, ServerInfo
from taskq.model.columns import Column
from taskq.model.errors import (
    ExtraMissing,
    Forbidden,
    NotFound,
    NotOverGateway,
    SchemaError,
    UnknownCampaign,
    UsageError,
)
from taskq.model.views import Status
from taskq.model.words import duration
from taskq.upkeep.keeper import keeping
from taskq_cli.display.text import one_line
from taskq_cli.last_words import note_other_release

# What a keeper of a command logs is for the logs of those who have some.
logging.getLogger("taskq.upkeep").addHandler(logging.NullHandler())


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
            raise UsageError("--dsn and --url name two queues; give one")
        if self.url:
            check_gateway(self.url, "--url")
        return queue_address(self.dsn or self.url)

    def client(self, *, waits: bool = False, keeps: bool = True) -> AbstractContextManager[Client]:
        """Connect to the queue; start the embedded server if it is the one in use and down.

        waits: whether to wait while PostgreSQL starts up or recovers. keeps: whether to keep an
        embedded queue meanwhile, of which nobody else may take care; False: the caller does.
        An `UnknownCampaign` raised in the block says what is known of a campaign that was removed,
        or proposes one with a similar path;
        `NotOverGateway` names the command.
        """
        if waits:
            self._await(self.address())
        return self._client(None, keeps=keeps, waits=waits)

    def make_room(self) -> None:
        """Let a command that removes something run on the full disk of the embedded server."""
        if self.address() is None and (given := Server().make_room()):
            warn(
                f"the disk of the queue is full: the {given / 1e6:,.0f} MB that were kept for this "
                "are given up; stop agents and seed nothing until there is room again"
            )

    @staticmethod
    def _await(*addresses: str | None) -> None:
        for address in addresses:
            if address is not None and not is_gateway(address):
                name = display_name(address)
                text = f"{name} is starting up or recovering; waiting for it"
                await_start(address, partial(warn, text))

    @property
    def standby(self) -> str | None:
        """The address of the standby that `reader` reads from, if one is named."""
        return self.read_dsn or os.environ.get("TASKQ_READ_DSN") or None

    @contextmanager
    def reader(
        self, say: Callable[[str], None] | None = None, *, waits: bool = False
    ) -> Iterator[Client]:
        """Connect for reading: to the standby of `--read-dsn` or `TASKQ_READ_DSN`, if there is one.

        Otherwise as `client`. At the end it reports how far the standby was behind at most. say:
        called when it leaves the standby for the primary; by default it prints a warning. waits:
        as for `client`.
        """
        if waits:
            self._await(self.address(), self.standby)
        with self._client(self.standby, say or warn) as client:
            yield client
            behind_s = client.behind_s
        if behind_s is not None:
            text = f"Read from a standby, at most {duration(behind_s)} behind."
            click.get_current_context().call_on_close(lambda: click.echo(text, err=True))

    @contextmanager
    def _client(
        self,
        read_dsn: str | None,
        say: Callable[[str], None] | None = None,
        *,
        keeps: bool = True,
        waits: bool = False,
    ) -> Iterator[Client]:
        address = self.address()
        if address is None:
            start_server()
        try:
            connected = (
                taskq.connect(address)
                if read_dsn is None
                else taskq.connect_to_read(
                    read_dsn, address, most_behind_s=self.read_behind, say=say
                )
            )
        except SchemaError as error:
            if waits and address is not None and not is_gateway(address):
                note_other_release(address, error)
            raise
        with (
            connected as client,
            keeping(client.database) if keeps and address is None else nullcontext(),
        ):
            try:
                yield client
            except NotOverGateway:
                command = click.get_current_context().command_path
                raise NotOverGateway(f"`{command}`") from None
            except UnknownCampaign as error:
                found = error if error.removed else unknown_campaign(client.queries, error.path)
                if found.removed is not None:
                    raise found from None
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
            database = Database(start_server().dsn, server=EMBEDDED).open()
        else:
            database = Database(address).open()
        try:
            yield database
        finally:
            database.close()


def start_server(port: int | None = None) -> ServerInfo:
    """Return the embedded server; start it if it is down, and report that on standard error."""
    info = Server().up(port=port)
    if info.started_now:
        click.echo(
            f"The embedded PostgreSQL was started; its data are in {info.data_dir}.", err=True
        )
    return info


def warn(text: str) -> None:
    """Warn on standard error; the text ends without a full stop."""
    click.echo(f"Warning: {one_line(text)}.", err=True)


def _similar(client: Client, path: str) -> str | None:
    """Return the path with the most similar name on each level; None if a level has none."""
    found = "/"
    for name in path.split("/")[1:]:
        close = [name]
        with suppress(Forbidden):  # the token covers only lower levels
            names = [child.path.rpartition("/")[2] for child in client.campaign(found).children()]
            close = get_close_matches(name, names, n=1)
        if not close:
            return None
        found = f"{found.rstrip('/')}/{close[0]}"
    return None if found == path else found


def campaigns_with(
    client: Client, path: str, wanted: Callable[[Status], object], *, below: bool = True
) -> Iterator[Campaign]:
    """Yield the campaigns at and below a path whose own status is wanted, in order of paths."""
    campaign = client.campaign(path)
    for node in campaign.tree() if below else [campaign.status(below=False)]:
        if wanted(node):
            yield Campaign(client.queries, node.campaign_id, node.path)


def campaign_column(client: Client, path: str, *, below: bool = True) -> list[Column[Any]]:
    """Return the column with the campaign's path, if there are campaigns below the path."""
    return [Column("campaign")] if below and client.campaign(path).status().children else []


@contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """Raise `ExtraMissing` if an import in the block fails. what: such as `the pages need`."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraMissing(f"{what} {error.name}", extra) from None
