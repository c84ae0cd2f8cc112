"""Five agents as processes, two of them killed: nothing is lost, nothing counts twice."""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, Handler
from tests.helpers.agent_processes import agent_process
from tests.helpers.paths import PAYLOADS
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough

AGENTS = 5
KILLED = (1, 3)
#: Longer than a busy machine keeps a process waiting: nobody may be lost by that.
LEASE_S = 15


def executions(diary: Path) -> dict[int, list[int]]:
    """Return the agents that executed each task, in order."""
    agents: dict[int, list[int]] = defaultdict(list)
    for line in diary.read_text().splitlines() if diary.exists() else ():
        task, number = map(int, line.split())
        agents[task].append(number)
    return agents


@pytest.mark.longer  # five agents start
@pytest.mark.parametrize("tasks", [500, 4_000])
def test_killed_agents_cost_only_their_own_executions(
    tasks: int, queue: Client, dsn: str, postgres: Postgres, tmp_path: Path
) -> None:
    """Each task has one accepted outcome; only tasks of the killed were executed twice."""
    diary, begin = tmp_path / "diary", tmp_path / "begin"
    handler = Handler("python", target="diary:run")
    params = {"diary": str(diary), "begin": str(begin)}
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler, params=params))
    campaign.seed({"n": n} for n in range(tasks))

    with ExitStack() as stack:
        logs = [tmp_path / f"agent-{number}.log" for number in range(AGENTS)]
        options = ["--until-empty", "--lease", LEASE_S, "--path", PAYLOADS, "--quiet"]
        agents = [
            stack.enter_context(
                agent_process(dsn, f"agent-{number}", log, *options, DIARY_AGENT=str(number))
            )
            for number, log in enumerate(logs)
        ]

        def all_at_work() -> bool:
            return len({task for done in executions(diary).values() for task in done}) == AGENTS

        wait_until(all_at_work, timeout_s=120)
        for number in KILLED:
            agents[number].send_signal(signal.SIGKILL)
        begin.touch()
        held = postgres.execute(
            "select count(*) from taskq.state where status = 'working'"
        ).fetchone()
        for number, process in enumerate(agents):
            code = process.wait(timeout=240)
            expected = -signal.SIGKILL if number in KILLED else 0
            assert code == expected, logs[number].read_text()

    assert held is not None
    assert held["count"] > 0
    status = campaign.status()
    assert (status.done, status.unfinished, status.failed) == (tasks, 0, 0)
    results = list(campaign.results())
    assert sorted(result.payload["n"] for result in results) == list(range(tasks))
    assert all(result.result == {"twice": 2 * result.payload["n"]} for result in results)

    executed = executions(diary)
    assert sorted(executed) == list(range(tasks))
    repeated = {task: done for task, done in executed.items() if len(done) > 1}
    for task, done in repeated.items():
        survivors = Counter(number for number in done if number not in KILLED)
        assert survivors.total() <= 1, (task, done)
