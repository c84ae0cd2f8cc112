"""The tree of campaigns: made, changed, steered from above, counted, removed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import psycopg
import pytest

from taskq import CampaignSpec, Client, Handler, RetryPolicy
from taskq.db.connections import Database
from taskq.model.errors import Conflict, NotFound, TaskqError, UsageError
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import tasks_of
from tests.helpers.postgres import (
    Postgres,
    assert_counts_are_true,
    blocked,
    statuses,
)
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.both_transports

T = TypeVar("T")


def at_once(*acts: Callable[[], T]) -> list[T | TaskqError]:
    """Do several things at the same moment; return what came of each."""
    start = Barrier(len(acts))

    def do(act: Callable[[], T]) -> T | TaskqError:
        start.wait()
        try:
            return act()
        except TaskqError as error:
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(do, acts))


def test_campaign_keeps_what_it_was_created_with(queue: Client) -> None:
    """Each setting of a campaign comes back as it was given."""
    spec = CampaignSpec(
        "/wisdom/malaria/1lf3",
        description="Plasmepsin II ✓",
        handler=Handler("command", argv=("vina", "--ligand", "{ligand}")),
        retry=RetryPolicy(max_attempts=7, max_losses=2, backoff_s=0.5, backoff_max_s=9.25),
        time_limit_s=1800.5,
        max_running=40,
        weight=0.25,
        requires=("gpu", "mem>=16"),
        params={"box": [22.5, 22.5, 22.5], "deep": {"er": None}},
    )
    queue.create_campaign(spec)
    assert queue.campaign("/wisdom/malaria/1lf3").spec() == spec


def test_campaigns_above_are_created_too(queue: Client) -> None:
    """They are open and empty."""
    queue.create_campaign("/a/b/c")
    tree = queue.campaign("/").tree()
    assert [(node.path, node.state, node.children) for node in tree] == [
        ("/", "open", 1),
        ("/a", "open", 1),
        ("/a/b", "open", 1),
        ("/a/b/c", "open", 0),
    ]


def test_campaign_is_created_once(queue: Client) -> None:
    """A second creation is a conflict, and changes nothing."""
    queue.create_campaign(CampaignSpec("/a", description="first"))
    with pytest.raises(Conflict, match="/a exists already"):
        queue.create_campaign(CampaignSpec("/a", description="second"))
    assert queue.campaign("/a").spec().description == "first"


def test_existing_campaign_is_changed_when_that_is_allowed(queue: Client) -> None:
    """`exist_ok` brings a campaign to its file's state, however often it runs."""
    for description in ("first", "second"):
        queue.create_campaign(CampaignSpec("/a", description=description), exist_ok=True)
    assert queue.campaign("/a").spec().description == "second"


def test_creating_a_campaign_again_is_harmless(queue: Client) -> None:
    """So that a cell of a notebook can be run twice; other settings are never taken silently."""
    handler = Handler("command", argv=["sleep", "{n}"])
    spec = CampaignSpec("/a", handler=handler, time_limit_s=60, params={"x": 1})
    first = queue.create_campaign(spec)
    first.seed([{"n": 1}])
    for again in (spec, dataclasses.replace(spec, time_limit_s=60.0), "/a"):
        assert queue.create_campaign(again).campaign_id == first.campaign_id
    queue.create_campaign("/a", exist_ok=True)
    assert first.spec() == spec
    assert first.status().waiting == 1
    other = dataclasses.replace(spec, weight=2.0, params={"x": 2, "y": "z" * 200})
    with pytest.raises(Conflict) as raised:
        queue.create_campaign(other)
    assert str(raised.value) == (
        "campaign /a exists already, with other settings: weight 1.0 -> 2.0; "
        f'params.x 1 -> 2; params.y none -> "{"z" * 79}...'
    )
    with pytest.raises(Conflict):
        queue.create_campaign(spec, exist_ok=False)


def test_settings_are_read_and_changed_in_sql(queue: Client, postgres: Postgres) -> None:
    """What is read can be given back, and a slip is refused, as in a campaign file."""
    spec = CampaignSpec("/a", max_running=3, cores=2, requires=("gpu",), memory=(2**30,))
    campaign = queue.create_campaign(spec)
    again = "select taskq.change_campaign('/a', taskq.campaign_settings('/a')::text)"
    postgres.execute(again)
    assert campaign.spec() == spec
    for slip in ("owner", "running_limit", "max_runing", "path"):
        with pytest.raises(psycopg.DatabaseError, match=f"has no setting '{slip}'"):
            postgres.execute("select taskq.change_campaign('/a', %s)", [f'{{"{slip}": null}}'])
    assert campaign.spec() == spec


