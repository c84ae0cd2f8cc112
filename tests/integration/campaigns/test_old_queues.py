"""Commands in a queue after years: nearly all campaigns have ended, and cost nothing any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from click.testing import Result

from taskq import Client
from taskq.db.catalogue import statement
from taskq.db.statements import Statements
from taskq.diagnosis.campaign_tree import read_children, tree_now
from taskq.diagnosis.tree_readings import TreeReadings
from taskq.model.campaign_spec import CampaignSpec, RetryPolicy
from taskq.model.errors import UnknownCampaign
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres

FEW: Final = 40
MANY: Final = 3_000
ROOT: Final = "/"

ASKED: Final[dict[str, Callable[[Client], object]]] = {
    "ls": lambda queue: read_children(queue.queries, ROOT),
    "metrics": lambda queue: queue.queries.rows("campaign_metrics", paths=[ROOT], limit=20),
    "what is not open": lambda queue: queue.queries.rows("explain_closed", path=ROOT, limit=9),
    "own counts": lambda queue: queue.campaign(ROOT).status(below=False),
    "counts": lambda queue: queue.campaign(ROOT).status(),
    "second attempts": lambda queue: queue.campaign(ROOT).hedges(),
    "causes of failures": lambda queue: queue.campaign(ROOT).failure_causes(),
    "classes of failures": lambda queue: queue.campaign(ROOT).failure_classes(),
    "failed tasks": lambda queue: [*queue.campaign(ROOT).failures()],
    "verdicts on failures": lambda queue: queue.fleet.failures(ROOT),
    "hosts": lambda queue: queue.fleet.hosts(ROOT),
    "cancel some": lambda queue: queue.campaign(ROOT).cancel(where="state = working", below=False),
}


@pytest.fixture
def old(queue: Client, postgres: Postgres) -> Client:
    """Give a queue in which a few campaigns have ended, and one has tasks."""
    for path in ("/ended", "/empty", "/now"):
        queue.create_campaign(CampaignSpec(path, handler=TRUE))
    queue.campaign("/now").seed([{"n": n} for n in range(4)])
    end(postgres, 1, FEW)
    return queue


def end(postgres: Postgres, first: int, last: int) -> None:
    """Add campaigns whose tasks have succeeded, and fold their counts."""
    text = statement("benchmarks.sql/ended")
    postgres.execute(text, {"path": "/ended", "first": first, "last": last})
    postgres.execute("select taskq.fold('0')")
    postgres.execute("vacuum analyze taskq.delta")


def rows_met(
    queue: Client,
    postgres: Postgres,
    ask: Callable[[Client], object],
    patch: pytest.MonkeyPatch,
) -> float:
    """Return how many rows of campaigns the statements of a question read."""
    asked: list[tuple[str, dict[str, Any]]] = []
    rows = Statements.rows

    def noted(self: Statements, name: str, **values: Any) -> Any:
        asked.append((name, values))
        return rows(self, name, **values)

    with patch.context() as patched:
        patched.setattr(Statements, "rows", noted)
        ask(queue)
    assert asked
    met = 0.0
    for name, values in asked:
        with watched(postgres) as seen:
            postgres.execute(statement(name), values)
        met += sum(
            access.rows
            for access in seen.to("campaign", "counter", "subtotal", "delta", "trend").accesses
        )
    return met


def noted_names(patch: pytest.MonkeyPatch) -> list[str]:
    """Give a list in which the names of statements appear as they are sent."""
    asked: list[str] = []
    rows = Statements.rows

    def noted(self: Statements, name: str, **values: Any) -> Any:
        asked.append(name)
        return rows(self, name, **values)

    patch.setattr(Statements, "rows", noted)
    return asked


@pytest.mark.parametrize("what", ASKED)
def test_question_about_the_root_meets_no_ended_campaigns(
    what: str, old: Client, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by what it costs with few of them, whichever statements it is made of."""
    few = rows_met(old, postgres, ASKED[what], monkeypatch)
    end(postgres, FEW + 1, MANY)
    assert rows_met(old, postgres, ASKED[what], monkeypatch) <= 1.5 * few


