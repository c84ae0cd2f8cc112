"""Owners of campaigns: who they are, what their quotas allow, and how they share."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, connect
from taskq.db.connections import Database
from taskq.db.owners import QuotaChange
from taskq.model.errors import Conflict, NotFound, UsageError
from tests.fixtures.logins import Staff
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, assert_counts_are_true, value
from tests.helpers.scripted_agent import report_of

pytestmark = pytest.mark.usefixtures("true_counts")

KEEP = "select taskq.stop_full_owners()"
WORKING = "select count(*) from taskq.state where status = 'working'"


@pytest.fixture
def me(postgres: Postgres) -> str:
    """Give the login of the tests, which owns what they create."""
    return str(value(postgres, "select session_user"))


def claimable(database: Database) -> int:
    """Return how many tasks gateways would wake agents for."""
    found = database.row("claimable", servings='[{"path": "/", "offers": []}]', front=False)
    return sum(tasks for _, tasks in (found or {})["claimable"])


def test_owner_is_who_created_it(queue: Client, me: str) -> None:
    """Also of those above it that were missing; the root is nobody's."""
    queue.create_campaign("/a/b")
    assert (queue.owners.of("/a"), queue.owners.of("/a/b"), queue.owners.of("/")) == (me, me, None)
    assert [(owner.owner, owner.campaigns) for owner in queue.owners.list()] == [(me, 2)]
    with pytest.raises(NotFound):
        queue.owners.of("/typo")


@pytest.mark.thorough
def test_login_cannot_name_another_owner(staff: Staff) -> None:
    """Who does not act for tokens, as a gateway does, is the owner, whatever the session says."""
    for role, named in (("submitter", False), ("manager", True)):
        roles = (role, "submitter")
        login = staff.login(*dict.fromkeys(roles))
        with psycopg.connect(login.dsn, autocommit=True) as connection:
            connection.execute("set taskq.token_name = 'somebody'")
            connection.execute("select taskq.create_campaign(%s)", [f"/of-{role}"])
        owner = staff.owner.owners.of(f"/of-{role}")
        assert owner == ("somebody" if named else login.name)


def test_quota_of_running_tasks_holds_over_all_campaigns_of_an_owner(
    queue: Client, hire: Hire, me: str
) -> None:
    """However a claim comes, and whatever the campaigns allow by themselves."""
    for path, most in (("/a", None), ("/b", 2), ("/c", None)):
        servable(queue, path, tasks=20, max_running=most)
    assert queue.owners.set_quota(me, {"max_running": 5}) == 3
    a, b, c = hire("/a"), hire("/b"), hire("/c")
    held = a.claim(1)
    assert [len(b.claim(5)), len(c.claim_singly(3)), len(a.claim(9))] == [2, 2, 0]
    answer = a.exchange([report_of(held[0], "done")], 4)
    assert len(answer["tasks"]) == 1
    (owner,) = queue.owners.list("/b")
    assert (owner.campaigns, owner.working, owner.waiting) == (3, 5, 54)
    assert queue.campaign("/b").spec().max_running == 2
    assert queue.campaign("/a").spec().max_running is None
    queue.owners.set_quota(me, {"max_running": None})
    assert len(a.claim(9)) == 9


def test_quota_holds_for_campaigns_that_come_later(queue: Client, hire: Hire, me: str) -> None:
    """And for none that was given away."""
    assert queue.owners.set_quota(me, {"max_running": 2}) == 0
    servable(queue, "/a", tasks=5)
    servable(queue, "/b/c", tasks=5)
    assert len(hire("/a").claim(5)) == 2
    assert queue.owners.give("/b", "bob") == 2
    assert queue.owners.give("/b", "bob") == 0
    assert len(hire("/b/c").claim(5)) == 5
    queue.owners.set_quota("bob", {"max_running": 6})
    assert len(hire("/b/c").claim(5)) == 0
    queue.owners.give("/b", me)
    queue.owners.give("/a", "carol")
    assert [len(hire("/b/c").claim(5)), len(hire("/a").claim(5))] == [0, 3]


