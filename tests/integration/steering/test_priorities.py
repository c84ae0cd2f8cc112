"""Priorities of tasks that wait: which change, which are handed out first, what stays packed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd
import psycopg
import pytest

from taskq import Campaign, Client, Seed
from taskq.campaign.priorities import RANGE, Prioritised
from taskq.model.errors import UsageError
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, promote, value

pytestmark = [pytest.mark.both_transports, pytest.mark.usefixtures("true_counts")]

TASKS = "select count(*) from taskq.task"
SPANS = "select count(*) from taskq.span"


@pytest.fixture
def ten(campaign: Campaign) -> Campaign:
    """Give ten tasks, k0 to k9."""
    campaign.seed(Seed({"n": n}, f"k{n}") for n in range(10))
    return campaign


def order(campaign: Campaign, hire: Hire) -> list[str]:
    """Claim what waits, one by one; return the keys."""
    agent = hire(campaign.path)
    return [task.key for task in agent.claim_singly(campaign.status().waiting)]


def test_highest_priority_is_handed_out_first(ten: Campaign, hire: Hire) -> None:
    """Then in the order of seeding; what is not named keeps its own."""
    outcome = ten.prioritise({"k7": 5, "k3": 1, "k0": -1, "k9": 5, "k4": 0})
    assert outcome == Prioritised(total=5, changed=4, unchanged=1)
    assert {task.key: task.priority for task in ten.tasks()}["k7"] == 5
    assert order(ten, hire) == ["k7", "k9", "k3", "k1", "k2", "k4", "k5", "k6", "k8", "k0"]


def test_changed_again_the_last_one_counts(ten: Campaign, hire: Hire) -> None:
    """Also from a row of its own back to where it was."""
    ten.prioritise({f"k{n}": n for n in range(10)})
    assert ten.prioritise({f"k{n}": n for n in range(10)}).changed == 0
    assert ten.prioritise({f"k{n}": -n for n in range(10)}).changed == 9
    assert order(ten, hire) == [f"k{n}" for n in range(10)]


def test_only_what_does_not_run_is_changed(ten: Campaign, hire: Hire, postgres: Postgres) -> None:
    """The others are counted, and so are keys that there are not; delayed tasks are changed."""
    agent = hire()
    first, second, third, fourth, _ = agent.claim(5)
    agent.done(first)
    agent.fail(second, retry=False)
    agent.fail(third)
    agent.release(fourth, started=True)
    outcome = ten.prioritise({f"k{n}": 3 for n in range(12)})
    assert outcome == Prioritised(
        total=12, changed=7, not_waiting=3, unknown=2, some_unknown=["k10", "k11"]
    )
    assert outcome.read == outcome.total
    promote(postgres)
    assert {task.key for task in ten.tasks(where="priority = 3")} == {
        *("k2", "k3", "k5", "k6", "k7", "k8", "k9"),
    }


def test_task_that_fails_keeps_its_priority(ten: Campaign, hire: Hire, postgres: Postgres) -> None:
    """When it is tried again, and when it is retried."""
    ten.prioritise({"k5": 2})
    (task,) = hire().claim(1)
    hire().fail(task)
    promote(postgres)
    assert ten.task("k5").priority == 2
    (task,) = hire(host="other").claim(1)
    assert (task.key, task.attempt) == ("k5", 2)
    hire().fail(task, retry=False)
    assert ten.retry() == 1
    assert order(ten, hire)[0] == "k5"


def test_all_that_match_get_one_priority(queue: Client, hire: Hire) -> None:
    """Here and below."""
    above, below = queue.create_campaign("/c"), queue.create_campaign("/c/d")
    for campaign in (above, below):
        campaign.seed(Seed({"n": n}, f"k{n}") for n in range(4))
    assert above.set_priority(3, where="payload.n >= 2", dry_run=True) == 4
    assert above.task("k3").priority == 0
    assert above.set_priority(3, where="payload.n >= 2") == 4
    assert above.set_priority(3, where="payload.n >= 2") == 0
    assert order(below, hire) == ["k2", "k3", "k0", "k1"]


def test_scores_become_priorities_by_rank(ten: Campaign) -> None:
    """Of any kind of number, from a mapping, pairs or a Series; equal scores share one."""
    scores: dict[str, Any] = {"k0": -7.25, "k1": Decimal("-9.5"), "k2": -9.5, "k3": 0, "k4": 1e300}
    ten.prioritise({k: float(v) for k, v in scores.items()}, best="lowest")
    assert [ten.task(f"k{n}").priority for n in range(6)] == [750, 1_000, 1_000, 500, 250, 0]
    ten.prioritise(pd.Series([1.5, 2.5], index=["k0", "k1"]), best="highest")
    assert [ten.task(f"k{n}").priority for n in range(2)] == [500, 1_000]
    ten.prioritise([("k0", 7)])
    ten.prioritise(pd.Series([8], index=["k1"]))
    assert [ten.task(f"k{n}").priority for n in range(2)] == [7, 8]


@pytest.mark.parametrize(
    ("given", "best", "why"),
    [
        ({"k0": 1.5}, None, "whole number"),
        ({"k0": True}, None, "whole number"),
        ({"k0": "1"}, None, "whole number"),
        ({"k0": 40_000}, None, "outside -32"),
        ({"k0": float("nan")}, "highest", "must be a number"),
        ({"k0": "x"}, "highest", "must be a number"),
        ({1: 1}, None, "a key is text"),
        ({"k\0": 1}, None, "a key is text"),
        ({"\ud800": 1}, None, "a key is text"),
        (7, None, "given by a mapping"),
        (["abc"], None, "given by a mapping"),
        ({"k0": 1}, "best", "highest"),
        (pd.DataFrame({"key": ["k0"], "score": [1]}), None, "whole number"),
    ],
)
def test_malformed_priority_is_refused(
    given: Any, best: Any, why: str, ten: Campaign, postgres: Postgres
) -> None:
    """Before anything is changed."""
    with pytest.raises(UsageError, match=why):
        ten.prioritise(given, best=best)
    with pytest.raises(UsageError, match="whole number"):
        ten.set_priority(99_999)
    assert value(postgres, TASKS) == 0


@pytest.mark.thorough
def test_scattered_tasks_leave_the_others_packed(campaign: Campaign, postgres: Postgres) -> None:
    """A chunk is cut where its tasks lie too far apart, whatever the order of the keys."""
    campaign.seed(Seed({}, f"k{n}") for n in range(RANGE + 2_000))
    before = value(postgres, SPANS)
    seen: list[int] = []
    keys = [f"k{n}" for n in range(0, RANGE + 2_000, 1_000)]
    outcome = campaign.prioritise(
        dict.fromkeys(reversed(keys), 9), on_progress=lambda entry: seen.append(entry.read)
    )
    assert outcome == Prioritised(total=len(keys), changed=len(keys))
    assert seen == [17, len(keys)]
    assert value(postgres, TASKS) == len(keys)
    assert value(postgres, SPANS) <= before + len(keys)
    assert sum(task.priority == 9 for task in campaign.tasks("waiting")) == len(keys)


def test_claims_do_not_wait_for_priorities(
    campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """While some are being changed, others are handed out; then the changed ones come first."""
    campaign.seed(Seed({"n": n}, f"k{n}") for n in range(1_000))
    agent = hire()
    with psycopg.connect(dsn) as other:
        other.execute(
            "select taskq.prioritise(%s, array_agg(task_id), array_agg(5::smallint))"
            "  from taskq.spec where key in ('k0', 'k1', 'k2')",
            [campaign.campaign_id],
        )
        assert min(task.payload["n"] for task in agent.claim(3)) > 2
    agent.forget_position()
    assert [task.key for task in agent.claim(4)][:3] == ["k0", "k1", "k2"]
    assert value(postgres, TASKS) == 3


def test_too_many_at_a_time_are_refused(campaign: Campaign, postgres: Postgres) -> None:
    """Anyone who calls the function itself cannot hold many locks for long."""
    for tasks, priorities in (([*range(1_001)], [0] * 1_001), ([1, 2], [0])):
        with pytest.raises(psycopg.DatabaseError, match="at most 1,000") as caught:
            postgres.execute(
                "select taskq.prioritise(%s, %s::bigint[], %s::smallint[])",
                [campaign.campaign_id, tasks, priorities],
            )
        assert caught.value.sqlstate == "TQ400"
