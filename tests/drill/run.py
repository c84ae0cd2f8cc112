"""Rounds of a drill: a new queue each, with some problems planted in it."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from taskq.embedded import Server
from tests.drill.judge import Finding, Verdict, judge
from tests.drill.kinds import KINDS
from tests.drill.scene import Kind, Scene
from tests.drill.stage import HOSTS_OF_A_SITE, SITES, staged

ALL: Final = KINDS
#: Tasks of the innocent campaign for each host.
_WELL_TASKS: Final = 190


def rounds(seed: int, names: Sequence[str], together: int) -> Iterator[list[str]]:
    """Yield the problems that share a queue, by the seed; some are alone."""
    order = sorted(names)
    random.Random(seed).shuffle(order)
    shared = [name for name in order if not ALL[name].alone]
    for first in range(0, len(shared), together):
        yield shared[first : first + together]
    for name in order:
        if ALL[name].alone:
            yield [name]


def run_round(server: Server, seed: str, names: Sequence[str]) -> Verdict:
    """Plant problems in a new queue of a server that is up, and judge what explain says."""
    folder = Path(tempfile.mkdtemp(prefix="taskq-drill-"))
    sites = max(SITES, len(names) + 1)  # each problem takes one at most, and one stays innocent
    try:
        with staged(server, folder, random.Random(seed), sites) as stage:
            kinds: list[Kind] = [ALL[name] for name in names]
            for kind in kinds:
                if kind.prepare is not None:
                    kind.prepare(stage)
            if not stage.urls:
                stage.gateway()
            Scene(stage).campaign(_WELL_TASKS * sites * HOSTS_OF_A_SITE, innocent=True)
            for host in stage.hosts.values():
                host.start()
            stage.wait_for_agents(len(stage.hosts))
            findings = []
            for kind in kinds:
                scene = Scene(stage)
                signs = kind.plant(scene)
                findings.append(Finding(kind, scene, signs, time.monotonic()))
            return judge(stage, findings)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