def test_agents_are_sent_and_woken_for_what_the_quota_leaves(
    queue: Client, database: Database, hire: Hire, me: str
) -> None:
    """Not for each campaign of the owner anew, which would wake thousands in vain."""
    for number in range(10):
        servable(queue, f"/{number}", tasks=10)
    queue.owners.give("/9", "bob")
    queue.owners.set_quota(me, {"max_running": 4})
    assert claimable(database) == 14
    hire("/0").claim(3)
    assert claimable(database) == 11
    hire("/0").claim(3)
    assert claimable(database) == 10
    words = {"path": "/", "lifetime_s": None, "offers": [], "most": 20}
    rows = database.rows("servable", **words)
    assert [row["campaign_id"] for row in rows] == [queue.campaign("/9").campaign_id]
    assert database.rows("frontable", campaigns=[1, *(queue.campaign("/0").campaign_id,)]) == []
    demand = database.rows("pilot_demand", path="/", offers=[], lifetime_s=60.0)
    assert sum(row["claimable"] for row in demand) == 10


@pytest.mark.thorough
def test_quota_holds_while_many_claim_at_once_in_several_campaigns(
    queue: Client, hire: Hire, postgres: Postgres, me: str
) -> None:
    """Eight connections in four campaigns: at no moment do more than five tasks run."""
    for number in range(4):
        servable(queue, f"/{number}", tasks=60)
    queue.owners.set_quota(me, {"max_running": 5})
    agents = [hire(f"/{number % 4}") for number in range(8)]
    start = Barrier(len(agents))

    def work(number: int) -> int:
        agent, done, idle = agents[number], 0, 0
        start.wait()
        held = agent.claim(1 + number % 3)
        while idle < 40:
            done += len(held)
            reports = [report_of(attempt, "done") for attempt in held]
            held = agent.claimed(agent.exchange(reports, 1 + number % 3))
            idle = 0 if held else idle + 1
        for attempt in held:
            agent.done(attempt)
        return done

    with ThreadPoolExecutor(len(agents)) as pool:
        working = [pool.submit(work, number) for number in range(len(agents))]
        most = 0
        while not all(future.done() for future in working):
            most = max(most, value(postgres, WORKING))
        assert sum(future.result() for future in working) <= 240
    assert most <= 5
    assert_counts_are_true(postgres)


def test_tasks_beyond_those_that_may_wait_are_refused_by_chunk(
    queue: Client, hire: Hire, me: str
) -> None:
    """Nothing of the chunk is added; seeded again when there is room, all is there once."""
    a, b = servable(queue, "/a", tasks=4), servable(queue, "/b")
    queue.owners.set_quota(me, {"max_waiting": 10})
    with pytest.raises(
        Conflict, match=r"allows 10 waiting tasks; 4 wait, so .* for 7 more"
    ) as raised:
        b.seed({"n": n} for n in range(7))
    assert raised.value.exit_code == 3
    assert b.status().total == 0
    assert b.seed({"n": n} for n in range(6)).added == 6
    assert b.seed({"n": n} for n in range(6)).known == 6
    with pytest.raises(Conflict, match="no room for 1 more"):
        b.submit({"n": 7})
    agent = hire("/a")
    for task in agent.claim(2):
        agent.fail(task)
    with pytest.raises(Conflict):  # those that are delayed come back
        b.submit({"n": 7})
    agent.claim(1)
    assert b.seed({"n": n} for n in range(7)).added == 1
    assert a.status().unfinished == 4
    queue.owners.set_quota(me, {"max_waiting": None})
    b.submit({"n": 8})


def test_seeders_at_once_find_no_room_twice(queue: Client, me: str) -> None:
    """Each waits for those before it, and counts what they have added."""
    campaigns = [servable(queue, f"/{number}") for number in range(4)]
    queue.owners.set_quota(me, {"max_waiting": 10})
    start = Barrier(len(campaigns))

    def seed(campaign: Campaign) -> int:
        start.wait()
        try:
            return campaign.seed({"n": n} for n in range(4)).added
        except Conflict:
            return 0

    with ThreadPoolExecutor(len(campaigns)) as pool:
        assert sorted(pool.map(seed, campaigns)) == [0, 0, 4, 4]


