"""Since when a reason holds and what it costs, as far as facts say it, in `taskq explain`."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from taskq import Client
from taskq.diagnosis.reasons import Reason
from taskq.model.words import instant
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.integration.explaining.support import Make, explained

pytestmark = pytest.mark.both_transports

_AT = datetime(2026, 11, 29, 8, 30, tzinfo=timezone.utc)


def test_loss_of_slots_has_its_time_and_its_core_hours(
    make: Make, hire: Hire, postgres: Postgres, taskq: CommandLine
) -> None:
    """In the reason, in the document and in the text, each once."""
    campaign = make("/c", tasks=40)
    hire("/c", host="n1").claim()
    hire("/c", host="n2", slots=12)
    ended_at = value(
        postgres,
        "update taskq.session set ended_at = now(), expired = true"
        " where host = 'n2' returning ended_at",
    )
    (lost,) = (it for it in explained(campaign).reasons if it.code == "capacity-lost")
    assert (lost.since, lost.cost) == (ended_at, 12)
    (shown,) = (
        it for it in taskq.json("explain", "/c")["reasons"] if it["code"] == "capacity-lost"
    )
    assert shown["cost"] == 12
    assert shown["since"].startswith(f"{ended_at.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%S}")
    text = " ".join(taskq.out("explain", "/c").split())
    assert text.count(instant(ended_at)) == 1
    assert "It costs about 12 core-hours an hour." in text


def test_idle_agents_cost_the_cores_of_their_slots(make: Make, hire: Hire, queue: Client) -> None:
    """As they offer them; without a word, a slot is one core."""
    make("/a/c", tasks=40)
    make("/a/ended", tasks=0)
    hire("/a/c", host="n0").claim()
    hire("/a/ended", host="n1", slots=3, offers=["cores=4"])
    hire("/a/ended", host="n2", slots=2)
    (idle,) = (it for it in explained(queue.campaign("/a")).reasons if it.code == "idle-agents")
    assert idle.cost == 14


@pytest.mark.parametrize(
    ("since", "cost", "text"),
    [
        (None, None, "It is so."),
        (_AT, None, "It is so. Since 2026-11-29T08:30:00Z."),
        (None, 0.25, "It is so. It costs about 0.2 core-hours an hour."),
        (_AT, 1234.4, "It is so. Since 2026-11-29T08:30:00Z. It costs about 1,234 core-hours"),
    ],
)
def test_text_says_only_what_is_known(
    since: datetime | None, cost: float | None, text: str
) -> None:
    """Nothing is made up for what the facts do not say."""
    assert Reason("x", "It is so.", since=since, cost=cost).full_text.startswith(text)
    named = Reason("x", f"It is so since {instant(_AT)}.", since=_AT)
    assert named.full_text == named.text
