"""Figures of pilots on a Slurm of two nodes: `python -m tests.slurm.figures`.

The nodes say that they have more cores than there are; payloads sleep, so that they need none. What
is measured is what lies between: the loop, the batch system, and the start and end of agents.

    python -m tests.slurm.figures --share --tasks 1200 --agent-option=--until-empty

measures the last only: the share of the core time that payloads had, and where the rest went.
`--time-limit 2m` does it with jobs that end in the midst of the work.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

from benchmarks.own_server import own_server
from taskq import Client, Result
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.model.pilot_views import PilotJob
from tests.fixtures.gateways import GatewayProcess
from tests.helpers.pilot_site import PilotSite
from tests.slurm import cluster
from tests.slurm.cluster import SlurmCluster

CORES = 64
AGENTS = 60
#: A docking-like campaign: tasks of 2 to 8 s.
TASKS, LEAST_S, MOST_S = 800, 2.0, 8.0
JOBS, JOB_CORES = 4, 8


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.slurm.figures", description=__doc__)
    parser.add_argument("--share", action="store_true", help="measure this alone")
    parser.add_argument("--tasks", type=int, default=TASKS, metavar="N")
    parser.add_argument("--time-limit", default="30m", metavar="TIME")
    parser.add_argument("--agent-option", action="append", default=[], metavar="--NAME=VALUE")
    # Not python3: what PATH has may be a shell script that looks for one.
    parser.add_argument("--interpreter", default=Path(sys.executable).resolve(), metavar="PROGRAM")
    options = parser.parse_args()
    cluster.CORES = CORES
    slurm = SlurmCluster()
    with (
        tempfile.TemporaryDirectory(prefix="taskq-figures-") as folder,
        own_server() as server,
        closing(Database(server.up().dsn).open()) as database,
    ):
        migrations.migrate(database)
        queue = Client(database)
        gateway = GatewayProcess(queue.database.dsn, Path(folder), keeper=True, expected=[""])
        try:
            slurm.start()
            site = PilotSite(
                queue,
                "slurm",
                gateway.url,
                Path(folder),
                environment=slurm.environment,
                words=("--interpreter", options.interpreter),
            )
            if not options.share:
                _first_claim(site)
                _agents_a_minute(site)
            _share_in_payloads(site, options.tasks, options.time_limit, options.agent_option)
        finally:
            slurm.stop()
            gateway.kill()


def _first_claim(site: PilotSite) -> None:
    """From the end of `seed` to the first claim, the loop as it is by default."""
    site.add("--max-jobs", 1, "--time-limit", "10m")
    with site.taskq.process("pilots", "run") as loop:
        site.wait(lambda: site.pilot()["looked_ago_s"] is not None)
        waits = []
        for n in range(3):
            site.taskq.out("seed", "/c", "--sweep", f"n={-n - 1}:{-n - 1}", "--sweep", "s=0.1")
            begun = time.monotonic()
            site.wait(lambda: site.queue.campaign("/c").status().waiting == 0)
            waits.append(time.monotonic() - begun)
            site.wait(_all_ended(site))
        loop.terminate()
        loop.wait(20)
    _say(f"seed to first claim: {', '.join(f'{number:.1f} s' for number in sorted(waits))}")
    _forget(site)


def _agents_a_minute(site: PilotSite) -> None:
    """Agents of one core, from the first submission until all have been heard."""
    site.add("--max-jobs", AGENTS, "--backlog", AGENTS, "--cores", 1, "--time-limit", "10m")
    site.seed(AGENTS * 10, task_s=1)
    with site.taskq.process("pilots", "run", "--interval", "1") as loop:
        site.wait(lambda: site.pilot()["serving"] == AGENTS, 240)
        heard = [job.heard_at for job in site.jobs().values() if job.heard_at is not None]
        first = min(job.began_at for job in site.jobs().values())
        took_s = (max(heard) - first).total_seconds()
        _say(f"{AGENTS} agents in {took_s:.1f} s: {60 * AGENTS / took_s:.0f} a minute")
        site.queue.campaign("/c").cancel(where="payload.n > 0")
        site.wait(_all_ended(site))
        loop.terminate()
        loop.wait(20)
    _forget(site)


def _share_in_payloads(
    site: PilotSite, tasks: int, time_limit: str, agent_options: Sequence[str]
) -> None:
    """Core time of jobs, from their start to their end, and what of it payloads had."""
    draw = random.Random(1)
    seconds = [draw.uniform(LEAST_S, MOST_S) for _ in range(tasks)]
    words = [f"--agent-option={option}" for option in agent_options]
    site.add(
        *("--max-jobs", JOBS, "--cores", JOB_CORES, "--time-limit", time_limit),
        *("--idle-timeout", "10s", "--least-work", "5m", *words),  # 5m: as by default
    )
    campaign = site.queue.campaign("/c")
    before = site.done()
    campaign.seed({"n": n, "s": round(number, 3)} for n, number in enumerate(seconds, 1_000_000))
    with site.taskq.process("pilots", "run", "--interval", "1") as loop:
        site.wait(lambda: site.done() == before + tasks, 1_800)
        site.wait(_all_ended(site))
        loop.terminate()
        loop.wait(20)
    jobs = site.jobs().values()
    allocated_s = sum(_ran_s(job) for job in jobs) * JOB_CORES
    _say(f"{tasks} tasks of {sum(seconds) / tasks:.1f} s on {len(jobs)} jobs of {JOB_CORES} cores:")
    results = [result for result in campaign.results() if result.payload["n"] >= 1_000_000]
    left = {agent.agent: agent.ended_at for agent in site.queue.left_agents("/", limit=1_000)}
    for name, part_s in _parts(list(jobs), results, left).items():
        _say(f"  {part_s:8.0f} core-seconds, {part_s / allocated_s:6.1%}  {name}")
    _say(f"  {allocated_s:8.0f} core-seconds in all; payloads were to have {sum(seconds):.0f}")
    began = min(job.began_at for job in jobs)
    makespan_s = (max(result.ended_at for result in results) - began).total_seconds()
    ideal_s = sum(seconds) / (JOBS * JOB_CORES)
    _say(f"  makespan {makespan_s:.0f} s, {makespan_s / ideal_s:.2f} of the ideal {ideal_s:.0f} s")


def _parts(
    jobs: Sequence[PilotJob], results: Sequence[Result], left: dict[str, datetime]
) -> dict[str, float]:
    """Return what the core time of jobs was spent on, by what was recorded: phases and times."""
    by_job: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_job[result.agent].append(result)
    parts: dict[str, float] = defaultdict(float)
    for job in jobs:
        done = by_job[job.name]
        started, heard, ended = job.started_at, job.heard_at, job.ended_at
        assert started is not None
        assert heard is not None
        assert ended is not None
        agent_left = min(left[job.name], ended)
        last = max((result.ended_at for result in done), default=heard)
        full = max((result.claimed_at for result in done), default=heard)
        busy_s = sum((result.ended_at - result.claimed_at).total_seconds() for result in done)
        run_s = sum((result.phases or {})["run_s"] for result in done)
        late_s = sum(
            (result.ended_at - max(result.claimed_at, full)).total_seconds()
            for result in done
            if result.ended_at > full
        )
        parts["payloads"] += run_s
        parts["within attempts, around the payload"] += busy_s - run_s
        parts["from the start of a job to its agent's session"] += _cores_s(started, heard)
        first = min((result.claimed_at for result in done), default=full)
        parts["from the session to the first task"] += _cores_s(heard, first)
        parts["between attempts"] += _cores_s(first, full) - (busy_s - late_s)
        # None waits any more, or none can end in the job's time.
        parts["cores without a task, after the job's last claim"] += _cores_s(full, last) - late_s
        parts["from the last task of a job until its agent left"] += _cores_s(last, agent_left)
        parts["from the end of a session to that of its job"] += _cores_s(agent_left, ended)
    return parts


def _cores_s(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds() * JOB_CORES


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _ran_s(job: PilotJob) -> float:
    assert job.started_at is not None
    assert job.ended_at is not None
    return (job.ended_at - job.started_at).total_seconds()


def _all_ended(site: PilotSite) -> Callable[[], bool]:
    return lambda: all(job.status == "ended" for job in site.jobs().values())


def _forget(site: PilotSite) -> None:
    site.taskq.out("pilots", "rm", "hpc", "--yes")


if __name__ == "__main__":
    main()
