"""Drivers: each speaks with one kind of batch system, by argument lists and standard streams.

psij-python was looked at and left: it knows a job by the number that it got when it submitted it,
so that a job whose submitter died in between is lost to it; a reason of Slurm's that it does not
know ends its polling by an assertion; and it polls with a thread of its own, where the loop wants
an answer when it asks. What each driver promises is tested in `tests/helpers/driver_contract.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from taskq.pilots.reconcile import SeenJob


class Driver(Protocol):
    """One batch system, as one pilot uses it. Each call may raise `BatchSystemError`."""

    def missing(self) -> str | None:
        """Return what this machine lacks for the driver, in words; None: nothing."""
        ...

    def prepare(self, places: Mapping[str, int]) -> str | None:
        """Make what the next job needs; return its place, if the driver chooses one.

        An error means that nothing was submitted. places: how many live jobs there are where.
        """
        ...

    def script(self, name: str, path: str, program: Sequence[str]) -> str:
        """Return the very text that a job is submitted with; no secret is in it.

        name: the job's and its agent's. path: the campaign that it serves. program: words that
        start `taskq` here, for a direct agent.
        """
        ...

    def submit(self, name: str, script: str, place: str | None) -> SeenJob:
        """Submit a job, and return how it is known.

        A name that the batch system has already is not submitted again where the driver can tell.
        After an error the job may be there.
        """
        ...

    def jobs(self, names: Sequence[str]) -> dict[str, SeenJob]:
        """Return what the batch system says of these jobs, by name; it may have forgotten some.

        An answer that makes no sense is an error, not a forgotten job.
        """
        ...

    def cancel(self, jobs: Sequence[SeenJob]) -> None:
        """End those jobs that have not begun; one that is over is no error."""
        ...

    def tail(self, name: str, place: str | None) -> str | None:
        """Return the end of a job's output; None if there is none."""
        ...
