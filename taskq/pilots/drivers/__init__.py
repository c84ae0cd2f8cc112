"""Drivers: each talks to one kind of batch system, by argument lists and standard streams.

psij-python was considered and rejected. It knows a job only by the number that it got at
submission, so it loses a job whose submitter died in between. A Slurm reason that it does not know
ends its polling with an assertion. It polls with a thread of its own, while the loop wants an
answer when it asks. `tests/helpers/driver_contract.py` tests what each driver promises.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from taskq.model.pilot_views import PilotView
from taskq.pilots.drivers.hosts import Hosts
from taskq.pilots.drivers.htcondor import HTCondor
from taskq.pilots.drivers.kubernetes import Kubernetes
from taskq.pilots.drivers.pbs import PBS
from taskq.pilots.drivers.slurm import Slurm
from taskq.pilots.reconcile import SeenJob
from taskq.pilots.settings import PilotSettings
from taskq_agent.paths import exists

DRIVERS_BY_NAME: Final[Mapping[str, Callable[[PilotSettings, Mapping[str, str]], Driver]]] = {
    "slurm": Slurm,
    "pbs": PBS,
    "htcondor": HTCondor,
    "kubernetes": Kubernetes,
    "local": Hosts,
    "ssh": Hosts,
}


class Driver(Protocol):
    """One batch system, as one pilot uses it. Each call may raise `BatchSystemError`."""

    @property
    def system(self) -> Hashable:
        """The batch system; drivers with equal ones answer for each other's jobs."""
        ...

    def missing(self) -> str | None:
        """Return what this machine lacks for the driver, in words; None if nothing."""
        ...

    def prepare(self, places: Mapping[str, int]) -> str | None:
        """Make what the next job needs; return its place, if the driver chooses one.

        An error means that nothing was submitted. places: the number of live jobs at each place.
        """
        ...

    def script(self, names: Sequence[str], path: str, program: Sequence[str]) -> str:
        """Return the exact text that jobs are submitted with; it holds no secret.

        names: of the jobs and their agents, as `begin_pilot_jobs.sql` gives them; several only if
        the driver has the setting `array`. path: the campaign that they serve. program: words that
        start `taskq` here, for a direct agent.
        """
        ...

    def submit(self, names: Sequence[str], script: str, place: str | None) -> list[SeenJob]:
        """Submit jobs together, and return how the batch system knows each.

        If the driver can tell that the batch system already has the name, it does not submit it
        again. After an error some or all jobs may be there.
        """
        ...

    def jobs(self, names: Sequence[str]) -> dict[str, SeenJob]:
        """Return what the batch system says of these jobs, by name; it may have forgotten some.

        The jobs may be those of all pilots that use the same `system`: it is asked once. An answer
        that makes no sense is an error, not a forgotten job.
        """
        ...

    def exit_code(self, name: str) -> int | None:
        """Return the exit code that a job's script has left for this machine; None if none."""
        ...

    def cancel(self, jobs: Sequence[SeenJob]) -> None:
        """End the jobs among these that have not begun; a job that is over is not an error."""
        ...

    def tail(self, name: str, place: str | None) -> str | None:
        """Return the end of a job's output; None if there is none."""
        ...


def with_exit_codes(
    driver: Driver, names: Sequence[str], answer: Mapping[str, SeenJob]
) -> dict[str, SeenJob]:
    """Return what is known of a pilot's jobs: the batch system's answer, and what scripts left.

    A job that the batch system has forgotten has ended if its script has written an exit code.
    """
    known = {name: answer[name] for name in names if name in answer}
    for name in names:
        seen = known.get(name, SeenJob("", "ended"))
        if seen.state == "ended" and seen.exit_code is None:
            code = driver.exit_code(name)
            if code is not None:
                known[name] = replace(seen, exit_code=code)
    return known


MakeDriver: TypeAlias = Callable[[PilotView, PilotSettings, Mapping[str, str]], Driver]


def make_driver(
    pilot: PilotView, settings: PilotSettings, environment: Mapping[str, str]
) -> Driver:
    """Return the driver of a pilot, on this machine."""
    return DRIVERS_BY_NAME[pilot.driver](settings, environment)


def program() -> list[str]:
    """Return the words that start `taskq` as installed here."""
    installed = Path(sys.executable).with_name("taskq")
    return [str(installed) if exists(installed) else shutil.which("taskq") or "taskq"]
