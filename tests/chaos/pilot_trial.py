"""One run in which a pilot's jobs are the agents, and jobs and loops are struck."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from functools import partial

from taskq.embedded import Server
from tests.chaos.clients import Seeder
from tests.chaos.eyes import Eyes, Seen
from tests.chaos.nemesis import Nemesis, Target
from tests.chaos.piloted import MAX_JOBS, PILOT, SLOTS, Census, Job, PilotedFarm, piloted_farm
from tests.chaos.plan import PILOT_KINDS, Fault, plan
from tests.chaos.trial import Trial, at_rest, audited, kept_if_wrong, look_at_end

_FAULT_EVERY_S = 1.0
_SLOW_S = 60.0
_LEAVE_S = 60.0
_PAUSE_S = 0.2
_LEAST_TASKS = 10


class Walks(Seeder):
    """Seeds tasks that keep checkpoints; some go on in several attempts."""

    chunk, backlog = 2 * MAX_JOBS * SLOTS, MAX_JOBS * SLOTS

    def _payload(self, draw: random.Random) -> dict[str, float]:
        return {
            "steps": draw.randint(2, 12),
            "pace_s": round(draw.uniform(0.1, 0.4), 3),
            "leg": draw.choice((3, 7, 100)),
        }


class PilotNemesis(Nemesis):
    """Strikes jobs and loops too.

    A job that is cancelled gets SIGTERM and, when the fault ends, SIGKILL, as from a batch system.
    """

    def _targets(self, fault: Fault) -> list[Target]:
        what, _, whom = fault.kind.partition("-")
        if whom == "job":
            return [self._job(job, what) for job in self._farm.jobs() if job.is_alive]
        if whom == "loop":
            return [
                self._process(loop, what, partial(self._eyes.transaction, loop.name))
                for loop in self._farm.loops
            ]
        return super()._targets(fault)

    def _job(self, job: Job, what: str) -> Target:
        first, last = {
            "kill": (signal.SIGKILL, signal.SIGKILL),
            "cancel": (signal.SIGTERM, signal.SIGKILL),
            "stop": (signal.SIGSTOP, signal.SIGCONT),
        }[what]
        evidence: Callable[[], Seen | None] = partial(self._eyes.leases, job.name)
        return Target(job.name, evidence, partial(job.signal, first), partial(job.signal, last))


def run_pilot_trial(server: Server, seed: int, seconds: float) -> Trial:
    """Strike such a farm for so long, let it come to rest, and check what it has done."""
    trial = Trial(seed)
    with kept_if_wrong(trial) as folder, piloted_farm(server, folder) as at_work:
        census = Census(at_work)
        census.start()
        try:
            _strike(at_work, trial, seconds)
        finally:
            census.stop()
        _check_jobs(at_work, census, trial)
        if trial.verdict.tasks < _LEAST_TASKS or not trial.faults:
            trial.wrong.append(f"only {trial.verdict.tasks} tasks and {trial.faults} faults")
        if not trial.verdict.goings_on:
            trial.wrong.append("nothing went on from a checkpoint")
    return trial


def _strike(at_work: PilotedFarm, trial: Trial, seconds: float) -> None:
    eyes = Eyes(at_work.dsn("eyes"))
    stop = threading.Event()
    seeder = Walks(at_work, trial.seed, stop)
    thread = threading.Thread(target=seeder.run)
    thread.start()
    try:
        nemesis = PilotNemesis(at_work, eyes)
        faults = plan(trial.seed, seconds, round(seconds / _FAULT_EVERY_S), PILOT_KINDS)
        nemesis.run(faults, seconds)
        trial.counted, trial.others = nemesis.counted, nemesis.others
    finally:
        stop.set()
        thread.join()
    try:
        at_rest(at_work, eyes, trial, slow_s=_SLOW_S)
        look_at_end(at_work, eyes, trial)
        audited(at_work, trial, "at rest")
    finally:
        eyes.close()


def _check_jobs(at_work: PilotedFarm, census: Census, trial: Trial) -> None:
    """Look at the books of the pilot, when its agents have left since nothing waits."""
    pilots = at_work.client.pilots

    def is_over() -> bool:
        for part in at_work.parts:
            part.look_after()
        known = pilots.jobs(PILOT, ended=10_000)
        return all(job.status == "ended" for job in known) and not any(
            job.is_alive for job in at_work.jobs()
        )

    until = time.monotonic() + _LEAVE_S
    while not is_over() and time.monotonic() < until:
        time.sleep(_PAUSE_S)
    jobs = pilots.jobs(PILOT, ended=10_000)
    trial.jobs = len(jobs)
    trial.wrong += [
        f"{job.name} is {job.status} for the loop" for job in jobs if job.status != "ended"
    ]
    trial.wrong += [f"{job.name} runs on" for job in at_work.jobs() if job.is_alive]
    unknown = at_work.submitted() - {job.name for job in jobs}
    trial.wrong += [f"nobody knows of the job {name}" for name in sorted(unknown)]
    if census.most > MAX_JOBS:
        trial.wrong.append(f"{census.most} jobs ran at a time, and {MAX_JOBS} may")
    pilot = pilots.pilot(PILOT)
    if pilot.paused_why:
        trial.wrong.append(f"the pilot has paused itself: {pilot.paused_why}")
