"""`taskq history`: claims and ends of attempts in order, and how a task stands now."""

from __future__ import annotations

import re

import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy
from taskq.model.errors import NotFound
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, expire, promote, silence

pytestmark = pytest.mark.both_transports


def history(campaign: Campaign, key: str) -> list[tuple[str, str | None]]:
    """Return what happened, and where; see that it is in order."""
    events = campaign.history(key)
    times = [event.at for event in events if event.at is not None]
    assert times == sorted(times)
    return [(event.what, event.host) for event in events]


def test_history_follows_a_task_through_its_attempts(
    queue: Client, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Failed, lost with its agent, done at last."""
    spec = CampaignSpec("/h", retry=RetryPolicy(backoff_s=600))
    campaign = queue.create_campaign(spec)
    campaign.submit({"n": 1}, "one")
    assert history(campaign, "one") == [("waiting", None)]
    first, second = hire("/h", host="n1"), hire("/h", host="n2")
    task = first.claim()[0]
    assert history(campaign, "one") == [("working", "n1")]
    first.fail(task)
    begun = [("claimed", "n1"), ("failed", "n1")]
    assert history(campaign, "one") == [*begun, ("delayed", None)]
    assert campaign.history("one")[1].detail.endswith(" s, Boom: it broke")
    assert campaign.history("one")[2].detail.startswith("until 20")
    promote(postgres)
    second.claim()
    assert re.fullmatch(r"tried again after [\d.]+ s, it runs", campaign.history("one")[-1].detail)
    silence(postgres, second.session)
    assert expire(postgres) == 1
    begun += [("claimed", "n2"), ("lost", "n2")]
    assert history(campaign, "one") == [*begun, ("waiting", None)]
    third = hire("/h", host="n3")
    third.done(third.claim()[0])
    assert history(campaign, "one") == [*begun, ("claimed", "n3"), ("done", "n3"), ("done", None)]

    again = [event.detail for event in campaign.history("one") if event.what == "claimed"]
    assert again[0] == ""
    assert all(re.fullmatch(r"tried again after [\d.]+ s", name) for name in again[1:])
    taskq = CommandLine(dsn)
    lines = taskq.out("history", "/h", "one").splitlines()
    assert len(lines) == 8
    assert lines[-1].startswith("now ")
    assert taskq.json("history", "/h", "one")[1]["what"] == "failed"
    with pytest.raises(NotFound):
        campaign.history("nope")


def test_history_says_after_how_many_failures_a_task_was_given_up(
    queue: Client, hire: Hire
) -> None:
    """Of agents that were lost only if there were some."""
    campaign = queue.create_campaign(CampaignSpec("/h", retry=RetryPolicy(max_attempts=1)))
    campaign.submit({"n": 1}, "one")
    agent = hire("/h")
    agent.fail(agent.claim()[0])
    assert campaign.history("one")[-1].detail == "given up after 1 failure"
