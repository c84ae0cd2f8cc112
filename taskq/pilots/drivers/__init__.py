"""Drivers: each talks to one kind of batch system, by argument lists and standard streams.

psij-python was considered and rejected. It knows a job only by the number that it got at
submission, so it loses a job whose submitter died in between. A Slurm reason that it does not know
ends its polling with an assertion. It polls with a thread of its own, while the loop wants an
answer when it asks. `tests/helpers/driver_contract.py` tests what each driver promises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from taskq.pilots.reconcile import SeenJob


class Driver(Protocol):
    """One batch system, as one pilot uses it. Each call may raise `BatchSystemError`."""

    def missing(self) -> str | None:
        """Return what this machine lacks for the driver, in words; None if nothing."""
        ...

    def prepare(self, places: Mapping[str, int]) -> str | None:
        """Make what the next job needs; return its place, if the driver chooses one.

        An error means that nothing was submitted. places: the number of live jobs at each place.
        """
        ...

    def script(self, name: str, path: str, program: Sequence[str]) -> str:
        """Return the exact text that a job is submitted with; it holds no secret.

        name: of the job and its agent. path: the campaign that it serves. program: words that start
        `taskq` here, for a direct agent.
        """
        ...

    def submit(self, name: str, script: str, place: str | None) -> SeenJob:
        """Submit a job, and return how the batch system knows it.

        If the driver can tell that the batch system already has the name, it does not submit it
        again. After an error the job may be there.
        """
        ...

    def jobs(self, names: Sequence[str]) -> dict[str, SeenJob]:
        """Return what the batch system says of these jobs, by name; it may have forgotten some.

        An answer that makes no sense is an error, not a forgotten job.
        """
        ...

    def cancel(self, jobs: Sequence[SeenJob]) -> None:
        """End the jobs among these that have not begun; a job that is over is no error."""
        ...

    def tail(self, name: str, place: str | None) -> str | None:
        """Return the end of a job's output; None if there is none."""
        ...
