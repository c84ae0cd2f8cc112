"""Who did what at campaigns: one row for each act, from any client, and for any number of tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, RetryPolicy, Seed
from taskq.model.acts import VERBS
from taskq.model.errors import NotFound, UsageError
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value


@pytest.fixture
def tree(queue: Client) -> Campaign:
    """Give /x with three campaigns below it, each with 30 tasks."""
    for path in ("/x", "/x/a", "/x/b", "/x/c"):
        made = queue.create_campaign(
            CampaignSpec(path, handler=TRUE, retry=RetryPolicy(max_attempts=1))
        )
        made.seed(Seed({"n": n}, f"n={n}") for n in range(30))
    return queue.campaign("/x")


def seen(queue: Client, path: str = "/") -> list[tuple[str, str, list[str] | None, int | None]]:
    """Return verb, campaign, what and tasks of the acts, the first one first."""
    found = reversed(queue.acts(path))
    return [(it.verb, it.path, it.what and list(it.what), it.tasks) for it in found]


def fail(hire: Hire, path: str, tasks: int) -> None:
    agent = hire(path)
    for task in agent.claim(tasks):
        agent.fail(task, "exit-1", retry=False)


def test_each_act_on_a_tree_is_one_row_with_all_its_tasks(
    queue: Client, tree: Campaign, hire: Hire
) -> None:
    """Whatever the number of campaigns and of statements."""
    fail(hire, "/x", 60)
    assert tree.cancel(where="state = waiting and payload.n < 5", dry_run=True) > 0
    moved = [
        tree.retry(error_class="exit-1"),
        tree.set_priority(7, where="payload.n < 9"),
        tree.cancel(where="payload.n = 3"),
        tree.cancel(["n=4"]),
    ]
    tree.pause()
    tree.resume()
    moved.append(tree.cancel())
    assert seen(queue) == [
        ("retry", "/x", ["failed", "exit-1"], moved[0]),
        ("prioritise", "/x", ["7", "payload.n < 9"], moved[1]),
        ("cancel", "/x", ["payload.n = 3"], moved[2]),
        ("cancel", "/x", ["by key"], moved[3]),
        ("pause", "/x", [], 0),
        ("resume", "/x", [], 0),
        ("cancel", "/x", [], moved[4]),
    ]
    assert min(moved) > 0
    assert {it.who for it in queue.acts()} == {"taskq"}


def test_claims_reports_seeds_and_what_changes_nothing_are_no_acts(
    queue: Client, tree: Campaign, hire: Hire
) -> None:
    """Creating is none either: the campaign itself has its owner and its time."""
    agent = hire("/x")
    for task in agent.claim(5):
        agent.done(task)
    tree.resume()
    tree.change(tree.spec())
    for dry in (tree.cancel, tree.retry):  # pages and `--dry-run` look so before they act
        dry(where="payload.n = 9", dry_run=True)
        dry(dry_run=True)
    tree.set_priority(3, where="payload.n = 9", dry_run=True)
    assert tree.cancel(where="payload.n = 900") == 0
    assert seen(queue) == []


def test_act_that_is_rolled_back_leaves_nothing(
    queue: Client, tree: Campaign, postgres: Postgres
) -> None:
    with postgres.transaction(force_rollback=True):
        postgres.execute("select taskq.set_status('/x', 'paused')")
    assert (seen(queue), tree.status().state) == ([], "open")


def test_changes_bans_owners_and_removals_are_known_with_what(
    queue: Client, tree: Campaign, tmp_path: Path
) -> None:
    (tmp_path / "receptor").write_text("ATOM")
    tree.change(replace(tree.spec(), cores=2, handler=Handler("command", argv=("false",))))
    tree.add_input(tmp_path / "receptor")
    queue.queries.rows(
        "ban", kind="host", name="n1", why="its disk\nis full", lifetime_s=None, path="/x/a"
    )
    queue.queries.rows("unban", kind="host", name="n1", path=None)
    queue.owners.give("/x/b", "anna")
    queue.campaign("/x/c").remove()
    assert seen(queue) == [
        ("change", "/x", ["cores", "handler"], 0),
        ("change", "/x", ["input receptor"], 0),
        ("ban", "/x/a", ["host n1", "its disk is full"], 0),
        ("unban", "/x/a", ["host n1"], 0),
        ("give", "/x/b", ["anna"], 0),
        ("remove", "/x/c", [], 30),
    ]
    assert seen(queue, "/x/c")[-1] == ("remove", "/x/c", [], 30)


def test_acts_at_below_and_above_a_campaign_are_shown_and_no_others(
    queue: Client, tree: Campaign
) -> None:
    """A name that begins as another is not below it."""
    queue.create_campaign("/xy").pause()
    for path in ("/x/a", "/x/b", "/"):
        queue.campaign(path).pause()
    tree.pause()
    assert {it[1] for it in seen(queue, "/x")} == {"/", "/x", "/x/a", "/x/b"}
    assert {it[1] for it in seen(queue, "/x/a")} == {"/", "/x", "/x/a"}
    assert [it.verb for it in queue.acts("/x", verbs=["cancel"])] == []
    assert len(queue.acts("/x", limit=2)) == 2


def test_login_that_may_not_act_for_tokens_cannot_take_the_name_of_one(
    queue: Client, postgres: Postgres
) -> None:
    """Whatever it sets."""
    queue.create_campaign("/x")
    postgres.execute("create role stranger login")
    postgres.execute("grant usage on schema taskq to stranger")
    postgres.execute("grant execute on function taskq.set_status to stranger")
    try:
        postgres.execute("set session authorization stranger")
        postgres.execute("set taskq.token_name = 'anna'")
        postgres.execute("select taskq.set_status('/x', 'paused')")
    finally:
        postgres.execute("reset session authorization")
        postgres.execute("reset taskq.token_name")
        postgres.execute("drop owned by stranger")
        postgres.execute("drop role stranger")
    assert [it.who for it in queue.acts("/x")] == ["stranger"]


def test_program_that_acts_without_end_has_a_row_a_minute(
    queue: Client, tree: Campaign, postgres: Postgres
) -> None:
    for n in range(20):
        tree.cancel([f"n={n}"])
    (act,) = queue.acts()
    assert (act.tasks, act.calls) == (20, 40)
    postgres.execute("update taskq.act set ended_at = ended_at - interval '61 s'")
    tree.cancel(["n=25"])
    assert [it.tasks for it in queue.acts()] == [1, 20]


def test_texts_that_are_planted_are_short_and_have_no_control_characters(
    queue: Client, dsn: str
) -> None:
    """Those who may act may say what they like of it; no terminal obeys."""
    queue.create_campaign("/x")
    planted = ["\x1b[2J\r\n\x9b31m<script>", "y" * 100_000, *["z"] * 10_000]
    queue.queries.rows("begin_act", path="/x", verb="cancel", what=planted)
    (act,) = queue.acts()
    assert act.what is not None
    assert (len(act.what), max(map(len, act.what))) == (20, 200)
    assert act.what[0] == " [2J 31m<script>"
    assert "\x1b" not in CommandLine(dsn).out("campaign", "acts", "/x")
    with pytest.raises(UsageError):
        queue.queries.rows("begin_act", path="/x", verb="remove", what=[])
    with pytest.raises(NotFound):
        queue.queries.rows("begin_act", path="/y", verb="cancel", what=[])


FILL = """
    insert into taskq.act (path, verb, who, what, began_at, ended_at, tasks)
    select '/x/' || n %% 20000, 'pause', %s, '{}', now() - %s * interval '1 day',
           now() - %s * interval '1 day', 0
      from generate_series(1, %s) as n
