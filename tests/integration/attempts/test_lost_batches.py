"""Many tasks of one start, and a lost agent: who is charged, who is not, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, RetryPolicy, Seed
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence
from tests.helpers.scripted_agent import Claimed, ScriptedAgent

pytestmark = pytest.mark.usefixtures("true_counts")


def batched(queue: Client, tasks: int, *, batch: int = 500, **more: Any) -> Campaign:
    """Return a campaign whose tasks start together."""
    handler = Handler("command", argv=("x",), batch=batch)
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler, **more))
    campaign.seed(Seed({}, f"t{n:05}") for n in range(tasks))
    return campaign


def named(
    tasks: Iterable[Claimed], begun: Sequence[Claimed] | None = None, *, fewer: int = 0
) -> list[dict[str, Any]]:
    """Return the claims of tasks as an agent names them. begun: None: the programs do not say."""
    counts = Counter((task.campaign, task.lease) for task in tasks)
    return [
        {"campaign": campaign, "lease": lease, "tasks": count - fewer}
        | ({} if begun is None else {"begun": [task.task for task in begun if task.lease == lease]})
        for (campaign, lease), count in counts.items()
    ]


def lose(postgres: Postgres, agent: ScriptedAgent) -> None:
    silence(postgres, agent.session)
    expire(postgres)


def end_job(postgres: Postgres, agent: ScriptedAgent, end_class: str) -> None:
    """Let an agent be lost with its batch job, whose end is known."""
    postgres.execute(
        "update taskq.session set ended_at = clock_timestamp(), expired = true, end_class = %s"
        " where session_id = %s",
        [end_class, agent.session],
    )
    expire(postgres)


def last(campaign: Campaign, task: Claimed) -> tuple[str, str | None]:
    """Return how the last attempt at a task ended."""
    attempt = campaign.attempts(task.key)[-1]
    return attempt.outcome, attempt.error_class


def test_lost_agent_charges_only_tasks_that_had_begun(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    campaign = batched(queue, 300)
    agent = hire()
    tasks = agent.claim(200)
    agent.heartbeat(claims=named(tasks, tasks[5:8]))
    agent.done(tasks[6])  # it had begun, and has an outcome
    lose(postgres, agent)
    status = campaign.status()
    assert (status.losses, status.waiting, status.done) == (2, 299, 1)
    assert [last(campaign, tasks[n]) for n in (4, 5, 6, 7, 8)] == [
        ("released", "not-begun"),
        ("lost", "agent-lost"),
        ("done", None),
        ("lost", "agent-lost"),
        ("released", "not-begun"),
    ]


def test_all_are_charged_if_programs_do_not_say_what_has_begun(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Also those of a claim that no heartbeat has named yet."""
    campaign = batched(queue, 60)
    agent = hire()
    tasks = agent.claim(20)
    agent.heartbeat(claims=named(tasks))
    agent.claim(20)
    lose(postgres, agent)
    assert campaign.status().losses == 40


@pytest.mark.parametrize(
    ("end_class", "losses"),
    [
        ("job-node-failed", 0),
        ("job-out-of-time", 0),
        ("job-preempted", 0),
        ("job-out-of-memory", 20),
    ],
)
@pytest.mark.parametrize("marked", [False, True])
def test_end_of_the_job_that_explains_the_loss_charges_nobody_who_is_not_marked(
    queue: Client, hire: Hire, postgres: Postgres, end_class: str, losses: int, marked: bool
) -> None:
    campaign = batched(queue, 20)
    agent = hire()
    tasks = agent.claim(20)
    agent.heartbeat(claims=named(tasks, tasks[:1] if marked else None))
    end_job(postgres, agent, end_class)
    assert campaign.status().losses == (1 if marked else losses)
    spared = ("released", "not-begun")
    assert last(campaign, tasks[1]) == (spared if marked or not losses else ("lost", end_class))


