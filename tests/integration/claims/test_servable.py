"""Which campaigns an agent is sent to, and in which shares."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from taskq import CampaignSpec, Client
from taskq.db.connections import Database
from taskq.model.errors import NotFound
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE, servable
from tests.helpers.postgres import Postgres


def add(queue: Client, path: str, tasks: int = 1, **settings: object) -> None:
    """Create a campaign that has a handler and tasks."""
    spec = CampaignSpec(path, handler=TRUE, **settings)  # type: ignore[arg-type]  # any field
    queue.create_campaign(spec, exist_ok=True).seed({"n": n} for n in range(tasks))


def served(
    database: Database,
    path: str = "/",
    *,
    lifetime_s: float | None = None,
    offers: Sequence[str] = (),
    most: int = 100,
) -> list[str]:
    """Return the paths of the campaigns in the order in which they are to be tried."""
    rows = database.rows(
        "servable", path=path, lifetime_s=lifetime_s, offers=list(offers), most=most
    )
    names = {node.campaign_id: node.path for node in Client(database).campaign("/").tree()}
    return [names[row["campaign_id"]] for row in rows]


def test_agent_is_sent_to_what_waits_at_and_below_its_campaign(
    queue: Client, database: Database
) -> None:
    """Not to what is above, next to or has a name that begins alike; seeds count at once."""
    for path in ("/a", "/a/b", "/a/b/c", "/a-b", "/a0", "/z"):
        add(queue, path)
    servable(queue, "/a/empty")
    queue.create_campaign("/a/unknown").seed([{"n": 1}])
    assert sorted(served(database, "/a")) == ["/a", "/a/b", "/a/b/c"]
    assert sorted(served(database)) == ["/a", "/a-b", "/a/b", "/a/b/c", "/a0", "/z"]
    with pytest.raises(NotFound, match="/typo"):
        served(database, "/typo")


@pytest.mark.parametrize("close", ["pause", "cancel"])
def test_nothing_is_served_below_a_closed_campaign(
    close: str, queue: Client, database: Database
) -> None:
    """Neither from above it nor from below, however deep; what is next to it goes on."""
    for path in ("/a", "/a/b/c/d", "/z"):
        add(queue, path)
    getattr(queue.campaign("/a/b"), close)()
    assert sorted(served(database)) == ["/a", "/z"]
    assert served(database, "/a/b/c") == []
    queue.campaign("/z").pause()
    assert served(database) == ["/a"]


def test_campaigns_that_do_not_fit_the_agent_are_left_out(
    queue: Client, database: Database
) -> None:
    """By their time limit, by what they require."""
    add(queue, "/any")
    add(queue, "/long", time_limit_s=1_000)
    add(queue, "/gpu", requires=("gpu", "mem>=16"))
    assert sorted(served(database)) == ["/any", "/long"]
    assert served(database, lifetime_s=999.0) == ["/any"]
    assert sorted(served(database, lifetime_s=1_000.0)) == ["/any", "/long"]
    assert "/gpu" not in served(database, offers=["gpu", "mem=8"])
    assert "/gpu" in served(database, offers=["gpu", "mem=16"])


def test_campaign_at_its_limit_of_running_tasks_is_left_out(
    queue: Client, database: Database, hire: Hire
) -> None:
    """Until one of them ends."""
    add(queue, "/a", 5, max_running=2)
    agent = hire("/a")
    first, _ = agent.claim(2)
    assert served(database) == []
    agent.done(first)
    assert served(database) == ["/a"]


def test_no_more_are_named_than_asked_for(queue: Client, database: Database) -> None:
    """And none twice."""
    for name in "abcde":
        add(queue, f"/{name}")
    assert len(set(served(database, most=3))) == 3
    assert sorted(served(database, most=9)) == ["/a", "/b", "/c", "/d", "/e"]


def test_campaign_that_has_its_share_is_tried_when_others_give_nothing(
    queue: Client, database: Database, hire: Hire
) -> None:
    """Order is all that shares decide: nothing waits while somebody would work."""
    add(queue, "/large", 50)
    add(queue, "/small", weight=0.001)
    hire("/large").claim(40)
    hire("/small")
    assert sorted(served(database)) == ["/large", "/small"]


@pytest.mark.thorough
def test_running_tasks_follow_the_weights_whatever_tasks_last(
    queue: Client, postgres: Postgres
) -> None:
    """Thirty agents, who all see the counts as they were at the last full second.

    The claims that weights 4, 1, 1 and lengths of 2, 12, 4 seconds lead to would give shares of
    0.33, 0.5, 0.17 if each went by weight, and 0.11, 0.67, 0.22 if each were drawn alike.
    """
    lengths = {"/a": 2, "/b": 12, "/c": 4}
    for path, weight in (("/a", 4.0), ("/b", 1.0), ("/c", 1.0)):
        add(queue, path, 10_000, weight=weight)
    ids = {queue.campaign(path).campaign_id: path for path in lengths}
    draw = random.Random(1)
    postgres.execute("select setseed(0.5)")
    running: list[tuple[float, int]] = []  # when it ends, campaign
    seen: Counter[str] = Counter()

    for second in range(200):
        ended = [campaign for end, campaign in running if end <= second]
        running = [pair for pair in running if pair[0] > second]
        move(postgres, {campaign: -count for campaign, count in Counter(ended).items()})
        claimed = choices(postgres, 30 - len(running))
        running += [
            (second + draw.expovariate(1 / lengths[ids[campaign]]), campaign)
            for campaign in claimed
        ]
        move(postgres, Counter(claimed))
        if second >= 50:
            seen.update(ids[campaign] for _, campaign in running)

    shares = {path: count / seen.total() for path, count in seen.items()}
    assert shares == pytest.approx({"/a": 4 / 6, "/b": 1 / 6, "/c": 1 / 6}, abs=0.06)


def choices(postgres: Postgres, agents: int) -> list[int]:
    """Return where so many agents go who look at the same moment."""
    rows = postgres.execute(
        "select s.campaign_id from generate_series(1, %s) n"
        " cross join lateral taskq.servable('/', n + 1e9, '{}', 1) s",
        [agents],
    )
    return [row["campaign_id"] for row in rows]


def move(postgres: Postgres, working: dict[int, int]) -> None:
    """Count tasks as claimed (or ended, where negative), and bring it into the counters."""
    for campaign, count in working.items():
        postgres.execute(
            "insert into taskq.delta (campaign_id, waiting, working) values (%s, %s, %s)",
            [campaign, -max(count, 0), count],
        )
    postgres.execute("select taskq.fold()")
