"""Twelve agents as processes that fall silent at a time: cut off for a while, then really dead."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, Handler
from tests.fixtures.queues import Hire
from tests.helpers.agent_processes import agent_process
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import PAYLOADS
from tests.helpers.postgres import Postgres, assert_counts_are_true, value
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough

AGENTS = 12
#: Longer than a busy machine keeps a process waiting: nobody may be lost by that.
LEASE_S = 12
TIMEOUT_S = 90.0
#: How long ago the last of the agents beat.
SILENT_S = """
    select extract(epoch from min(clock_timestamp() - heartbeat_at))::float
      from taskq.session where ended_at is null
"""


def rounds(postgres: Postgres, number: int) -> None:
    """Wait until the keeper has done so many rounds."""
    for _ in range(number):
        before = value(postgres, "select until::text from taskq.keeper")
        wait_until(
            lambda before=before: value(postgres, "select until::text from taskq.keeper") != before,
            timeout_s=TIMEOUT_S,
        )


def test_agents_that_are_cut_off_lose_nothing_and_dead_ones_are_replaced(
    queue: Client, hire: Hire, dsn: str, postgres: Postgres, tmp_path: Path
) -> None:
    """Stopped for longer than a lease and continued: no task is lost, none executed twice.

    Then killed: as long as nobody could take their tasks, these stay; once there is somebody, they
    are handed out after one lease more.
    """
    diary = tmp_path / "diary"
    campaign = queue.create_campaign(
        CampaignSpec(
            "/c",
            handler=Handler("python", target="unhurried:run"),
            params={"diary": str(diary), "takes_s": 2},
        )
    )

    def working() -> bool:
        return campaign.status().working == AGENTS

    def executions() -> Counter[str]:
        lines = diary.read_text().splitlines() if diary.exists() else []
        return Counter(line.split()[0] for line in lines)

    with ExitStack() as stack:
        stack.enter_context(CommandLine(dsn).process("keeper"))
        rounds(postgres, 1)  # so that none of the agents is the keeper that acts
        logs = [tmp_path / f"agent-{number}.log" for number in range(AGENTS)]
        options = ["--lease", LEASE_S, "--ahead", 0, "--path", PAYLOADS]
        agents = [
            stack.enter_context(
                agent_process(dsn, f"agent-{number}", log, *options, DIARY_AGENT=str(number))
            )
            for number, log in enumerate(logs)
        ]
        wait_until(lambda: len(queue.agents()) == AGENTS, timeout_s=TIMEOUT_S)
        campaign.seed({"n": n} for n in range(2 * AGENTS))
        wait_until(lambda: executions().total() >= AGENTS, timeout_s=TIMEOUT_S)

        for process in agents:
            process.send_signal(signal.SIGSTOP)
        wait_until(
            lambda: value(postgres, SILENT_S) > 1.5 * LEASE_S and queue.brake() is not None,
            timeout_s=TIMEOUT_S,
        )
        rounds(postgres, 2)
        held = queue.brake()
        assert held is not None
        assert (held.silent, held.open, held.heard_at) == (AGENTS, AGENTS, None)
        for process in agents:
            process.send_signal(signal.SIGCONT)
        wait_until(
            lambda: campaign.status().done == 2 * AGENTS,
            timeout_s=TIMEOUT_S,
            on_timeout=lambda: "\n".join(log.read_text() for log in logs),
        )
        assert campaign.status().losses == 0
        assert executions() == {str(n): 1 for n in range(2 * AGENTS)}
        wait_until(lambda: queue.brake() is None, timeout_s=TIMEOUT_S)

        params = {"diary": str(diary), "takes_s": 600}
        campaign.change(replace(campaign.spec(), params=params))
        campaign.seed({"n": n} for n in range(100, 100 + AGENTS))
        wait_until(working, timeout_s=TIMEOUT_S)
        for process in agents:
            process.kill()
        wait_until(
            lambda: value(postgres, SILENT_S) > 1.5 * LEASE_S and queue.brake() is not None,
            timeout_s=TIMEOUT_S,
        )
        rounds(postgres, 2)
        assert working()
        hire(lease_s=3_600)
        wait_until(lambda: campaign.status().waiting == AGENTS, timeout_s=TIMEOUT_S)
        wait_until(lambda: queue.brake() is None, timeout_s=TIMEOUT_S)

    lost = "select min(a.ended_at) - max(s.opened_at) from taskq.attempt a, taskq.session s"
    waited = value(postgres, lost + " where a.outcome = 'lost'")
    assert waited.total_seconds() > LEASE_S
    assert campaign.status().losses == AGENTS
    assert_counts_are_true(postgres)
