"""Retrying and cancelling all tasks that match: chunk by chunk, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from taskq import Campaign, Client, Seed
from taskq.campaign.bulk import BulkProgress
from taskq.model.errors import Conflict, InvalidFilter, UsageError
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, statuses, value

pytestmark = [pytest.mark.both_transports, pytest.mark.usefixtures("true_counts")]


@pytest.fixture
def failed(campaign: Campaign, hire: Hire) -> Campaign:
    """Give six tasks that failed, by turns as Odd and as Even, and one that waits."""
    campaign.seed(Seed({"n": n}, f"k{n}") for n in range(7))
    agent = hire()
    for task in agent.claim(6):
        agent.fail(task, "Odd" if task.payload["n"] % 2 else "Even", retry=False)
    return campaign


def test_matching_tasks_are_retried(failed: Campaign, postgres: Postgres) -> None:
    """Those in a state that allows it."""
    assert failed.retry(where='class = "Odd" and payload.n > 1', dry_run=True) == 2
    assert set(statuses(postgres).values()) == {"failed", "waiting"}
    assert failed.retry(where='class = "Odd" and payload.n > 1') == 2
    assert failed.retry(where='class = "Odd" and payload.n > 1') == 0
    assert failed.retry(error_class="Even", where="payload.n = 0 or payload.n = 1") == 1
    waiting = {key for key, status in statuses(postgres).items() if status == "waiting"}
    assert waiting == {"k0", "k3", "k5", "k6"}
    assert failed.retry(error_class="Even", dry_run=True) == 2
    assert failed.retry(status="cancelled", where="payload.n >= 0") == 0


@pytest.mark.parametrize("choice", [{"keys": ["k0", "k6"]}, {"where": 'class = "Boom"'}, {}])
def test_delayed_tasks_run_at_once(choice: dict[str, Any], campaign: Campaign, hire: Hire) -> None:
    """On any host and with all their attempts; others stay as they are."""
    campaign.seed(Seed({}, f"k{n}") for n in range(9))
    agent = hire()
    for task in agent.claim(7)[:7:6]:
        agent.fail(task)
    assert len(agent.claim(9)) == 2
    assert campaign.retry(status="delayed", dry_run=True, **choice) == 2
    assert campaign.status().delayed == 2
    assert campaign.retry(status="delayed", **choice) == 2
    assert campaign.retry(status="delayed", **choice) == 0
    status = campaign.status()
    assert (status.waiting, status.delayed, status.working) == (2, 0, 7)
    assert {(task.key, task.attempt) for task in agent.claim(9)} == {("k0", 2), ("k6", 2)}
    assert campaign.task("k0").failures == 0


def test_matching_tasks_are_cancelled(failed: Campaign, hire: Hire, postgres: Postgres) -> None:
    """Where it waits, is to be tried again, or runs; the campaign stays open."""
    failed.seed(Seed({"n": n}, f"k{n}") for n in range(7, 20))
    agent = hire()
    working, delayed = [task for task in agent.claim(4) if task.key in {"k8", "k9"}]
    agent.fail(delayed)
    assert failed.cancel(where="payload.n in (1, 8, 9, 12)", dry_run=True) == 3
    assert failed.cancel(where="payload.n in (1, 8, 9, 12)") == 3
    cancelled = {key for key, status in statuses(postgres).items() if status == "cancelled"}
    assert cancelled == {"k8", "k9", "k12"}
    assert agent.heartbeat([working]) == {working.task}
    assert failed.status().state == "open"


def test_campaigns_below_are_included(queue: Client) -> None:
    """As without a filter; those that are cancelled are not retried."""
    above, below = queue.create_campaign("/a"), queue.create_campaign("/a/b")
    for campaign in (above, below):
        campaign.seed([Seed({"n": 1}, "x"), Seed({"n": 2}, "y")])
    assert above.cancel(where="payload.n = 1") == 2
    below.cancel()
    assert above.retry(status="cancelled", where="payload.n = 1", dry_run=True) == 1
    assert above.retry(status="cancelled", where="payload.n = 1") == 1
    above.cancel()
    for dry_run in (True, False):
        with pytest.raises(Conflict, match="resume it"):
            above.retry(status="cancelled", where="payload.n = 1", dry_run=dry_run)


def test_bulk_commits_chunk_by_chunk_and_goes_on(campaign: Campaign) -> None:
    """An interruption keeps what was done; the same call does the rest."""
    campaign.seed({"n": n} for n in range(2_500))
    seen: list[tuple[int, int, int, int]] = []

    def interrupt(progress: BulkProgress) -> None:
        seen.append((progress.of, progress.looked, progress.matched, progress.changed))
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.cancel(where="payload.n >= 100", on_progress=interrupt)
    assert seen == [(2_500, 1_000, 900, 900), (2_500, 2_000, 1_900, 1_900)]
    assert campaign.status().cancelled == 1_900
    assert campaign.cancel(where="payload.n >= 100") == 500


@pytest.mark.thorough
def test_cancelling_some_of_many_leaves_the_others_packed(
    campaign: Campaign, postgres: Postgres
) -> None:
    """Those that nothing has happened to: a span is parted only where one leaves it."""
    campaign.seed({"n": n} for n in range(10_000))
    spans = "select count(*) from taskq.span"
    before = value(postgres, spans)
    assert campaign.cancel(where="payload.n in (100, 5000, 5001, 9999)") == 4
    assert value(postgres, "select count(*) from taskq.task") == 4
    assert value(postgres, spans) <= before + 4
    assert campaign.cancel(where="payload.n < 5000 and payload.n != 100") == 4_999
    assert value(postgres, "select count(*) from taskq.task") == 5_003


def test_wrong_calls_are_refused_before_anything_is_done(failed: Campaign) -> None:
    """With what is wrong."""
    with pytest.raises(InvalidFilter, match="did you mean class"):
        failed.retry(where="clas = 'Odd'")
    with pytest.raises(UsageError, match="by keys or by a filter"):
        failed.cancel(["k6"], where="payload.n = 1")
    with pytest.raises(UsageError, match="only failed, cancelled, delayed and done"):
        failed.retry(status="working", dry_run=True)
    assert failed.status().failed == 6
