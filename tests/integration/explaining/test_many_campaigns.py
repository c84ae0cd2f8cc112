"""What `explain` costs in a queue of very many campaigns."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Client
from taskq.db.catalogue import statement
from taskq.diagnosis import facts
from taskq.diagnosis.facts import read_facts
from taskq.diagnosis.rules import explain_campaign
from tests.helpers.plans import ExecutedPlans, watched
from tests.helpers.postgres import Postgres

MANY = 300


@pytest.fixture
def connection(dsn: str) -> Iterator[Postgres]:
    """Give a connection of its own."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as opened:
        yield opened


@pytest.fixture
def many(queue: Client) -> Client:
    """Give a queue of many campaigns; one task waits in each but the last, which has three."""
    for number in range(MANY):
        campaign = queue.create_campaign(f"/c/n{number:03}")
        campaign.seed({"n": n} for n in range(3 if number == MANY - 1 else 1))
    return queue


def planned(connection: Postgres, name: str, **values: object) -> ExecutedPlans:
    """Run a statement, and return how it was executed."""
    with watched(connection) as plans:
        connection.execute(statement(name), values)
    return plans


@pytest.mark.thorough
def test_settings_are_read_of_campaigns_with_most_waiting_tasks_alone(
    many: Client, connection: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MAX_CAMPAIGNS", 2)
    found = read_facts(many.database, "/c")
    assert [
        (campaign.path, campaign.waiting, campaign.campaigns) for campaign in found.campaigns
    ] == [
        (f"/c/n{MANY - 1:03}", 3, MANY),
        ("/c/n000", 1, MANY),
    ]
    last = many.campaign(f"/c/n{MANY - 1:03}").campaign_id
    plans = planned(connection, "explain_campaigns", path="/c", chosen=[last])
    assert plans.access_paths >= {"campaign by campaign_pkey"}
    assert plans.rows_met < 20


@pytest.mark.usefixtures("many")
def test_campaigns_that_nobody_refuses_cost_nothing(connection: Postgres) -> None:
    """Each has a row that says when it was last opened or changed."""
    plans = planned(connection, "explain_refusals", path="/c", limit=10)
    assert plans.rows_met < 20
    assert "refused" not in {access.table for access in plans.accesses}
    assert planned(connection, "refusals", path="/c").rows_met < 20


@pytest.mark.thorough
def test_failed_tasks_are_read_of_the_asked_campaigns_alone(
    many: Client, connection: Postgres
) -> None:
    last = many.campaign(f"/c/n{MANY - 1:03}").campaign_id
    plans = planned(connection, "explain_failed", path="/c", chosen=[last], limit=10)
    assert plans.rows_met < 20


@pytest.mark.thorough
def test_reason_says_of_how_many_campaigns_it_speaks(
    many: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MAX_CAMPAIGNS", 2)
    reasons = explain_campaign(read_facts(many.database, "/c")).reasons
    (reason,) = [found for found in reasons if found.blocks]
    assert reason.text.startswith("4 tasks wait in 2 campaigns (")
    assert f"; of {MANY}, the 2 in which most wait were looked at)" in reason.text