def test_owner_with_no_bytes_left_gets_nothing_more_and_loses_nothing(
    queue: Client, database: Database, hire: Hire, me: str, postgres: Postgres, tmp_path: Path
) -> None:
    """What runs is stored; when there is room again, all goes on by itself."""
    campaign = queue.create_campaign(CampaignSpec("/a", output_bytes=20_000))
    campaign.seed({"n": n} for n in range(4))
    file = tmp_path / "receptor"
    file.write_bytes(b"x" * 3_000)
    campaign.add_input(file)
    agent = hire("/a")
    held = agent.claim(1)
    queue.owners.set_quota(me, {"max_bytes": 10_000, "max_running": 3})
    words = {"session": None, "campaign": campaign.campaign_id, "task": held[0].task}
    saved = database.row("save_output", **words, lease=held[0].lease, digest="0" * 64, size=7_500)
    assert saved is not None
    assert saved["saved"]
    file.write_bytes(b"x" * 2_600)
    with pytest.raises(Conflict, match=r"allows 10000 bytes; 10500 are stored, .* 2600 more"):
        campaign.add_input(file, "other")
    postgres.execute(KEEP)
    (owner,) = queue.owners.list()
    assert (owner.bytes, owner.is_full, owner.max_running) == (10_500, True, 3)
    assert agent.done(held[0]) == "accepted"
    assert (agent.claim(2), claimable(database)) == ([], 0)
    campaign.add_input(file, "receptor")  # smaller than the one that it replaces
    postgres.execute(KEEP)
    assert len(agent.claim(2)) == 0
    campaign.remove_input("receptor")
    postgres.execute(KEEP)
    assert len(agent.claim(9)) == 3
    queue.owners.set_quota(me, {"max_bytes": 1})
    assert agent.claim(1) == []
    queue.owners.set_quota(me, {"max_bytes": None, "max_running": None})
    assert value(postgres, "select count(*) from taskq.quota") == 0
    assert value(postgres, "select bool_and(max_running is null) from taskq.campaign")


def test_owners_share_first_if_an_operator_says_so(
    queue: Client, database: Database, hire: Hire
) -> None:
    """Who has nine campaigns has no more than who has one; weights divide what each gets."""
    for number in range(10):
        servable(queue, f"/{number}", tasks=10)
    queue.owners.give("/9", "bob")
    bobs = queue.campaign("/9").campaign_id
    words = {"path": "/", "lifetime_s": None, "offers": [], "most": 20}

    def part() -> float:
        desires = {row["campaign_id"]: row["desire"] for row in database.rows("servable", **words)}
        assert len(desires) == 10
        return desires[bobs] / sum(desires.values())

    assert queue.owners.shared_by() == "campaign"
    assert part() == pytest.approx(0.1)
    assert queue.owners.share_by("owner")
    assert not queue.owners.share_by("owner")
    assert part() == pytest.approx(0.5)
    queue.owners.set_quota("bob", {"weight": 3})
    assert part() == pytest.approx(0.75)
    queue.owners.set_quota("bob", {"weight": 1})
    hire("/9").claim(4)  # of five tasks two and a half are for each
    assert part() == pytest.approx(0.005 / 2.505)
    queue.owners.share_by("campaign")
    assert queue.owners.shared_by() == "campaign"


@pytest.mark.thorough
def test_first_campaigns_are_drawn_by_owner(queue: Client, database: Database) -> None:
    """The lottery follows the desires."""
    for number in range(5):
        servable(queue, f"/{number}", tasks=1)
    queue.owners.give("/4", "bob")
    queue.owners.share_by("owner")
    words = {"path": "/", "lifetime_s": None, "offers": [], "most": 1}
    first: Counter[bool] = Counter()
    bobs = queue.campaign("/4").campaign_id
    for _ in range(400):
        (row,) = database.rows("servable", **words)
        first[row["campaign_id"] == bobs] += 1
    assert 120 < first[True] < 280  # binomial, n=400, p=1/2: eight standard deviations


