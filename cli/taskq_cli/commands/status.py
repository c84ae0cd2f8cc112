"""`taskq ls`, `tree`, `status` and `top`: campaigns with their counts."""

from __future__ import annotations

import sys
import termios
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from taskq import Campaign, Client
from taskq.db.gateway_queries import GatewayQueries
from taskq.db.stones import ALL_REMOVED
from taskq.db.translation import EMBEDDED
from taskq.diagnosis.campaign_tree import MOST_SHOWN, CampaignNode, read_children, read_tree
from taskq.diagnosis.tables.campaigns import CAMPAIGNS, named
from taskq.diagnosis.tables.removed import REMOVED
from taskq.diagnosis.tree_readings import TreeReadings
from taskq.model.errors import UsageError
from taskq.model.views import Status
from taskq.model.words import counted
from taskq_cli.display import render
from taskq_cli.display.output import Record, write_record, write_records
from taskq_cli.display.overview import counts, pace_lines, read_overview, status_record
from taskq_cli.invocation import Invocation, needs
from taskq_cli.options.shared import below_option, limit_option, path_argument, reading_options


@click.command()
@path_argument(default="/")
@click.option(
    "--removed",
    is_flag=True,
    help="List those at and below PATH that were removed, the latest first: when, by whom, and "
    "where their archives are.",
)
@limit_option
@reading_options
def ls(invocation: Invocation, *, path: str, removed: bool, limit: int | None) -> None:
    """List the campaigns directly below PATH.

    The counts of each include all campaigns below it. The ETA is when all tasks that
    can end have ended; a + means that some cannot, and `taskq status` says which.

    Example:
      taskq ls /wisdom
      taskq ls /wisdom --removed
    """
    if removed:
        with invocation.reader() as client:
            gone = client.removed(path, limit=min(limit or ALL_REMOVED, ALL_REMOVED))
        write_records(invocation.output, gone, REMOVED, limit=limit)
        return
    with invocation.reader() as client:
        client.campaign(path)
        children = read_children(client.queries, path)
    write_records(invocation.output, children, CAMPAIGNS, limit=limit, record=_record)


def _record(node: CampaignNode) -> Record:
    return status_record(node.status) | {"forecast": node.forecast.record()}


@click.command()
@path_argument(default="/")
@click.option("--all", "ended", is_flag=True, help="With all that have ended, however many.")
@limit_option
@reading_options
def tree(invocation: Invocation, *, path: str, ended: bool, limit: int | None) -> None:
    """Show the tree of campaigns at PATH.

    The counts of each are its own, without those below it. If there are more than 1,000, a table
    leaves out campaigns that have ended, apart from new ones and those with most failed tasks.

    Example:
      taskq tree /wisdom
    """
    with invocation.reader() as client:
        campaign = client.campaign(path)
        if ended or invocation.output != "table":
            nodes, left = campaign.tree(), 0
        else:
            nodes, left = _notable(client, campaign)
    drawn = {node.campaign_id: (node, name) for node, name in _branches(path, nodes)}
    columns = named(lambda campaign: drawn[campaign.campaign_id][1])
    rows = [node for node, _ in drawn.values()]
    write_records(invocation.output, rows, columns, limit=limit, record=status_record)
    if left:
        click.echo(f"Left out: {counted(left, 'ended campaign')}. --all shows all.", err=True)


def _notable(client: Client, campaign: Campaign) -> tuple[list[Status], int]:
    """Return the campaigns below one without those that have ended, if these are very many.

    And how many are left out, but for those below them.
    """
    readings = TreeReadings(campaign.path, whole=False)
    readings.read(client.queries, "counts")
    nodes = readings.statuses
    left = sum(node.children for node in nodes) - len(nodes) + 1
    return (campaign.tree(), 0) if 0 < left <= MOST_SHOWN else (nodes, left)


