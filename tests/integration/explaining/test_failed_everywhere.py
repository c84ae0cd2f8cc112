"""`taskq explain` on tasks that are given up at once, on all hosts: no second try tells why."""

from __future__ import annotations

import random

import pytest

from taskq import Campaign, Client
from tests.fixtures.queues import Hire
from tests.integration.explaining.support import Make, explained

HOSTS = 4


def worked(
    campaign: Campaign, hire: Hire, share: float, seed: int, *, hosts: int = HOSTS
) -> str | None:
    """Let hosts fail at a share of some tasks, for good; return the key of the first of these."""
    chance = random.Random(seed)
    failed = None
    for number in range(hosts):
        agent = hire("/", host=f"n{number}")
        agent.campaign = campaign.campaign_id
        for task in agent.claim(30):
            if chance.random() < share:
                agent.fail(task, "bad-result", retry=False)
                failed = failed or task.key
            else:
                agent.done(task)
    return failed


@pytest.mark.parametrize("seed", range(3))
def test_class_that_ends_tasks_on_all_hosts_is_named_with_a_remedy(
    make: Make, hire: Hire, queue: Client, seed: int
) -> None:
    """Class, message, campaign, share, a task to look at; and no attempts more."""
    campaign = make("/x", tasks=200)
    key = worked(campaign, hire, 0.4, seed)
    (reason,) = [it for it in explained(queue.campaign("/")).reasons if it.code == "failed"]
    assert "bad-result in /x (it broke)" in reason.text
    assert "the fault of the program or of its inputs, of no host: " in reason.text
    assert f"% of 120 attempts fail so, on {HOSTS} hosts" in reason.text
    assert f"look at {key} of /x" in reason.text
    assert reason.commands == [
        "taskq failures /",
        f"taskq history /x {key}",
        "taskq retry --error-class bad-result /x",
    ]


def test_single_host_and_few_tasks_give_no_verdict(make: Make, hire: Hire, queue: Client) -> None:
    """Where one host works, nobody knows whether it is to blame; and three failures are few."""
    worked(make("/x", tasks=60), hire, 0.5, 1, hosts=1)
    worked(make("/y", tasks=200), hire, 0.03, 0)
    texts = [it.text for it in explained(queue.campaign("/")).reasons]
    assert not [text for text in texts if "fault" in text]
    assert [text for text in texts if "look at" in text]
