"""Exceptions that end a command early with an exit code, although nothing failed."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from taskq import Campaign
from taskq.model.errors import LoginRefused, OutputFailed, TaskqError, Unavailable, UsageError
from taskq.model.words import counted
from taskq_cli.display.text import one_line


class Interrupted(TaskqError):
    """The user pressed Ctrl-C; the text says what the command had done."""

    exit_code = 130


class Declined(TaskqError):
    """The user answered a confirmation with no."""

    exit_code = 1


class Violated(TaskqError):
    """The audit found violations, a check faults, a look troubles; they have been written."""

    exit_code = 1


class TasksFailed(TaskqError):
    """All watched tasks have ended, and some have failed."""

    exit_code = 1


class TimedOut(TaskqError):
    """The time that the user gave is over; the code is that of timeout(1)."""

    exit_code = 124


@contextmanager
def resumable() -> Iterator[None]:
    """Turn Ctrl-C in the block into `Interrupted`: the work commits in steps, which stay."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(
            "Interrupted; what was done stays: repeat the command to continue."
        ) from None


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Give the block an event that SIGTERM and Ctrl-C set."""
    stop = threading.Event()
    with ExitStack() as former:
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.signal(number, lambda *_: stop.set())
            former.callback(signal.signal, number, before)
        yield stop


def confirm_mixing(campaign: Campaign, *, yes: bool) -> None:
    """Ask before results that come by another recipe are added to those that are there."""
    status = campaign.status(below=False)
    if status.done:
        confirm(
            f"{campaign.path} has {counted(status.done, 'result')}. Those that come after this "
            "change are computed in another way. Change it?",
            yes=yes,
        )


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation unless `yes`; raise `UsageError` if standard input is not a terminal.

    Raise `Declined` if the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Add --yes to confirm; nothing was changed")
    if not click.confirm(question, err=True):
        raise Declined("Nothing was changed.")


def wait_out(error: Unavailable, rest_s: float = 2.0, then: str = "trying again") -> None:
    """Report that the server is away, and wait; raise the error if trying again cannot help."""
    if isinstance(error, (LoginRefused, OutputFailed)):
        raise error
    click.echo(f"{one_line(str(error))}; {then}", err=True)
    time.sleep(rest_s)
