"""Ordinary tasks kept packed, in spans and bundles: what unpacks them, and nothing gets lost."""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, Seed
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, expire, promote, silence, statuses, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of

pytestmark = pytest.mark.usefixtures("true_counts")

KEYS = "abcdefgh"


@pytest.fixture
def agent(campaign: Campaign, hire: Hire) -> ScriptedAgent:
    """Give an agent of a campaign with eight tasks."""
    campaign.seed(Seed({"n": n}, key) for n, key in enumerate(KEYS))
    return hire()


def rows(postgres: Postgres, table: str) -> int:
    return int(value(postgres, f"select count(*) from taskq.{table}"))  # noqa: S608  # a word of this file


def places(postgres: Postgres) -> tuple[int, int, int]:
    """Return how many tasks are in spans, in bundles, and have rows."""
    in_spans = value(
        postgres,
        "select count(*) from taskq.span n join taskq.spec s on s.campaign_id = n.campaign_id"
        " and s.task_id between n.next_id and n.last_id",
    )
    in_bundles = value(
        postgres, "select coalesce(sum(cardinality(tasks)), 0)::int from taskq.bundle"
    )
    return in_spans, in_bundles, rows(postgres, "task")


def tell(
    agent: ScriptedAgent, tasks: list[Claimed], outcome: str = "done", **more: Any
) -> list[str]:
    """Report as the agent's own transport does; return the verdicts."""
    reports = [report_of(task, outcome, by=agent.session, **more) for task in tasks]
    return list(agent.exchange(reports)["acks"])


def remove_all(postgres: Postgres, campaign: Campaign, limit: int) -> int:
    """Remove the tasks of a campaign, a chunk at a time; return how many there were."""
    removed, last = 0, 0
    while last is not None:
        row = postgres.execute(
            "select moved, last from taskq.remove_tasks(%s, %s, %s)",
            [campaign.campaign_id, last, limit],
        ).fetchone()
        assert row is not None
        assert row["moved"] <= limit
        removed, last = removed + row["moved"], row["last"]
    return removed


def test_ordinary_life_writes_no_row(agent: ScriptedAgent, postgres: Postgres) -> None:
    """Seeded, claimed together, reported one by one and together: nothing but attempts is left."""
    assert places(postgres) == (8, 0, 0)
    tasks = agent.claim(6)
    assert places(postgres) == (2, 6, 0)
    assert tell(agent, tasks[1:2]) == ["accepted"]
    assert places(postgres) == (2, 5, 0)
    assert tell(agent, [tasks[5], *tasks[:1], *tasks[2:5]]) == ["accepted"] * 5
    assert places(postgres) == (2, 0, 0)
    assert tell(agent, tasks) == ["duplicate"] * 6
    assert statuses(postgres) == dict.fromkeys("abcdef", "done") | dict.fromkeys("gh", "waiting")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 63, 64, 65, 95, 97, 16_001])
def test_tasks_that_are_alike_are_packed_as_any_are(
    campaign: Campaign, postgres: Postgres, count: int
) -> None:
    """Whole chunks of one priority have a way of their own to the same spans."""
    campaign.seed(Seed({"n": n}, f"{n:05d}") for n in range(count))
    packed = []
    for apart in ("{}", "{0}"):  # no task has this number, but then each is looked at
        postgres.execute("delete from taskq.span")
        postgres.execute("delete from taskq.task")
        found = value(
            postgres,
            "select taskq.pack(%s, 0, p_apart => %s)",
            campaign.campaign_id,
            apart,
        )
        spans = postgres.execute("select * from taskq.span order by first_id").fetchall()
        packed.append((found, spans, rows(postgres, "task")))
    assert packed[0] == packed[1]
    assert packed[0][0] == count
    assert places(postgres) == ((count, 0, 0) if count > 1 else (0, 0, count))


