"""The loop of pilots: watches jobs, writes down what became of them, submits and cancels.

All its state is in PostgreSQL, so another loop can take over at any moment. Any number may run: for
each pilot one of them acts in a term (`hold_pilot.sql`). Each job is written down before it is
submitted, under a name that the batch system shows. The next loop finds it there, or not.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Final

from taskq.db.access import Queries
from taskq.model.errors import TaskqError, Unavailable
from taskq.model.loop_faults import LoopFaults
from taskq.model.pilot_views import PilotJob, PilotView
from taskq.pilots.drivers import (
    Driver,
    MakeDriver,
    make_driver,
    program,
    with_exit_codes,
)
from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.drivers.hosts import PartialAnswer
from taskq.pilots.pilot_file import pilot_settings
from taskq.pilots.plan_words import Plan
from taskq.pilots.reconcile import (
    Change,
    PilotRound,
    SeenJob,
    SubmissionHealth,
    health,
    heard_since,
    looked_at,
    reconcile,
)
from taskq.pilots.settings import PilotSettings
from taskq.pilots.store import Pilots

#: Seconds between the rounds of a loop.
PERIOD_S: Final = 10.0
#: Seconds for which a loop may act for a pilot without renewing its claim. A running loop renews it
#: three times a term, however long a batch system takes to answer. If a loop is killed, another one
#: waits for a term and a period at most.
TERM_S: Final = 9.0
#: A job that was written down is not submitted later than this: another loop might act by then.
_SUBMIT_WITHIN_S: Final = 30.0
#: Batch systems that are asked at the same time; those that hang hold up no others.
_AT_ONCE: Final = 16
#: How much longer than its time limit a job may seem to last.
_SLACK_S: Final = 600.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Case:
    """A pilot for which the loop acts."""

    pilot: PilotView
    settings: PilotSettings
    driver: Driver
    jobs: Sequence[PilotJob]


@contextmanager
def _reported(pilot: PilotView, done: list[PilotRound]) -> Iterator[None]:
    """Append what goes wrong with one pilot to what was done; others go on."""
    try:
        yield
    except BatchSystemError as error:
        done.append(PilotRound(pilot.name, acted=True, trouble=str(error)))
    except Unavailable:
        raise  # PostgreSQL is away: no pilot can be looked at
    except TaskqError as error:  # another loop took over, or the pilot is gone or damaged
        done.append(PilotRound(pilot.name, acted=False, trouble=str(error)))


class PilotLoop:
    """Acts for pilots, on the machine that can submit their jobs.

    names: the pilots to act for; empty for all. environment: of this process, for the programs;
    jobs whose agents connect to the database get `TASKQ_DSN` from it. direct: whether such jobs
    can be submitted; False for a loop that knows a gateway only.
    """

    def __init__(
        self,
        database: Queries,
        environment: Mapping[str, str],
        *,
        names: Sequence[str] = (),
        direct: bool = True,
        make: MakeDriver = make_driver,
    ) -> None:
        self.pilots = Pilots(database)
        self._database = database
        self._environment = environment
        self._names = frozenset(names)
        self._direct = direct
        self._make = make
        self._holder = str(uuid.uuid4())
        self._host = socket.gethostname()
        self._drivers: dict[int, tuple[str, PilotSettings, Driver]] = {}
        self._said: dict[str, str] = {}
        self._faults = LoopFaults(log, "a look at the pilots")
        #: By the names of the pilots of a batch system.
        self._faults_of: dict[str, LoopFaults] = {}
        self._held: set[int] = set()

    def run(self, stop: threading.Event, period_s: float = PERIOD_S) -> None:
        """Do rounds until `stop` is set. While PostgreSQL or the machine fails, keep trying."""
        over = threading.Event()
        renewal = threading.Thread(target=self._renew, args=(over,), name="pilots", daemon=True)
        renewal.start()
        busy: list[tuple[Future[None], list[int]]] = []
        try:
            with ThreadPoolExecutor(_AT_ONCE, "pilots") as threads:
                while not stop.is_set():
                    busy = [action for action in busy if not action[0].done()]
                    acted_for = {pilot_id for _, pilots in busy for pilot_id in pilots}
                    with self._faults.noted():
                        for pilots in self._by_system(acted_for):
                            future = threads.submit(self._act_and_log, pilots, stop)
                            busy.append((future, [pilot.pilot_id for pilot in pilots]))
                    stop.wait(period_s)
        finally:
            over.set()
            renewal.join()
        self.leave()

    def round(self, stop: threading.Event | None = None) -> list[PilotRound]:
        """Act once for each pilot, and return what was done, in the order of the pilots' names.

        Pilots of one batch system are done one after the other, batch systems at the same time.
        """
        stop = stop or threading.Event()
        with ThreadPoolExecutor(_AT_ONCE, "pilots") as threads:
            done = threads.map(lambda pilots: self._act(pilots, stop), self._by_system(()))
            return sorted((pilot for some in done for pilot in some), key=lambda pilot: pilot.name)

    def leave(self) -> None:
        """Let another loop act at once."""
        with suppress(TaskqError):
            for pilot_id in self._drivers:
                self._hold(pilot_id, 0.0)

    def _by_system(self, without: Collection[int]) -> list[list[PilotView]]:
        """Return the pilots to act for, those of one batch system together."""
        systems: dict[Hashable, list[PilotView]] = {}
        for pilot in self.pilots.list():
            if (self._names and pilot.name not in self._names) or pilot.pilot_id in without:
                continue
            try:
                system = self._driver(pilot)[1].system
            except TaskqError:  # its settings are damaged; `_begin` reports it
                system = pilot.pilot_id
            systems.setdefault(system, []).append(pilot)
        return [*systems.values()]

    def _act_and_log(self, pilots: Sequence[PilotView], stop: threading.Event) -> None:
        names = " ".join(pilot.name for pilot in pilots)
        faults = self._faults_of.setdefault(names, LoopFaults(log, f"the work for {names}"))
        with faults.noted():
            for done in self._act(pilots, stop):
                self._log_round(done)

    def _act(self, pilots: Sequence[PilotView], stop: threading.Event) -> list[PilotRound]:
        """Act once for pilots of one batch system, which is asked once for all their jobs."""
        done: list[PilotRound] = []
        cases: list[_Case] = []
        for pilot in pilots:
            with _reported(pilot, done):
                cases.append(self._begin(pilot))
        names = [job.name for case in cases for job in looked_at(case.jobs)]
        answer: Mapping[str, SeenJob] | BatchSystemError = {}
        try:
            answer = cases[0].driver.jobs(names) if names else {}
        except BatchSystemError as error:
            answer = error
        for case in cases:
            if not stop.is_set():
                with _reported(case.pilot, done):
                    done.append(self._act_for(case, answer, stop))
        return done

    def _begin(self, pilot: PilotView) -> _Case:
        """Begin to act for a pilot; raise `TaskqError` if this loop may not or cannot."""
        settings, driver = self._driver(pilot)
        missing = driver.missing()
        if not (self._direct or settings.gateways):
            missing = "its agents connect to the database, which this loop does not: add gateways"
        if missing is not None:
            raise TaskqError(missing)
        if not self._hold(pilot.pilot_id, TERM_S):
            raise TaskqError(f"another loop acts for it, on {pilot.looked_from}")
        return _Case(pilot, settings, driver, self.pilots.jobs(pilot.name))

    def _act_for(
        self, case: _Case, answer: Mapping[str, SeenJob] | BatchSystemError, stop: threading.Event
    ) -> PilotRound:
        """Act for a pilot by the batch system's answer."""
        pilot, jobs = case.pilot, case.jobs
        try:
            changes = self._look(case, answer)
        except BatchSystemError as error:
            # Unknown jobs stay unchanged, and nothing is submitted blindly.
            self._note(case, [], SubmissionHealth(pilot.failures, str(error)))
            raise
        if not self._hold(pilot.pilot_id, TERM_S):  # this process may have stood still meanwhile
            return PilotRound(pilot.name, acted=False)
        heard = heard_since(pilot.failed_ago_s, jobs)
        waiting = any(change.idle for change in changes) and self.pilots.has_work(pilot)
        after = health(pilot.failures, changes, heard=heard, waiting=waiting)
        if after is None and pilot.trouble is not None and pilot.failures == 0:
            after = SubmissionHealth(0, "")  # the batch system answers again
        gone = self._note(case, changes, after)
        ended = sum(change.status == "ended" for change in changes)
        if gone:
            return PilotRound(pilot.name, acted=True, ended=ended)
        case = replace(case, pilot=self.pilots.pilot(pilot.name), jobs=self.pilots.jobs(pilot.name))
        made = self.pilots.plan_for(case.pilot, case.jobs)
        if made.settings not in (None, case.settings):
            driver = self._make(case.pilot, made.settings, self._environment)
            case = replace(case, settings=made.settings, driver=driver)
        submitted, trouble = self._submit(case, made, stop)
        return PilotRound(pilot.name, True, submitted, self._cancel(case, made), ended, trouble)

    def _look(self, case: _Case, answer: Mapping[str, SeenJob] | BatchSystemError) -> list[Change]:
        """Return what has changed, with the output of the jobs that died."""
        jobs = looked_at(case.jobs)
        if not jobs:
            return []
        if isinstance(answer, PartialAnswer):
            self._say_once(f"{case.pilot.name}, some hosts", str(answer))
            # A host silent for longer than a job can last has no job left.
            over_s = case.settings.time_limit + _SLACK_S
            jobs = [
                job
                for job in jobs
                if job.name in answer.seen or job.place not in answer.silent or job.age_s > over_s
            ]
            answer = answer.seen
        if isinstance(answer, BatchSystemError):
            raise answer
        places = {job.name: job.place for job in jobs}
        seen = with_exit_codes(case.driver, [*places], answer)
        return [
            replace(job, tail=case.driver.tail(job.name, places.get(job.name)))
            if job.outcome in ("died", "vanished") and not job.heard
            else job
            for job in reconcile(jobs, seen)
        ]

    def _submit(self, case: _Case, made: Plan, stop: threading.Event) -> tuple[int, str | None]:
        """Submit jobs, as many together as the pilot says; the first failure ends that."""
        places = Counter(job.place for job in case.jobs if job.status != "ended" and job.place)
        pilot_id, done, trouble = case.pilot.pilot_id, 0, None
        try:
            while done < made.submit and not stop.is_set() and self._hold(pilot_id, TERM_S):
                place = case.driver.prepare(places)
                wanted = min(made.submit - done, case.settings.array)
                submitted = self._submit_together(case, place, wanted)
                done += submitted
                if submitted < wanted:
                    break
                if place is not None:
                    places[place] += submitted
        except BatchSystemError as error:
            trouble = str(error)
            live = done + sum(job.status != "ended" for job in case.jobs)
            after = health(case.pilot.failures, [], heard=False, refusal=trouble, alone=live == 0)
            self._note(case, [], after)
        return done, trouble

    def _submit_together(self, case: _Case, place: str | None, wanted: int) -> int:
        """Submit jobs together; return how many, fewer than wanted if no more are allowed."""
        begun = time.monotonic()
        rows = self._database.rows(
            "begin_pilot_jobs",
            pilot=case.pilot.pilot_id,
            holder=self._holder,
            place=place,
            most=case.settings.most,
            wanted=wanted,
        )
        if not rows:
            return 0
        names = [row["name"] for row in rows]
        script = case.driver.script(names, case.pilot.path, program())
        if time.monotonic() - begun > _SUBMIT_WITHIN_S:
            raise BatchSystemError("this machine stood still for too long to submit a job")
        refusal: BatchSystemError | None = None
        try:
            seen = dict(zip(names, case.driver.submit(names, script, place), strict=True))
        except BatchSystemError as error:
            refusal = error
            # They may have come through. If nobody can say now, a later round sees them by name.
            try:
                seen = with_exit_codes(case.driver, names, case.driver.jobs(names))
            except BatchSystemError:
                raise error from None
        live = {name: job for name, job in seen.items() if job.state != "ended"}
        changes = [
            Change(row["number"], row["name"], job.state, job.native_id or None, place)
            if (job := live.get(row["name"])) is not None
            else Change(row["number"], row["name"], "ended", outcome="refused", why=str(refusal))
            for row in rows
        ]
        self._note(case, changes, None)
        if refusal is not None and not live:
            raise refusal
        return len(live)

    def _cancel(self, case: _Case, made: Plan) -> int:
        """Cancel queued jobs, the latest submissions first."""
        queued = [job for job in case.jobs if job.status == "queued" and job.cancelled_at is None]
        chosen = queued[: made.cancel]
        if chosen:
            seen = [SeenJob(job.native_id or "", "queued", place=job.place) for job in chosen]
            case.driver.cancel(seen)
            asked = [
                Change(job.number, job.name, "queued", why=job.why, cancelled=True)
                for job in chosen
            ]
            self._note(case, asked, None)
        return len(chosen)

    def _renew(self, over: threading.Event) -> None:
        """Renew the terms of this loop until it is over."""
        faults = LoopFaults(log, "the renewal of terms")
        while not over.wait(TERM_S / 3):
            with faults.noted():
                for pilot_id in tuple(self._held):
                    self._hold(pilot_id, TERM_S)

    def _hold(self, pilot_id: int, term_s: float) -> bool:
        """Begin or renew a term; 0 ends it. Return whether this loop acts for the pilot."""
        acts = bool(
            self._database.value(
                "hold_pilot", pilot=pilot_id, holder=self._holder, term_s=term_s, host=self._host
            )
        )
        (self._held.add if acts else self._held.discard)(pilot_id)
        return acts

    def _note(self, case: _Case, changes: Sequence[Change], after: SubmissionHealth | None) -> bool:
        """Write down what was seen; return whether the pilot is gone."""
        if not changes and after is None and case.pilot.status != "removed":
            return False
        rows = [asdict(change) for change in changes]
        for row in rows:
            del row["name"]
        return bool(
            self._database.value(
                "note_pilot",
                pilot=case.pilot.pilot_id,
                holder=self._holder,
                jobs=json.dumps(rows),
                failures=None if after is None else after.failures,
                trouble=None if after is None else after.trouble,
                retry_s=None if after is None else after.retry_s,
                pause_why=None if after is None else after.pause_why,
            )
        )

    def _driver(self, pilot: PilotView) -> tuple[PilotSettings, Driver]:
        """Return the driver of a pilot, the same one while its settings are the same."""
        key = json.dumps([pilot.driver, pilot.settings], sort_keys=True)
        known = self._drivers.get(pilot.pilot_id)
        if known is None or known[0] != key:
            settings = pilot_settings(pilot.driver, pilot.settings)
            known = (key, settings, self._make(pilot, settings, self._environment))
            self._drivers[pilot.pilot_id] = known
        return known[1], known[2]

    def _log_round(self, done: PilotRound) -> None:
        """Log what operators should know; repeat no trouble."""
        counts = (done.submitted, done.cancelled, done.ended)
        if any(counts):
            log.info("%s: %d submitted, %d cancelled, %d ended", done.name, *counts)
        self._say_once(done.name, done.trouble)

    def _say_once(self, name: str, trouble: str | None) -> None:
        if trouble is not None and self._said.get(name) != trouble:
            log.warning("%s: %s", name, trouble)
        self._said[name] = trouble or ""
