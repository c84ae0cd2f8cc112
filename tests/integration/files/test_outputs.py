"""Output files in the queue: whose they are, how much there may be, when they go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy, Seed
from taskq.files.archives import Outputs, Sweeper
from taskq.files.blob_store import BlobStore
from taskq.model.errors import Conflict, NotFound, UsageError
from taskq.upkeep.keeper import keeping
from taskq_agent.archive import OUTPUT
from taskq_agent.protocol import Input
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence, statuses, value
from tests.helpers.scripted_agent import Claimed
from tests.helpers.task_archives import digest_of, held, stored, whole
from tests.helpers.waiting import wait_until
from tests.interleavings.meeting import calling, meet, reporting

pytestmark = pytest.mark.usefixtures("true_counts")

Save = Callable[..., bool]
FOUND = "select string_agg(digest, ' ') from taskq.outputs_of(%s, %s)"
USED = "select coalesce(sum(bytes), 0)::int from taskq.output_use"


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that keeps output files, with the tasks a, b and c."""
    spec = CampaignSpec(
        "/c",
        retry=RetryPolicy(max_attempts=2, backoff_s=0),
        late_results="salvage",
        output_bytes=20_000,
        output_total_bytes=50_000,
    )
    campaign = queue.create_campaign(spec)
    campaign.seed([Seed({"n": key}, key) for key in "abc"])
    return campaign


@pytest.fixture
def outputs(queue: Client, blobs: BlobStore) -> Outputs:
    """Give the output files of the queue."""
    return Outputs(queue.database, blobs)


@pytest.fixture
def save(outputs: Outputs, blobs: BlobStore) -> Save:
    """Give a function that saves some bytes for an attempt."""

    def save_one(task: Claimed, data: bytes, *, session: int | None = None) -> bool:
        return outputs.save(session, held(task), stored(blobs, OUTPUT, task, data))

    return save_one


@pytest.fixture
def sweep(queue: Client) -> Callable[[], int]:
    """Give a function that does what a keeper does in a round."""
    sweeper = Sweeper(queue.database, "end_outputs")

    def once() -> int:
        with queue.database.connection() as statements:
            return sweeper.sweep(statements)

    return once


def kept(outputs: Outputs, task: Claimed) -> str | None:
    """Return the digest of the output files of a task."""
    found = outputs.find(task.campaign, [task.task])
    return found[task.task].digest if found else None


def test_files_count_with_the_result_of_their_attempt(
    campaign: Campaign, hire: Hire, outputs: Outputs, save: Save, sweep: Callable[[], int]
) -> None:
    """Not before; and they stay, however often the keeper looks. Claims and reports stay packed."""
    agent = hire()
    task, other, _ = agent.claim(3)
    assert save(task, b"early")
    assert save(task, b"later")
    assert kept(outputs, task) is None
    assert sweep() == 0
    assert agent.done(task) == "accepted"
    assert kept(outputs, task) == digest_of(OUTPUT, task, b"later")
    assert (sweep(), sweep()) == (0, 0)
    assert outputs.find(task.campaign, [task.task, other.task]).keys() == {task.task}
    assert campaign.status().done == 1


def test_task_is_not_unpacked(
    campaign: Campaign, hire: Hire, save: Save, postgres: Postgres
) -> None:
    """So its report costs what any report does."""
    task = hire().claim(3)[0]
    assert save(task, b"x")
    assert value(postgres, "select count(*) from taskq.task") == 0
    assert campaign.status().working == 3


