"""A task that failed on a host is tried on another one, where there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskq import Campaign, Client, Seed
from taskq.db.catalogue import statement
from taskq.model.retry_policy import RetryPolicy
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, keep, promote, silence
from tests.helpers.scripted_agent import Claimed, ScriptedAgent

#: Let the last refusal have been some time ago.
_WAIT = """
    update taskq.refusal
       set claimed_at = claimed_at - interval '1 min',
           last_at = last_at - interval '1 min'
"""
AT_ONCE = RetryPolicy(max_attempts=3, max_losses=5, backoff_s=0, backoff_max_s=0)


@pytest.fixture
def campaign(campaign: Campaign) -> Campaign:
    """Give a campaign of 40 tasks, that are tried three times, each time at once."""
    campaign.change(replace(campaign.spec(), retry=AT_ONCE))
    campaign.seed({"n": n} for n in range(40))
    return campaign


def work(agent: ScriptedAgent, *, good: bool, want: int = 1) -> list[Claimed]:
    """Claim some tasks and report on them."""
    tasks = agent.claim(want)
    for task in tasks:
        assert (agent.done(task) if good else agent.fail(task)) == "accepted"
    return tasks


@pytest.mark.usefixtures("campaign")
def test_task_that_failed_is_given_to_another_host_first(hire: Hire, postgres: Postgres) -> None:
    """Its host gets what comes behind it, from the same connection and from another."""
    first, same, other = hire(host="a"), hire(host="a"), hire(host="b")
    (task,) = work(first, good=False)
    assert promote(postgres) == 1
    for agent in (first, same):
        agent.forget_position()
        assert agent.claim(1)[0].task > task.task
    assert first.claim(5)[0].task > task.task
    assert other.claim(1)[0].task == task.task


def test_lone_host_tries_again_at_once(campaign: Campaign, hire: Hire, postgres: Postgres) -> None:
    """Also next to agents that serve something else, are silent, leave, or offer too little."""
    lone = hire(host="laptop")
    silent, leaving, elsewhere = hire(host="b"), hire(host="c"), hire("/", host="d")
    elsewhere.leave()
    silence(postgres, silent.session)
    postgres.execute("update taskq.session set drain = true where host = 'c'")
    tried = []
    for _ in range(3):
        lone.forget_position()
        (task,) = work(lone, good=False)
        tried.append((task.task, task.attempt))
        promote(postgres)
    assert tried == [(tried[0][0], attempt) for attempt in (1, 2, 3)]
    assert campaign.status().failed == 1
    assert leaving.claim(1)[0].task == tried[0][0] + 1


@pytest.mark.usefixtures("campaign")
def test_task_waits_for_another_host_no_longer_than_two_minutes(
    hire: Hire, postgres: Postgres
) -> None:
    """Since that may be busy; but its last attempt is for another, as long as there is one."""
    host, other = hire(host="a"), hire(host="b")
    (task,) = work(host, good=False)
    promote(postgres)
    past = "update taskq.task set due_at = due_at - interval '%s' where task_id = %s"
    postgres.execute(past % ("121 s", task.task))
    host.forget_position()
    assert work(host, good=False)[0].task == task.task
    promote(postgres)
    postgres.execute(past % ("20 h", task.task))
    host.forget_position()
    assert host.claim(1)[0].task > task.task
    other.leave()
    host.forget_position()
    (again,) = host.claim(1)
    assert (again.task, again.attempt) == (task.task, 3)


@pytest.mark.usefixtures("campaign")
def test_claims_of_several_hosts_in_one_statement_get_what_each_may_have(
    hire: Hire, postgres: Postgres
) -> None:
    """In the order of the queue, each claim the first that the claims before it have left."""
    a, b, c = hire(host="a"), hire(host="b"), hire(host="c")
    (first,) = work(a, good=False)
    (second,) = work(b, good=False)
    promote(postgres)
    leases = [agent.draw_lease() for agent in (a, b, c)]
    row = postgres.execute(
        statement("exchange"),
        {
            "campaign": a.campaign,
            "reports": None,
            "sessions": [a.session, b.session, c.session],
            "leases": leases,
            "wants": [2, 1, 1],
        },
    ).fetchone()
    assert row is not None
    got: dict[str, list[int]] = {lease: [] for lease in leases}
    for lease, task, *_ in row["tasks"]:
        got[lease].append(task)
    assert [sorted(got[lease]) for lease in leases] == [
        [second.task, second.task + 1],
        [first.task],
        [second.task + 2],
    ]
    # What was looked at and not given is not passed over.
    assert work(c, good=True)[0].task == second.task + 3


def test_priority_holds_between_tasks_that_have_failed_and_others(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """A task is not more urgent for having failed, nor less."""
    a, b = hire(host="a"), hire(host="b")
    (low,) = work(a, good=False)
    campaign.seed(Seed({"urgent": n}, priority=5) for n in range(2))
    a.forget_position()
    (high,) = work(a, good=False)
    promote(postgres)
    assert [b.claim(1)[0].task for _ in range(2)] == [high.task, high.task + 1]
    b.forget_position()
    assert b.claim(1)[0].task == low.task


@pytest.mark.usefixtures("campaign")
def test_all_that_failed_is_tried_again_while_others_wait(hire: Hire, postgres: Postgres) -> None:
    """One after the other, as fast as it is claimed."""
    a, b = hire(host="a"), hire(host="b")
    failed = work(a, good=False, want=10)
    promote(postgres)
    b.forget_position()
    assert [b.claim(1)[0].task for _ in range(10)] == [task.task for task in failed]
    assert b.claim(1)[0].task == failed[-1].task + 1


def test_all_hosts_that_failed_it_may_have_it_again(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Then there is nowhere else; and with attempts left the one that has not yet goes first."""
    campaign.change(replace(campaign.spec(), retry=replace(AT_ONCE, max_attempts=5)))
    agents = [hire(host="a"), hire(host="b")]
    tried = []
    for agent in (agents[0], agents[1], agents[1], agents[0]):
        agent.forget_position()
        tried += [task.task for task in work(agent, good=False)]
        promote(postgres)
    assert tried == tried[:1] * 4


