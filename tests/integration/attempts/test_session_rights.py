"""A session's leases are its only rights: what it can report on, and what not."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from taskq import Campaign, Client, Seed
from taskq.db.connections import Database
from taskq.db.tokens import hashed
from taskq.dispatch.exchange import Exchanges, run
from taskq.dispatch.exchange_request import ExchangeRequest, Fence, exchange_request
from taskq.dispatch.fair_share import Scope
from taskq.gateway.messages import encoded_report, read_exchange
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import DONE, FAILED, RELEASED, Report, Request
from taskq_agent.wire import dumps
from tests.fixtures.queues import Hire
from tests.helpers.postgres import (
    Postgres,
    expire,
    silence,
    task_row,
)
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of

pytestmark = pytest.mark.usefixtures("true_counts")

OUTCOMES = [DONE, FAILED, RELEASED]
Hired: TypeAlias = Callable[[str], ScriptedAgent]


@pytest.fixture
def hired(queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres) -> Hired:
    """Give a function that returns an agent of a site, in a campaign with the tasks a to d."""
    campaign.seed(Seed({"n": n}, key) for n, key in enumerate("abcd"))
    for name in ("here", "there"):
        queue.tokens.create("site", name, ["/c"])

    def of_site(name: str) -> ScriptedAgent:
        agent = hire()
        postgres.execute(
            "update taskq.session s set token_id = t.token_id, token_hash = %s"
            "  from taskq.token t where s.session_id = %s and t.name = %s",
            [hashed(str(uuid.uuid4())), agent.session, name],
        )
        return agent

    return of_site


def say(agent: ScriptedAgent, *reports: dict[str, Any], session: int | None = None) -> list[str]:
    """Report through a gateway, which adds whose word it is; return the verdicts."""
    session = agent.session if session is None else session
    acks: list[str] = agent.exchange([report | {"session": session} for report in reports])["acks"]
    return acks


def as_read(report: Report) -> Report:
    """Return a report as a gateway reads it."""
    return read_exchange(dumps(Request(0, (report,))).encode()).reports[0]


def test_session_reports_on_what_it_has_claimed(hired: Hired) -> None:
    """One at a time and many at once, however they ended."""
    agent = hired("here")
    first, *others = agent.claim(4)
    assert say(agent, report_of(first, DONE)) == ["accepted"]
    mixed = [report_of(task, how) for task, how in zip(others, OUTCOMES, strict=True)]
    assert say(agent, *mixed) == ["accepted"] * 3
    assert say(agent, *mixed) == ["duplicate"] * 3


@pytest.mark.parametrize("owner", ["there", None])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_lease_of_another_site_is_unknown_and_stays_as_it_is(
    owner: str | None, outcome: str, hired: Hired, hire: Hire, postgres: Postgres
) -> None:
    """As if there were no such task; also that of an agent next to the database."""
    stranger = hired("here")
    agent = hired(owner) if owner else hire()
    tasks = agent.claim(3)
    before = [task_row(postgres, task.task) for task in tasks]
    assert say(stranger, report_of(tasks[0], outcome)) == ["unknown"]
    assert say(stranger, *(report_of(task, outcome) for task in tasks)) == ["unknown"] * 3
    assert [task_row(postgres, task.task) for task in tasks] == before
    assert agent.done(tasks[0]) == "accepted"
    for again in OUTCOMES:
        assert say(stranger, report_of(tasks[0], again)) == ["unknown"]


def test_reports_on_tasks_of_another_site_are_unknown_like_those_on_absent_tasks(
    hired: Hired,
) -> None:
    """The verdict reveals neither the task nor its lease."""
    stranger, agent = hired("here"), hired("there")
    (task,) = agent.claim()
    guess = Claimed(task.campaign, task.task, stranger.draw_lease(), 1, "", {})
    absent = Claimed(task.campaign, 10**9, task.lease, 1, "", {})
    assert say(stranger, report_of(guess, DONE), report_of(absent, DONE)) == ["unknown"] * 2


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_spool_of_a_killed_agent_is_reported_by_another_of_its_site(
    outcome: str, hired: Hired, campaign: Campaign
) -> None:
    """The result counts, and stays with the session that worked it out."""
    killed, heir = hired("here"), hired("here")
    first, second, mine = *killed.claim(2), *heir.claim(1)
    assert say(heir, report_of(first, outcome)) == ["accepted"]
    assert say(heir, report_of(mine, DONE), report_of(second, outcome)) == ["accepted"] * 2
    assert say(heir, report_of(first, outcome)) == ["duplicate"]
    assert [attempt.outcome for attempt in campaign.attempts("a")] == [outcome]


def test_late_report_of_a_session_on_its_own_attempt_is_superseded(
    hired: Hired, postgres: Postgres
) -> None:
    """Also if the task is now with another site: its agent may know that the lease is void."""
    late, other = hired("here"), hired("there")
    (task,) = late.claim()
    silence(postgres, late.session)
    assert expire(postgres) == 1
    (again,) = other.claim()
    assert again.task == task.task
    assert say(late, report_of(task, DONE)) == ["superseded"]
    assert say(other, report_of(again, DONE)) == ["accepted"]
    assert say(late, report_of(task, DONE)) == ["superseded"]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_report_of_a_stranger_does_not_displace_the_report_of_the_holder(
    outcome: str, hired: Hired, campaign: Campaign
) -> None:
    """In one statement for many sessions, a report that does not count hides none that does."""
    stranger, agent = hired("here"), hired("there")
    task, other = agent.claim(2)
    false = report_of(task, DONE, result={"by": "stranger"}) | {"session": stranger.session}
    true = [report_of(claim, outcome) | {"session": agent.session} for claim in (task, other)]
    acks = agent.exchange([false, *true])["acks"]
    assert acks == ["unknown", "accepted", "accepted"]
    assert [attempt.outcome for attempt in campaign.attempts("a")] == [outcome]


def test_two_of_one_site_that_report_the_same_count_once(hired: Hired, campaign: Campaign) -> None:
    """The agent that was thought dead, and its heir, in one statement."""
    agent, heir = hired("here"), hired("here")
    (task,) = agent.claim()
    words = [report_of(task, DONE) | {"session": value.session} for value in (heir, agent)]
    assert agent.exchange(words)["acks"] == ["accepted", "duplicate"]
    assert len(campaign.attempts("a")) == 1


def test_each_session_gets_the_verdict_on_its_own_report(hired: Hired, database: Database) -> None:
    """Though two of one round are about the same attempt."""
    stranger, agent = hired("here"), hired("there")
    (task,) = agent.claim()
    message = as_read(Report(task.campaign, task.task, task.lease, DONE))
    words = [
        ExchangeRequest(
            value.session,
            want=0,
            lease="",
            scope=Scope("/c"),
            fences=[Fence(task.campaign, task.task, task.lease)],
            reports=[encoded_report(message, value.session)],
        )
        for value in (stranger, agent)
    ]
    with database.connection() as statements:
        answers = run(
            Exchanges().steps(words), lambda query: statements.rows(query.name, **query.values)
        )
    verdicts = [ack.verdict for answer in answers for ack in getattr(answer, "acks", ())]
    assert verdicts == ["unknown", "accepted"]


def test_only_an_exchange_through_a_gateway_is_limited_to_what_is_its_own() -> None:
    """Next to the database there is nobody to keep apart; it only says who it was."""
    report = Report(1, 2, new_lease(), DONE)
    fenced = json.loads(encoded_report(as_read(report), 7).text)
    (free,) = exchange_request(Request(7, (report,)), Scope("/c")).reports
    said_freely = json.loads(free.text)
    assert (fenced.pop("session"), "by" in fenced) == (7, False)
    assert (said_freely.pop("by"), "session" in said_freely) == (7, False)


def test_ended_session_can_do_nothing(hired: Hired, queue: Client, campaign: Campaign) -> None:
    """Its leases are void, whatever it reports; it gets no more tasks."""
    agent = hired("here")
    tasks = agent.claim(2)
    queue.tokens.revoke("here")
    assert say(agent, *(report_of(task, DONE) for task in tasks)) == ["superseded"] * 2
    assert agent.exchange(want=1)["refused"] == [agent.session]
    assert campaign.status().done == 0