@pytest.mark.parametrize("end", ["failed", "cancelled", "removed"])
def test_files_go_with_their_task(
    end: str,
    campaign: Campaign,
    hire: Hire,
    save: Save,
    blobs: BlobStore,
    queue: Client,
    postgres: Postgres,
    sweep: Callable[[], int],
) -> None:
    """Of one that failed, was cancelled, or was removed when its files had been kept."""
    agent = hire()
    task, other, _ = agent.claim(3)
    assert save(task, b"of a")
    assert save(other, b"of b")
    agent.done(other)
    if end == "failed":
        agent.fail(task, retry=False)
    elif end == "cancelled":
        campaign.cancel(keys=["a"])
    else:
        agent.done(task)
    assert sweep() == (0 if end == "removed" else 1)
    if end == "removed":
        campaign.remove()
        assert sweep() == 2
        assert value(postgres, USED) == 0
        assert value(postgres, "select count(*) from taskq.output_use") == 0
    else:
        assert value(postgres, USED) == len(whole(OUTPUT, other, b"of b"))
        assert blobs.size(digest_of(OUTPUT, other, b"of b")) > 0
    with pytest.raises(NotFound):
        blobs.size(digest_of(OUTPUT, task, b"of a"))
    assert queue.database.value("remove_unused_blobs", limit=10, age_s=0, dry_run=False) == 0


def test_keeper_removes_what_is_of_no_use(
    campaign: Campaign, hire: Hire, save: Save, queue: Client, postgres: Postgres
) -> None:
    """Without any setting."""
    agent = hire()
    task, other, _ = agent.claim(3)
    save(task, b"x")
    agent.fail(task, retry=False)
    save(other, b"x")
    agent.done(other)
    with keeping(queue.database):
        wait_until(lambda: value(postgres, "select count(*) from taskq.output") == 1)
        wait_until(lambda: value(postgres, "select bool_and(decided) from taskq.output"))
    assert campaign.status().done == 1


def test_killed_agents_files_are_replaced_by_the_next_attempts(
    campaign: Campaign,
    hire: Hire,
    outputs: Outputs,
    save: Save,
    postgres: Postgres,
    sweep: Callable[[], int],
) -> None:
    """It had uploaded them, and not reported."""
    lost, heir = hire(), hire(host="elsewhere")
    claim = lost.claim(1)[0]
    assert save(claim, b"of the lost")
    silence(postgres, lost.session)
    assert expire(postgres) == 1
    heir.forget_position()
    two = next(task for task in heir.claim(3) if task.task == claim.task)
    heirs = digest_of(OUTPUT, two, b"of the heir")
    assert save(two, b"of the heir")
    assert sweep() == 0
    assert heir.done(two) == "accepted"
    assert value(postgres, FOUND, two.campaign, [two.task]) == heirs
    assert sweep() == 1
    assert kept(outputs, two) == heirs
    assert value(postgres, USED) == len(whole(OUTPUT, two, b"of the heir"))
    assert (save(two, b"too late"), campaign.status().done) == (False, 1)


def test_attempts_that_leave_the_same_are_kept_apart(
    campaign: Campaign,
    hire: Hire,
    outputs: Outputs,
    save: Save,
    blobs: BlobStore,
    postgres: Postgres,
    sweep: Callable[[], int],
) -> None:
    """What goes with a lost one is still there for the next, which left the very same files."""
    lost, heir = hire(), hire(host="elsewhere")
    claim = lost.claim(1)[0]
    assert save(claim, b"same")
    silence(postgres, lost.session)
    assert expire(postgres) == 1
    heir.forget_position()
    two = next(task for task in heir.claim(3) if task.task == claim.task)
    assert save(two, b"other")
    assert save(two, b"same")
    assert save(two, b"another")
    assert blobs.size(digest_of(OUTPUT, claim, b"same")) > 0
    assert save(two, b"same")
    assert heir.done(two) == "accepted"
    assert sweep() == 0
    assert blobs.size(digest_of(OUTPUT, two, b"same")) > 0
    assert kept(outputs, two) == digest_of(OUTPUT, two, b"same")
    assert (value(postgres, "select count(*) from taskq.output"), campaign.status().done) == (1, 1)