def _branches(top: str, nodes: Sequence[Status]) -> Iterator[tuple[Status, str]]:
    """Yield the nodes depth first, each with its name and the branch lines before it."""
    below: dict[str, list[Status]] = defaultdict(list)
    stack: list[tuple[Status, str, str]] = []
    for node in nodes:
        if node.path == top:
            stack.append((node, node.path, ""))
        else:
            below[node.path.rpartition("/")[0] or "/"].append(node)
    while stack:
        node, name, margin = stack.pop()
        yield node, name
        children = below[node.path]
        for child in reversed(children):
            last = child is children[-1]
            name = child.path.rpartition("/")[2]
            stack.append(
                (
                    child,
                    f"{margin}{'└── ' if last else '├── '}{name}",
                    margin + ("    " if last else "│   "),
                )
            )


@click.command()
@path_argument(default="/")
@below_option
@reading_options
def status(invocation: Invocation, *, path: str, below: bool) -> None:
    """Show the progress of PATH and all below it.

    Shows tasks by status, the rate at which they end, the ETA, agents, the most frequent errors,
    and what is in the way or broken, as `taskq explain` has it. The ETA leaves out tasks that
    cannot end. The rate is that of the last ten minutes, or longer if few tasks end. The time that
    it takes does not depend on the number of tasks.

    Example:
      taskq status /demo
    """
    with invocation.reader() as client:
        nodes = read_tree(client.queries, path).nodes if below else None
        explanation = client.campaign(path).explain() if below else None
        overview = read_overview(client, path, nodes, explanation)
        forecast = nodes[path].forecast if nodes is not None else None
        behind_s = client.behind_s
    lines = overview.lines()
    if forecast is not None and overview.status.unfinished:
        lines = [*pace_lines(forecast), *lines]
    shown = render.campaign(overview.title(), counts(overview.status), lines)
    record = overview.record() | {
        "forecast": forecast and forecast.record(),
        "behind_s": behind_s,
    }
    write_record(invocation.output, record, render.as_text(shown).rstrip("\n"))


@click.command()
@path_argument(default="/")
@reading_options
def top(invocation: Invocation, *, path: str) -> None:
    """Follow PATH and all below it on a full screen, and act on it by keys.

    Shows the tree of campaigns with progress, rate, ETA and agents, once a second. Enter opens a
    campaign, and in it a failed task; Escape goes back. The line at the bottom names the keys:
    explain, pause or resume, retry failed tasks, failures, hosts, sites, agents. ? shows all keys:
    t a task by its key, + and - more or fewer levels of the tree, g the gateways and the database,
    o owners with their quotas. A key that changes something asks first.

    It needs 80 columns and works over SSH; with NO_COLOR it has no colours. While the server does
    not answer, it says so and continues when the server is back. For a pipe, or a smaller terminal,
    use `taskq watch`.

    With --read-dsn it reads from a standby, and shows how far that lags; changes go to the
    primary.

    Example:
      taskq top /demo
    """
    if invocation.output != "table" or not sys.stdin.isatty() or not render.can_redraw(sys.stderr):
        if path != "/":
            with invocation.client() as client:
                client.campaign(path)  # report a wrong path first
        raise UsageError("`taskq top` needs a terminal; `taskq watch` and `taskq status` need none")
    with _keys_kept_from_the_shell():
        _run(invocation, path)


def _run(invocation: Invocation, path: str) -> None:
    address = invocation.address()
    named = EMBEDDED if address is None else "the queue"
    click.echo(f"connecting to {named} ...", err=True)
    with needs("the full screen needs", "top"):
        from taskq_cli.top.app import TopApp  # noqa: PLC0415  # the extra may be missing
    with invocation.client() as acting:
        acting.campaign(path)
        if isinstance(acting.queries, GatewayQueries):
            # A request is not repeated after an error: the screen soon asks again anyway.
            TopApp(Client(acting.queries.impatient()), path).run(mouse=False)
        elif invocation.standby is not None:
            # The screen's first line says where it reads. A warning would go over the screen.
            with invocation.reader(say=lambda _: None) as client:
                TopApp(client, path, acting).run(mouse=False)
        else:
            TopApp(acting, path).run(mouse=False)


@contextmanager
def _keys_kept_from_the_shell() -> Iterator[None]:
    """Show no keys that are typed before the screen is there, and drop keys that nobody has read.

    This also drops late answers of the terminal to questions about itself.
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