def test_single_claims_and_lone_tasks_have_rows(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """While they are worked on, and while they wait."""
    (task,) = agent.claim(1)
    assert places(postgres) == (7, 0, 1)
    assert tell(agent, [task]) == ["accepted"]
    assert places(postgres) == (7, 0, 0)
    campaign.seed([Seed({}, "lone")])
    assert places(postgres) == (7, 0, 1)


@pytest.mark.parametrize("outcome", ["failed", "released"])
def test_only_unsuccessful_tasks_of_a_bundle_are_unpacked(
    outcome: str, agent: ScriptedAgent, hire: Hire, postgres: Postgres
) -> None:
    """The others of the bundle stay there; the task is tried again under its next number."""
    tasks = agent.claim(4)
    words = [
        report_of(task, outcome if task is tasks[2] else "done", by=agent.session)
        for task in tasks[1:]
    ]
    assert agent.exchange(words)["acks"] == ["accepted"] * 3
    assert places(postgres) == (4, 1, 1)
    promote(postgres)
    again = hire(host="elsewhere").claim(1)
    assert [(task.key, task.attempt) for task in again] == [("c", 2)]
    assert tell(agent, tasks[2:3]) == ["superseded"]


def test_bundle_is_a_fence(agent: ScriptedAgent, hire: Hire, postgres: Postgres) -> None:
    """Neither another's lease, nor another lease of the same agent, nor another session will do."""
    tasks, more = agent.claim(2), agent.claim(2)
    other = hire()
    stolen = report_of(tasks[0], "done", session=other.session)
    swapped = report_of(tasks[0], "done", by=agent.session) | {"lease": more[0].lease}
    made_up = report_of(tasks[0], "failed", by=agent.session) | {"lease": other.draw_lease()}
    assert agent.exchange([stolen])["acks"] == ["unknown"]
    assert agent.exchange([swapped])["acks"] == ["superseded"]
    assert agent.exchange([made_up])["acks"] == ["superseded"]
    assert tell(agent, tasks + more) == ["accepted"] * 4
    assert places(postgres)[1:] == (0, 0)


def test_report_without_a_task_loses_none(agent: ScriptedAgent, postgres: Postgres) -> None:
    """Of those that share a bundle with a reported task."""
    tasks = agent.claim(4)
    words = [report_of(task, "failed", by=agent.session) for task in tasks[1:3]]
    assert agent.exchange([words[0], words[1] | {"task": None}])["acks"] == ["accepted", "unknown"]
    assert places(postgres) == (4, 3, 1)


def test_tasks_of_a_bundle_are_not_compared_with_each_that_is_unpacked(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """A session may have thousands of each: they are looked up in a hash, in whatever is kept."""
    tasks = [task.task for task in agent.claim(4)]
    plans: list[str] = []
    postgres.execute("set plan_cache_mode = force_generic_plan")
    with watched(postgres):
        postgres.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
        assert value(postgres, "select taskq.unpack(%s, %s)", agent.campaign, tasks[:2])
    (moving,) = [plan for plan in plans if "insert into taskq.task" in plan]
    assert moving.count("hashed SubPlan") == 2
    assert not re.search(r"(ANY|ALL) \(\$", moving)
    assert places(postgres) == (4, 2, 2)


def test_heir_of_a_session_reports_what_is_in_its_bundle(
    agent: ScriptedAgent, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """One token has opened both: the reports were found in the spool of a killed agent."""
    tasks = agent.claim(3)
    heir = hire()
    queue.tokens.create("site", "here", ["/c"])
    postgres.execute(
        "update taskq.session s set token_id = t.token_id, token_hash = sha256(s.key::text::bytea)"
        "  from taskq.token t"
    )
    words = [report_of(task, "done", session=heir.session) for task in tasks]
    assert heir.exchange(words)["acks"] == ["accepted"] * 3
    assert places(postgres) == (5, 0, 0)


def test_claim_that_is_asked_again_gets_what_is_left_of_its_bundle(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """And nothing else, whichever of its tasks have ended."""
    lease = agent.draw_lease()
    tasks = agent.claim(4, lease=lease)
    tell(agent, tasks[1:3])
    assert [task.key for task in agent.claim(4, lease=lease)] == ["a", "d"]
    assert places(postgres) == (4, 2, 0)


@pytest.mark.parametrize("end", ["lost", "left"])
def test_bundle_of_a_session_that_ends_is_handed_out_again(
    end: str, agent: ScriptedAgent, hire: Hire, postgres: Postgres
) -> None:
    """All that is left of it; what had ended stays as it was."""
    tasks = agent.claim(4)
    tell(agent, tasks[:1])
    if end == "lost":
        silence(postgres, agent.session)
        assert expire(postgres) == 3
    else:
        assert agent.leave() == 3
    assert places(postgres) == (4, 0, 3)
    again = hire(slots=8).claim(8)
    assert [(task.key, task.attempt) for task in again] == [
        *(("b", 2), ("c", 2), ("d", 2)),
        *((key, 1) for key in "efgh"),
    ]
    assert tell(agent, tasks[1:]) == ["superseded"] * 3


def test_bundle_that_is_being_reported_on_is_left_for_the_next_round(
    agent: ScriptedAgent, postgres: Postgres, dsn: str
) -> None:
    """Upkeep does not wait for it, and loses nothing of it."""
    tasks = agent.claim(2)
    silence(postgres, agent.session)
    with psycopg.connect(dsn) as slow:
        slow.execute(
            "select taskq.exchange(%s, %s, null, null, null)",
            [agent.campaign, json.dumps([report_of(tasks[0], "done", by=agent.session)])],
        )
        assert expire(postgres) == 0
    assert expire(postgres) == 1
    assert [statuses(postgres)[key] for key in "ab"] == ["done", "waiting"]


def test_heartbeat_hands_on_what_it_does_not_name_of_a_bundle(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """The answer with it got lost; what it names goes on, what it makes up is reported."""
    tasks = agent.claim(4)
    kept = agent.claim(2)
    assert agent.heartbeat([tasks[0], *kept]) == set()
    assert places(postgres) == (2, 3, 3)
    assert agent.heartbeat([*tasks, *kept]) == {task.task for task in tasks[1:]}
    assert tell(agent, [tasks[0], *kept]) == ["accepted"] * 3


def test_cancelling_some_leaves_the_others_packed(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """In a span and in a bundle; the agent learns it, and a claim passes over them."""
    tasks = agent.claim(3)
    assert campaign.cancel(["b", "f"]) == 2
    assert places(postgres) == (3, 2, 3), "e has no neighbour any more"
    assert agent.heartbeat(tasks) == {tasks[1].task}
    assert [task.key for task in agent.claim(8)] == [*"degh"]
    assert tell(agent, tasks) == ["accepted", "superseded", "accepted"]
    assert campaign.retry(status="cancelled") == 2
    agent.forget_position()
    assert [task.key for task in agent.claim(8)] == ["b", "f"]


def test_cancelling_all_in_small_steps_leaves_nothing_behind(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """Whatever the tasks were in; then all can be removed."""
    agent.claim(3)
    agent.claim(1)
    postgres.execute("update taskq.campaign set status = 'cancelled' where path = '/c'")
    last, moved = 0, 0
    while last is not None:
        row = postgres.execute(
            "select moved, last from taskq.cancel(%s, null, %s, 3)", [campaign.campaign_id, last]
        ).fetchone()
        assert row is not None
        moved, last = moved + row["moved"], row["last"]
    assert moved == 8
    assert places(postgres) == (4, 0, 4)
    assert set(statuses(postgres).values()) == {"cancelled"}
    assert remove_all(postgres, campaign, 3) == 8
    assert [rows(postgres, table) for table in ("spec", "task", "span", "bundle")] == [0] * 4


def test_removing_needs_no_cancelling_of_what_is_packed(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """Some were done, some are in hand, some wait."""
    tell(agent, agent.claim(2))
    agent.claim(3)
    postgres.execute("update taskq.campaign set status = 'cancelled' where path = '/c'")
    assert remove_all(postgres, campaign, 3) == 8
    assert [rows(postgres, table) for table in ("spec", "task", "span", "bundle")] == [0] * 4


def test_order_is_that_of_priority_and_seeding_wherever_tasks_wait(
    campaign: Campaign, hire: Hire
) -> None:
    """Spans of several priorities, lone tasks between them, and one that was handed back."""
    priorities = [0, 0, 0, 5, 5, 0, 0, 7, 5, 5, 0, -1, -1]
    campaign.seed(Seed({}, str(n), priority) for n, priority in enumerate(priorities))
    agent = hire()
    expected = sorted(range(len(priorities)), key=lambda n: (-priorities[n], n))
    first = agent.claim(1)[0]
    assert first.key == str(expected[0])
    agent.release(first, started=False)
    agent.forget_position()
    order: list[str] = []
    for want in (2, 1, 3, 4, 1, 9):
        answer = agent.exchange(want=want)
        taken = agent.claimed(answer)
        assert sorted(int(task.key) for task in taken) == sorted(
            expected[len(order) : len(order) + len(taken)]
        )
        order += [task.key for task in taken]
    assert len(order) == len(priorities)


@pytest.mark.parametrize("status", ["waiting", "working", "done", None])
@pytest.mark.parametrize("page", [3, 1, 100])
def test_listing_finds_tasks_of_a_status_wherever_they_are(
    status: str | None, page: int, agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """In spans, bundles, rows and attempts, in the order of seeding, page by page."""
    tell(agent, agent.claim(2))
    bundled = agent.claim(2)
    single = agent.claim(1)
    agent.release(single[0], started=False)
    expected = {"waiting": "efgh", "working": "cd", "done": "ab", None: KEYS}[status]
    found: list[dict[str, Any]] = []
    after = 0
    while batch := postgres.execute(
        "select * from taskq.tasks(%s, %s::taskq.task_status, %s, %s)",
        [campaign.campaign_id, status, after, page],
    ).fetchall():
        found += batch
        after = batch[-1]["task_id"]
    assert [row["key"] for row in found] == [*expected]
    assert all(row["status"] == status for row in found if status)
    assert {row["key"] for row in found if row["host"]} <= {task.key for task in bundled}


def test_late_success_of_a_bundle_is_salvaged(
    hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """Also when the task is in another's hands by then."""
    campaign = queue.create_campaign(CampaignSpec("/late", late_results="salvage"))
    campaign.seed(Seed({}, key) for key in "xyz")
    first, second = hire("/late"), hire("/late", slots=4)
    tasks = first.claim(3)
    silence(postgres, first.session)
    assert expire(postgres) == 3
    again = second.claim(2)
    assert tell(first, tasks) == ["accepted"] * 3
    assert tell(second, again) == ["superseded"] * 2
    assert set(statuses(postgres, "/late").values()) == {"done"}