@pytest.mark.parametrize("way", ["lost", "hedged"])
def test_salvaged_result_has_its_files(
    way: str, campaign: Campaign, hire: Hire, outputs: Outputs, save: Save, postgres: Postgres
) -> None:
    """Those that were saved after the agent had been given up, or the task hedged."""
    lost = hire()
    task = lost.claim(1)[0]
    if way == "lost":
        silence(postgres, lost.session)
        assert expire(postgres) == 1
    else:
        postgres.execute("update taskq.campaign set hedge = 1 where path = '/c'")
        query = "select taskq.hedge_task(%s, %s, %s, 'slow')"
        assert value(postgres, query, task.campaign, task.task, task.lease)
    assert save(task, b"late")
    assert lost.done(task) == "accepted"
    assert kept(outputs, task) == digest_of(OUTPUT, task, b"late")
    assert campaign.status().done == 1


@pytest.mark.parametrize("end", ["lost", "failed", "cancelled", "rejected"])
def test_files_stay_while_a_late_result_may_be_salvaged(
    end: str,
    campaign: Campaign,
    hire: Hire,
    outputs: Outputs,
    save: Save,
    postgres: Postgres,
    sweep: Callable[[], int],
) -> None:
    """Of a task that has failed by losses; otherwise, or was cancelled, and is tried again."""
    if end in ("lost", "rejected"):
        postgres.execute("update taskq.campaign set max_losses = 1 where path = '/c'")
    if end == "rejected":
        postgres.execute("update taskq.campaign set late_results = 'reject' where path = '/c'")
    lost, heir = hire(), hire(host="elsewhere")
    (claim,) = lost.claim(1)
    assert save(claim, b"late")
    silence(postgres, lost.session)
    assert expire(postgres) == 1
    if end == "failed":
        heir.forget_position()
        two = next(task for task in heir.claim(3) if task.task == claim.task)
        assert save(two, b"of a failure")
        heir.fail(two, retry=False)
    elif end == "cancelled":
        campaign.cancel(keys=["a"])
    assert statuses(postgres)["a"] == ("cancelled" if end == "cancelled" else "failed")
    assert sweep() == (end == "failed")
    if end == "rejected":
        postgres.execute("update taskq.campaign set late_results = 'salvage' where path = '/c'")
    elif end != "lost":
        assert lost.done(claim) == "superseded"
        campaign.retry(keys=["a"], status="cancelled" if end == "cancelled" else "failed")
    assert lost.done(claim) == "accepted"
    assert sweep() == 0
    assert kept(outputs, claim) == digest_of(OUTPUT, claim, b"late")
    assert value(postgres, USED) == len(whole(OUTPUT, claim, b"late"))


def test_files_stay_when_the_report_comes_during_the_look(
    campaign: Campaign, hire: Hire, outputs: Outputs, save: Save, dsn: str
) -> None:
    """Which finds the task working, or done, and never neither."""
    agent = hire()
    task = agent.claim(3)[0]
    assert save(task, b"x")

    def lock(connection: Postgres) -> None:
        connection.execute("lock table taskq.task in access exclusive mode")

    look = calling("select digests from taskq.end_outputs(0, 0, 100)")
    met = meet(dsn, lock, look, meanwhile=reporting(task, session=agent.session, result={}))
    assert (met.waited, met.second) == (True, None)
    assert kept(outputs, task) == digest_of(OUTPUT, task, b"x")
    assert campaign.status().done == 1


