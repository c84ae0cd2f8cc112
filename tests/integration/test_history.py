"""`taskq history`: claims and ends of attempts in order, and how a task stands now."""

from __future__ import annotations

import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy
from taskq.errors import NotFound
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, expire, promote, silence

pytestmark = pytest.mark.both_transports


def told(campaign: Campaign, key: str) -> list[tuple[str, str | None]]:
    """Return what happened, and where; see that it is in order."""
    events = campaign.history(key)
    times = [one.at for one in events if one.at is not None]
    assert times == sorted(times)
    return [(one.what, one.host) for one in events]


def test_history_follows_a_task_through_its_attempts(
    queue: Client, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Failed, lost with its agent, done at last."""
    spec = CampaignSpec("/h", retry=RetryPolicy(backoff_s=600))
    campaign = queue.create_campaign(spec)
    campaign.submit({"n": 1}, "one")
    assert told(campaign, "one") == [("waiting", None)]
    first, second = hire("/h", host="n1"), hire("/h", host="n2")
    task = first.claim()[0]
    assert told(campaign, "one") == [("working", "n1")]
    first.fail(task)
    begun = [("claimed", "n1"), ("failed", "n1")]
    assert told(campaign, "one") == [*begun, ("delayed", None)]
    assert campaign.history("one")[1].detail.endswith(" s, Boom: it broke")
    assert campaign.history("one")[2].detail.startswith("until 20")
    promote(postgres)
    second.claim()
    silence(postgres, second.session)
    assert expire(postgres) == 1
    begun += [("claimed", "n2"), ("lost", "n2")]
    assert told(campaign, "one") == [*begun, ("waiting", None)]
    third = hire("/h", host="n3")
    third.done(third.claim()[0])
    assert told(campaign, "one") == [*begun, ("claimed", "n3"), ("done", "n3"), ("done", None)]

    taskq = CommandLine(dsn)
    lines = taskq.out("history", "/h", "one").splitlines()
    assert len(lines) == 8
    assert lines[-1].startswith("now ")
    assert taskq.json("history", "/h", "one")[1]["what"] == "failed"
    with pytest.raises(NotFound):
        campaign.history("nope")
