"""Programs started for one no-op task, and for many: processor time of agent and server a task."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.findings import Finding, not_measured
from benchmarks.processes import cpu_s, server_process
from benchmarks.stage import Bench, Stage
from benchmarks.turns import ratio
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import Unavailable
from taskq.model.handler import Handler
from taskq_agent.core.gathering import MOST_HELD

KINDS: Final = ("command", "process", "python")
#: Times as many tasks are run in batches as one by one.
MORE: Final = 10

_MODULE: Final = "benchmark_no_op"
#: A resident process, and a module: each does one task, or all that it gets.
_PROCESS: Final = """\
import sys, json
sys.stdin.readline()
for line in sys.stdin:
    sys.stdout.write('{"id":%d,"result":{}}\\n' % json.loads(line)["id"])
    sys.stdout.flush()
"""
_PYTHON: Final = """\
def one(payload, shared):
    return {}

def many(payloads, shared):
    return [{} for _ in payloads]
"""
_ANSWERS: Final = 's/.*/{{"id":&,"result":{{}}}}/'


@dataclass(frozen=True, slots=True)
class Spent:
    """Microseconds of a processor for a task. agent: with all that it starts."""

    agent: float
    server: float


def of_many(bench: Bench) -> Iterator[Finding]:
    """Run no-op tasks by each kind of handler, one by one and in batches of several sizes."""
    with bench.stage() as stage:
        root = server_process(stage.database)
        if root is None:
            yield not_measured("no-op tasks in batches", "the server is on another machine")
            return
        measure = _Measure(stage, bench.folder, root)
        for kind in KINDS:
            spent: dict[int | None, list[Spent]] = {
                size: [] for size in (None, *bench.scale.batches)
            }
            for _ in range(bench.scale.rounds):
                for size, found in spent.items():
                    bench.tell(f"{kind}, {size or 'one by one'}")
                    tasks = bench.scale.calls * min(size or 1, MORE)
                    found.append(measure(kind, size, tasks))
            yield from _findings(kind, spent)


def _findings(kind: str, spent: Mapping[int | None, list[Spent]]) -> Iterator[Finding]:
    alone = spent[None]
    for size, found in spent.items():
        for who in ("agent", "server"):
            ours = [getattr(used, who) for used in found]
            limit = [getattr(used, who) for used in alone]
            what = f"{kind}, {f'batches of {size:,}' if size else 'one by one'}: {who}"
            if size is None or not all(limit):
                yield Finding(what, median(ours), "µs/task")
                continue
            ratios = ratio([own / other for own, other in zip(ours, limit, strict=True)])
            yield Finding(what, median(ours), "µs/task", "one by one", median(limit), ratios)


class _Measure:
    """Runs tasks on an agent with one slot, in a new campaign each time."""

    def __init__(self, stage: Stage, folder: Path, server: int) -> None:
        self._stage, self._folder, self._server = stage, folder, server
        self._numbers = count()
        (folder / "process.py").write_text(_PROCESS)
        (folder / f"{_MODULE}.py").write_text(_PYTHON)
        self._start_s = self._run("/none-of-these", None, 0)[0]

    def __call__(self, kind: str, size: int | None, tasks: int) -> Spent:
        """Return what a task costs, without the start of the agent."""
        path = f"/starts-{next(self._numbers)}"
        agent_s, server_s = self._run(path, self._handler(kind, size), tasks)
        return Spent(1e6 * max(0.0, agent_s - self._start_s) / tasks, 1e6 * server_s / tasks)

    def _handler(self, kind: str, size: int | None) -> Handler:
        more: dict[str, Any] = {} if size is None else {"batch": min(size, MOST_HELD)}
        if kind == "process":
            argv = (sys.executable, str(self._folder / "process.py"))
            return Handler("process", argv=argv, **more)
        if kind == "python":
            return Handler("python", target=f"{_MODULE}:{'many' if more else 'one'}", **more)
        if not more:
            return Handler("command", argv=("true",))
        script = f'sed \'{_ANSWERS}\' "$1" >> "$TASKQ_OUTCOMES"'
        return Handler(
            "command", argv=("sh", "-c", script, "sh", "{list}"), line="{task.n}", **more
        )

    def _run(self, path: str, handler: Handler | None, tasks: int) -> tuple[float, float]:
        """Return the seconds of a processor that agent and server took."""
        campaign = self._stage.client.create_campaign(CampaignSpec(path, handler=handler))
        campaign.seed({"n": n} for n in range(tasks))
        before, server_before = os.times(), cpu_s(self._server)
        words = ["agent", "run", "--campaign", path, "--slots", "1", "--quiet", "--until-empty"]
        subprocess.run(
            [sys.executable, "-c", "from taskq_cli.main import main; main()", *words],
            env=os.environ
            | {"TASKQ_DSN": self._stage.database.dsn, "PYTHONPATH": str(self._folder)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        after, server_after = os.times(), cpu_s(self._server)
        if (done := campaign.status().done) != tasks:
            raise Unavailable(f"{done} of {tasks} tasks of {path} are done")
        mine = after.children_user + after.children_system
        mine -= before.children_user + before.children_system
        return mine, server_after - server_before