def test_same_save_twice_at_once_is_counted_once(
    campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """As by an agent that has had no answer and asks again, of another gateway."""
    task = hire().claim(3)[0]
    query = "select saved from taskq.save_output(null, %s, %s, %s, %s, 1000)"
    save = calling(query, task.campaign, task.task, task.lease, "0" * 64)
    met = meet(dsn, save, save)
    assert (met.waited, met.first, met.second) == (True, True, True)
    assert value(postgres, USED) == 1000
    assert campaign.status().working == 3


def test_only_who_has_the_task_may_save(campaign: Campaign, hire: Hire, save: Save) -> None:
    """Neither another session that knows the lease, nor under a lease that nobody has."""
    agent, stranger = hire(), hire(host="elsewhere")
    task = agent.claim(3)[1]
    assert not save(task, b"planted", session=stranger.session)
    assert save(task, b"mine", session=agent.session)
    made_up = Claimed(task.campaign, task.task, "00000000-0000-7000-8000-000000000000", 1, "b", {})
    assert not save(made_up, b"planted")
    assert campaign.status().working == 3


def test_only_archives_of_the_task_are_taken(
    campaign: Campaign, hire: Hire, outputs: Outputs, blobs: BlobStore
) -> None:
    """Else anyone who saves them could remove inputs and results of others."""
    task, other, _ = hire().claim(3)
    with pytest.raises(UsageError, match="not an archive of this kind"):
        outputs.save(None, held(task), stored(blobs, OUTPUT, other, b"x"))
    with pytest.raises(UsageError, match="does not have 5 bytes"):
        outputs.save(None, held(task), Input(stored(blobs, OUTPUT, task, b"x").digest, 5))
    with pytest.raises(UsageError, match="keeps 20000 of a task at most"):
        outputs.save(None, held(task), stored(blobs, OUTPUT, task, b"x" * 20_000))
    with pytest.raises(NotFound):
        outputs.save(None, held(task), Input("0" * 64, 5))
    assert campaign.status().working == 3


def test_campaign_keeps_so_much_and_no_more(
    campaign: Campaign, hire: Hire, save: Save, postgres: Postgres, sweep: Callable[[], int]
) -> None:
    """What goes makes room; an attempt that saves again is counted once."""
    agent = hire()
    task, two, three = agent.claim(3)
    for _ in range(4):
        assert save(task, b"x" * 19_000)
        assert save(task, b"y" * 19_000)
    assert save(two, b"x" * 19_000)
    with pytest.raises(Conflict, match="keeps 50000 bytes of output files at most"):
        save(three, b"x" * 19_000)
    assert value(postgres, USED) == len(whole(OUTPUT, task, b"x" * 19_000)) * 2
    agent.fail(task, retry=False)
    assert sweep() == 1
    assert save(three, b"x" * 19_000)
    assert campaign.status().failed == 1


def test_agents_of_a_token_have_so_much_stored_and_no_more(
    queue: Client, campaign: Campaign, hire: Hire, save: Save, postgres: Postgres
) -> None:
    """In all campaigns; others still may."""
    _, token = queue.tokens.create("site", "small", ["/"], max_output_bytes=30_000)
    assert token.max_output_bytes == 30_000
    agent = hire()
    postgres.execute(
        "update taskq.session set token_id = %s, token_hash = sha256('x') where session_id = %s",
        [token.token_id, agent.session],
    )
    task, two, _ = agent.claim(3)
    assert save(task, b"x" * 19_000, session=agent.session)
    with pytest.raises(Conflict, match="this token may have stored 30000 bytes"):
        save(two, b"x" * 19_000, session=agent.session)
    assert save(two, b"x" * 19_000)
    assert campaign.status().working == 3


@pytest.mark.thorough
def test_sweep_goes_round_in_steps(campaign: Campaign, queue: Client, postgres: Postgres) -> None:
    """However many there are, a call looks at a bounded number; at what is decided never again."""
    postgres.execute(
        "insert into taskq.output"
        " select %s, 1000 + n, gen_random_uuid(), 0, repeat(md5(n::text), 2), 1, n > 450"
        "  from generate_series(1, 10000) n",
        [campaign.campaign_id],
    )
    sweeper = Sweeper(queue.database, "end_outputs")
    with queue.database.connection() as statements:
        assert [sweeper.sweep(statements) for _ in range(4)] == [200, 200, 50, 0]
