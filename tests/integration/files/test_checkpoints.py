"""Checkpoints in the queue: whose they are, what replaces them, when they go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy, Seed
from taskq.files.archives import Checkpoints, Sweeper
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import DatabaseBlobs
from taskq.model.errors import NotFound, UsageError
from taskq.upkeep.keeper import keeping
from taskq_agent.archive import CHECKPOINT, heading
from taskq_agent.protocol import CONTINUED, OUT_OF_TIME, Input
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence, statuses, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.helpers.task_archives import digest_of, held, stored
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.usefixtures("true_counts")

Save = Callable[..., bool]


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that keeps checkpoints, with the task a."""
    retry = RetryPolicy(max_out_of_time=2)
    campaign = queue.create_campaign(CampaignSpec("/c", retry=retry, checkpoint_bytes=20_000))
    campaign.seed([Seed({"n": 1}, "a")])
    return campaign


@pytest.fixture
def kept(queue: Client, blobs: BlobStore) -> Checkpoints:
    """Give the checkpoints of the queue."""
    return Checkpoints(queue.database, blobs)


@pytest.fixture
def save(kept: Checkpoints, blobs: BlobStore) -> Save:
    """Give a function that saves some bytes for an attempt."""

    def save_one(task: Claimed, data: bytes, *, session: int | None = None) -> bool:
        return kept.save(session, held(task), stored(blobs, CHECKPOINT, task, data))

    return save_one


def claimed(agent: ScriptedAgent) -> Claimed:
    """Claim the task."""
    agent.forget_position()
    (task,) = agent.claim(1)
    return task


def test_next_attempt_gets_what_the_last_one_saved(
    campaign: Campaign, hire: Hire, kept: Checkpoints, save: Save, blobs: BlobStore
) -> None:
    """On whichever node; a newer one replaces it, and its content goes."""
    assert campaign.spec().checkpoint_bytes == 20_000
    first, second = hire(), hire(host="elsewhere")
    task = claimed(first)
    assert kept.find(None, held(task))[0] is None
    assert save(task, b"early")
    assert save(task, b"later")
    with pytest.raises(NotFound):
        blobs.size(digest_of(CHECKPOINT, task, b"early"))
    first.release(task, started=True)
    two = claimed(second)
    found = kept.find(second.session, held(two))[0]
    assert found is not None
    assert b"".join(blobs.read(found.digest)).endswith(b"later")


def test_late_attempt_overwrites_nothing(
    campaign: Campaign, hire: Hire, kept: Checkpoints, save: Save, postgres: Postgres
) -> None:
    """Neither while the next attempt runs, nor when it has ended; it sees nothing either."""
    lost, heir = hire(), hire(host="elsewhere")
    task = claimed(lost)
    assert save(task, b"early")
    silence(postgres, lost.session)
    assert expire(postgres) == 1
    assert not save(task, b"late")
    two = claimed(heir)
    assert not save(task, b"late")
    assert kept.find(None, held(task))[0] is None
    assert save(two, b"new")
    heir.release(two, started=True)
    assert not save(two, b"late")
    three = claimed(heir)
    assert kept.find(None, held(three))[0] == Input(
        digest_of(CHECKPOINT, task, b"new"), len(heading(CHECKPOINT, task.campaign, task.task)) + 3
    )
    assert campaign.status().working == 1


def test_only_who_works_on_a_task_may_save_and_find(
    campaign: Campaign, hire: Hire, kept: Checkpoints, save: Save, queue: Client
) -> None:
    """Not another session, though it knew the lease; of a task of a bundle as well."""
    campaign.seed([Seed({"n": n}) for n in range(2, 6)])
    agent, stranger = hire(), hire(host="elsewhere")
    task = agent.claim(3)[1]
    assert not save(task, b"planted", session=stranger.session)
    assert save(task, b"mine", session=agent.session)
    assert kept.find(stranger.session, held(task))[0] is None
    assert kept.find(agent.session, held(task))[0] is not None
    assert agent.done(task) == "accepted"
    assert queue.campaign("/c").status().done == 1


