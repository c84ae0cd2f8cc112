"""The last words of commands that serve the queue, for people who do not read their logs."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

import click

from taskq.db.access import Queries
from taskq.db.connections import Database
from taskq.model.errors import TaskqError

#: Seconds after which a command that still runs is taken to run well.
STEADY_S: Final = 30.0
_MOST_CHARS: Final = 500

Note = Callable[[str], None]


@contextmanager
def noted(queries: Queries, about: str = "") -> Iterator[Note]:
    """Note in the queue by which error the block ends; `db check` and `explain /` show it.

    about: what the command is for, such as the path of a campaign. Gives a function that notes
    words. Nothing is noted at a terminal, where somebody reads the error. A note goes when the same
    command runs on this host for `STEADY_S`.
    """
    program = _program(about)

    def note(words: str) -> None:
        if not sys.stderr.isatty():
            _leave(queries, program, words)

    steady = threading.Timer(STEADY_S, _leave, [queries, program, None])
    steady.daemon = True
    steady.start()
    try:
        yield note
    except (click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        note(str(error) or type(error).__name__)
        raise
    finally:
        steady.cancel()


def note_other_release(dsn: str, error: TaskqError) -> None:
    """Note that this command cannot use the database, which has the schema of another release."""
    if not sys.stderr.isatty():
        with suppress(TaskqError), closing(Database(dsn).open()) as database:
            _leave(database, _program(), str(error))


def _program(about: str = "") -> str:
    return f"{click.get_current_context().command_path} {about}".strip()


def _leave(queries: Queries, program: str, words: str | None) -> None:
    why = None if words is None else words[:_MOST_CHARS]
    with suppress(TaskqError):  # the command's own error is what its log must show
        queries.value("note_stopped", program=program, host=socket.gethostname(), why=why)
