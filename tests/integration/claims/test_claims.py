"""Claims: what is handed out, to whom, in which order, and never twice."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest

from taskq import Campaign, Client, Seed
from taskq.model.errors import UsageError
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, assert_counts_are_true, promote, value
from tests.helpers.scripted_agent import ScriptedAgent, report_of
from tests.helpers.waiting import BUSY_S

#: Seconds for which a position is kept at most, where walks without one are slow.
SOON_S = 5.0 + BUSY_S
SEVERAL = "select tasks, refused from taskq.exchange(%s, null, %s::bigint[], %s::uuid[], %s)"


def keys(agent: ScriptedAgent, want: int) -> list[str]:
    """Claim, and return the keys."""
    return [task.key for task in agent.claim(want)]


def test_highest_priority_comes_first_then_first_seeded(campaign: Campaign, hire: Hire) -> None:
    """The order is known: by priority, then as seeded."""
    campaign.seed([Seed({}, "low", -1), Seed({}, "one"), Seed({}, "two"), Seed({}, "top", 32_767)])
    agent = hire()
    assert [keys(agent, 1) for _ in range(5)] == [["top"], ["one"], ["two"], ["low"], []]


def test_task_behind_the_position_of_a_connection_is_found(campaign: Campaign, hire: Hire) -> None:
    """It was handed back after the connection had come past it, and nothing else waits."""
    campaign.seed({"n": n} for n in range(4))
    other, agent = hire(), hire()
    task, *rest = other.claim(4)
    for claim in rest:  # so that they have rows, as it will
        other.release(claim, started=True)
    assert len(agent.claim(3)) == 3
    other.release(task, started=True)
    assert [task.task for task in agent.claim(3)] == [task.task]


def test_claim_gets_as_many_as_it_wants_or_all_there_are(campaign: Campaign, hire: Hire) -> None:
    """Fewer waiting tasks than wanted are no error, nor are none."""
    campaign.seed({"n": n} for n in range(7))
    agent = hire()
    assert [len(agent.claim(5)) for _ in range(3)] == [5, 2, 0]


def test_claimed_task_comes_with_what_was_seeded(campaign: Campaign, hire: Hire) -> None:
    """Payload and key arrive as they were given, whatever characters they hold."""
    payload = {"smiles": "C/C=C\\C", "Ü": ["☃", 1.5, None, {"deep": True}], "quote": "'\"\t"}
    campaign.seed([Seed(payload, "ключ / 1")])
    (task,) = hire().claim(1)
    assert (task.key, task.payload, task.attempt) == ("ключ / 1", payload, 1)


@pytest.mark.thorough
def test_each_of_many_tasks_is_claimed_exactly_once(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Six connections claim 5,000 tasks in batches of all sizes at the same time."""
    campaign.seed({"n": n} for n in range(5_000))
    agents = [hire() for _ in range(6)]
    start = Barrier(len(agents))

    def claim_all(number: int) -> list[int]:
        mine: list[int] = []
        start.wait()
        while True:
            tasks = agents[number].claim(1 + (len(mine) * 7 + number) % 40)
            if not tasks:
                return mine
            mine += [task.task for task in tasks]

    with ThreadPoolExecutor(len(agents)) as pool:
        shares = list(pool.map(claim_all, range(len(agents))))
    everything = [task for share in shares for task in share]
    assert len(everything) == 5_000
    assert len(set(everything)) == 5_000
    assert_counts_are_true(postgres)
    assert campaign.status().working == 5_000


