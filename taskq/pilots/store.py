"""Stored pilots: managers create, steer and view them; the loop acts on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from taskq.db.access import Queries
from taskq.model.errors import NotFound
from taskq.model.pilot_views import PilotJob, PilotView
from taskq.model.seed import check_path
from taskq.pilots.pilot_file import check_name, pilot_settings
from taskq.pilots.plan_words import Plan, plan_of
from taskq.pilots.planner import PilotJobs, PilotState, Waiting, decide
from taskq.pilots.settings import PilotSettings
from taskq.pilots.sizing import chosen

PilotStatus: TypeAlias = Literal["active", "paused", "removed"]

#: How many ended jobs are looked at in addition to the live ones.
ENDED: Final = 200
_LATELY_S: Final = 60.0
#: Seconds after an agent is first heard in which it may not have claimed yet.
_SETTLING_S: Final = 15.0


class Pilots:
    """The pilots of a queue."""

    def __init__(self, database: Queries) -> None:
        self._database = database

    def create(
        self,
        name: str,
        driver: str,
        path: str,
        settings: PilotSettings | dict[str, Any],
        *,
        replace: bool = False,
    ) -> bool:
        """Store a pilot, which a loop (`taskq pilot run`) acts on; return whether it is new.

        settings: as `pilot_file.pilot_settings` takes or returns them. replace: change
        the pilot of this name; its existing jobs go on as they were submitted.

        Raise `UsageError` for an invalid value, `NotFound` if there is no such campaign, `Conflict`
        if the name is taken.
        """
        checked = (
            settings if isinstance(settings, PilotSettings) else pilot_settings(driver, settings)
        )
        return bool(
            self._database.value(
                "create_pilot",
                name=check_name(name),
                path=check_path(path),
                driver=driver,
                settings=checked.to_json(),
                replace=replace,
            )
        )

    def list(self) -> tuple[PilotView, ...]:
        """Return all pilots, ordered by name."""
        return tuple(PilotView(**row) for row in self._database.rows("pilots", pilot=None))

    def pilot(self, name: str) -> PilotView:
        """Return a pilot; raise `NotFound`."""
        row = self._database.row("pilots", pilot=name)
        if row is None:
            raise NotFound(f"no pilot {name}; `taskq pilot list` shows what there is")
        return PilotView(**row)

    def jobs(self, name: str, *, ended: int = ENDED) -> tuple[PilotJob, ...]:
        """Return a pilot's jobs, latest first: all live ones, and up to `ended` others."""
        return self._jobs(self.pilot(name), ended)

    def set_status(self, name: str, status: PilotStatus) -> int:
        """Pause, resume or remove a pilot; return how many of its jobs have not ended.

        active: its failures are forgotten. removed: it is gone when its last job has ended, and at
        once if it has none. Idempotent. Raise `NotFound`, or `Conflict` if it is being removed.
        """
        return int(self._database.value("set_pilot_status", name=name, status=status))

    def plan(self, name: str) -> Plan:
        """Return what a loop would do for a pilot now, and why."""
        found = self.pilot(name)
        return self.plan_for(found, self._jobs(found, ENDED))

    def plan_for(self, pilot: PilotView, jobs: Sequence[PilotJob]) -> Plan:
        """Return the plan for a pilot whose jobs are known."""
        settings, sized_for = self._sized(pilot)
        waiting = self._waiting(pilot, settings)
        slots = self._database.value(
            "agent_slots",
            path=pilot.path,
            offers=[*settings.offers],
            requires=[] if sized_for is None else [*sized_for.requires],
        )
        state = PilotState(
            pilot.status,
            pilot.paused_why,
            pilot.failures,
            pilot.trouble,
            pilot.retry_in_s or 0.0,
        )
        decision = decide(settings, waiting, fleet(jobs, int(slots)), state)
        return plan_of(decision, None if sized_for is None else sized_for.path)

    def has_work(self, pilot: PilotView) -> bool:
        """Return whether tasks wait that its agents could claim now."""
        waiting = self._waiting(pilot, self._sized(pilot)[0])
        return any(
            campaign.claimable and campaign.tags_suit and campaign.time_suits
            for campaign in waiting
        )

    def _sized(self, pilot: PilotView) -> tuple[PilotSettings, Waiting | None]:
        """Return the settings of jobs that would be submitted now, and for which campaign."""
        settings = pilot_settings(pilot.driver, pilot.settings)
        if not settings.as_needed:
            return settings, None
        return chosen(settings, self._waiting(pilot, settings))

    def _waiting(self, pilot: PilotView, settings: PilotSettings) -> Sequence[Waiting]:
        rows = self._database.rows(
            "pilot_demand",
            path=pilot.path,
            offers=[*settings.all_offers],
            lifetime_s=settings.lifetime_s,
        )
        return [Waiting(**{**row, "requires": tuple(row["requires"])}) for row in rows]

    def _jobs(self, pilot: PilotView, ended: int) -> tuple[PilotJob, ...]:
        rows = self._database.rows("pilot_jobs", pilot=pilot.pilot_id, ended=ended)
        return tuple(PilotJob(**row) for row in rows)


def fleet(jobs: Sequence[PilotJob], slots: int) -> PilotJobs:
    """Return the planner's view of a pilot's jobs. slots: of all agents like its."""
    running = [job for job in jobs if job.status == "running"]
    serving = [job for job in running if job.heard_at is not None]
    settled = [job for job in serving if (job.heard_ago_s or 0.0) > _SETTLING_S]
    return PilotJobs(
        submitting=sum(job.status == "submitting" for job in jobs),
        queued=tuple(job.age_s for job in jobs if job.status == "queued"),
        waits=tuple(job.why for job in jobs if job.status == "queued" and job.why is not None),
        missing=sum(job.missing_polls > 0 for job in jobs if job.status != "ended"),
        starting=sum(job.heard_at is None for job in running),
        serving=tuple(job.running_s or 0.0 for job in settled),
        settling=len(serving) - len(settled),
        started_lately=sum((job.running_s or _LATELY_S) < _LATELY_S for job in jobs),
        slots=slots,
    )