"""


def thin(postgres: Postgres) -> int:
    """Thin until nothing goes; return how many went."""
    total = 0
    while gone := value(postgres, "select taskq.thin_acts()"):
        total += gone
    return total


def by(postgres: Postgres) -> dict[str, int]:
    rows = postgres.execute("select who, count(*) as n from taskq.act group by who").fetchall()
    return {row["who"]: row["n"] for row in rows}


@pytest.mark.thorough
def test_acts_of_the_one_who_has_most_go_first_and_old_ones_of_all(
    queue: Client, postgres: Postgres
) -> None:
    """Nobody makes the acts of others vanish by acting a lot."""
    for who, days, number in (
        ("gone", 401, 7_000),
        ("anna", 3, 1_000),
        ("noisy", 2, 90_000),
        ("loud", 1, 40_000),
    ):
        postgres.execute(FILL, [who, days, days, number])
    assert thin(postgres) == 7_000 + 31_000
    assert by(postgres) == {"anna": 1_000, "noisy": 59_000, "loud": 40_000}
    assert thin(postgres) == 0
    assert queue.acts("/x/77", limit=3)[0].who == "loud"


def test_command_lists_acts_also_of_removed_campaigns(
    dsn: str, queue: Client, tree: Campaign
) -> None:
    tree.remove()
    taskq = CommandLine(dsn)
    shown = taskq.out("campaign", "acts", "/x", "--verb", "remove")
    assert shown.split()[:4] == ["WHEN", "BY", "VERB", "CAMPAIGN"]
    (record,) = taskq.json("campaign", "acts", "/x")
    got: dict[str, Any] = {name: record[name] for name in ("path", "verb", "who", "tasks")}
    assert got == {"path": "/x", "verb": "remove", "who": "taskq", "tasks": 120}
    assert taskq.json("campaign", "acts", "/x", "--verb", "pause") == []
    assert set(VERBS) >= {it.verb for it in queue.acts()}