def test_tasks_that_wait_in_the_agent_are_not_charged(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """An agent names none of them as begun."""
    campaign = batched(queue, 20)
    agent = hire()
    tasks = agent.claim(20)
    agent.heartbeat(claims=named(tasks, []))
    lose(postgres, agent)
    assert campaign.status().losses == 0


def test_tasks_that_had_not_begun_wait_in_their_order(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """As if they had never been claimed: not apart, as those that may be guilty."""
    batched(queue, 6)
    agent = hire()
    tasks = agent.claim(6)
    for task in (tasks[0], tasks[5]):
        agent.release(task, started=False)
    agent.heartbeat(claims=named(tasks[1:5], []))
    lose(postgres, agent)
    assert [task.key for task in hire().claim(3)] == ["t00000", "t00001", "t00002"]


def test_task_that_kills_its_agent_before_a_heartbeat_names_it_is_charged_the_second_time(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    campaign = batched(queue, 20)
    for expected in (0, 20):
        agent = hire()
        tasks = agent.claim(20)
        agent.heartbeat(claims=named(tasks, []))
        lose(postgres, agent)
        assert campaign.status().losses == expected


def test_task_that_exhausts_the_memory_of_each_job_is_charged_the_second_time(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Before a heartbeat names it, as above; the job's end is known, and explains nothing."""
    campaign = batched(queue, 20)
    for expected in (0, 20):
        agent = hire()
        agent.heartbeat(claims=named(agent.claim(20), []))
        end_job(postgres, agent, "job-out-of-memory")
        assert campaign.status().losses == expected


def test_task_that_kills_each_agent_is_given_up_and_no_other(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    campaign = batched(queue, 40, retry=RetryPolicy(max_losses=3))
    for _ in range(9):
        agent = hire()
        if not (tasks := agent.claim(40)):
            break
        killer = [task for task in tasks if task.key == "t00013"]
        agent.heartbeat(claims=named(tasks, killer))
        if killer:
            lose(postgres, agent)
        else:
            for task in tasks:
                agent.done(task)
    status = campaign.status()
    assert (status.failed, status.done, status.losses) == (1, 39, 3)
    (failure,) = campaign.failures()
    assert failure.key == "t00013"


def test_late_success_of_a_task_that_had_not_begun_counts(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Its agent lived, and was only unheard."""
    campaign = batched(queue, 20, late_results="salvage")
    agent = hire()
    tasks = agent.claim(20)
    agent.heartbeat(claims=named(tasks, tasks[:1]))
    lose(postgres, agent)
    assert agent.done(tasks[9], {"score": 1}) == "accepted"
    assert last(campaign, tasks[9]) == ("done", "not-begun")
    assert campaign.status().losses == 1


@pytest.mark.thorough
@pytest.mark.parametrize("marked", [False, True])
def test_dead_node_with_ten_thousand_tasks_costs_at_most_five_percent_more_starts(
    queue: Client, hire: Hire, postgres: Postgres, marked: bool
) -> None:
    batched(queue, 14_000)
    dead = hire(slots=20)
    tasks = [task for _ in range(10) for task in dead.claim(1_000)]
    assert len(tasks) == 10_000
    dead.heartbeat(claims=named(tasks, tasks[:1] if marked else None))
    lose(postgres, dead)
    starts = [0, 0]
    agent = hire(slots=1, host="n2")
    while claimed := agent.claim(500):
        for attempt in (1, 2):  # those begin apart, see QueuedTask.suits
            starts[attempt - 1] += any(task.attempt == attempt for task in claimed)
        postgres.execute(
            "update taskq.session set ended_at = now() where session_id = %s", [agent.session]
        )
        agent = hire(slots=1, host="n2")
    assert sum(starts) <= 14_000 / 500 * 1.05


@pytest.mark.parametrize("room", [1, 499, 500, 501])
def test_batch_is_no_larger_than_the_room_under_max_running(
    queue: Client, hire: Hire, room: int
) -> None:
    batched(queue, 600, max_running=room)
    agent = hire(slots=2)
    assert len(agent.claim(1_000)) == min(room, 600)
    assert agent.exchange(want=1_000)["tasks"] in (None, [])


def test_front_leases_no_tasks_of_batches_ahead(queue: Client, postgres: Postgres) -> None:
    """Agents name their claims as a whole, and a claim of theirs is large in any case."""
    batched(queue, 10)
    queue.create_campaign(CampaignSpec("/d", handler=Handler("command", argv=("x",))))
    rows = postgres.execute(
        "select path, taskq.is_frontable(campaign_id) as may from taskq.campaign"
        " where path in ('/c', '/d') order by path"
    )
    assert [(row["path"], row["may"]) for row in rows] == [("/c", False), ("/d", True)]