def test_change_raises_the_revision(queue: Client, database: Database) -> None:
    """Agents see by it that what they keep of a campaign is out of date."""
    campaign = queue.create_campaign(CampaignSpec("/a", time_limit_s=60))
    before = database.row("campaign", path="/a")
    campaign.change(CampaignSpec("/a", params={"x": 1}))
    after = database.row("campaign", path="/a")
    assert before is not None
    assert after is not None
    assert after["revision"] > before["revision"]
    assert (after["settings"]["params"], after["settings"]["time_limit_s"]) == ({"x": 1}, None)


def test_absent_campaign_is_named(queue: Client) -> None:
    """Reading and changing alike."""
    gone = queue.create_campaign("/a")
    gone.remove()
    for call in (
        lambda: queue.campaign("/a"),
        gone.spec,
        gone.status,
        gone.pause,
        gone.cancel,
        lambda: gone.change(CampaignSpec("/a")),
        lambda: gone.seed([{"n": 1}]),
        gone.remove,
    ):
        with pytest.raises(NotFound, match=r"/a\b|id \d+"):
            call()


def test_one_of_many_creates_a_campaign(queue: Client) -> None:
    """Of callers at the same moment one succeeds, the others learn that it exists."""
    outcomes = at_once(*[lambda: queue.create_campaign("/x/y/z", exist_ok=False)] * 6)
    assert Counter(type(outcome).__name__ for outcome in outcomes) == {"Campaign": 1, "Conflict": 5}


def test_siblings_are_created_at_once_with_what_is_above_them(queue: Client) -> None:
    """Each caller finds the missing parents, or makes them; none fails."""

    def create(number: int) -> Callable[[], object]:
        return lambda: queue.create_campaign(f"/x/y{number % 2}/z{number}")

    for outcome in at_once(*(create(number) for number in range(8))):
        assert not isinstance(outcome, TaskqError)
    assert len(queue.campaign("/").tree()) == 1 + 1 + 2 + 8


def test_parent_whose_creator_gives_up_is_created_by_who_waited(queue: Client, dsn: str) -> None:
    """A creation that is rolled back leaves others neither waiting nor without a parent."""
    with psycopg.connect(dsn) as slow, ThreadPoolExecutor(1) as pool:
        slow.execute("select taskq.create_campaign('/x/other')")
        waiting = pool.submit(queue.create_campaign, "/x/mine")
        wait_until(lambda: blocked(dsn))
        slow.rollback()
        assert waiting.result(timeout=60).path == "/x/mine"
    assert [node.path for node in queue.campaign("/").tree()] == ["/", "/x", "/x/mine"]


def test_counts_at_each_depth(queue: Client) -> None:
    """A campaign with all below it; each directly below; each of the tree with its own."""
    tasks_of(queue, "/a /a/b /a/b/c /a/d", 2)
    campaign = queue.campaign("/a")
    assert (campaign.status().waiting, campaign.status().total) == (8, 8)
    children = campaign.child_statuses()
    assert [(node.path, node.waiting) for node in children] == [("/a/b", 4), ("/a/d", 2)]
    assert [(child.path, child.status().waiting) for child in campaign.children()] == [
        ("/a/b", 4),
        ("/a/d", 2),
    ]
    assert [(node.path, node.waiting) for node in campaign.tree()] == [
        ("/a", 2),
        ("/a/b", 2),
        ("/a/b/c", 2),
        ("/a/d", 2),
    ]
    assert queue.campaign("/").status().waiting == 8


def test_paths_that_begin_alike_are_strangers(queue: Client) -> None:
    """/a holds /a/b; it has nothing to do with /a0, /a-b, /a.b, /ab or /A."""
    strangers = ["/a0", "/a-b", "/a.b", "/a+", "/a,1", "/a=1", "/a@x", "/aa", "/A", "/a_"]
    tasks_of(queue, " ".join(["/a", "/a/b", *strangers]), 1)
    assert [node.path for node in queue.campaign("/a").tree()] == ["/a", "/a/b"]
    assert queue.campaign("/a").status().waiting == 2
    queue.campaign("/a").remove()
    assert queue.campaign("/").status().waiting == len(strangers)