def test_list_says_what_quotas_are_counted_by(
    queue: Client, hire: Hire, postgres: Postgres, tmp_path: Path
) -> None:
    """Of several owners: campaigns, tasks that are delayed too, moves not folded, inputs."""
    paths = {"/c": "alice", "/c/below": "bob", "/d": "bob", "/e": "carol"}
    for path, owner in paths.items():
        servable(queue, path, tasks=3)
        queue.owners.give(path, owner)
    queue.owners.set_quota("nobody-yet", {"max_running": 5})
    (tmp_path / "x").write_text("x" * 100)
    queue.campaign("/d").add_input(tmp_path / "x")
    postgres.execute("select taskq.fold('0')")
    agent = hire("/d")
    agent.exchange([report_of(agent.claim(2)[0], "failed", delay_s=60.0)])
    counted = """
        select json_build_array(o.waiting + o.delayed, o.working, taskq.stored_bytes(q.owner))
          from (select %s::text as owner) q
         cross join lateral taskq.tasks_of_owner(q.owner) o
    """
    known = {owner.owner: owner for owner in queue.owners.list()}
    assert {name: owner.campaigns for name, owner in known.items()} == {
        "alice": 1,
        "bob": 2,
        "carol": 1,
        "nobody-yet": 0,
    }
    for name, person in known.items():
        counts = value(postgres, counted, name)
        assert counts == [person.waiting, person.working, person.bytes], name
    assert (known["bob"].waiting, known["bob"].working, known["bob"].bytes) == (5, 1, 100)
    assert {owner.owner for owner in queue.owners.list("/c")} == {"alice", "bob"}
    assert queue.owners.list("/d") == [known["bob"]]


@pytest.mark.thorough
def test_only_operators_change_quotas_and_owners(staff: Staff) -> None:
    """By rights in PostgreSQL. The table shows which of them did it last."""
    for role in ("submitter", "reader", "agent", "manager", "pickler"):
        with psycopg.connect(staff.login(role).dsn, autocommit=True) as connection:
            for statement in (
                "select taskq.set_quota('x', '{}')",
                "select taskq.give_campaign('/', 'x')",
                "select taskq.share_by_owner(true)",
                "update taskq.campaign set owner = 'x'",
                "select * from taskq.quota",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode())
    login = staff.login("operator")
    with connect(login.dsn) as operator:
        assert staff.owner.owners.set_quota("x", {"max_running": 2}) == 0
        assert operator.owners.set_quota("x", {"max_running": 1}) == 0
        with psycopg.connect(staff.owner.database.dsn) as owner:
            who = "select login from taskq.quota where set_at <= clock_timestamp()"
            assert owner.execute(who).fetchall() == [(login.name,)]
        assert operator.owners.set_quota("x", {"max_running": None}) == 0


@pytest.mark.parametrize(
    ("owner", "change"),
    [
        ("", {"max_running": 1}),
        ("x" * 101, {"max_running": 1}),
        ("x", {"max_running": 0}),
        ("x", {"max_running": 1_000_001}),
        ("x", {"max_running": 2**40}),
        ("x", {"max_waiting": -1}),
        ("x", {"max_bytes": 0}),
        ("x", {"max_bytes": 1.5}),
        ("x", {"weight": 0}),
        ("x", {"weight": "many"}),
    ],
)
def test_malformed_quota_is_refused(queue: Client, owner: str, change: QuotaChange) -> None:
    """With one text that gives the form of a quota."""
    with pytest.raises(UsageError, match="a quota is of an owner"):
        queue.owners.set_quota(owner, change)
    with pytest.raises(UsageError, match="1 to 100"):
        queue.owners.give("/", "")
    assert queue.owners.list() == []
