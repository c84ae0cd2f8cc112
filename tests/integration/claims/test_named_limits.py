"""Limits that campaigns share."""

from __future__ import annotations

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, InvalidCampaign, connect
from taskq.db.connections import Database
from taskq.model.errors import Forbidden, NotFound, UsageError
from tests.fixtures.logins import Staff
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.claims_at_once import most_at_work, turn
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, assert_counts_are_true, expire, promote, silence, value

STARTS = """
    select coalesce(sum(least(h.slots, h.tasks)), 0)
      from (select n.slots, count(*) as tasks
              from taskq.state t
              join taskq.session n on n.session_id = t.session_id
             where t.status = 'working'
             group by n.session_id) h
"""
NOTED = "select coalesce(sum(tasks), 0)::integer from taskq.limit_claim"


@pytest.fixture
def campaigns(queue: Client) -> list[Campaign]:
    """Give two campaigns of 300 tasks that share a limit of three starts, and one without."""
    queue.limits.set("oechem", 3)
    return [
        servable(queue, "/a", 300, named_limits=("oechem",)),
        servable(queue, "/b", 300, named_limits=("oechem",)),
        servable(queue, "/free", 300),
    ]


@pytest.mark.usefixtures("campaigns")
def test_no_more_starts_run_than_the_limit_allows_over_all_campaigns(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """At whatever sites; campaigns that do not name it go on."""
    first, second = hire("/a", slots=2), hire("/b", slots=9, site="elsewhere")
    other, free = hire("/a"), hire("/free", slots=9)
    held = first.claim(2)
    assert [len(held), len(second.claim(2)), len(other.claim(1))] == [2, 1, 0]
    assert len(free.claim(9)) == 9
    (limit,) = queue.limits.list()
    assert (limit.used, limit.most, limit.campaigns, limit.is_full) == (3, 3, 2, True)
    assert [(held.path, held.tasks) for held in limit.holders] == [("/a", 2), ("/b", 1)]
    first.done(held[0])
    assert [len(second.claim(10)), len(other.claim(1))] == [1, 0]
    assert value(postgres, NOTED) == 3


@pytest.mark.usefixtures("campaigns")
def test_agent_counts_for_no_more_than_its_slots(queue: Client, hire: Hire) -> None:
    """It starts no more at a time: a batch is one start, and so are tasks claimed ahead."""
    batch, pair, late = hire("/a", slots=1), hire("/b", slots=2), hire("/b", slots=1)
    assert [len(batch.claim(100)), len(pair.claim(5)), len(late.claim(5))] == [100, 5, 0]
    assert len(batch.claim(100)) == 100
    (limit,) = queue.limits.list()
    assert (limit.used, [held.tasks for held in limit.holders]) == (3, [200, 5])
    queue.limits.set("oechem", 4)
    assert len(late.claim(5)) == 5


@pytest.mark.usefixtures("campaigns")
def test_task_that_ends_makes_room_in_the_same_exchange(hire: Hire, postgres: Postgres) -> None:
    """An agent that reports and claims is not held up by its own; nothing of the ended is kept."""
    agent = hire("/a", slots=3)
    held = agent.claim(3)
    for _ in range(3):
        held = turn(agent, held, 3)
        assert len(held) == 3
    assert turn(agent, held, 1) != []
    assert value(postgres, NOTED) == 1
    assert value(postgres, "select count(*) from taskq.limit_claim") == 1


@pytest.mark.usefixtures("campaigns")
@pytest.mark.parametrize("end", ["fail", "release", "leave", "expire", "drop"])
def test_however_a_task_ends_there_is_room_for_other_campaigns(
    end: str, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """The count is that of the tasks, whatever ends their work."""
    agent, other = hire("/a", slots=3), hire("/b", slots=9)
    held = agent.claim(3)
    if end == "fail":
        agent.fail(held[0])
    elif end == "release":
        agent.release(held[0], started=False)
    elif end == "leave":
        assert agent.leave() == 3
    elif end == "drop":
        queue.campaign("/a").cancel()
    else:
        silence(postgres, agent.session)
        assert expire(postgres) == 3
    assert len(other.claim(9)) == (1 if end in ("fail", "release") else 3)


def test_unit_that_has_ended_is_found_wherever_a_look_begins(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """A claim looks at some of those that count, from a session drawn at random."""
    queue.limits.set("few", 2)
    servable(queue, "/few", 9, named_limits=("few",))
    first = hire("/few")
    (held,) = first.claim(1)
    postgres.execute(
        "select nextval(pg_get_serial_sequence('taskq.session', 'session_id'))"
        " from generate_series(1, 1000)"
    )
    assert len(hire("/few").claim(1)) == 1
    first.done(held)
    assert len(hire("/few").claim(1)) == 1


@pytest.mark.parametrize("who", ["claim", "claim at a site", "keeper"])
def test_sum_of_a_limit_that_says_too_much_is_set_right(
    who: str, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Tasks would wait for ever: no claim frees what no claim has taken."""
    queue.limits.set("oechem", 3)
    at_site = who == "claim at a site"
    limits = {"max_running_per_site": 3} if at_site else {"named_limits": ("oechem",)}
    servable(queue, "/c", 9, **limits)
    agent, other = hire("/c"), hire("/c")
    assert len(agent.claim(1)) == 1
    postgres.execute("update taskq.limit_total set starts = 3")
    assert [violation.check for violation in queue.audit()] == ["limited"]
    if who == "keeper":
        postgres.execute("select taskq.free_limits()")
    else:
        assert len(other.claim(1)) == 1
    assert list(queue.audit()) == []


@pytest.mark.usefixtures("campaigns")
def test_tasks_that_are_tried_again_count_as_others_do(hire: Hire, postgres: Postgres) -> None:
    """And leave nothing behind when they end.

    In Nextflow retries passed `maxForks` by (nextflow-io/nextflow#966), and later its units were
    lost with each retry, until nothing ran (nextflow-io/nextflow#1432).
    """
    agents = [hire("/a", slots=9, host=f"n{number}") for number in range(3)]
    for turn_of in (0, 1, 2, 0, 1, 2):
        held = agents[turn_of].claim(9)
        assert len(held) == 3
        assert agents[turn_of - 1].claim(9) == []
        for task in held:
            assert agents[turn_of].fail(task) == "accepted"
        promote(postgres)
    assert len(agents[0].claim(9)) == 3
    assert value(postgres, NOTED) == 3


@pytest.mark.thorough
@pytest.mark.usefixtures("campaigns")
def test_limit_holds_while_many_claim_at_once(hire: Hire, postgres: Postgres) -> None:
    """Agents of two campaigns claim and report as fast as they can; never do four starts run."""
    agents = [hire(("/a", "/b")[number % 2]) for number in range(6)]
    done, most = most_at_work(agents, postgres, STARTS)
    assert done == 600
    assert most <= 3
    assert_counts_are_true(postgres)


@pytest.mark.usefixtures("campaigns")
def test_batch_of_claims_gets_what_the_limit_leaves(hire: Hire, postgres: Postgres) -> None:
    """Agents without room are named, so that they come again soon."""
    agents = [hire("/a", slots=2) for _ in range(4)]
    row = postgres.execute(
        "select tasks, avoided from taskq.exchange(%s, null, %s, %s::uuid[], %s)",
        [
            agents[0].campaign,
            [agent.session for agent in agents],
            [agent.draw_lease() for agent in agents],
            [2, 2, 1, 9],
        ],
    ).fetchone()
    assert row is not None
    sessions = [task[5] for task in row["tasks"]]
    assert sessions == [agents[n].session for n in (0, 0, 1)]
    assert sorted(row["avoided"]) == [agents[n].session for n in (1, 2, 3)]


@pytest.mark.usefixtures("campaigns")
def test_repeated_claim_counts_once(hire: Hire, postgres: Postgres) -> None:
    """A claim whose answer was lost is answered again from what it has got."""
    agent = hire("/a", slots=9)
    first = agent.claim(2)
    assert agent.claim(2, lease=first[0].lease) == first
    assert value(postgres, NOTED) == 2
    assert [agent.done(task) for task in first] == ["accepted"] * 2
    assert len(agent.claim(9, lease=first[0].lease)) == 3
    assert value(postgres, NOTED) == 3


def test_smallest_of_several_limits_counts(queue: Client, hire: Hire) -> None:
    """Each counts what a claim takes, and nothing that another one refused."""
    for name, most in (("x", 5), ("y", 2), ("z", 0)):
        queue.limits.set(name, most)
    servable(queue, "/xy", 20, named_limits=("x", "y"), max_running=4)
    servable(queue, "/x", 20, named_limits=("x",))
    servable(queue, "/z", 20, named_limits=("x", "z"))
    assert [len(hire(path, slots=9).claim(9)) for path in ("/xy", "/z", "/x")] == [2, 0, 3]
    queue.limits.set("y", 9)
    queue.limits.set("x", 9)
    assert len(hire("/xy", slots=9).claim(9)) == 2


def test_lower_limit_takes_nothing_back(
    queue: Client, hire: Hire, campaigns: list[Campaign]
) -> None:
    """What runs goes on; nothing more starts until there is room."""
    agent = hire("/a", slots=9)
    held = agent.claim(3)
    assert queue.limits.set("oechem", 1) == 2
    assert len(turn(agent, held[:2], 3)) == 0
    assert len(turn(agent, held[2:], 3)) == 1
    queue.limits.remove("oechem")
    assert campaigns[0].spec().named_limits == ()
    assert len(hire("/b", slots=9).claim(20)) == 20


@pytest.mark.usefixtures("campaigns")
def test_agents_are_sent_and_woken_for_what_the_limit_leaves(
    queue: Client, database: Database, hire: Hire, postgres: Postgres
) -> None:
    """Not for each of the campaigns anew; a reached limit keeps nobody from other campaigns."""
    words = {"path": "/", "lifetime_s": None, "offers": [], "most": 20}
    free = queue.campaign("/free").campaign_id

    def claimable() -> int:
        found = database.row("claimable", servings='[{"path": "/", "offers": []}]', front=False)
        return sum(tasks for _, tasks in (found or {})["claimable"])

    assert claimable() == 303
    agent = hire("/a", slots=9)
    held = agent.claim(3)
    assert claimable() == 300
    assert [row["campaign_id"] for row in database.rows("servable", **words)] == [free]
    demand = database.rows("pilot_demand", path="/", offers=[], lifetime_s=60.0)
    assert sum(row["claimable"] for row in demand) == 300
    agent.done(held[0])
    assert claimable() == 301
    postgres.execute("select taskq.free_limits()")
    assert value(postgres, NOTED) == 2
    assert database.rows("frontable", campaigns=[queue.campaign("/a").campaign_id]) == []


def test_order_of_campaigns_passes_a_reached_limit_by(queue: Client, database: Database) -> None:
    """An agent of all campaigns gets a task of the one that has room, whatever others wait."""
    queue.limits.set("none", 0)
    for number in range(30):
        servable(queue, f"/held/{number}", 2, named_limits=("none",))
    servable(queue, "/free", 1)
    rows = database.rows("servable", path="/", lifetime_s=None, offers=[], most=5)
    assert [row["campaign_id"] for row in rows] == [queue.campaign("/free").campaign_id]


@pytest.mark.thorough
def test_only_operators_make_limits_and_submitters_name_them(staff: Staff) -> None:
    """A submitter can neither make nor change a limit, and names only those that it may."""
    for role in ("submitter", "reader", "agent", "manager", "pickler"):
        with psycopg.connect(staff.login(role).dsn, autocommit=True) as connection:
            for statement in (
                "select taskq.set_limit('mine', 3)",
                "select taskq.remove_limit('mine')",
                "update taskq.named_limit set most = 9",
                "delete from taskq.limit_claim",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode())
    submitter = staff.login("submitter")
    with connect(staff.login("operator").dsn) as operator, connect(submitter.dsn) as own:
        operator.limits.set("open", 3)
        operator.limits.set("theirs", 3, owners=["somebody"])
        own.create_campaign(CampaignSpec("/mine", named_limits=("open",)))
        for name, error in (("theirs", Forbidden), ("typo", NotFound)):
            with pytest.raises(error, match=name):
                own.create_campaign(CampaignSpec(f"/{name}", named_limits=(name,)))
            with pytest.raises(NotFound):
                own.campaign(f"/{name}").status()
        operator.limits.set("theirs", 3, owners=["somebody", submitter.name])
        own.create_campaign(CampaignSpec("/theirs", named_limits=("theirs",)))
        assert [limit.campaigns for limit in own.limits.list()] == [1, 1]
        operator.limits.set("theirs", 3, owners=["somebody"])
        own.campaign("/theirs").change(
            CampaignSpec("/theirs", weight=2.0, named_limits=("theirs",))
        )


@pytest.mark.parametrize(
    ("name", "most", "owners"),
    [
        ("", 1, None),
        ("a b", 1, None),
        ("x" * 51, 1, None),
        ("x", -1, None),
        ("x", 20_001, None),
        ("x", 1, []),
    ],
)
def test_limit_that_is_none_is_refused(
    name: str, most: int, owners: list[str] | None, queue: Client
) -> None:
    """Names and amounts are bounded."""
    with pytest.raises(UsageError, match="a limit has a name"):
        queue.limits.set(name, most, owners=owners)


@pytest.mark.parametrize("named", ["oechem", ["a b"], [1], ["x"] * 9, ["x\n"]])
def test_names_that_are_none_are_refused(named: object) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidCampaign, match="named_limits"):
        CampaignSpec("/c", named_limits=named)  # type: ignore[arg-type]


def test_hedging_and_named_limits_exclude_each_other() -> None:
    """Of one task two attempts may run."""
    with pytest.raises(InvalidCampaign, match=r"limits\.named_limits exclude each other"):
        CampaignSpec("/c", named_limits=("x",), hedge=0.1, late_results="salvage")


@pytest.mark.thorough
def test_claim_costs_the_same_next_to_many_campaigns_of_its_limit(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """A submitter can make as many as it likes: a claim reads who holds the limit, not these."""
    queue.limits.set("oechem", 20)
    own = servable(queue, "/a", 100, named_limits=("oechem",))
    agent = hire("/a", slots=9)
    agent.claim(5)
    claim = "select tasks from taskq.exchange(%s, null, array[%s]::bigint[], array[%s]::uuid[], %s)"

    def met() -> float:
        with watched(postgres) as seen:
            words = [own.campaign_id, agent.session, agent.draw_lease(), [1]]
            row = postgres.execute(claim, words).fetchone()
        assert row is not None
        assert len(row["tasks"]) == 1
        return seen.rows_met

    met()
    before = met()
    postgres.execute(
        "with c as (insert into taskq.campaign (parent_id, path, lineage, handler, named_limits)"
        " select campaign_id, '/many-' || n, '{}', '{}', array['oechem']"
        " from taskq.campaign, generate_series(1, 20000) n where path = '/' returning campaign_id)"
        " insert into taskq.counter (campaign_id, waiting) select campaign_id, 1 from c"
    )
    assert met() <= 2 * before
    assert queue.limits.list()[0].campaigns == 20_001