@pytest.mark.thorough
def test_each_of_many_tasks_is_done_exactly_once_by_single_exchanges(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """The ordinary traffic: each exchange reports a task and claims the next."""
    campaign.seed({"n": n} for n in range(1_000))
    agents = [hire() for _ in range(4)]

    def work(agent: ScriptedAgent) -> int:
        count = 0
        tasks = agent.claim(1)
        while tasks:
            answer = agent.exchange([report_of(tasks[0], "done")], want=1)
            assert answer["acks"] == ["accepted"]
            tasks = agent.claimed(answer)
            count += 1
        return count

    with ThreadPoolExecutor(len(agents)) as pool:
        assert sum(pool.map(work, agents)) == 1_000
    assert value(postgres, "select count(*) from taskq.attempt where outcome = 'done'") == 1_000
    assert_counts_are_true(postgres)


@pytest.mark.parametrize("want", [1, 4])
@pytest.mark.parametrize("before", [0, 1])
def test_claim_that_is_asked_again_gets_the_same_tasks(
    before: int, want: int, campaign: Campaign, hire: Hire
) -> None:
    """An agent whose answer was lost asks again under the same lease.

    Also on a connection that has claimed before, and goes on behind what it got.
    """
    campaign.seed({"n": n} for n in range(10))
    agent = hire()
    if before:
        agent.claim(before)
    lease = agent.draw_lease()
    first = agent.claim(want, lease=lease)
    assert agent.claim(want, lease=lease) == first
    assert campaign.status().working == before + want


def test_claim_that_is_asked_again_gets_no_more_than_at_first(
    campaign: Campaign, hire: Hire
) -> None:
    """Also when it was given less than wanted, and more is waiting by now."""
    campaign.seed({"n": n} for n in range(2))
    agent = hire()
    lease = agent.draw_lease()
    first = agent.claim(4, lease=lease)
    campaign.seed({"n": n} for n in range(10))
    assert agent.claim(4, lease=lease) == first
    assert campaign.status().waiting == 8


def test_claim_that_is_asked_again_leaves_out_what_has_ended(
    campaign: Campaign, hire: Hire
) -> None:
    """The rest of its tasks come again, no others in their place."""
    campaign.seed({"n": n} for n in range(10))
    agent = hire()
    lease = agent.draw_lease()
    tasks = agent.claim(4, lease=lease)
    agent.done(tasks[0])
    agent.fail(tasks[2])
    assert agent.claim(4, lease=lease) == [tasks[1], tasks[3]]


def test_lease_of_another_session_is_another_claim(campaign: Campaign, hire: Hire) -> None:
    """A lease id that two agents drew by accident, or one stole, opens nothing."""
    campaign.seed({"n": n} for n in range(10))
    lease = hire().draw_lease()
    first, second = hire().claim(2, lease=lease), hire().claim(2, lease=lease)
    assert {task.task for task in first}.isdisjoint(task.task for task in second)


def test_claim_is_asked_again_where_it_was_asked_first(queue: Client, hire: Hire) -> None:
    """Under the same lease another campaign gives nothing, neither its own nor the other's."""
    for path in ("/one", "/two"):
        queue.create_campaign(path).seed({"n": n} for n in range(3))
    agent = hire("/one")
    lease = agent.draw_lease()
    tasks = agent.claim(2, lease=lease)
    agent.campaign = queue.campaign("/two").campaign_id
    assert agent.claim(2, lease=lease) == []
    agent.campaign = queue.campaign("/one").campaign_id
    assert agent.claim(2, lease=lease) == tasks


def test_ended_session_claims_nothing(campaign: Campaign, hire: Hire) -> None:
    """It is reported; what it reports in the same exchange is still taken in."""
    campaign.seed({"n": n} for n in range(3))
    agent = hire()
    (task,) = agent.claim(1)
    other = hire()
    other.leave()
    answer = other.exchange([report_of(task, "done")], want=1)
    assert (answer["acks"], answer["refused"]) == (["accepted"], [other.session])
    assert answer["tasks"] is None
    assert campaign.status().waiting == 2


def test_claims_of_several_sessions_in_one_call_are_kept_apart(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """New, repeated and refused claims do not disturb each other."""
    campaign.seed({"n": n} for n in range(20))
    fresh, repeating, ended, greedy = (hire() for _ in range(4))
    known = repeating.draw_lease()
    before = repeating.claim(3, lease=known)
    ended.leave()
    agents = [greedy, ended, repeating, fresh]
    leases = [greedy.draw_lease(), ended.draw_lease(), known, fresh.draw_lease()]
    row = postgres.execute(
        SEVERAL,
        [fresh.campaign, [agent.session for agent in agents], leases, [9, 2, 3, 4]],
    ).fetchone()
    assert row is not None
    assert row["refused"] == [ended.session]
    shares: dict[str, list[int]] = {lease: [] for lease in leases}
    for lease, task, *_ in row["tasks"]:
        shares[lease].append(task)
    assert [len(shares[lease]) for lease in leases] == [9, 0, 3, 4]
    assert sorted(shares[known]) == [task.task for task in before]
    assert max(shares[leases[0]]) < min(shares[leases[3]]), "the first claim gets the first tasks"
    held = postgres.execute(
        "select session_id, count(*) as n from taskq.state where status = 'working' group by 1"
    ).fetchall()
    assert {row["session_id"]: row["n"] for row in held} == {
        greedy.session: 9,
        repeating.session: 3,
        fresh.session: 4,
    }


def test_claim_passes_over_what_others_have_locked(
    campaign: Campaign, hire: Hire, dsn: str
) -> None:
    """Nobody waits: a task that is being changed at this moment is left for later."""
    for n in range(3):
        campaign.seed([{"n": n}])  # each with a row of its own
    agent = hire()
    with psycopg.connect(dsn) as other:
        locked, second, _ = (
            task for (task,) in other.execute("select task_id from taskq.task order by 1")
        )
        other.execute("select from taskq.task where task_id = %s for update", [locked])
        assert [task.task for task in agent.claim(1)] == [second]


def test_task_that_comes_back_is_found_when_nothing_else_waits(
    campaign: Campaign, hire: Hire
) -> None:
    """A connection goes on where its last claim ended, but never overlooks the last task."""
    campaign.seed([Seed({}, "a"), Seed({}, "b")])
    agent = hire()
    first, _ = agent.claim(2)
    agent.release(first, started=False)
    assert keys(agent, 1) == ["a"]


@pytest.mark.thorough
def test_task_behind_the_position_of_a_connection_is_claimed_soon(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Steady claims starve neither a task that came back nor one that is more urgent."""
    campaign.seed({"n": n} for n in range(10_000))
    agent = hire()
    back, delayed = agent.claim(2)

    def found_after_s(wanted: int) -> float:
        """Return after how long it was found, without the longest claim: the machine may stop."""
        begin, longest, found = time.monotonic(), 0.0, False
        while not found:
            began = time.monotonic()
            (task,) = agent.claim(1)
            longest = max(longest, time.monotonic() - began)
            found = task.task == wanted
        return time.monotonic() - begin - longest

    agent.release(back, started=False)
    assert found_after_s(back.task) < SOON_S
    agent.fail(delayed)
    promote(postgres)
    assert found_after_s(delayed.task) < SOON_S
    campaign.seed([Seed({}, "urgent", 1)])
    assert found_after_s(campaign.task("urgent").task_id) < SOON_S
    assert campaign.status().waiting > 0, "all others were claimed first"


def test_campaigns_do_not_mix(queue: Client, hire: Hire) -> None:
    """A claim names one campaign and gets its tasks only, also of two that grow in turn."""
    campaign, two = queue.create_campaign("/one"), queue.create_campaign("/two")
    for turn in range(5):
        campaign.seed([Seed({}, f"one{turn}")])
        two.seed([Seed({}, f"two{turn}")])
    assert keys(hire("/two"), 10) == [f"two{turn}" for turn in range(5)]
    assert keys(hire("/one"), 10) == [f"one{turn}" for turn in range(5)]


def test_position_of_one_campaign_says_nothing_about_another(queue: Client, hire: Hire) -> None:
    """One connection claims in several campaigns by turns."""
    for path in ("/one", "/two"):
        queue.create_campaign(path).seed(Seed({}, f"{path}{n}", n % 3) for n in range(9))
    agent = hire("/one")
    got: dict[str, list[str]] = {"/one": [], "/two": []}
    for turn in range(18):
        path = ("/one", "/two")[turn % 2]
        agent.campaign = queue.campaign(path).campaign_id
        got[path] += keys(agent, 1)
    for found in got.values():
        assert found == sorted(found, key=lambda key: (-(int(key[-1]) % 3), key))
        assert len(set(found)) == 9


@pytest.mark.parametrize("above", ["/c", "/"])
def test_paused_campaign_hands_nothing_out_until_resumed(
    above: str, queue: Client, campaign: Campaign, hire: Hire
) -> None:
    """Pausing it or one above it stops claims at once; running attempts go on and may report."""
    campaign.seed({"n": n} for n in range(4))
    agent = hire()
    (task,) = agent.claim(1)
    assert queue.campaign(above).pause()
    assert agent.claim(1) == []
    assert hire().claim(1) == []
    assert agent.done(task) == "accepted"
    assert queue.campaign(above).resume()
    assert len(agent.claim(5)) == 3


def test_claim_that_is_asked_again_is_answered_though_the_campaign_is_paused(
    campaign: Campaign, hire: Hire
) -> None:
    """It was given before; only what is new stops."""
    campaign.seed({"n": n} for n in range(4))
    agent = hire()
    lease = agent.draw_lease()
    tasks = agent.claim(2, lease=lease)
    campaign.pause()
    assert agent.claim(2, lease=lease) == tasks


@pytest.mark.parametrize("want", [-1, 1_001, 2_000_000_000])
def test_claim_of_an_absurd_size_is_refused(campaign: Campaign, hire: Hire, want: int) -> None:
    """What comes from outside has a limit: a thousand tasks in one claim."""
    campaign.seed([{"n": 1}])
    with pytest.raises(UsageError, match="1000"):
        hire().claim(want)


def test_exchange_with_nothing_to_say_changes_nothing(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """No reports, no wants: no row is written."""
    campaign.seed([{"n": 1}])
    agent = hire()
    before = value(postgres, "select count(*) from taskq.delta")
    answer = agent.exchange()
    assert (answer["acks"], answer["tasks"], answer["refused"]) == (None, None, None)
    assert value(postgres, "select count(*) from taskq.delta") == before


@pytest.mark.parametrize(
    "claim",
    [
        ("{%s}", "{NULL}", [1]),
        ("{NULL}", "{00000000-0000-7000-8000-000000000001}", [1]),
        ("{%s}", "{00000000-0000-7000-8000-000000000001}", [None]),
        ("{%s}", "{}", [1]),
        ("{%s}", None, [1]),
        (
            "{%s}",
            "{00000000-0000-7000-8000-000000000001,00000000-0000-7000-8000-000000000002}",
            [1, 1],
        ),
        # Of two claims of a session the bundles would overlap.
        (
            "{%s,%s}",
            "{00000000-0000-7000-8000-000000000001,00000000-0000-7000-8000-000000000002}",
            [2, 2],
        ),
    ],
)
def test_claim_without_a_lease_or_a_session_of_its_own_is_refused(
    claim: tuple[str, str | None, list[int | None]],
    campaign: Campaign,
    hire: Hire,
    postgres: Postgres,
) -> None:
    """A task that worked under nothing could neither end nor expire."""
    campaign.seed({"n": n} for n in range(3))
    sessions, *rest = claim
    sessions = sessions.replace("%s", str(hire().session))
    with pytest.raises(psycopg.Error) as raised:
        postgres.execute(SEVERAL, [campaign.campaign_id, sessions, *rest])
    assert raised.value.sqlstate == "TQ400"
    assert campaign.status().waiting == 3
