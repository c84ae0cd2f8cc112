"""Ends of jobs: none without evidence; and what an end means for what the job's agent had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskq.model.errors import NotFound
from taskq.model.words import counted
from taskq.pilots.reconcile import EndReason
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, assert_counts_are_true, expire, silence, task_row
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.integration.pilots.support import PilotScene


def at_work(scene: PilotScene, hire: Hire) -> tuple[str, ScriptedAgent, Claimed]:
    """Let the agent of the pilot's only job claim a task; return the job's name and both."""
    scene.add(max_jobs=1)
    scene.seed(2)
    scene.round()
    (name,) = scene.batch.names()
    scene.batch.become("running")
    agent = hire("/c", agent=name)
    (task,) = agent.claim(1)
    return name, agent, task


@pytest.mark.parametrize("known", [0, 1, 3], ids=["empty", "part", "most"])
def test_answer_without_jobs_orphans_none(scene: PilotScene, known: int) -> None:
    """Nothing is submitted in their place; what was given up for good and turns up is adopted."""
    scene.add()
    scene.seed(100)
    scene.round()
    scene.batch.become("running")
    scene.round()
    all_known = dict(scene.batch.known)
    scene.batch.known = dict(list(all_known.items())[:known])
    done = scene.round()
    assert (done.submitted, done.ended) == (0, 0)
    assert scene.statuses() == ["running"] * 4
    lacks = f"{counted(4 - known, 'job')} not in the batch system's latest answer: still counted"
    assert any(line.startswith(lacks) for line in scene.queue.pilots.plan("hpc").why)
    scene.rounds_without_it()
    assert scene.statuses()[:4] == ["running"] * known + ["vanished"] * (4 - known)
    assert scene.pilot().failures == 1
    scene.batch.known = all_known | scene.batch.known
    scene.round()
    assert scene.statuses()[:4] == ["running"] * 4


def test_one_answer_that_lies_removes_no_pilot(scene: PilotScene) -> None:
    """Its jobs would go on, and nobody would look after them."""
    scene.add()
    scene.seed(100)
    scene.round()
    scene.batch.become("running")
    scene.round()
    assert scene.queue.pilots.set_status("hpc", "removed") == 4
    all_known, scene.batch.known = scene.batch.known, {}
    scene.round()
    assert scene.statuses() == ["running"] * 4
    scene.batch.known = all_known
    scene.batch.become("ended", why="COMPLETED")
    scene.round()
    with pytest.raises(NotFound):
        scene.pilot()


@pytest.mark.parametrize(
    ("why", "reason", "losses", "error_class"),
    [
        ("OUT_OF_MEMORY", "memory", 1, "job-out-of-memory"),
        ("NODE_FAIL", "node", 1, "job-node-failed"),
        ("TIMEOUT", "time", 1, "job-out-of-time"),
        ("FAILED", None, 1, "agent-lost"),
        ("PREEMPTED", "preempted", 0, "job-preempted"),
        ("CANCELLED by 0", "cancelled", 0, "job-cancelled"),
    ],
)
def test_end_of_a_job_ends_the_leases_of_its_agent(
    scene: PilotScene,
    hire: Hire,
    postgres: Postgres,
    why: str,
    reason: EndReason | None,
    losses: int,
    error_class: str,
) -> None:
    """At once, with the batch system's word for it; what was taken away is no loss."""
    name, _, task = at_work(scene, hire)
    scene.round()
    scene.batch.known[name] = replace(
        scene.batch.known[name], state="ended", why=why, reason=reason
    )
    scene.round()
    assert expire(postgres) == losses
    row = task_row(postgres, task.task)
    assert (row["status"], row["losses"]) == ("waiting", losses)
    (attempt,) = scene.campaign.attempts(task.key)
    assert attempt.outcome == ("lost" if losses else "released")
    assert (attempt.error_class, attempt.error) == (
        error_class,
        f"its batch job has ended: {why}",
    )
    assert scene.jobs()[0].left_why == f"its batch job has ended: {why}"


def test_end_of_a_job_of_many_nodes_ends_the_leases_of_all_its_agents(
    scene: PilotScene, hire: Hire, postgres: Postgres
) -> None:
    """An agent that was lost before its job has ended alone, and by no word of the batch system."""
    name, first, lost_before = at_work(scene, hire)
    (task,) = hire("/c", agent=name).claim(1)
    scene.round()
    silence(postgres, first.session)
    assert expire(postgres) == 1
    scene.round()
    assert scene.statuses() == ["running"]
    scene.batch.become("ended", why="NODE_FAIL")
    scene.batch.known[name] = replace(scene.batch.known[name], reason="node")
    scene.round()
    assert expire(postgres) == 1
    classes = [scene.campaign.attempts(claim.key)[0].error_class for claim in (lost_before, task)]
    assert classes == ["agent-lost", "job-node-failed"]


@pytest.mark.parametrize("reason", ["memory", "node", "time"])
def test_attempt_that_the_end_of_a_job_ended_counts_as_lost_whatever_its_class(
    scene: PilotScene, hire: Hire, postgres: Postgres, reason: EndReason
) -> None:
    """A late success of such an attempt is salvaged, and the counts and the audit agree on it."""
    scene.queue.create_campaign(
        replace(scene.campaign.spec(), late_results="salvage"), exist_ok=True
    )
    name, _, task = at_work(scene, hire)
    scene.round()
    scene.batch.known[name] = replace(scene.batch.known[name], state="ended", reason=reason)
    scene.round()
    assert expire(postgres) == 1
    assert hire("/c").report(task, "done") == "accepted"
    (attempt,) = scene.campaign.attempts(task.key)
    assert (attempt.outcome, (attempt.error_class or "")[:4]) == ("done", "job-")
    assert_counts_are_true(postgres)
    assert list(scene.queue.audit()) == []


def test_suspended_job_loses_nothing(scene: PilotScene, hire: Hire, postgres: Postgres) -> None:
    """What its agent had is handed out when the lease has run out, and does not count."""
    _, agent, task = at_work(scene, hire)
    scene.batch.become("running", why="SUSPENDED")
    scene.round()
    silence(postgres, agent.session)
    expire(postgres)
    row = task_row(postgres, task.task)
    assert (row["status"], row["losses"]) == ("waiting", 0)
