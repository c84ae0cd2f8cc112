"""A campaign stands for itself and all campaigns below it, also when it is removed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.model.errors import Conflict
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import tasks_of
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import (
    Postgres,
    assert_counts_are_true,
    blocked,
    expire,
    silence,
)
from tests.helpers.waiting import wait_until

#: A campaign and one below it: of each, a task that is done, one that has failed, one that waits.
PATHS = ("/a", "/a/b")


@pytest.fixture
def tree(queue: Client, hire: Hire) -> Campaign:
    """Give the upper one."""
    for path in PATHS:
        campaign = queue.create_campaign(path)
        for number, name in enumerate(("done", "failed", "waiting")):
            campaign.submit({"n": number}, key=name, priority=-number)
    for path in reversed(PATHS):
        agent = hire(path)
        done, failed = agent.claim(1) + agent.claim(1)
        agent.done(done, {"n": 1})
        agent.fail(failed, "odd", retry=False)
        agent.leave()
    return queue.campaign("/a")


@pytest.fixture
def taskq(dsn: str) -> CommandLine:
    """Give the command line of this queue."""
    return CommandLine(dsn)


def test_reading_a_campaign_includes_those_below(tree: Campaign) -> None:
    """Each task names its campaign; a key is one of the campaign itself."""
    for below, paths in ((True, list(PATHS)), (False, ["/a"])):
        assert [result.campaign for result in tree.results(below=below)] == paths
        assert [failure.campaign for failure in tree.failures(below=below)] == paths
        assert [task.campaign for task in tree.tasks("waiting", below=below)] == paths
        assert sorted({task.campaign for task in tree.tasks(below=below)}) == paths
        assert sorted(cause.campaign for cause in tree.failure_causes(below=below)) == paths
        assert tree.failure_classes(below=below) == {"odd": len(paths)}
        assert tree.status(below=below).total == 3 * len(paths)
    assert len(tree.failure_causes(limit=1)) == 1
    assert tree.task("done").campaign == "/a"


def test_verbs_of_a_campaign_include_those_below(tree: Campaign) -> None:
    """A campaign whose own tasks are cancelled stays open, and so does what is below."""
    assert tree.retry(dry_run=True) == 2
    assert tree.retry(dry_run=True, error_class="odd", below=False) == 1
    assert tree.retry(dry_run=True, error_class="even") == 0
    assert tree.status().failed == 2
    assert tree.retry(below=False) == 1
    assert tree.retry() == 1
    assert tree.cancel(below=False) == 2
    assert (tree.status().state, tree.status().cancelled) == ("open", 2)
    assert tree.wait(timeout_s=0, below=False).cancelled == 2
    with pytest.raises(TimeoutError):
        tree.wait(timeout_s=0)
    assert tree.cancel() == 2
    assert tree.status().state == "cancelled"


@pytest.mark.parametrize(
    "words",
    [["results"], ["tasks", "--status", "done"], ["failures"], ["failures", "--each"]],
    ids=" ".join,
)
@pytest.mark.usefixtures("tree")
def test_commands_list_what_is_below(taskq: CommandLine, words: list[str]) -> None:
    """And leave it out on request."""
    command, *options = words
    listed = taskq.json(command, "/a", *options)
    assert [record["campaign"] for record in listed] == list(PATHS)
    own = taskq.json(command, "/a", "--no-below", *options)
    assert own == [record for record in listed if record["campaign"] == "/a"]
    assert "/a/b" not in taskq.out(command, "/a", "--no-below", *options)


@pytest.mark.usefixtures("tree")
def test_status_counts_what_is_below(taskq: CommandLine) -> None:
    """Without it, the owners below are not shown either."""
    whole, own = taskq.json("status", "/a"), taskq.json("status", "/a", "--no-below")
    assert (whole["waiting"], own["waiting"]) == (2, 1)
    assert [reason["tasks"] for reason in whole["reasons"] if reason["code"] == "no-handler"] == [2]
    assert own["reasons"] is None
    assert own["failure_classes"] == [{"error_class": "odd", "attempts": 1}]
    assert taskq.refused("failures", "/a", "--judge", "class", "--no-below")[0] == 2


@pytest.mark.usefixtures("tree")
def test_everything_is_retried_after_a_question_only(taskq: CommandLine) -> None:
    """It says how many; what was chosen by class or key needs none."""
    code, error = taskq.refused("retry", "/a")
    assert (code, "Retry 2 failed tasks of /a and all below it? Add --yes" in error) == (2, True)
    said = taskq.json("retry", "/a", "--dry-run")
    assert said == {"path": "/a", "tasks": 2, "dry_run": True}
    assert taskq.out("retry", "/a", "--dry-run", "--no-below").startswith("1 task of /a would be")
    assert taskq.json("status", "/a")["failed"] == 2
    assert taskq.json("retry", "/a", "--key", "failed")["tasks"] == 1
    assert taskq.json("retry", "/a", "--yes")["tasks"] == 1
    assert taskq.out("retry", "/a") == "0 tasks of /a will be tried again.\n"


def test_all_agents_are_drained_after_a_question_only(taskq: CommandLine, hire: Hire) -> None:
    """Those of a site, a name or a host need none."""
    for host in ("one", "two"):
        hire("/", host=host)
    code, error = taskq.refused("agents", "drain", "--campaign", "/")
    assert (code, "Drain 2 agents of / and all below it? Add --yes" in error) == (2, True)
    drain = ("agents", "drain", "--campaign", "/")
    assert taskq.json(*drain, "--dry-run") == {"agents": 2, "dry_run": True}
    assert taskq.json(*drain, "--host", "one") == {"agents": 1, "dry_run": False}
    assert taskq.json(*drain, "--dry-run")["agents"] == 1
    assert taskq.json(*drain, "--yes")["agents"] == 1
    assert taskq.json(*drain)["agents"] == 0


def test_watching_ends_with_a_code_that_says_whether_tasks_failed(
    taskq: CommandLine, tree: Campaign
) -> None:
    """That of timeout(1) when its time is over, and 0 where all went well."""
    late = taskq("watch", "/a", "--timeout", "0s")
    assert late.exit_code == 124
    assert late.stderr == "Error: /a after 0.0 s: 2 unfinished tasks.\n"
    tree.cancel(["waiting"])
    own = taskq("watch", "/a", "--no-below", "--timeout", "2h")
    assert (own.exit_code, "1 task failed; see `taskq failures /a`" in own.stderr) == (1, True)
    tree.retry(keys=["failed"])
    tree.cancel(["failed"])
    assert taskq("watch", "/a", "--no-below").exit_code == 0


@pytest.mark.both_transports
def test_removed_campaign_leaves_nothing(queue: Client, hire: Hire, postgres: Postgres) -> None:
    """Tasks, specs, attempts, counts and all campaigns below it are gone; others are not."""
    tasks_of(queue, "/a /a/b /z", 3)
    agent = hire("/a/b")
    done, *_ = agent.claim(2)
    agent.done(done)
    other = hire("/z")
    other.done(other.claim(1)[0])
    assert queue.campaign("/a").remove() == 6
    assert [node.path for node in queue.campaign("/").tree()] == ["/", "/z"]
    for table in ("spec", "task", "attempt", "counter", "delta"):
        left = postgres.execute(
            sql.SQL(
                "select from taskq.{}"
                " where campaign_id not in (select campaign_id from taskq.campaign)"
            ).format(sql.Identifier(table))
        )
        assert left.rowcount == 0, table
    assert queue.campaign("/").status().total == 3
    assert_counts_are_true(postgres)


@pytest.mark.both_transports
def test_counts_are_true_while_a_campaign_is_being_removed(
    queue: Client, database: Database, hire: Hire, postgres: Postgres
) -> None:
    """Failures and losses go with the tasks that they are of."""
    tasks_of(queue, "/a", 4)
    agent, lost = hire("/a"), hire("/a")
    agent.fail(agent.claim(1)[0])
    agent.done(agent.claim(1)[0])
    lost.claim(1)
    silence(postgres, lost.session)
    assert expire(postgres) == 1
    campaign = queue.campaign("/a")
    campaign.cancel()
    after, removed = 0, []
    while after is not None:
        (row,) = database.rows("remove_tasks", campaign=campaign.campaign_id, after=after, limit=1)
        removed.append(row["moved"])
        after = row["last"]
        assert_counts_are_true(postgres)
    assert removed == [1, 1, 1, 1, 0]


@pytest.mark.both_transports
def test_report_on_a_removed_campaign_is_unknown(queue: Client, hire: Hire) -> None:
    """An agent that did not notice gets a verdict that is final."""
    tasks_of(queue, "/a")
    agent = hire("/a")
    (task,) = agent.claim(1)
    queue.campaign("/a").remove()
    assert agent.done(task) == "unknown"
    assert agent.heartbeat([task]) == {task.task}
    assert agent.claim(1) == []


@pytest.mark.both_transports
def test_only_empty_campaigns_can_be_removed_by_the_verb(queue: Client, database: Database) -> None:
    """What is in use stays; the root stays for ever."""
    tasks_of(queue, "/a /b/c", 0)
    queue.campaign("/a").seed([{"n": 1}])
    for path in ("/a", "/b", "/"):
        with pytest.raises(Conflict, match="not empty"):
            database.rows("remove_campaign", path=path)
    with pytest.raises(Conflict, match="/b/c is not cancelled"):
        database.rows("remove_campaign", path="/b/c")
    campaign = queue.campaign("/a").campaign_id
    with pytest.raises(Conflict, match="not cancelled"):
        database.rows("remove_tasks", campaign=campaign, after=0, limit=10)


@pytest.mark.both_transports
def test_removal_and_folding_do_not_deadlock(queue: Client, dsn: str, postgres: Postgres) -> None:
    """A campaign is removed while a fold has its deltas in hand, and not yet its counter."""
    tasks_of(queue, " ".join(f"/a{n}" for n in range(10)))
    campaign = queue.campaign("/a5")
    with psycopg.connect(dsn) as holder, ThreadPoolExecutor(2) as pool:
        holder.execute(
            "select from taskq.counter where campaign_id <> %s for update", [campaign.campaign_id]
        )
        folding = pool.submit(postgres.execute, "select taskq.fold('0')")
        wait_until(lambda: blocked(dsn) == 1)
        removing = pool.submit(campaign.remove)
        wait_until(lambda: blocked(dsn) == 2)
        holder.commit()
        folding.result(timeout=60)
        assert removing.result(timeout=60) == 2
    assert_counts_are_true(postgres)
