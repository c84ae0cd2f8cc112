"""A report that the database cannot store, in the spool of a node: it costs nothing but itself."""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq import Client, Seed
from taskq.dispatch.direct import DirectTransport
from taskq_agent.core.reports import fence, line
from taskq_agent.errors import Refused
from taskq_agent.handlers.base import Ended
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.loop import Agent
from taskq_agent.protocol import DONE, Answer, Hello, Report, Request, Task
from taskq_agent.settings import AgentSettings
from taskq_agent.spool import Spool
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres
from tests.helpers.threaded_agent import FunctionRunner

pytestmark = pytest.mark.thorough

TOO_LONG = 10**199_999  # jsonb's numbers have 131,072 digits before the point


def add_one(task: Task, _: FunctionRunner) -> Ended:
    """Return a result that can be stored."""
    return Ended(DONE, result={"n": task.payload["n"] + 1})


def runner(_: int) -> FunctionRunner:
    """Return a runner for a slot."""
    return FunctionRunner(add_one, Counter())


@pytest.fixture(autouse=True)
def _long_integers() -> Iterator[None]:
    """Let Python read and write them, as releases without a limit do."""
    former = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(former)


def claimed(transport: DirectTransport, count: int) -> tuple[int, Answer]:
    """Return a session of an agent, and what it has claimed."""
    welcome = transport.open(Hello(str(uuid.uuid4()), "/c", "killed", "host", 1, "", count, "0"))
    return welcome.session, transport.exchange(Request(welcome.session, (), count, LeaseIds()()))


def test_report_that_cannot_be_stored_fails_its_task_and_no_other(
    queue: Client, tmp_path: Path
) -> None:
    """The others of the same exchange are accepted, and the agent goes on to further tasks."""
    campaign = servable(queue)
    campaign.seed([{"n": n} for n in range(5)])
    transport = DirectTransport(queue.database)
    session, answer = claimed(transport, 3)
    reports = [
        Report(task.campaign, task.task, task.lease, DONE, result={"n": n})
        for task, n in zip(answer.tasks, (1, TOO_LONG, 3), strict=True)
    ]
    with pytest.raises(Refused):
        transport.exchange(Request(session, tuple(reports)))
    spool = Spool(tmp_path, "killed")
    spool.open()
    for report in reports:
        spool.add(fence(report), line(report))
    spool.close()

    settings = AgentSettings(campaign="/c", until_empty=True, spool_dir=tmp_path)
    summary = Agent(transport, settings, runner).run()

    assert (summary.exit_code, summary.done, summary.undelivered) == (0, 2, 0)
    assert list(tmp_path.iterdir()) == [], "nothing is left for the next agent"
    status = campaign.status()
    assert (status.done, status.failed, status.unfinished) == (4, 1, 0)
    assert all(result.result == {"n": result.payload["n"] + 1} for result in campaign.results())
    (refused,) = campaign.tasks("failed")
    (attempt,) = campaign.attempts(refused.key)
    assert (attempt.error_class, attempt.result) == ("report-refused", None)
    assert "overflow" in (attempt.error or "")


@pytest.fixture
def depth() -> Iterator[int]:
    """Give a depth that Python does not read and PostgreSQL does, whatever others have set."""
    former = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield 2_000
    sys.setrecursionlimit(former)


def test_payload_that_cannot_be_read_ends_no_agent(
    queue: Client, postgres: Postgres, depth: int
) -> None:
    """It goes on to other tasks; that one fails for good."""
    campaign = servable(queue)
    campaign.seed([Seed({"n": 0}, "unread", 9), *({"n": n} for n in range(2))])
    deep = '{"n":' * depth + "1" + "}" * depth
    postgres.execute("update taskq.spec set payload = %s where key = 'unread'", [deep])
    settings = AgentSettings(campaign="/c", max_tasks=2, slots=1)
    summary = Agent(DirectTransport(queue.database), settings, runner).run()
    assert (summary.exit_code, summary.done, summary.undelivered) == (0, 2, 0)
    status = campaign.status()
    assert (status.done, status.failed, status.unfinished) == (2, 1, 0)
