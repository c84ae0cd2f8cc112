"""Batches on a real queue: outcomes as they come, the guilty named, nothing lost with an agent."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from taskq import CampaignSpec, Client, Handler, Seed
from taskq.model.errors import InvalidCampaign
from taskq_agent.core import gathering
from tests.helpers.agent_processes import agent_process
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import PAYLOADS
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import wait_until

PROGRAM = str(PAYLOADS / "batcher.py")


def command(**more: Any) -> Handler:
    """Return a command that does what its tasks say."""
    return Handler("command", argv=(sys.executable, PROGRAM, "file", "{tasks}"), **more)


def payloads(folder: Path, number: int, **odd: str) -> Iterator[Seed]:
    """Yield tasks; odd: what those with these keys do instead, such as `t7="die"`."""
    for n in range(1, number + 1):
        payload = {"n": n, "log": str(folder / "starts"), "do": odd.get(f"t{n}", "well")}
        yield Seed(payload, f"t{n}")


def starts(folder: Path) -> list[list[int]]:
    """Return the tasks of each start so far."""
    file = folder / "starts"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def _gathers_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tasks wait for others, however long a busy machine takes to bring them."""
    monkeypatch.setattr(gathering, "_GATHER_S", 3_600.0)


@pytest.mark.thorough
@pytest.mark.usefixtures("_gathers_for_long")
def test_each_task_of_a_batch_has_its_outcome_and_the_guilty_its_own_class(
    queue: Client, taskq: CommandLine, tmp_path: Path
) -> None:
    spec = CampaignSpec("/c", handler=command(batch=100))
    campaign = queue.create_campaign(spec)
    campaign.seed(payloads(tmp_path, 200, t17="die", t150="fail"))
    taskq.out("agent", "run", "--campaign", "/c", "--slots", "2", "--until-empty")
    status = campaign.status()
    assert (status.done, status.failed) == (198, 2)
    failed = {key: campaign.attempts(key)[-1].error_class for key in ("t17", "t150")}
    assert failed == {"t17": "signal-SIGSEGV", "t150": "Odd"}
    first = starts(tmp_path)[0]
    assert len(first) == 100
    executed = Counter(chain.from_iterable(starts(tmp_path)))
    assert max(executed[n] for n in range(101, 201) if n != 150) == 1


@pytest.mark.usefixtures("_gathers_for_long")
def test_last_tasks_are_shared_among_idle_slots(
    queue: Client, taskq: CommandLine, tmp_path: Path
) -> None:
    campaign = queue.create_campaign(CampaignSpec("/c", handler=command(batch=100)))
    campaign.seed(payloads(tmp_path, 40))
    taskq.out("agent", "run", "--campaign", "/c", "--slots", "4", "--until-empty")
    assert sorted(map(len, starts(tmp_path))) == [10, 10, 10, 10]


def test_explanation_says_that_starts_fail_only_with_many_tasks(
    queue: Client, dsn: str, tmp_path: Path
) -> None:
    campaign = queue.create_campaign(CampaignSpec("/c", handler=command(batch=16)))
    tasks = payloads(tmp_path, 40, t40="hang")
    campaign.seed(Seed({**task.payload, "company": 10}, task.key) for task in tasks)
    with agent_process(dsn, "a", tmp_path / "log", "--lease", 4, "--quiet", "--slots", 1):

        def text() -> str | None:
            reasons = campaign.explain().reasons
            return next(
                (reason.text for reason in reasons if reason.code == "smaller-batches"), None
            )

        wait_until(text, timeout_s=60)
        assert "8 tasks of /c to one start, where the handler allows 16" in (text() or "")
        assert "larger starts failed (signal-SIGKILL)" in (text() or "")


@pytest.mark.thorough
def test_killed_agent_repeats_only_tasks_without_outcome(
    queue: Client, dsn: str, tmp_path: Path
) -> None:
    campaign = queue.create_campaign(CampaignSpec("/c", handler=command(batch=50)))
    campaign.seed(payloads(tmp_path, 50, t31="hang"))
    options = ["--lease", 4, "--quiet", "--slots", 1]
    with ExitStack() as stack:
        first = stack.enter_context(agent_process(dsn, "a", tmp_path / "log", *options))
        wait_until(lambda: campaign.status().done == 30, timeout_s=60)
        first.send_signal(signal.SIGKILL)
        first.wait()
        stack.enter_context(agent_process(dsn, "b", tmp_path / "log-b", *options))
        wait_until(lambda: len(starts(tmp_path)) == 2, timeout_s=60)
    assert len(starts(tmp_path)[1]) > 5
    assert {*starts(tmp_path)[1]} <= {*range(31, 51)}


@pytest.mark.thorough
def test_killed_agent_costs_only_the_task_that_had_begun_a_loss(
    queue: Client, dsn: str, postgres: Postgres, tmp_path: Path
) -> None:
    campaign = queue.create_campaign(CampaignSpec("/c", handler=command(batch=50)))
    campaign.seed(
        Seed({**seed.payload, "marks": True}, seed.key)
        for seed in payloads(tmp_path, 50, t31="hang")
    )
    options = ["--lease", 4, "--quiet", "--slots", 1]
    begun = "select count(*) from taskq.session where claims @> %s"
    with ExitStack() as stack:
        first = stack.enter_context(agent_process(dsn, "a", tmp_path / "log", *options))
        wait_until(lambda: campaign.status().done == 30, timeout_s=60)
        hangs = value(postgres, "select task_id from taskq.spec where key = 't31'")
        named = json.dumps([{"begun": [hangs]}])
        wait_until(lambda: value(postgres, begun, named), timeout_s=60)
        first.send_signal(signal.SIGKILL)
        first.wait()
        stack.enter_context(agent_process(dsn, "b", tmp_path / "log-b", *options))
        wait_until(lambda: campaign.status().losses, timeout_s=60)
    assert campaign.status().losses == 1
    ends = {n: campaign.attempts(f"t{n}")[0] for n in (31, 32, 50)}
    assert {n: (end.outcome, end.error_class) for n, end in ends.items()} == {
        31: ("lost", "agent-lost"),
        32: ("released", "not-begun"),
        50: ("released", "not-begun"),
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"checkpoint_bytes": 1 << 20}, "limits.checkpoint_bytes and handler.batch"),
        ({"hedge": 0.1, "late_results": "salvage"}, "hedge and handler.batch"),
    ],
)
def test_checkpoints_and_second_attempts_are_refused_with_batches(
    more: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidCampaign, match=words):
        CampaignSpec("/c", handler=command(batch=2), **more)


def test_tasks_that_wait_in_a_batch_are_neither_overdue_nor_ended_by_a_new_limit(
    queue: Client, dsn: str, tmp_path: Path, postgres: Postgres
) -> None:
    campaign = queue.create_campaign(CampaignSpec("/c", handler=command(batch=50)))
    campaign.seed(payloads(tmp_path, 80, t79="hang"))
    with agent_process(dsn, "a", tmp_path / "log", "--quiet", "--slots", 1):
        wait_until(lambda: campaign.status().done == 78, timeout_s=60)
        postgres.execute("update taskq.bundle set claimed_at = now() - interval '1 hour'")
        postgres.execute(
            "update taskq.task set claimed_at = now() - interval '1 hour' where status = 'working'"
        )
        assert value(postgres, "select count(*) from taskq.overdue('/c', 9)") == 0
        campaign.change(replace(campaign.spec(), time_limit_s=60))
        assert value(postgres, "select taskq.enforce_time_limits()") == 0
    assert campaign.status().working == 2
