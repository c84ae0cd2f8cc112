"""`taskq top`: the queue on a full screen."""

from __future__ import annotations

import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import click

from taskq import Client
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import ExtraMissing, UsageError
from taskq_cli.display import render
from taskq_cli.shared import Invocation, path_argument, reading_options


@click.command()
@path_argument(default="/")
@reading_options
def top(invocation: Invocation, *, path: str) -> None:
    """Follow PATH and all below it on a full screen, and act on it by keys.

    Shows the tree of campaigns with progress, rate, ETA and agents, once a second. Enter opens a
    campaign, and in it a failed task; Escape goes back. The line at the bottom names the keys:
    explain, pause or resume, retry what has failed, failures, hosts, sites, agents. ? shows all of
    them: t a task by its key, + and - more or fewer levels of the tree, g the gateways and the
    database, o owners with their quotas. What changes something asks before.

    It needs 80 columns, works over SSH, and without colours where NO_COLOR is set. While the server
    does not answer, it says so and goes on by itself. For a pipe, or a smaller terminal, there is
    `taskq watch`.

    With --read-dsn it reads from a standby, and says how old that is; what keys order goes to the
    primary.

    Example:
      taskq top /demo
    """
    if invocation.output != "table" or not sys.stdin.isatty() or not render.can_redraw(sys.stderr):
        if path != "/":
            with invocation.client() as client:
                client.campaign(path)  # a wrong path is what to mend first
        raise UsageError("this needs a terminal; `taskq watch` and `taskq status` need none")
    with _keys_kept_from_the_shell():
        _run(invocation, path)


def _run(invocation: Invocation, path: str) -> None:
    address = invocation.address()
    named = "the embedded PostgreSQL" if address is None else "the queue"
    click.echo(f"connecting to {named} ...", err=True)
    try:
        from taskq_cli.top.app import TopApp  # noqa: PLC0415  # the extra may be missing
    except ModuleNotFoundError as error:
        raise ExtraMissing(f"the full screen needs {error.name}", "top") from None
    with invocation.client() as acting:
        acting.campaign(path)
        if isinstance(acting.queries, GatewayQueries):
            # Not repeated by itself: it is asked again anyway.
            TopApp(Client(acting.queries.impatient()), path).run(mouse=False)
        elif invocation.standby is not None:
            # Its first line says where it reads; other words would be written over the screen.
            with invocation.reader(say=lambda _: None) as client:
                TopApp(client, path, acting).run(mouse=False)
        else:
            TopApp(acting, path).run(mouse=False)


@contextmanager
def _keys_kept_from_the_shell() -> Iterator[None]:
    """Show no keys that are typed before the screen is there, and drop those that nobody has read.

    What the terminal answers late to questions about itself is dropped likewise.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = [*before]
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
