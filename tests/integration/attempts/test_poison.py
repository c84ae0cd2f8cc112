"""Poison: a task that takes its agents down on one node after the other; and hopeless failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy, Seed
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, expire, silence, statuses, task_row
from tests.helpers.scripted_agent import report_of

pytestmark = pytest.mark.usefixtures("true_counts")

Lose = Callable[..., None]


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign with the task a, poison after three nodes, given up after five losses."""
    campaign = queue.create_campaign("/c")
    campaign.seed([Seed({"n": 1}, "a")])
    return campaign


@pytest.fixture
def lose(campaign: Campaign, hire: Hire, postgres: Postgres) -> Lose:
    """Give a function by which the task's agents are lost, one after the other, on some nodes."""
    assert campaign.path == "/c"

    def lose_on(*hosts: str) -> None:
        for host in hosts:
            agent = hire(host=host)
            assert len(agent.claim(1)) == 1
            silence(postgres, agent.session)
            assert expire(postgres) == 1

    return lose_on


def test_task_whose_agents_are_lost_on_many_nodes_is_poison(
    lose: Lose, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """It fails before max_losses, and its last attempt says what was seen."""
    lose("n1")
    agent = hire(host="n9")
    agent.fail(agent.claim(1)[0])  # neither a loss nor a node of one
    postgres.execute("update taskq.task set status = 'waiting' where status = 'delayed'")
    postgres.execute(
        "insert into taskq.delta (campaign_id, waiting, delayed) values (%s, 1, -1)",
        [campaign.campaign_id],
    )
    lose("n2")
    assert statuses(postgres)["a"] == "waiting"
    lose("n1")
    assert statuses(postgres)["a"] == "waiting"
    lose("n3")
    (failure,) = campaign.failures()
    assert (failure.error_class, failure.host, failure.attempt) == ("poison", "n3", 5)
    assert failure.error == "agents lost on 3 hosts: n1, n2, n3 (attempts 1, 3, 4, 5)"
    before = [(attempt.error_class, attempt.error) for attempt in campaign.attempts("a")][:4]
    assert before == [
        ("agent-lost", None),
        ("Boom", "it broke"),
        ("agent-lost", None),
        ("agent-lost", None),
    ]


def test_task_whose_agents_are_lost_on_one_node_is_not_poison(
    lose: Lose, campaign: Campaign
) -> None:
    """The node may be to blame; after max_losses it fails as ever, and says what was seen."""
    lose(*["n1"] * 5)
    (failure,) = campaign.failures()
    assert failure.error_class == "agent-lost"
    assert failure.error == "agents lost on 1 host: n1 (attempts 1, 2, 3, 4, 5)"


def test_poison_may_need_one_node_only(lose: Lose, campaign: Campaign) -> None:
    """A campaign decides how many nodes are too many."""
    campaign.change(CampaignSpec("/c", retry=RetryPolicy(max_lost_hosts=1)))
    lose("n1")
    (failure,) = campaign.failures()
    assert (failure.error_class, failure.error) == (
        "poison",
        "agents lost on 1 host: n1 (attempt 1)",
    )


def test_poison_wins_where_both_limits_are_reached(lose: Lose, campaign: Campaign) -> None:
    """It says more."""
    campaign.change(CampaignSpec("/c", retry=RetryPolicy(max_losses=3)))
    lose("n1", "n2", "n3")
    (failure,) = campaign.failures()
    assert failure.error_class == "poison"


def test_losses_before_an_operators_retry_do_not_count(
    lose: Lose, campaign: Campaign, postgres: Postgres
) -> None:
    """Only what was lost since then is evidence."""
    lose("n1", "n2", "n3")
    assert campaign.retry(error_class="poison") == 1
    lose("n4", "n5")
    assert statuses(postgres)["a"] == "waiting"
    lose("n6")
    (failure,) = campaign.failures()
    assert failure.error == "agents lost on 3 hosts: n4, n5, n6 (attempts 4, 5, 6)"


def test_agent_that_leaves_in_good_order_is_no_loss(
    lose: Lose, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """What it hands back is not poison, on whichever node."""
    lose("n1", "n2")
    agent = hire(host="n3")
    agent.claim(1)
    assert agent.leave() == 1
    assert statuses(postgres)["a"] == "waiting"
    assert campaign.attempts("a")[-1].error is None


@pytest.mark.thorough
def test_evidence_is_bounded(lose: Lose, campaign: Campaign, postgres: Postgres) -> None:
    """However many nodes and attempts there were, and whatever the nodes are called."""
    policy = RetryPolicy(max_losses=1000, max_lost_hosts=12)
    campaign.change(CampaignSpec("/c", retry=policy))
    # Of a name 200 characters are kept, so two of these are one node.
    lose(*["n1"] * 10, "", "x" * 200 + "1", "x" * 200 + "2", *(f"n{n}" for n in range(2, 10)))
    assert statuses(postgres)["a"] == "waiting"
    lose("n10")
    (failure,) = campaign.failures()
    nodes = ["n1", "(unnamed)", "x" * 200, *(f"n{n}" for n in range(2, 9))]
    attempts = ", ".join(map(str, range(1, 21)))
    assert failure.error == (
        f"agents lost on 12 hosts: {', '.join(nodes)} and 2 more (attempts {attempts} and 2 more)"
    )


def test_poison_is_shown_and_retried_by_its_class(lose: Lose, postgres: Postgres, dsn: str) -> None:
    """By `failures`, `logs` and `retry`; what a terminal would obey is shown as an escape."""
    lose("n1", "n2\x1b[31m", "n3")
    taskq = CommandLine(dsn)
    evidence = "agents lost on 3 hosts: n1, n2{}[31m, n3 (attempts 1, 2, 3)"
    shown = {failure["error_class"]: failure for failure in taskq.json("failures", "/c")}
    assert set(shown) == {"poison", "agent-lost"}
    assert shown["poison"]["example_error"] == evidence.format("\x1b")
    for words in (("failures", "/c", "--each"), ("logs", "/c", "a")):
        text = taskq.out(*words)
        assert "poison" in text
        assert evidence.format("\\x1b") in text
    taskq.out("retry", "/c", "--error-class", "agent-lost")
    assert statuses(postgres)["a"] == "failed"
    taskq.out("retry", "/c", "--error-class", "poison")
    assert statuses(postgres)["a"] == "waiting"


@pytest.mark.parametrize("retry", [True, None])
def test_class_that_is_never_retried_fails_the_task_at_once(
    retry: bool | None, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """Whatever the report says of a retry, alone and among others."""
    policy = RetryPolicy(never_retry=("bad-ligand", "no-licence"))
    campaign.change(CampaignSpec("/c", retry=policy))
    campaign.seed(Seed({"n": n}, f"k{n}") for n in range(3))
    agent = hire()
    alone, *others = agent.claim(4)
    word = {"outcome": "failed", "retry": retry}
    assert agent.report(alone, error_class="bad-ligand", **word) == "accepted"
    classes = ["no-licence", None, "bad-ligands"]
    reports = [
        {"task": task.task, "lease": task.lease, "error_class": name, **word}
        for task, name in zip(others, classes, strict=True)
    ]
    assert agent.exchange(reports)["acks"] == ["accepted"] * 3
    assert statuses(postgres) == {"a": "failed", "k0": "failed", "k1": "delayed", "k2": "delayed"}
    assert task_row(postgres, alone.task)["failures"] == 1


def test_success_has_no_class_of_error(hire: Hire, campaign: Campaign) -> None:
    """Whatever its report says, alone or among others: it would look like one that was lost."""
    policy = RetryPolicy(never_retry=("poison",))
    campaign.change(CampaignSpec("/c", retry=policy))
    campaign.seed(Seed({"n": n}, f"k{n}") for n in range(4))
    agent = hire()
    tasks = agent.claim(5)
    for some in (tasks[:1], tasks[1:3], tasks[3:]):
        reports = [report_of(task, "done", error_class="poison") for task in some]
        if some == tasks[3:]:
            reports[0]["outcome"] = "released"
        assert agent.exchange(reports)["acks"] == ["accepted"] * len(some)
    found = [
        (attempt.outcome, attempt.error_class)
        for t in tasks
        for attempt in campaign.attempts(t.key)
    ]
    assert Counter(found) == {("done", None): 4, ("released", "poison"): 1}
