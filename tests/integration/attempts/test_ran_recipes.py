"""What each attempt says of the recipe that it ran, whichever way its report settles."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, Seed
from taskq.db.connections import Database
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import Postgres, expire, silence
from tests.helpers.scripted_agent import ScriptedAgent, report_of
from tests.helpers.scripted_pool import ScriptedPool

pytestmark = pytest.mark.usefixtures("true_counts")

KEYS = ("a", "b", "c", "d")
#: Ends some attempts with a report that says this; returns how many.
Settle = Callable[[ScriptedAgent, dict[str, Any]], int]


@pytest.fixture
def dock(queue: Client) -> Campaign:
    """Give a campaign whose recipe has changed once, with four tasks."""
    spec = CampaignSpec("/c", handler=TRUE, params={"grid": 1}, late_results="salvage")
    campaign = queue.create_campaign(spec)
    campaign.seed(Seed({"n": n}, key) for n, key in enumerate(KEYS))
    return campaign


def change(campaign: Campaign, grid: int) -> None:
    campaign.change(replace(campaign.spec(), params={"grid": grid}))


def recipes(campaign: Campaign) -> dict[str, list[int | None]]:
    """Return the recipes of the attempts of each task that has some."""
    found = {key: [ended.recipe for ended in campaign.attempts(key)] for key in KEYS}
    return {key: numbers for key, numbers in found.items() if numbers}


def by_exchange_one(agent: ScriptedAgent, said: dict[str, Any]) -> int:
    (task,) = agent.claim(1)
    answer = agent.exchange([report_of(task, DONE, result={}, **said)], want=1)
    assert answer["acks"] == ["accepted"]
    return 1


def by_rows(agent: ScriptedAgent, said: dict[str, Any]) -> int:
    tasks = agent.claim_singly(2)
    reports = [report_of(task, DONE, result={}, **said) for task in tasks]
    assert agent.exchange(reports)["acks"] == ["accepted"] * 2
    return 2


def by_bundle(agent: ScriptedAgent, said: dict[str, Any]) -> int:
    tasks = agent.claim(3)
    reports = [report_of(task, DONE, result={}, **said) for task in tasks]
    assert agent.exchange(reports)["acks"] == ["accepted"] * 3
    return 3


def by_failure(agent: ScriptedAgent, said: dict[str, Any]) -> int:
    (task,) = agent.claim(1)
    assert agent.report(task, FAILED, retry=False, **said) == "accepted"
    return 1


def by_many(agent: ScriptedAgent, said: dict[str, Any]) -> int:
    tasks = agent.claim_singly(2)
    reports = [report_of(task, DONE, result={}, session=agent.session, **said) for task in tasks]
    row = agent.database.row(
        "settle_many", campaigns=[agent.campaign] * 2, reports=json.dumps(reports)
    )
    assert row is not None
    assert row["acks"] == ["accepted"] * 2
    return 2


def by_sql(agent: ScriptedAgent, said: dict[str, Any]) -> int:
    (task,) = agent.claim(1)
    details = json.dumps({"result": {}, **said})
    with psycopg.connect(agent.database.dsn, autocommit=True) as connection:
        words = ["/c", task.task, task.lease, details]
        connection.execute("select taskq.report(%s, %s, %s, 'done', %s)", words)
    return 1


@pytest.mark.parametrize(
    "settle", [by_exchange_one, by_rows, by_bundle, by_failure, by_many, by_sql]
)
@pytest.mark.parametrize("said", [None, 2])
def test_reported_recipe_is_kept_whichever_way_a_report_settles(
    settle: Settle,
    said: int | None,
    dock: Campaign,
    hire: Hire,
    postgres: Postgres,
) -> None:
    """Nothing is stored for the first one."""
    change(dock, 2)
    ended = settle(hire(slots=4), {} if said is None else {"recipe": said})
    assert recipes(dock) == {key: [said or 1] for key in KEYS[:ended]}
    stored = postgres.execute("select distinct recipe from taskq.attempt").fetchall()
    assert stored == [{"recipe": said}]


def test_salvaged_result_has_the_recipe_of_its_late_report(
    dock: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Until then nobody knows what the lost attempt runs."""
    change(dock, 2)
    agent = hire()
    (task,) = agent.claim(1)
    silence(postgres, agent.session)
    assert expire(postgres) == 1
    assert recipes(dock) == {"a": [None]}
    assert agent.report(task, DONE, result={}, recipe=2) == "accepted"
    assert recipes(dock) == {"a": [2]}


def test_task_leased_ahead_has_the_recipe_that_its_agent_reports(
    dock: Campaign, hire: Hire, database: Database
) -> None:
    """The entry in Redis says nothing of it: the agent got its terms with the task."""
    change(dock, 2)
    agent = hire()
    pool = ScriptedPool(database, agent.campaign)
    first, second = pool.lease(2)
    reports = [
        report_of(first, DONE, result={}, session=agent.session, recipe=2),
        report_of(second, DONE, result={}, session=agent.session),
    ]
    assert agent.exchange(reports)["acks"] == ["accepted"] * 2
    assert recipes(dock) == {"a": [2], "b": [1]}
    pool.give_back([])


def test_agent_that_does_not_report_recipes_claims_none_once_there_are_several(
    dock: Campaign, hire: Hire
) -> None:
    """What it did before the first change can only be the first one."""
    old, new = hire(speaks=False), hire()
    tasks = [*old.claim_singly(2), *new.claim_singly(2)]
    assert old.done(tasks[0]) == "accepted"
    change(dock, 2)
    assert old.done(tasks[1]) == "accepted"
    assert new.done(tasks[2]) == "accepted"
    assert new.report(tasks[3], DONE, result={}, recipe=2) == "accepted"
    assert recipes(dock) == {"a": [1], "b": [None], "c": [1], "d": [2]}


def test_attempts_that_the_server_ended_claim_no_recipe_once_there_are_several(
    dock: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Neither a lost nor a cancelled one: nobody has reported it."""
    agents = [hire() for _ in range(3)]
    for agent in agents:
        agent.claim(1)
    silence(postgres, agents[0].session)
    assert expire(postgres) == 1
    change(dock, 2)
    silence(postgres, agents[1].session)
    assert expire(postgres) == 1
    dock.cancel()
    assert recipes(dock) == {"a": [1], "b": [None], "c": [None]}


def test_equal_content_again_is_the_first_recipe_again(dock: Campaign, hire: Hire) -> None:
    """An agent then reports none, and those with terms from in between theirs."""
    agent = hire()
    change(dock, 2)
    change(dock, 1)
    tasks = agent.claim_singly(2)
    assert agent.report(tasks[0], DONE, result={}, recipe=2) == "accepted"
    assert agent.done(tasks[1]) == "accepted"
    assert recipes(dock) == {"a": [2], "b": [1]}


def test_released_attempt_keeps_the_recipe_that_it_reports(dock: Campaign, hire: Hire) -> None:
    """It says by what the next one goes on from its checkpoint."""
    change(dock, 2)
    agent = hire()
    (task,) = agent.claim(1)
    assert agent.report(task, RELEASED, started=True, recipe=2) == "accepted"
    assert recipes(dock) == {"a": [2]}