def test_only_archives_of_the_task_become_its_checkpoint(
    campaign: Campaign, hire: Hire, kept: Checkpoints, blobs: BlobStore, tmp_path: Path
) -> None:
    """Else anyone who saves one after the other could remove inputs and results of others."""
    file = tmp_path / "receptor"
    file.write_text("ATOM\n")
    given = campaign.add_input(file, blobs=blobs)
    task = claimed(hire())
    with pytest.raises(UsageError, match="not an archive of this kind"):
        kept.save(None, held(task), given)
    other = Claimed(task.campaign, task.task + 1, task.lease, 1, "b", {})
    with pytest.raises(UsageError, match="not an archive of this kind"):
        kept.save(None, held(task), stored(blobs, CHECKPOINT, other, b"x"))
    with pytest.raises(UsageError, match="does not have 5 bytes"):
        kept.save(None, held(task), Input(stored(blobs, CHECKPOINT, task, b"x").digest, 5))
    with pytest.raises(UsageError, match="keeps 20000 at most"):
        kept.save(None, held(task), stored(blobs, CHECKPOINT, task, b"x" * 20_000))
    with pytest.raises(NotFound):
        kept.save(None, held(task), Input("0" * 64, 5))
    if isinstance(blobs, DatabaseBlobs):
        blobs.remove_archive(given.digest)
        assert blobs.size(given.digest) == 5


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
def test_checkpoint_goes_with_the_end_of_its_task(
    end: str,
    campaign: Campaign,
    hire: Hire,
    save: Save,
    blobs: BlobStore,
    queue: Client,
    postgres: Postgres,
) -> None:
    """Those of tasks that go on are left. The keeper sees to it."""
    campaign.seed([Seed({"n": 2}, "b")])
    agent = hire()
    task, other = agent.claim(2)
    assert save(task, b"of a")
    assert save(other, b"of b")
    sweeper = Sweeper(queue.database, "end_checkpoints")

    def sweep() -> int:
        with queue.database.connection() as statements:
            return sweeper.sweep(statements)

    assert sweep() == 0
    assert value(postgres, "select count(*) from taskq.checkpoint") == 2
    if end == "done":
        agent.done(task)
    elif end == "failed":
        agent.fail(task, retry=False)
    else:
        assert campaign.cancel(keys=["a"]) == 1
    assert sweep() == 1
    assert value(postgres, "select digest from taskq.checkpoint") == digest_of(
        CHECKPOINT, other, b"of b"
    )
    with pytest.raises(NotFound):
        blobs.size(digest_of(CHECKPOINT, task, b"of a"))
    assert blobs.size(digest_of(CHECKPOINT, other, b"of b")) > 0
    campaign.remove()
    with keeping(queue.database):
        wait_until(lambda: value(postgres, "select count(*) from taskq.checkpoint") == 0)


def test_sweep_goes_round_in_steps(campaign: Campaign, queue: Client, postgres: Postgres) -> None:
    """However many there are, a call looks at a bounded number, and the next one at others."""
    postgres.execute(
        "insert into taskq.checkpoint"
        " select %s, 1000 + n, gen_random_uuid(), 1, repeat('0', 64), 1"
        "  from generate_series(1, 450) n",
        [campaign.campaign_id],
    )
    sweeper = Sweeper(queue.database, "end_checkpoints")
    with queue.database.connection() as statements:
        assert [sweeper.sweep(statements) for _ in range(4)] == [200, 200, 50, 0]


def test_unused_blobs_are_removed_but_no_checkpoints(
    campaign: Campaign, hire: Hire, queue: Client, save: Save, blobs: BlobStore
) -> None:
    """What an attempt has uploaded too late is, from the database; of a folder nothing is."""
    in_database = isinstance(blobs, DatabaseBlobs)
    task = claimed(hire())
    assert save(task, b"good")
    orphan = stored(blobs, CHECKPOINT, task, b"orphan")
    assert (
        queue.database.value("remove_unused_blobs", limit=10, age_s=0, dry_run=False) == in_database
    )
    assert blobs.size(digest_of(CHECKPOINT, task, b"good")) > 0
    with pytest.raises(NotFound) if in_database else nullcontext():
        assert blobs.size(orphan.digest) > 0
    assert campaign.status().working == 1


@pytest.mark.parametrize("word", [OUT_OF_TIME, CONTINUED])
def test_task_with_progress_is_never_too_long(
    word: str, campaign: Campaign, hire: Hire, save: Save, postgres: Postgres
) -> None:
    """Each new checkpoint lets it have two further attempts; the same one again does not."""
    agent = hire()
    for number in range(5):
        task = claimed(agent)
        assert save(task, f"step {number}".encode())
        assert agent.report(task, "released", error_class=word) == "accepted"
    task = claimed(agent)
    assert save(task, b"step 4")
    agent.report(task, "released", error_class=word)
    assert statuses(postgres)["a"] == "waiting"
    task = claimed(agent)
    agent.report(task, "released", error_class=word)
    assert statuses(postgres)["a"] == "failed"
    (failure,) = campaign.failures()
    assert failure.error_class == "too-long"
    assert failure.error is not None
    assert failure.error.startswith(
        "no progress in 2 attempts (6 before" if word == CONTINUED else "out of time in 2 attempts"
    )