@pytest.mark.parametrize("status", ["paused", "cancelled"])
def test_status_of_a_campaign_holds_for_all_below(
    status: str, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Also for what is created there later; a campaign next to is not touched."""
    tasks_of(queue, "/a /a/b /z")
    top = queue.campaign("/a")
    assert top.pause() if status == "paused" else top.cancel()
    queue.create_campaign("/a/b/later")
    assert {node.path: node.state for node in queue.campaign("/").tree()} == {
        "/": "open",
        "/a": status,
        "/a/b": status,
        "/a/b/later": status,
        "/z": "open",
    }
    assert [len(hire(path).claim(9)) for path in ("/a", "/a/b", "/z")] == [0, 0, 2]
    assert not (top.pause() if status == "paused" else top.cancel())
    top.resume()
    assert queue.campaign("/a/b/later").status().state == "open"
    queue.campaign("/a/b/later").seed([{"n": 1}])
    assert len(hire("/a/b/later").claim(9)) == 1
    assert_counts_are_true(postgres)


def test_cancelled_campaign_cannot_be_paused(queue: Client) -> None:
    """It hands nothing out anyway, and must not come back by being resumed from a pause."""
    tasks_of(queue, "/a")
    queue.campaign("/a").cancel()
    with pytest.raises(Conflict, match="/a is cancelled"):
        queue.campaign("/a").pause()
    assert queue.campaign("/a").status().state == "cancelled"


def test_campaign_below_can_stay_paused(queue: Client, hire: Hire) -> None:
    """Resuming what is above does not resume what was paused by itself."""
    tasks_of(queue, "/a /a/b")
    queue.campaign("/a").pause()
    queue.campaign("/a/b").pause()
    queue.campaign("/a").resume()
    assert len(hire("/a").claim(9)) == 2
    assert hire("/a/b").claim(9) == []


def test_cancelling_reaches_every_task_below(queue: Client, postgres: Postgres) -> None:
    """Each campaign of the tree, and how many there were."""
    tasks_of(queue, "/a /a/b /a/b/c /z", 3)
    assert queue.campaign("/a").cancel() == 9
    status = queue.campaign("/a").status()
    assert (status.cancelled, status.unfinished) == (9, 0)
    assert set(statuses(postgres, "/z").values()) == {"waiting"}


def test_cancelled_campaign_takes_no_seeds_and_retries(queue: Client) -> None:
    """Neither itself nor below, until it is resumed."""
    tasks_of(queue, "/a /a/b")
    queue.campaign("/a").cancel()
    for path in ("/a", "/a/b"):
        with pytest.raises(Conflict, match="resume it before"):
            queue.campaign(path).seed([{"n": 99}])
        with pytest.raises(Conflict, match="resume it before"):
            queue.campaign(path).retry(status="cancelled")
    queue.campaign("/a").resume()
    assert queue.campaign("/a").seed([{"n": 99}]).added == 1
    assert queue.campaign("/a").retry(status="cancelled") == 4


@pytest.mark.parametrize("act", ["seed", "retry"])
def test_nothing_waits_in_a_campaign_that_was_cancelled_meanwhile(
    act: str, queue: Client, dsn: str, postgres: Postgres
) -> None:
    """A seed or retry that is under way when a campaign above is cancelled is cancelled with it."""
    tasks_of(queue, "/a/b", 3)
    queue.campaign("/a/b").cancel()
    queue.campaign("/a/b").resume()
    with psycopg.connect(dsn) as slow, ThreadPoolExecutor(1) as pool:
        if act == "seed":
            slow.execute("""select taskq.submit('/a/b', '[{"key": "late", "payload": {}}]')""")
        else:
            slow.execute(
                "select taskq.retry(taskq.campaign_id('/a/b'), 'cancelled', null, null, 0, 9)"
            )
        cancelling = pool.submit(queue.campaign("/a").cancel)
        wait_until(lambda: cancelling.done() or blocked(dsn))
        slow.commit()
        cancelling.result(timeout=60)
    assert set(statuses(postgres, "/a/b").values()) == {"cancelled"}


def test_root_cannot_be_created(queue: Client) -> None:
    """It has always been there."""
    with pytest.raises((Conflict, UsageError)):
        queue.create_campaign("/", exist_ok=False)
    with pytest.raises(Conflict, match=r"with other settings: weight 1\.0 -> 2\.0"):
        queue.create_campaign(CampaignSpec("/", weight=2.0))


def test_waiting_for_the_end_takes_all_below_into_account(queue: Client, hire: Hire) -> None:
    """`wait` returns the last status, or gives up after its time."""
    tasks_of(queue, "/a /a/b", 1)
    for path in ("/a", "/a/b"):
        with pytest.raises(TimeoutError, match="unfinished"):
            queue.campaign("/a").wait(timeout_s=0)
        agent = hire(path)
        agent.done(agent.claim(1)[0])
    assert queue.campaign("/a").wait(timeout_s=0).done == 2
