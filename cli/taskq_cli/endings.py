"""Ways for a command to end before it is through that are nobody's error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from taskq.errors import TaskqError


class Interrupted(TaskqError):
    """Ctrl-C; the text says what was done until then."""

    exit_code = 130


class Declined(TaskqError):
    """The answer to a question was no."""

    exit_code = 1


class Violated(TaskqError):
    """The tables do not keep what is promised; which, was written."""

    exit_code = 1


@contextmanager
def resumable() -> Iterator[None]:
    """Let Ctrl-C say that the block's work is done in steps, each of which stays."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(
            "Interrupted; what was done stays, and the same command goes on from there."
        ) from None
