"""`taskq explain`: hosts whose slots stand idle between tasks, where those of others do not."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from taskq import Campaign, Client
from taskq.diagnosis.reasons import Reason
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value

INSERT = """
    insert into taskq.attempt (
           campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at, outcome,
           phases)
    select %(campaign)s, (r ->> 0)::bigint, 1, gen_random_uuid(), (r ->> 1)::bigint,
           %(at)s + make_interval(secs => (r ->> 2)::double precision),
           %(at)s + make_interval(secs => (r ->> 2)::double precision + 5), 'done',
           jsonb_build_object('run_s', 5)
      from jsonb_array_elements(%(rows)s::jsonb) r
"""
OPEN = "select taskq.open_session('/c', gen_random_uuid(), 86400, 'a', %s, %s, 1, %s)"
HOLD = """
    insert into taskq.bundle (session_id, lease_id, first_id, campaign_id, claimed_at, tasks)
    select s.session_id, gen_random_uuid(), (%(tasks)s::bigint[])[1], %(campaign)s, %(at)s,
           %(tasks)s
      from taskq.session s
     where s.host = %(host)s
"""
_TASKS = 20


class Farm:
    """Agents, each with attempts that were made already; tasks wait."""

    def __init__(self, campaign: Campaign, postgres: Postgres) -> None:
        self.campaign, self._postgres = campaign, postgres
        handler = '{"kind": "command", "argv": ["true"]}'
        postgres.execute("update taskq.campaign set handler = %s", [handler])
        campaign.seed({"n": n} for n in range(400))
        self._ids = [task.task_id for task in campaign.tasks()]
        self._at = datetime.now(timezone.utc) - timedelta(hours=2)

    def agent(
        self,
        host: str,
        site: str,
        *,
        every_s: float,
        tasks: int,
        begins_s: float = 0,
        slots: int = 1,
    ) -> None:
        """Let an agent make attempts of five seconds, one in so many seconds."""
        session = value(self._postgres, OPEN, host, site, slots)
        ids = [self._ids.pop() for _ in range(tasks)]
        rows = [(number, session, begins_s + n * every_s) for n, number in enumerate(ids)]
        values = {"campaign": self.campaign.campaign_id, "at": self._at, "rows": json.dumps(rows)}
        self._postgres.execute(INSERT, values)
        self._postgres.execute("update taskq.counter set done = done + %s", [tasks])

    def hold(self, host: str, tasks: int) -> None:
        """Let a host have tasks since before all attempts."""
        ids = [self._ids.pop() for _ in range(tasks)]
        values = {"campaign": self.campaign.campaign_id, "at": self._at, "tasks": ids, "host": host}
        self._postgres.execute(HOLD, values)

    def leave(self, site: str) -> None:
        """Let the agents of a site leave."""
        self._postgres.execute("update taskq.session set ended_at = now() where site = %s", [site])

    def idle(self) -> list[Reason]:
        """Return the reasons in idle slots."""
        return [it for it in self.campaign.explain().reasons if it.code == "idle-slots"]


@pytest.fixture
def farm(campaign: Campaign, postgres: Postgres) -> Farm:
    """Give a farm with four busy agents at two sites."""
    found = Farm(campaign, postgres)
    for number in range(4):
        found.agent(f"h{number}", f"s{number % 2}", every_s=5.5, tasks=4 * _TASKS)
    return found


def test_hosts_whose_slots_are_idle_between_tasks_are_named(farm: Farm, taskq: CommandLine) -> None:
    """Their tasks succeed in the usual time; only the time between them is long."""
    assert farm.idle() == []
    for host in ("far1", "far2"):
        farm.agent(host, "remote", every_s=20.0, tasks=_TASKS)
    (reason,) = farm.idle()
    assert reason.text.startswith(
        "2 slots on hosts far1, far2 of site remote run tasks in 26 % of the time, elsewhere slots "
        "do in 91.0 %: the rest is idle, though tasks wait."
    )
    assert reason.cost == pytest.approx(2 * (1 - 0.26 / 0.91), abs=0.02)
    assert "idle-slots" in taskq.out("explain", "/", "-o", "json")
    farm.leave("remote")
    assert farm.idle() == [], "they are not there any more"


def test_slots_that_were_idle_before_others_came_are_no_trouble(farm: Farm) -> None:
    """Nobody else was there in the night, when there were no tasks."""
    farm.agent("old", "s0", every_s=5.5, tasks=_TASKS, begins_s=-3_600)
    assert farm.idle() == []


def test_slots_are_idle_for_a_reason_if_the_campaign_limits_its_tasks(
    farm: Farm, queue: Client, taskq: CommandLine
) -> None:
    """Also if an agent lacks what a task needs."""
    farm.agent("far", "remote", every_s=20.0, tasks=_TASKS)
    assert len(farm.idle()) == 1
    taskq.out("campaign", "change", "/c", "--max-running", "1000")
    assert farm.idle() == []
    taskq.out("campaign", "change", "/c", "--max-running", "none", "--require", "gpu")
    assert farm.idle() == []
    assert queue.campaign("/c").status().waiting


def test_slots_with_long_tasks_are_not_idle(farm: Farm) -> None:
    """Though none of these has ended yet, and one slot does all that has."""
    farm.agent("mixed", "s0", every_s=5.5, tasks=_TASKS, slots=4)
    assert len(farm.idle()) == 1
    farm.hold("mixed", 1)
    assert farm.idle() == [], "half of the slots are in use"
    farm.hold("mixed", 2)
    assert farm.idle() == []


def test_few_attempts_and_splits_accuse_nobody(farm: Farm) -> None:
    """Where two of five hosts differ from the others, they are no exceptions."""
    farm.agent("new", "s0", every_s=20.0, tasks=11)
    assert farm.idle() == []
    for number in range(3):
        farm.agent(f"far{number}", f"r{number}", every_s=20.0, tasks=_TASKS)
    assert farm.idle() == []
