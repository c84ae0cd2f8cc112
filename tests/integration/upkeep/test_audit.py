"""The audit: silent about a queue that is as it should be, it finds each thing that is not."""

from __future__ import annotations

import importlib.resources
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, Seed
from taskq.db import audit
from taskq.db.audit import CHECKS, OF_CAMPAIGNS, ONCE
from taskq.model.errors import NotFound
from tests.fixtures.histories import BREACHES, KEPT, LIVES, LONG_AGO, SESSION, History, in_task
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, expire, value
from tests.helpers.waiting import wait_until


def found(queue: Client, path: str = "/") -> list[str]:
    """Return the names of the checks that have found something."""
    return [violation.check for violation in queue.audit(path)]


def test_queue_that_is_as_it_should_be_is_clean(queue: Client, history: History) -> None:
    """Tasks in each status, failed, lost, tried again, leased ahead: none breaks a promise."""
    status = history.campaign.status()
    assert [getattr(status, name) for name in ("done", "failed", "cancelled", "delayed")] == [
        *(1, 2, 1, 1)
    ]
    assert (status.working, status.waiting) == (2, 2)
    assert found(queue) == []


def first_of_each_check() -> list[Any]:
    """Return all breaches, those that another one of the same check precedes as thorough."""
    seen: set[str] = set()
    cases = []
    for name, breach in BREACHES.items():
        marks = [pytest.mark.thorough] if breach[0] in seen else []
        seen.add(breach[0])
        cases.append(pytest.param(*breach, marks=marks, id=name))
    return cases


@pytest.mark.parametrize(("check", "key", "changes"), first_of_each_check())
def test_each_breach_is_found_by_its_check_alone(
    queue: Client, history: History, check: str, key: str, changes: tuple[str, ...]
) -> None:
    """What was changed by hand is reported with the rows of its task, and nothing else is."""
    (task,) = (task for task in history.campaign.tasks() if task.key == key)
    history.breach(key, *changes)
    (violation,) = queue.audit()
    assert (violation.campaign, violation.check) == ("/c", check)
    assert violation.task_id == task.task_id
    assert violation.text
    if violation.rows["task"] is not None:  # the row, as it stood before or as damaged
        assert violation.rows["task"]["status"] == task.status
    assert {attempt["task_id"] for attempt in violation.rows["attempts"]} <= {task.task_id}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["waiting", "working", "done", "failures", "losses", "children"])
def test_counter_that_is_not_a_recount_is_found(queue: Client, history: History, name: str) -> None:
    """It reports counts and recounts side by side."""
    history.count(name, 1)
    (violation,) = queue.audit()
    assert (violation.check, violation.task_id) == ("counts", None)
    assert name in violation.text
    assert violation.rows["counted"][name] == violation.rows["found"][name] + 1


@pytest.mark.thorough
def test_counter_that_is_gone_is_found(queue: Client, history: History) -> None:
    """Its path still names its campaign, with what has not been counted up yet."""
    value(history.postgres, "select taskq.fold('0')")
    history.postgres.execute(
        "delete from taskq.counter where campaign_id = %s", [history.campaign.campaign_id]
    )
    found = {(violation.campaign, violation.check) for violation in queue.audit()}
    assert found == {("/", "subtotals"), ("/c", "counts")}


@pytest.mark.thorough
def test_task_that_is_gone_is_found(queue: Client, history: History) -> None:
    """A spec and attempts without a task, though the counts agree."""
    history.breach("waiting", "delete from taskq.task where task_id = %(task)s")
    history.count("waiting", -1)
    (violation,) = queue.audit()
    assert violation.check == "halves"
    assert violation.rows["task"] is None


def test_every_check_has_a_breach() -> None:
    """A check that was never seen to find anything proves nothing."""
    files = importlib.resources.files("taskq.sql.audit").iterdir()
    names = {file.name.removesuffix(".sql") for file in files if file.name.endswith(".sql")}
    assert names == {*CHECKS, *OF_CAMPAIGNS, *ONCE}
    assert {*CHECKS} == {check for check, _, _ in BREACHES.values()}


