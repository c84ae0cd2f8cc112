"""Campaigns that are kept for a time after their end, for tests: time passes, keepers step."""

from __future__ import annotations

from datetime import timedelta

from taskq import Campaign, CampaignSpec, Client
from taskq.db.connections import Database
from taskq.upkeep.retention import Retention
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import Postgres


def ended(queue: Client, hire: Hire, path: str, tasks: int = 3, **settings: object) -> Campaign:
    """Return a campaign whose tasks are done."""
    campaign = queue.create_campaign(CampaignSpec(path, handler=TRUE, **settings))  # type: ignore[arg-type]
    campaign.seed({"n": n} for n in range(tasks))
    agent = hire(path)
    for task in agent.claim(tasks):
        agent.done(task)
    return campaign


def step(database: Database, steps: Retention) -> str | None:
    with database.connection() as statements:
        return steps.step(statements)


def run(database: Database, steps: Retention) -> list[str]:
    """Do steps until nothing is left to do; return what they removed, as it was begun."""
    found: list[str] = []
    for _ in range(100):
        path = step(database, steps)
        if path is None and step(database, steps) is None:
            return found
        if path is not None and path not in found:
            found.append(path)
    raise AssertionError(f"no end: {found}")


def later(postgres: Postgres, days: float) -> None:
    """Let days pass for what was noted."""
    postgres.execute(
        "update taskq.retention set ended_at = ended_at - %(by)s, due_at = due_at - %(by)s,"
        " reopened_at = reopened_at - %(by)s",
        {"by": timedelta(days=days)},
    )
    postgres.execute(
        "update taskq.campaign set created_at = created_at - %(by)s,"
        " seeded_at = seeded_at - %(by)s",
        {"by": timedelta(days=days)},
    )
    postgres.execute("update taskq.usage set since = since - %(by)s", {"by": timedelta(days=days)})


def tasks_of(queue: Client, path: str) -> int:
    """Return how many tasks a campaign has; none if it is gone."""
    return sum(it.total for it in queue.campaign("/").tree() if it.path == path)


def paths(queue: Client) -> list[str]:
    return [status.path for status in queue.campaign("/").tree()[1:]]
