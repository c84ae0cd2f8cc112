"""Tasks that keys or times name are found without a walk through the campaign."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from taskq import Campaign, Seed, Status
from taskq.campaign import reading, verbs
from taskq.campaign.bulk import Choice
from taskq.campaign.subtree import Subtree
from taskq.db.statements import Statements
from taskq.files.large_results import Fetching
from taskq.model.errors import NotFound, UsageError
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres

MANY = 4_000
#: A statement unpacks a whole span of 500 tasks, and looks for misspelt fields in 500 payloads.
FEW_ROWS = 2_000


@pytest.fixture
def many(campaign: Campaign) -> Campaign:
    """Seed 4,000 tasks."""
    campaign.seed(Seed({"n": n}, f"k{n}") for n in range(MANY))
    return campaign


@contextmanager
def few_rows(postgres: Postgres, campaign: Campaign) -> Iterator[Subtree]:
    """Give the campaign to a verb that meets few rows of it in all its statements."""
    with watched(postgres) as seen:
        yield Subtree(Statements(postgres), campaign.campaign_id, campaign.path)
    assert 0 < sum(access.rows for access in seen.accesses) <= FEW_ROWS


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ('key = "k3990"', ["k3990"]),
        ('key in ("k7", "k3990", "none")', ["k7", "k3990"]),
        ('key = "k7" or key = "k8" and payload.n = 8', ["k7", "k8"]),
        ('key in ("k7", "k8") and not key = "k7"', ["k8"]),
        ('key = "k7" and key = "k8"', []),
        ("key = null", []),
    ],
)
def test_filter_that_names_keys_finds_them_by_key(
    where: str, keys: list[str], many: Campaign, postgres: Postgres
) -> None:
    """Listing and cancelling; each key that the filter names may match."""
    with few_rows(postgres, many) as subtree:
        found = [task.key for task in reading.tasks(subtree, None, Choice(None, where))]
    assert found == keys
    with few_rows(postgres, many) as subtree:
        assert verbs.cancel(subtree, Choice(None, where)) == len(keys)
    assert [task.key for task in many.tasks("cancelled")] == keys


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ('key = "k7" or payload.n = 9', ["k7", "k9"]),
        ('not key != "k7"', ["k7"]),
        ('key <= "k0"', ["k0"]),
    ],
)
def test_filter_that_allows_other_keys_looks_at_all(
    where: str, keys: list[str], many: Campaign
) -> None:
    """Naming a key is not enough."""
    assert [task.key for task in many.tasks(where=where)] == keys


def test_keys_in_progress_are_as_many_as_the_filter_names(many: Campaign) -> None:
    """The total is not that of the campaign."""
    seen: list[tuple[int, int]] = []
    where = 'key in ("k1", "k2", "k3")'
    many.cancel(
        where=where,
        on_progress=lambda bulk_progress: seen.append((bulk_progress.looked, bulk_progress.of)),
    )
    assert seen == [(3, 3)]


def test_results_since_a_time_are_chosen_by_the_server(
    many: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Only ids of new results leave it; also those between older ones."""
    agent = hire()
    for task in agent.claim(60):
        agent.done(task, {"n": task.payload["n"]})
    postgres.execute(
        "update taskq.attempt set ended_at = ended_at - interval '1 day'"
        " where (result ->> 'n')::integer % 10 <> 0"
    )
    since = datetime.now(timezone.utc) - timedelta(hours=1)

    def given(where: str | None) -> list[int]:
        with few_rows(postgres, many) as subtree:
            database = subtree.database
            fetching = Fetching(database, raw=True, blobs=None, on_lost=None)
            found = reading.results(subtree, where, since, below=True, fetching=fetching)
            return [result.result["n"] for result in found]

    assert given(None) == [0, 10, 20, 30, 40, 50]
    assert given("result.n > 20") == [30, 40, 50]
    assert given('key in ("k10", "k11")') == [10]


def test_time_without_a_zone_is_refused(campaign: Campaign) -> None:
    """The server would take it for one of its own zone."""
    with pytest.raises(UsageError, match="has no time zone"):
        next(campaign.results(since=datetime(2026, 3, 1)))  # noqa: DTZ001


@pytest.mark.both_transports
def test_keys_choose_tasks(campaign: Campaign, hire: Hire) -> None:
    """In the order of seeding, each once; of the campaign itself, and in the status wanted."""
    campaign.seed(Seed({"n": n}, f"k{n}") for n in range(5))
    agent = hire()
    (task,) = agent.claim(1)
    agent.done(task, {})
    assert [task.key for task in campaign.tasks(keys=["k3", "k0", "k3"])] == ["k0", "k3"]
    assert [task.key for task in campaign.tasks("waiting", keys=["k3", "k0"])] == ["k3"]
    with pytest.raises(NotFound, match="no task with the key 'x', and none with 1 others"):
        list(campaign.tasks(keys=["k3", "x", "y"]))
    since = datetime.now(timezone.utc) - timedelta(hours=1)
    assert [result.key for result in campaign.results(since=since)] == ["k0"]


@pytest.mark.usefixtures("many")
def test_file_names_the_keys(taskq: CommandLine, tmp_path: Path) -> None:
    """A key a line, in every command that takes keys, next to those of the command line."""
    file = tmp_path / "keys.txt"
    file.write_bytes("\ufeffk1\r\nk3990\n\nk2".encode())
    named = ("--keys", file, "--key", "k9")
    assert [task["key"] for task in taskq.json("tasks", "/c", *named)] == [
        "k1",
        "k2",
        "k9",
        "k3990",
    ]
    assert taskq.json("cancel", "/c", *named, "--dry-run")["tasks"] == 4
    assert taskq.json("cancel", "/c", *named)["tasks"] == 4
    assert taskq.json("retry", "/c", "--status", "cancelled", *named)["tasks"] == 4
    piped = taskq("tasks", "/c", "--keys", "-", "-o", "jsonl", input="k5\n")
    assert piped.stdout.count("\n") == 1
    assert '"key":"k5"' in piped.stdout.replace(" ", "")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "has no key"),
        (b"\n\r\n", "has no key"),
        (b"k1\nk\xe9\n", "is not UTF-8 in line 2"),
        (None, "cannot be read"),
    ],
)
def test_file_without_keys_never_means_all_tasks(
    content: bytes | None, why: str, taskq: CommandLine, many: Campaign, tmp_path: Path
) -> None:
    """It may come from a command that found none, or failed."""
    file = tmp_path / "keys.txt"
    if content is not None:
        file.write_bytes(content)
    code, error = taskq.refused("cancel", "/c", "--keys", file, "--yes")
    assert (code, why in error) == (2, True), error
    status: Status = many.status()
    assert (status.state, status.waiting) == ("open", MANY)