def test_campaign_that_does_not_know_the_quota_of_its_owner_is_found(
    queue: Client, campaign: Campaign, postgres: Postgres
) -> None:
    """Claims look at the campaign alone."""
    owner = str(queue.owners.of(campaign.path))
    queue.owners.set_quota(owner, {"max_running": 5, "max_bytes": 1})
    queue.owners.give("/", owner)
    assert found(queue) == []
    postgres.execute("update taskq.campaign set running_quota = 6 where path = '/c'")
    (violation,) = queue.audit()
    assert (violation.campaign, violation.check) == ("/c", "quota")
    assert violation.text == "5 tasks of its owner may run by the quota, and by its own record 6"
    assert violation.rows == {"owner": owner, "quota": 5, "campaign": 6}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"named_limits": ("oechem",)}, "limit oechem"),
        ({"max_running_per_site": 9}, "limit at the site here"),
    ],
    ids=["with a name", "at a site"],
)
def test_tasks_that_count_too_little_towards_a_limit_are_found(
    settings: dict[str, Any], words: str, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """More tasks of a claim than count; fewer are those of which nobody has seen the end."""
    queue.limits.set("oechem", 9)
    campaign = queue.create_campaign(CampaignSpec("/limited", **settings))
    campaign.seed([Seed({"n": n}) for n in range(4)])
    agent = hire("/limited", slots=4, site="here")
    assert len(agent.claim(3)) == 3
    assert found(queue) == []
    postgres.execute("update taskq.limit_claim set counts = '{4}'")
    assert found(queue) == []
    postgres.execute("update taskq.limit_claim set counts = '{2}'")
    (violation,) = queue.audit()
    assert (violation.campaign, violation.check) == ("/limited", "limited")
    session = violation.rows["session"]
    assert violation.text == (
        f"3 tasks run of a claim of session {session}, and 2 of them count towards the {words}"
    )
    postgres.execute("update taskq.limit_claim set counts = '{3}'")
    for change, summed in [
        ("update taskq.limit_total set starts = 2", 2),
        ("delete from taskq.limit_total", 0),
    ]:
        postgres.execute(change)
        (violation,) = queue.audit()
        said = f"{summed} starts are summed, and claims count for 3, of the {words}"
        assert violation.text == said


def test_output_files_that_are_not_counted_as_stored_are_found(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """By the count a campaign has room for more, or for none."""
    campaign = queue.create_campaign(CampaignSpec("/c", output_bytes=20_000))
    campaign.seed([Seed({}, "a")])
    task = hire().claim(1)[0]
    query = "select saved from taskq.save_output(null, %s, %s, %s, %s, 1000)"
    assert value(postgres, query, task.campaign, task.task, task.lease, "0" * 64)
    assert queue.database.value("add_argument", path="/c", digest="1" * 64, size=500)
    assert found(queue) == []
    postgres.execute("update taskq.output_use set bytes = 2 * bytes")
    files, arguments = sorted(queue.audit(), key=lambda violation: violation.text)
    assert (files.campaign, files.check) == ("/c", "outputs")
    assert files.text == "1000 bytes of output files are stored, and 2000 are counted"
    assert files.rows == {"stored": 1000, "counted": 2000}
    assert arguments.text == "500 bytes of arguments are stored, and 1000 are counted"


@pytest.mark.thorough
def test_session_that_the_keeper_still_looks_through_is_no_breach(
    queue: Client, history: History
) -> None:
    """What an ended session has left is not stuck while the next round of upkeep will find it."""
    history.breach("working", SESSION.format("ended_at = clock_timestamp()"), KEPT)
    assert found(queue) == []
    # Nor is what ended long ago, where there was no keeper.
    history.breach("working", SESSION.format(LONG_AGO))
    history.postgres.execute(
        "update taskq.keeper set until = clock_timestamp() - interval '3 hours'"
    )
    assert found(queue) == []
    expire(history.postgres)
    assert history.campaign.task("working").status == "waiting"


def test_each_campaign_is_seen_at_one_moment(
    queue: Client, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happens between two pages is not seen by halves: here, a task that ends."""
    monkeypatch.setattr(audit, "_PAGE", 2)
    campaign = queue.create_campaign("/c")
    campaign.seed({"n": n} for n in range(5))
    agent = hire()
    tasks = agent.claim(5)
    pages: list[tuple[str, int]] = []

    def work(path: str, count: int) -> None:
        pages.append((path, count))
        agent.done(tasks.pop())
        campaign.seed([{"n": f"after {len(tasks)}"}])

    assert list(queue.audit("/c", work)) == []
    assert pages == [("/c", 2), ("/c", 2), ("/c", 1)]


def test_pages_leave_nothing_out(
    queue: Client, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task is looked at once, wherever pages end, also behind the last that has a spec."""
    monkeypatch.setattr(audit, "_PAGE", 2)
    campaign = queue.create_campaign("/c")
    for n in range(6):
        campaign.seed([{"n": n}])  # each with a row of its own
    postgres.execute("update taskq.task set status = 'delayed'")
    assert sorted(
        violation.task_id or 0 for violation in queue.audit() if violation.check == "delayed"
    ) == [task.task_id for task in campaign.tasks()]
    postgres.execute("delete from taskq.spec where payload ->> 'n' > '2'")
    assert found(queue).count("halves") == 3


@pytest.mark.thorough
def test_audit_of_a_campaign_leaves_others_alone(queue: Client, history: History) -> None:
    """A path stands for the campaign and all below it; one that is not there is reported."""
    queue.create_campaign("/d/e")
    history.breach("waiting", "delete from taskq.spec where task_id = %(task)s")
    assert found(queue, "/d") == []
    assert found(queue, "/c") == found(queue, "/") == ["halves"]
    with pytest.raises(NotFound):
        list(queue.audit("/nowhere"))


@pytest.mark.thorough
def test_audit_writes_nothing_and_waits_for_nobody(
    queue: Client, history: History, dsn: str
) -> None:
    """It goes on while others have rows locked, and cannot change any."""
    with psycopg.connect(dsn) as other:
        other.execute("select from taskq.task for update")
        assert found(queue) == []
    with queue.database.transaction() as snapshot:
        snapshot.execute("audit_snapshot")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            snapshot.rows(
                "drain_sessions", path="/", sites=None, agents=None, hosts=None, dry_run=False
            )
    assert history.campaign.status().total == len(LIVES) + 2


@pytest.mark.thorough
def test_audit_command_lists_violations_and_fails(
    queue: Client, history: History, dsn: str
) -> None:
    """The exit code is 1 where something was found; what is written can be read by programs."""
    taskq = CommandLine(dsn)
    assert taskq.out("audit") == "9 tasks in 2 campaigns: no violations.\n"
    assert taskq.json("audit", "/c") == []
    history.breach("delayed", in_task(due_at="null"))
    history.count("done", 1)
    result = taskq("audit", "--output", "jsonl")
    assert result.exit_code == 1
    assert result.stderr == "Error: 2 violations found.\n"
    violations = [json.loads(line) for line in result.stdout.splitlines()]
    assert violations == [asdict(violation) for violation in queue.audit()]
    shown = taskq("audit", "--limit", 1)
    assert shown.exit_code == 1
    assert re.search(
        r"^/c +[0-9]+ +delayed +delayed +it is delayed, but", shown.stdout, re.MULTILINE
    )
    hint = "; --output json shows the rows"
    assert shown.stderr == f"Error: 2 violations found{hint}.\n"
    first = taskq("audit", "--limit", 1, "--output", "jsonl")
    assert json.loads(first.stdout) == violations[0]
    assert first.stderr == "Error: 2 violations found.\n"


@pytest.mark.thorough
@pytest.mark.parametrize("output", ["table", "jsonl"])
def test_full_disk_is_no_violation(history: History, dsn: str, output: str) -> None:
    """Nor a defect of ours: the exit code is that of output that cannot be written."""
    history.count("done", 1)
    with (
        Path("/dev/full").open("w") as full,
        CommandLine(dsn).process("audit", "-o", output, stdout=full) as audit,
    ):
        _, said = audit.communicate(timeout=60)
    assert audit.returncode == 74
    assert "the output cannot be written: No space left on device" in said


@pytest.mark.thorough
def test_command_shows_on_a_terminal_how_far_it_is(
    dsn: str, campaign: Campaign, postgres: Postgres
) -> None:
    """What is shown goes when it is through."""
    campaign.seed({"n": n} for n in range(30_000))
    with psycopg.connect(dsn) as behind, CommandLine(dsn).terminal("audit", "/c") as terminal:
        # Held up for a second at its first page; else it can be through before anything is drawn.
        behind.execute("lock table taskq.task in access exclusive mode")
        held_up = """
            select count(*) from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'
               and clock_timestamp() - query_start > interval '1 second'"""
        wait_until(lambda: value(postgres, held_up) == 1, timeout_s=60)
        behind.rollback()
        terminal.wait_for("checking")
        assert terminal.end() == 0
    assert re.search(r"of 30,000 .*/s  ETA", terminal.seen)
    assert "30,000 tasks in 1 campaign: no violations." in terminal.seen
