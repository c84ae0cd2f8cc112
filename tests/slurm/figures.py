"""Figures of pilots on a Slurm of one node: `python -m tests.slurm.figures`.

The node says that it has more cores than there are; payloads sleep, so that they need none. What is
measured is what lies between: the loop, the batch system, and the start and end of agents.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import taskq
from taskq.views import PilotJob
from tests.fixtures.gateways import GatewayProcess
from tests.helpers.pilot_site import PilotSite
from tests.slurm import cluster
from tests.slurm.cluster import SlurmCluster

CORES = 64
AGENTS = 60
#: A docking-like campaign: 8 cores a job, tasks of 2 to 8 s.
TASKS, LEAST_S, MOST_S = 800, 2.0, 8.0


def main() -> None:
    """Print the figures."""
    cluster.CORES = CORES
    slurm = SlurmCluster()
    with tempfile.TemporaryDirectory(prefix="taskq-figures-") as folder, taskq.connect() as queue:
        gateway = GatewayProcess(queue.database.dsn, Path(folder), keeper=True, expected=[""])
        try:
            slurm.start()
            site = PilotSite(
                queue, "slurm", gateway.url, Path(folder), environment=slurm.environment
            )
            _first_claim(site)
            _agents_a_minute(site)
            _share_in_payloads(site)
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
    _say(f"seed to first claim: {', '.join(f'{one:.1f} s' for one in sorted(waits))}")
    _forget(site)


def _agents_a_minute(site: PilotSite) -> None:
    """Agents of one core, from the first submission until all have been heard."""
    site.add("--max-jobs", AGENTS, "--backlog", AGENTS, "--cores", 1, "--time-limit", "10m")
    site.seed(AGENTS * 10, task_s=1)
    with site.taskq.process("pilots", "run", "--period", "1") as loop:
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


def _share_in_payloads(site: PilotSite) -> None:
    """Core time of jobs, from their start to their end, and what of it payloads had."""
    draw = random.Random(1)
    seconds = [draw.uniform(LEAST_S, MOST_S) for _ in range(TASKS)]
    site.add("--max-jobs", 4, "--cores", 8, "--time-limit", "30m", "--idle-timeout", "10s")
    campaign = site.queue.campaign("/c")
    before = site.done()
    campaign.seed({"n": n, "s": round(one, 3)} for n, one in enumerate(seconds, 1_000_000))
    with site.taskq.process("pilots", "run", "--period", "1") as loop:
        site.wait(lambda: site.done() == before + TASKS, 400)
        site.wait(_all_ended(site))
        loop.terminate()
        loop.wait(20)
    jobs = site.jobs().values()
    allocated_s, spent_s = sum(_ran_s(job) for job in jobs) * 8, sum(seconds)
    _say(f"{TASKS} tasks of {spent_s / TASKS:.1f} s on {len(jobs)} jobs of 8 cores:")
    _say(f"{spent_s:.0f} of {allocated_s:.0f} core-seconds, {spent_s / allocated_s:.1%}")


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
