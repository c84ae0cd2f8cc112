"""Agents as processes that share a limit of starts; some are killed while they hold it."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, Handler
from tests.helpers.agent_processes import agent_process
from tests.helpers.postgres import Postgres, assert_counts_are_true, value
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough

AGENTS = 5
HOLDERS = """
    select array_agg(distinct n.agent)
      from taskq.state t
      join taskq.session n on n.session_id = t.session_id
     where t.status = 'working'
"""


def test_agents_killed_while_they_hold_a_limit_give_it_back(
    queue: Client, dsn: str, postgres: Postgres, tmp_path: Path
) -> None:
    """Never do more start than it allows; once their leases end, the others do all that waits."""
    queue.limits.set("licence", 2)
    queue.create_campaign("/c")
    handler = Handler("command", argv=("sleep", "0.05"))
    paths = ["/c/a", "/c/b"]
    for path in paths:
        spec = CampaignSpec(path, handler=handler, named_limits=("licence",))
        queue.create_campaign(spec).seed({"n": n} for n in range(40))
    most = 0

    def holders() -> list[str]:
        nonlocal most
        found: list[str] = value(postgres, HOLDERS) or []
        most = max(most, len(found))
        return found

    with ExitStack() as stack:
        options = ["--until-empty", "--lease", 4, "--quiet", "--slots", 1]
        agents = {
            f"agent-{number}": stack.enter_context(
                agent_process(dsn, f"agent-{number}", tmp_path / f"log-{number}", *options)
            )
            for number in range(AGENTS)
        }
        killed = set()
        for _ in range(2):
            alive: list[str] = []

            def held(seen: list[str] = alive) -> bool:
                seen[:] = [name for name in holders() if name not in killed]
                return bool(seen)

            wait_until(held, timeout_s=120)
            agents[alive[0]].send_signal(signal.SIGKILL)
            killed.add(alive[0])

        def ended() -> bool:
            holders()
            return all(queue.campaign(path).status().done == 40 for path in paths)

        wait_until(ended, timeout_s=240)
        for name, process in agents.items():
            code = process.wait(timeout=120)
            assert code == (-signal.SIGKILL if name in killed else 0), name
    assert 1 <= most <= 2
    (limit,) = queue.limits.list()
    assert (limit.used, limit.holders) == (0, [])
    assert_counts_are_true(postgres)