def test_failures_are_those_of_each_campaign(
    old: Client, hire: Hire, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found without asking each of them, in a large queue as in a small part of it."""
    end(postgres, FEW + 1, MANY)
    old.create_campaign(CampaignSpec("/now/below", handler=TRUE, retry=RetryPolicy(max_attempts=1)))
    old.campaign("/now/below").seed([{"n": 1}])
    agent, other = hire("/now", host="n1"), hire("/now/below", host="n2")
    (tried,) = agent.claim(1)
    assert agent.fail(tried, "Tried") == "accepted"
    (failed,) = other.claim(1)
    assert other.fail(failed, "Failed") == "accepted"
    (given_back,) = agent.claim(1)
    assert agent.release(given_back, started=True) == "accepted"
    for path in (ROOT, "/now"):
        asked = noted_names(monkeypatch)
        campaign = old.campaign(path)
        causes = {cause.campaign: cause.error_class for cause in campaign.failure_causes()}
        assert causes == {"/now": "Tried", "/now/below": "Failed"}
        assert campaign.failure_classes() == {"Tried": 1, "Failed": 1}
        assert [failure.campaign for failure in campaign.failures()] == ["/now/below"]
        assert len(asked) < 16
    assert old.campaign("/ended").failure_causes() == []
    with pytest.raises(UnknownCampaign):
        old.campaign("/absent").failure_causes()


def test_children_are_those_of_the_whole_tree(old: Client) -> None:
    """With the same counts and forecasts, whichever of them have ended."""
    for path in (ROOT, "/ended"):
        whole = tree_now(TreeReadings(path, whole=True), old.queries).nodes
        children = {node.status.path: node for node in read_children(old.queries, path)}
        assert [*children] == [
            name for name in whole if name != path and name.rpartition("/")[0] in {path, path[1:]}
        ]
        for name, node in children.items():
            assert node.status == whole[name].status, name
            assert node.forecast == whole[name].forecast, name


def test_own_counts_lack_what_is_below(old: Client, postgres: Postgres) -> None:
    """Also those of moves that are not folded yet."""
    old.create_campaign("/now/below")
    old.campaign("/now/below").seed([{"n": 1}])
    top = old.campaign("/now")
    for _ in range(2):
        own = top.status(below=False)
        assert (own.waiting, own.total, own.children, own.state) == (4, 4, 1, "open")
        assert own == top.tree()[0]
        assert top.status().total == 5
        assert old.campaign("/ended").status(below=False).total == 0
        postgres.execute("select taskq.fold('0')")
    with pytest.raises(UnknownCampaign):
        old.campaign("/absent").status(below=False)


def test_bulk_changes_send_no_statement_for_each_ended_campaign(
    old: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that have a task in such a state are found by their counts."""
    asked = noted_names(monkeypatch)
    root = old.campaign(ROOT)
    root.cancel(where="state = waiting")
    assert root.retry(status="cancelled") == 4
    assert root.set_priority(3, where="state = waiting") == 4
    assert root.cancel() == 4
    assert len(asked) < FEW


@pytest.mark.usefixtures("old")
def test_tree_of_a_large_queue_leaves_out_what_has_ended(postgres: Postgres, dsn: str) -> None:
    """Unless it is asked for; programs get all."""
    taskq = CommandLine(dsn)
    shown = taskq("tree", "/")
    assert (len(rows_of(shown)), shown.stderr) == (4 + FEW, "")
    end(postgres, FEW + 1, MANY)
    shown = taskq("tree", "/")
    assert {"/", "now", "ended"} <= {name_of(row) for row in rows_of(shown)}
    left = 4 + MANY - len(rows_of(shown))
    assert left > MANY / 2
    assert f"Left out: {left:,} ended campaigns. --all shows all." in shown.stderr
    assert "Left out" not in taskq("tree", "/", "--all", "--limit", "10").stderr
    assert len(taskq.json("tree", "/")) == 4 + MANY


def rows_of(shown: Result) -> list[str]:
    """Return the rows of a table, without its head."""
    return shown.stdout.splitlines()[1:]


def name_of(row: str) -> str:
    """Return the name of a campaign in a tree, behind its branch."""
    return next(word for word in row.split() if word.strip("├└│─"))
