"""Attempts that fail by the release of their agents: named, if nothing else changed with it."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from taskq import Client
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, keep
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.usage import sum_up
from tests.helpers.variants import rest_thorough

HOSTS = 6


def farm(queue: Client, hire: Hire, postgres: Postgres) -> list[ScriptedAgent]:
    """Give agents on some hosts, every second of a newer release."""
    keep(postgres)
    servable(queue, "/x", tasks=800)
    agents = [hire("/x", host=f"n{number}") for number in range(HOSTS)]
    for number, agent in enumerate(agents):
        postgres.execute(
            "update taskq.session set release = %s where session_id = %s",
            ["2.0" if number % 2 else "1.9", agent.session],
        )
    return agents


def work(agent: ScriptedAgent, attempts: int, share: float, chance: random.Random) -> None:
    """Let an agent fail at a share of some tasks."""
    for task in agent.claim(attempts):
        if chance.random() < share:
            agent.fail(task, "Boom", retry=False)
        else:
            agent.done(task)


@pytest.mark.parametrize("seed", rest_thorough(range(4)))
def test_release_at_which_more_fails_is_named(
    queue: Client, hire: Hire, postgres: Postgres, seed: int
) -> None:
    """Half of the hosts have it: none of them is to blame."""
    chance = random.Random(seed)
    for number, agent in enumerate(farm(queue, hire, postgres)):
        work(agent, 40, 0.8 if number % 2 else 0.05, chance)
    sum_up(postgres)
    (verdict,) = queue.fleet.failures("/x")
    assert verdict.places == []
    assert "with agents of release 2.0 " in verdict.why
    assert "at the same time: look at that release" in verdict.why


@pytest.mark.thorough
@pytest.mark.parametrize("seed", rest_thorough(range(8)))
def test_release_is_not_named_for_what_fails_alike(
    queue: Client, hire: Hire, postgres: Postgres, seed: int
) -> None:
    """Nor for a program that broke while agents of one release did most of the work."""
    chance = random.Random(seed)
    agents = farm(queue, hire, postgres)
    for number, agent in enumerate(agents):
        work(agent, 10 if number % 2 else 50, 0.02, chance)
    sum_up(postgres)
    postgres.execute(
        "update taskq.end_sum set since = since - %s, first_at = first_at - %s",
        [timedelta(hours=1)] * 2,
    )
    for number, agent in enumerate(agents):
        work(agent, 50 if number % 2 else 10, 0.9, chance)
    sum_up(postgres)
    for verdict in queue.fleet.failures("/x"):
        assert "release" not in verdict.why


def test_release_that_came_with_the_time_is_shown_and_not_accused(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """All agents were replaced when it began."""
    chance = random.Random(1)
    agents = farm(queue, hire, postgres)
    for agent in agents[::2]:
        work(agent, 40, 0.0, chance)
    sum_up(postgres)
    postgres.execute(
        "update taskq.end_sum set since = since - %s, first_at = first_at - %s",
        [timedelta(hours=1)] * 2,
    )
    for agent in agents[1::2]:
        work(agent, 40, 0.9, chance)
    sum_up(postgres)
    (verdict,) = queue.fleet.failures("/x")
    assert "at other times: it may be that release, or the time" in verdict.why
