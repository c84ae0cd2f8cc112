"""Reports of one exchange are locked in the order of their tasks, whatever they are about.

Else an exchange would hold a later task while it waits for an earlier one, and what locks both
in order, a cancellation say, would wait for it in a circle.
"""

from __future__ import annotations

from taskq import Client
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.interleavings.meeting import in_order, telling


def test_batch_with_what_another_agent_has_left(
    held: list[Claimed],
    agent: ScriptedAgent,
    hire: Hire,
    queue: Client,
    postgres: Postgres,
    dsn: str,
) -> None:
    """One token has opened both sessions: the report is found in the spool of a killed agent."""
    heir = hire()
    queue.tokens.create("site", "here", ["/c"])
    postgres.execute(
        "update taskq.session s set token_id = t.token_id, token_hash = sha256(s.key::text::bytea)"
        "  from taskq.token t"
    )
    words = [
        report_of(task, "done") | {"session": session}
        for task, session in zip(held, (heir.session, agent.session), strict=True)
    ]
    assert in_order(dsn, held, telling(agent.campaign, words)) == ["accepted"] * 2


def test_batch_with_two_words_on_one_task(
    held: list[Claimed], agent: ScriptedAgent, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """A late one, and that of the agent that has the task now: gateways gather both."""
    silence(postgres, agent.session)
    assert expire(postgres) == 2
    mine = hire(slots=4).claim_singly(2)
    words = [report_of(task, "done") for task in (mine[1], held[0], mine[0])]
    verdicts = ["accepted", "superseded", "accepted"]
    assert in_order(dsn, mine, telling(agent.campaign, words)) == verdicts
