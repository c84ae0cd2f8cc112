"""Exporting what a cursor does not have yet, once or as it comes; the cursor follows the output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import click

from taskq import Campaign, Cursor
from taskq.model.errors import LoginRefused, OutputFailed, Unavailable, UsageError
from taskq.model.views import Result
from taskq.results.columns import Columns
from taskq_cli.decorators import together
from taskq_cli.display.text import one_line

AGAIN_S: Final = 2.0
#: Seconds between two versions of a cursor's file at least; and times as long as writing it takes.
SAVE_S: Final = 1.0
REST: Final = 9

since_options: Final = together(
    click.option(
        "--since",
        metavar="CURSOR",
        type=click.Path(),
        help="Only results that CURSOR does not have: a file, begun where there is none, and "
        "renewed when they are written.",
    ),
    click.option(
        "--follow",
        is_flag=True,
        help="Go on with results as they come, until no task is unfinished.",
    ),
)


def check(
    since: str | None, to: str, how: str, columns: Columns | None, *, follow: bool, ranked: bool
) -> None:
    """Raise `UsageError` if options do not go together.

    ranked: whether only the best, or those that match a filter, are wanted.
    """
    if not follow and since is None:
        return
    option = "--follow" if follow else "--since"
    if ranked:
        raise UsageError(
            f"{option} gives all results, as they come: leave out --top, --by and --where"
        )
    if since == "-" or (since is not None and Path(since).resolve() == Path(to).resolve()):
        raise UsageError("--since names a file of its own, for the cursor")
    if follow and to != "-":
        raise UsageError("--follow writes to standard output: leave out --to")
    if follow and how != "jsonl" and (how != "csv" or columns is None):
        raise UsageError("--follow writes jsonl, or csv with --columns")
    if to != "-" and Path(to).exists() and not Path(to).is_file():
        raise UsageError(f"--since goes with an ordinary file or standard output, not with {to!r}")


def followed(
    campaign: Campaign, cursor: Cursor, since: str | None, **options: Any
) -> Iterator[Result]:
    """Yield results as they come; when they are written out, renew the cursor's file.

    While the server is away, it waits.
    """
    renew = renewal(cursor, since)
    while not (yield from _followed_until_away(campaign.follow(cursor, on_page=renew, **options))):
        time.sleep(AGAIN_S)


def _followed_until_away(results: Iterator[Result]) -> Generator[Result, None, bool]:
    """Yield results; return whether that were all, or say that the server went away."""
    try:
        yield from results
    except Unavailable as error:
        if isinstance(error, (LoginRefused, OutputFailed)):
            raise
        click.echo(f"{one_line(str(error))}; trying again", err=True)
        return False
    return True


def renewal(cursor: Cursor, since: str | None) -> Callable[[], None]:
    """Return what renews a cursor's file, now and then; called when all that it has was given."""
    saved, rested_at = len(cursor), 0.0

    def renew() -> None:
        nonlocal saved, rested_at
        sys.stdout.flush()  # what a cursor has was written before
        began = time.monotonic()
        if since is None or began < rested_at or len(cursor) == saved:
            return
        cursor.write(since)
        now = time.monotonic()
        saved, rested_at = len(cursor), now + max(SAVE_S, REST * (now - began))

    return renew
