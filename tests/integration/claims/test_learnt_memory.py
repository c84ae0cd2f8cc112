"""Campaigns that learn how much memory their tasks need."""

from __future__ import annotations

import json
import sys

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, InvalidCampaign, RetryPolicy, Seed
from tests.fixtures.queues import Hire
from tests.helpers.command_line import TIMEOUT_S, CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import ScriptedAgent, report_of

MEBI = 1 << 20
OCCUPY = "import time; x = b'x' * ({mebibytes} << 20); time.sleep(4)"
LEARN = "select taskq.learn_memory()"
#: Also what is in the counters only after some seconds otherwise.
FOLD = "select taskq.fold('0 s')"


@pytest.fixture
def learning(queue: Client) -> Campaign:
    """Give a campaign of 1,000 tasks that learns."""
    campaign = queue.create_campaign(CampaignSpec("/c", memory="learn"))
    campaign.seed({"n": n} for n in range(1_000))
    return campaign


def work(agent: ScriptedAgent, postgres: Postgres, mebibytes: list[int]) -> None:
    """Do as many tasks, each of which occupies so much."""
    tasks = agent.claim(len(mebibytes))
    agent.exchange(
        [
            report_of(task, "done", phases={"run_s": 1.0, "peak_bytes": used * MEBI})
            for task, used in zip(tasks, mebibytes, strict=True)
        ]
    )
    postgres.execute(FOLD)


def test_sizes_follow_from_what_attempts_have_used(
    learning: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """What 95 % needed, then what all did, then more; they rise at once, and fall by a fifth."""
    agent = hire("/c")
    work(agent, postgres, [500] * 99)
    assert (value(postgres, LEARN), learning.learnt_memory()) == (0, ())
    work(agent, postgres, [800])
    assert value(postgres, LEARN) == 1
    assert learning.learnt_memory() == tuple(n * MEBI for n in (576, 896, 1_792, 3_584))
    assert value(postgres, LEARN) == 0
    work(agent, postgres, [450] * 500)
    assert value(postgres, LEARN) == 0
    work(agent, postgres, [3_000])
    assert value(postgres, LEARN) == 1
    first, second, *_ = learning.learnt_memory()
    assert (first, second) == (512 * MEBI, 3_328 * MEBI)


def test_learnt_sizes_are_no_requirement_and_stay_until_sizes_are_given(
    learning: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Agents learn of them by the revision; a change of other settings keeps them."""
    work(hire("/c"), postgres, [200] * 100)
    revision = "select revision from taskq.campaign where path = '/c'"
    before = value(postgres, revision)
    assert value(postgres, LEARN) == 1
    assert value(postgres, revision) == before + 1
    assert value(postgres, "select requires from taskq.campaign where path = '/c'") == []
    learnt = learning.learnt_memory()
    assert learnt[0] == 224 * MEBI
    learning.change(CampaignSpec("/c", memory="learn", weight=2.0))
    assert (learning.spec().memory, learning.learnt_memory()) == ("learn", learnt)
    learning.change(CampaignSpec("/c", memory=("4G",)))
    assert (learning.spec().memory, learning.learnt_memory()) == ((4 << 30,), ())
    assert value(postgres, LEARN) == 0
    learning.change(CampaignSpec("/c", memory="learn"))
    assert learning.learnt_memory() == ()
    assert value(postgres, LEARN) == 1


def test_attempts_that_ran_out_of_memory_count_as_far_as_they_came(
    learning: Campaign, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Others that failed teach nothing, and neither does what an agent makes up."""
    agent = hire("/c")
    work(agent, postgres, [100] * 120)
    (large,) = agent.claim(1)
    phases = {"peak_bytes": 900 * MEBI}
    agent.exchange([report_of(large, "failed", error_class="out-of-memory", phases=phases)])
    (broken,) = agent.claim(1)
    phases = {"peak_bytes": 9_000 * MEBI}
    agent.exchange([report_of(broken, "failed", error_class="Boom", phases=phases)])
    for odd in (-1, 1e300, 0):
        (task,) = agent.claim(1)
        agent.exchange([report_of(task, "done", phases={"peak_bytes": odd})])
    postgres.execute(FOLD)
    assert value(postgres, LEARN) == 1
    assert learning.learnt_memory() == tuple(n * MEBI for n in (112, 1_024, 2_048, 4_096))
    (why,) = (it.why for it in queue.fleet.failures("/c") if it.error_class == "out-of-memory")
    assert why.endswith("the campaign learns it, and gives 112M, then 1G, then 2G, then 4G")


def test_learning_is_written_as_it_is_given(taskq: CommandLine, queue: Client) -> None:
    """By an option, in a file, and as settings are shown."""
    taskq.out("campaign", "create", "/c", "--memory", "learn", "--", "true")
    assert queue.campaign("/c").spec().memory == "learn"
    shown = taskq.json("campaign", "show", "/c")
    assert (shown["resources"]["memory"], shown["learnt_memory"]) == ("learn", [])
    assert "memory learn (learnt: nothing yet)" in taskq.out("campaign", "show", "/c")
    assert CampaignSpec.from_json({"path": "/c", "resources": {"memory": "learn"}}) == CampaignSpec(
        "/c", memory="learn"
    )
    with pytest.raises(InvalidCampaign, match=r"resources\.memory"):
        CampaignSpec("/c", memory=("learn",))


@pytest.mark.thorough
def test_task_that_needs_more_than_others_gets_all_that_the_agent_has(
    taskq: CommandLine, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """By an agent from the command line, which refuses nothing for sizes beyond its own memory."""
    handler = Handler("command", argv=(sys.executable, "-c", OCCUPY))
    retry = RetryPolicy(max_attempts=4, backoff_s=0.0)
    spec = CampaignSpec("/c", handler=handler, retry=retry, cores=1, memory="learn")
    campaign = queue.create_campaign(spec)
    campaign.seed({"mebibytes": 10, "n": n} for n in range(100))
    first = hire("/c", offers=("cores=1",))
    work(first, postgres, [90] * 100)
    first.leave()
    campaign.seed([Seed({"mebibytes": 10}, "small"), Seed({"mebibytes": 250}, "large")])
    postgres.execute(FOLD)
    assert value(postgres, LEARN) == 1
    assert campaign.learnt_memory() == tuple(n * MEBI for n in (104, 208, 416))
    shown = taskq.out("campaign", "show", "/c")
    assert "memory learn (learnt: 104M, then 208M, then 416M)" in shown
    run = ["agent", "run", "--campaign", "/c", "--until-empty", "--slots", 2, "--memory", "350M"]
    with taskq.process(*run, "--cores", 2, "--quiet", "-o", "json") as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert (agent.returncode, json.loads(out)["done"]) == (0, 2), log
    ended = taskq.out("history", "/c", "large")
    assert 1 <= ended.count("out-of-memory: occupied") <= 2  # it learns meanwhile