def test_operators_retry_begins_anew(campaign: Campaign, hire: Hire) -> None:
    """On any host: anyone who retries has mended something."""
    a, b = hire(host="a"), hire(host="b")
    task = a.claim(1)[0]
    a.fail(task, retry=False)
    assert campaign.retry() == 1
    a.forget_position()
    assert a.claim(1)[0].task == task.task
    assert b.claim(1)[0].task == task.task + 1


@pytest.mark.thorough
def test_many_tasks_that_a_host_may_not_have_are_not_walked_over(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Neither by its claims, which get something, nor by others'."""
    spec = replace(queue.create_campaign("/many").spec(), retry=AT_ONCE)
    campaign = queue.campaign("/many")
    campaign.change(spec)
    campaign.seed({"n": n} for n in range(3_200))
    a, _ = hire("/many", host="a"), hire("/many", host="b")
    for _ in range(3):
        reports = [
            {"task": task.task, "lease": task.lease, "outcome": "failed"} for task in a.claim(1_000)
        ]
        a.exchange(reports)
    promote(postgres)
    postgres.execute("analyze")
    for _ in range(6):
        a.forget_position()
        assert a.claim(1)[0].task > 3_000

    def claim() -> None:
        rows = postgres.execute(
            statement("exchange"),
            {
                "campaign": a.campaign,
                "reports": None,
                "sessions": [a.session],
                "leases": [a.draw_lease()],
                "wants": [1],
            },
        ).fetchall()
        assert rows[0]["tasks"][0][1] > 3_000

    claim()
    postgres.execute(f"set taskq.position_{a.campaign} = ''")
    with watched(postgres) as seen:
        claim()
    hot = seen.to("task", "spec", "attempt")
    assert hot.widest is not None
    assert hot.widest.rows <= 1_000
    with watched(postgres) as seen:
        claim()
    hot = seen.to("task", "spec", "attempt")
    assert hot.access_paths <= {
        "task by task_waiting",
        "task by task_pkey",
        "task by task_working",
        "spec by spec_pkey",
    }
    assert hot.widest is not None
    assert hot.widest.rows <= 4


@pytest.mark.usefixtures("campaign")
def test_host_that_has_refused_the_campaign_is_not_waited_for(
    hire: Hire, postgres: Postgres
) -> None:
    """As long as its agent leaves the campaign out; then it is one that serves it again."""
    only, lacking = hire(host="only"), hire(host="lacking")
    for _ in range(2):
        (task,) = work(only, good=False)
        promote(postgres)
        only.forget_position()
        assert only.claim(1)[0].task > task.task, "while nothing is known of the other"
        lacking.forget_position()
        (refused,) = lacking.claim(1)
        assert refused.task == task.task
        released = lacking.report(refused, "released", refused=True, error_class="not-found")
        assert released == "accepted"
        only.forget_position()
        (again,) = only.claim(1)
        assert again.task == task.task
        postgres.execute("update taskq.refusal set last_at = last_at - interval '2 h'")
        assert only.fail(again) == "accepted"
        promote(postgres)
        only.forget_position()
        assert only.claim(1)[0].task > task.task
        lacking.forget_position()
        assert lacking.done(lacking.claim(1)[0]) == "accepted"


@pytest.mark.usefixtures("campaign")
def test_host_that_has_refused_often_is_not_waited_for_though_others_succeed(
    hire: Hire, postgres: Postgres
) -> None:
    """Their success tells its agent nothing: it leaves the campaign out ever longer."""
    only, lacking = hire(host="only"), hire(host="lacking")
    for _ in range(4):
        postgres.execute(_WAIT)
        lacking.forget_position()
        (task,) = lacking.claim(1)
        refused = lacking.report(task, "released", refused=True, error_class="not-found")
        assert refused == "accepted"
        assert only.done(only.claim(1)[0]) == "accepted"
        for _ in range(2):
            keep(postgres)
    (task,) = work(only, good=False)
    promote(postgres)
    postgres.execute("update taskq.refusal set last_at = last_at - interval '50 s'")
    only.forget_position()
    assert only.claim(1)[0].task == task.task, "after four times, it is left out for a minute"


@pytest.mark.usefixtures("campaign")
def test_host_that_was_well_for_long_is_waited_for_soon_after_a_refusal(
    hire: Hire, postgres: Postgres
) -> None:
    """Its agent begins anew with a short pause."""
    only, shaky = hire(host="only"), hire(host="shaky")
    for wait in ("0 s", "1 min", "1 min", "5 h"):
        if wait == "5 h":
            work(shaky, good=True)
        postgres.execute(_WAIT.replace("1 min", wait))
        shaky.forget_position()
        (refused,) = shaky.claim(1)
        assert shaky.report(refused, "released", refused=True, error_class="x") == "accepted"
    (task,) = work(only, good=False)
    promote(postgres)
    postgres.execute("update taskq.refusal set last_at = last_at - interval '10 s'")
    only.forget_position()
    assert only.claim(1)[0].task > task.task
