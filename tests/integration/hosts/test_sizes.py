"""Tasks that fail by their size: named with it, and no host is accused that got the large ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from taskq import Campaign, Client, Seed
from taskq.diagnosis.blame import FailureVerdict
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, keep
from tests.helpers.variants import rest_thorough

HOSTS = ("n0", "n1", "n2", "n3", "n4")
TASKS = 300
Fails = Callable[[str, Mapping[str, Any], random.Random], bool]
Drawn = Callable[[int, Fails], Campaign]


@pytest.fixture
def drawn(queue: Client, hire: Hire, postgres: Postgres) -> Drawn:
    """Give a function that lets hosts do tasks of drawn sizes."""
    keep(postgres)

    def made(seed: int, fails: Fails) -> Campaign:
        chance = random.Random(seed)
        campaign = servable(queue, "/x")
        campaign.seed(
            Seed({"n": n, "size": chance.randrange(12), "weight": chance.random()}, f"n={n}")
            for n in range(TASKS)
        )
        agents = [hire("/x", host=host, site=f"s{host}") for host in HOSTS]
        for n in range(TASKS):
            agent = agents[n % len(agents)]
            (task,) = agent.claim()
            if fails(HOSTS[n % len(agents)], task.payload, chance):
                agent.fail(task, "Boom", retry=False)
            else:
                agent.done(task)
        return campaign

    return made


def only(queue: Client) -> FailureVerdict:
    """Return the only verdict."""
    (verdict,) = queue.fleet.failures("/x")
    return verdict


@pytest.mark.parametrize("seed", rest_thorough(range(5)))
def test_class_that_hits_large_tasks_is_named_with_the_size(
    drawn: Drawn, queue: Client, seed: int
) -> None:
    """Of several numbers, the one that parts them best."""
    drawn(seed, lambda _, it, __: it["size"] >= 9)
    verdict = only(queue)
    assert (verdict.side, verdict.places) == ("task", [])
    assert "of tasks whose size is 9 or more, 100 % of" in verdict.why
    assert "of the others 0 % of" in verdict.why


@pytest.mark.thorough
def test_class_that_hits_small_tasks_mostly_is_named_with_the_size(
    drawn: Drawn, queue: Client
) -> None:
    """Some large ones fail by chance."""
    drawn(1, lambda _, it, chance: chance.random() < (0.7 if it["size"] <= 3 else 0.02))
    assert "size is 3 or less, " in only(queue).why


@pytest.mark.thorough
@pytest.mark.parametrize("seed", rest_thorough(range(3)))
def test_host_that_got_the_large_tasks_is_not_accused(
    hire: Hire, queue: Client, postgres: Postgres, seed: int
) -> None:
    """It does as well as others with them: neither the verdict nor a reason names it as bad."""
    keep(postgres)
    chance = random.Random(seed)
    campaign = servable(queue, "/x")
    agents = {host: hire("/x", host=host) for host in HOSTS}
    for n in range(TASKS):
        host = HOSTS[n % len(HOSTS)]
        large = chance.random() < (0.8 if host == "n0" else 0.15)
        campaign.seed([Seed({"size": chance.randrange(9, 12) if large else 2}, f"n={n}")])
        (task,) = agents[host].claim()
        if large:
            agents[host].fail(task, "Boom", retry=False)
        else:
            agents[host].done(task)
    verdict = only(queue)
    assert (verdict.side, verdict.places, verdict.cleared) == ("task", [], ["n0"])
    assert "size is 9 or more" in verdict.why
    reasons = campaign.explain().reasons
    assert not [it for it in reasons if it.code == "failing-host"]
    assert not [line for it in reasons for line in it.commands if " ban " in line]


def test_bad_host_stays_accused_though_sizes_fail_too(drawn: Drawn, queue: Client) -> None:
    """More of the small tasks fail there than elsewhere."""
    drawn(2, lambda host, it, _: host == "n3" or (host == "n1" and it["size"] >= 11))
    verdict = only(queue)
    assert (verdict.side, list(verdict.places)) == ("node", ["n3"])


@pytest.mark.parametrize("seed", rest_thorough(range(8)))
def test_chance_and_time_are_no_size(drawn: Drawn, queue: Client, seed: int) -> None:
    """An index in the payload grows with the time; what fails since then says nothing of it."""
    drawn(seed, lambda _, it, chance: chance.random() < 0.2 or it["n"] > TASKS * 3 / 4)
    assert "size is" not in (why := only(queue).why)
    assert "n is" not in why
    assert "weight is" not in why
    assert "bytes" not in why
