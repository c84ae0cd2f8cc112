"""Tasks that are lost together: one may be guilty, so they are tried again apart."""

from __future__ import annotations

import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy, Seed
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, promote, silence, statuses
from tests.helpers.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.usefixtures("true_counts")

KILLER = "killer"


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign with a task that kills its agent, and three that do not."""
    campaign = queue.create_campaign("/c")
    campaign.seed(Seed({}, key) for key in ("a", "b", KILLER, "c"))
    return campaign


def lose(postgres: Postgres, agent: ScriptedAgent) -> None:
    """Let an agent be lost with all that it has."""
    silence(postgres, agent.session)
    expire(postgres)


def work(hire: Hire, postgres: Postgres, *, slots: int, host: str = "n1") -> list[str]:
    """Let an agent claim until it gets nothing or is killed; return the keys of its tasks."""
    agent = hire(slots=slots, host=host)
    seen: list[str] = []
    while tasks := agent.claim(slots):
        seen += [task.key for task in tasks]
        if KILLER in seen:
            lose(postgres, agent)
            return seen
        for task in tasks:
            agent.done(task)
    agent.leave()
    return seen


@pytest.mark.parametrize("hosts", [["n1"], ["n1", "n2", "n3"]], ids=["one-node", "three-nodes"])
@pytest.mark.parametrize("slots", [4, 16])
def test_only_the_task_that_kills_its_agents_fails(
    campaign: Campaign, hire: Hire, postgres: Postgres, slots: int, hosts: list[str]
) -> None:
    """Whatever was claimed with it, on one node or several; those others are done."""
    for turn in range(8):
        work(hire, postgres, slots=slots, host=hosts[turn % len(hosts)])
    assert statuses(postgres) == {"a": "done", "b": "done", "c": "done", KILLER: "failed"}
    (failure,) = campaign.failures()
    assert failure.error_class == ("poison" if len(hosts) == 3 else "agent-lost")
    assert campaign.status().losses <= 4 + 3 + 5


def test_tasks_that_were_lost_together_share_ever_fewer_slots(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """A half of them; none when one more loss may fail it. Others fill the slots next to them."""
    policy = RetryPolicy(max_losses=4, max_lost_hosts=4)
    campaign.change(CampaignSpec("/c", retry=policy))
    for together, expected in ((4, ["a", "b"]), (2, ["a"])):
        agent = hire(slots=4)
        assert len(agent.claim(together)) == together
        lose(postgres, agent)
        agent = hire(slots=4)
        assert [task.key for task in agent.claim(4)] == expected
        agent.leave()
    campaign.seed(Seed({}, f"new{n}") for n in range(9))
    agent = hire(slots=4)
    keys = sorted(task.key for task in agent.claim(4))
    assert keys == ["a", "new0", "new1", "new2"]
    assert all(task.key.startswith("new") for task in agent.claim(4)), "it has one already"
    other = hire(slots=4)
    assert [task.key for task in other.claim(1)] == ["b"], "it has none yet"


@pytest.mark.usefixtures("campaign")
def test_lost_tasks_that_are_tried_apart_keep_no_slot_from_one_behind_them(
    hire: Hire, postgres: Postgres
) -> None:
    """A claim passes by what it may not have, however many it wants."""
    agent = hire(slots=4, host="n1")
    (last,) = [task for task in agent.claim(4) if task.key == "c"]
    agent.fail(last)
    promote(postgres)
    lose(postgres, agent)
    assert [task.key for task in hire(slots=2, host="n2").claim(2)] == ["a", "c"]


def test_one_of_several_that_were_lost_as_often_does_not_fail(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Nobody knows which it was; each fails by itself, if it is lost again."""
    campaign.change(CampaignSpec("/c", retry=RetryPolicy(max_losses=1)))
    agent = hire(slots=4)
    assert len(agent.claim(4)) == 4
    lose(postgres, agent)
    assert set(statuses(postgres).values()) == {"waiting"}
    agent = hire(slots=4)
    assert [task.key for task in agent.claim(4)] == ["a"]
    lose(postgres, agent)
    assert statuses(postgres)["a"] == "failed"


def test_agent_that_may_have_no_more_of_them_comes_again(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """It does not take the campaign for empty, and the next one gets what it may not have."""
    assert campaign.path == "/c"
    agent = hire(slots=1)
    assert len(agent.claim(4)) == 4
    lose(postgres, agent)
    agent = hire(slots=1)
    (task,) = agent.claim(4)
    answer = agent.exchange([], want=1)
    assert answer["tasks"] in (None, [])
    assert answer["avoided"] == [agent.session]
    agent.done(task)
    assert len(agent.claim(4)) == 1


@pytest.mark.parametrize("others", [0, 1, 3])
def test_task_that_is_lost_alone_is_given_up_on_other_hosts(
    campaign: Campaign, hire: Hire, postgres: Postgres, others: int
) -> None:
    """A host that asks first each time gets it twice; a lone host, such as a laptop, each time."""
    campaign.cancel(keys=["a", "b", "c"])
    for n in range(others):
        hire(slots=4, host=f"n{n}")
    seen = []
    for _ in range(5):
        for host in ("first", *(f"n{n}" for n in range(others))):
            agent = hire(slots=4, host=host)
            if agent.claim(4):
                seen.append(host)
                lose(postgres, agent)
                break
    assert statuses(postgres)[KILLER] == "failed"
    (failure,) = campaign.failures()
    assert (
        seen
        == {
            0: ["first"] * 5,
            1: ["first", "first", "n0", "first", "first"],
            3: ["first", "first", "n0", "n1"],
        }[others]
    )
    assert failure.error_class == ("poison" if others == 3 else "agent-lost")


def test_task_that_is_lost_again_waits_two_minutes_for_another_host(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Since that may be busy; also where one failure fails a task: it has not failed."""
    campaign.cancel(keys=["a", "b", "c"])
    campaign.change(CampaignSpec("/c", retry=RetryPolicy(max_attempts=1)))
    hire(slots=1, host="busy")
    for _ in range(2):
        laptop = hire(host="laptop")
        assert len(laptop.claim(1)) == 1
        lose(postgres, laptop)
    laptop = hire(host="laptop")
    assert laptop.claim(1) == []
    postgres.execute("update taskq.task set due_at = due_at - interval '121 s'")
    assert len(laptop.claim(1)) == 1
