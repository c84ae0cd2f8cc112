"""Campaigns that were removed: what stays known of them, who reads that, and what does not fall."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Seed
from taskq.archives.restoring import restore
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from taskq.model.errors import Conflict, NotFound, UnknownCampaign
from tests.fixtures.queues import Hire
from tests.helpers.archives import archived, ended
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres

pytestmark = pytest.mark.usefixtures("true_counts")


@pytest.fixture
def campaign(queue: Client, hire: Hire, tmp_path: Path) -> Campaign:
    """Give /c with /c/below: 14 tasks, which have ended in all the ways there are."""
    return ended(queue, hire, tmp_path)


def put_back(database: Database, folder: Path, to: str | None = None) -> None:
    restore(database, open_blobs(database), folder, to, lambda *_: None)


def unknown(queue: Client, path: str) -> str:
    with pytest.raises(UnknownCampaign) as caught:
        queue.campaign(path)
    return str(caught.value)


def test_removed_campaign_is_known_with_all_below_it_in_one_row(
    queue: Client, campaign: Campaign
) -> None:
    counts = campaign.status()
    campaign.remove()
    (gone,) = queue.removed()
    assert (gone.path, gone.campaigns) == ("/c", 2)
    assert (gone.done, gone.failed, gone.cancelled) == (
        counts.done,
        counts.failed,
        counts.cancelled,
    )
    assert (gone.removed_by, gone.owner) == ("taskq", "taskq")
    assert (gone.archive, gone.digest) == (None, None)
    assert unknown(queue, "/c").endswith(f"by {gone.removed_by}, without an archive")
    assert "; /c was removed at 20" in unknown(queue, "/c/below")
    assert unknown(queue, "/d") == "no campaign /d; `taskq tree` shows what there is"
    assert [it.path for it in queue.removed("/c")] == ["/c"]
    assert queue.removed("/d") == []


def test_unfinished_tasks_of_a_removed_campaign_count_as_cancelled(queue: Client) -> None:
    campaign = queue.create_campaign(CampaignSpec("/c", handler=TRUE))
    campaign.seed({"n": n} for n in range(5))
    campaign.remove()
    (gone,) = queue.removed()
    assert (gone.done, gone.failed, gone.cancelled) == (0, 0, 5)


def test_calls_of_a_removed_campaign_say_when_it_was_removed(
    queue: Client, campaign: Campaign
) -> None:
    """Also those that no reading comes before."""
    campaign.remove()
    for call in (
        campaign.spec,
        campaign.status,
        campaign.pause,
        campaign.retry,
        campaign.cancel,
        lambda: queue.owners.of("/c"),
        lambda: queue.owners.list("/c"),
        lambda: queue.refusals("/c"),
        lambda: campaign.remove_input("receptor.txt"),
        lambda: list(campaign.results()),
    ):
        with pytest.raises(UnknownCampaign, match="it was removed at 20"):
            call()


def test_archive_of_a_removed_campaign_is_named_until_it_is_restored(
    queue: Client, database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    made = archived(database, tmp_path / "a")
    campaign.remove()
    (gone,) = queue.removed()
    assert (gone.archive, gone.digest) == (str(tmp_path / "a"), made.digest)
    assert made.digest in unknown(queue, "/c")
    assert f"`taskq campaign restore {tmp_path}/a`" in unknown(queue, "/c")
    put_back(database, tmp_path / "a", "/elsewhere")
    assert queue.removed() == [gone]
    put_back(database, tmp_path / "a")
    assert queue.removed() == []


def test_archive_of_an_earlier_state_is_not_named(
    queue: Client, database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    archived(database, tmp_path / "a")
    campaign.resume()
    campaign.remove()
    assert queue.removed()[0].archive is None


def test_half_restored_campaign_that_is_removed_leaves_the_earlier_stone(
    queue: Client, database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    archived(database, tmp_path / "a")
    campaign.remove()
    known = queue.removed()

    def interrupt(done: int, _: int, what: str) -> None:
        if what == "restored" and done > 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        restore(database, open_blobs(database), tmp_path / "a", None, interrupt, step_rows=1)
    queue.campaign("/c").remove()
    assert queue.removed() == known


def test_removal_that_is_interrupted_and_repeated_counts_each_task_once(
    queue: Client, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are transactions: a kill between two leaves what an exception there leaves."""
    monkeypatch.setattr("taskq.db.access.MOVE_CHUNK", 3)
    counts, interrupted = campaign.status(), 0

    def interrupt(gone: int, _: int) -> None:
        nonlocal interrupted
        if gone > 0:
            interrupted += 1
            raise InterruptedError

    while True:
        try:
            queue.campaign("/c").remove(interrupt)
        except InterruptedError:
            assert queue.removed() == []
            continue
        break
    assert interrupted > 3
    (gone,) = queue.removed()
    assert (gone.done, gone.failed, gone.cancelled) == (
        counts.done,
        counts.failed,
        counts.cancelled,
    )
    assert gone.campaigns == 2


@pytest.mark.parametrize("anew", [False, True])
def test_removal_whose_campaigns_another_one_removes_ends_as_if_it_had(
    queue: Client, campaign: Campaign, anew: bool
) -> None:
    """Campaigns that are made at its paths at once are others, and stay, empty as they are."""
    others = [queue.campaign("/c/below"), queue.campaign("/c")]

    def meanwhile(*_: object) -> None:
        while others:
            others.pop(0).remove()
            if anew and not others:
                queue.create_campaign("/c/below")

    campaign.remove(meanwhile)
    left = [it.path for it in queue.campaign("/").tree()]
    assert left == (["/", "/c", "/c/below"] if anew else ["/"])
    assert sorted(it.path for it in queue.removed()) == ["/c", "/c/below"]


@pytest.mark.both_transports
def test_removals_of_one_tree_at_once_all_end_well(queue: Client) -> None:
    """The last one at a campaign finds it gone, which is what was asked for."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=TRUE))
    for n in range(5):
        below = queue.create_campaign(CampaignSpec(f"/c/{n}", handler=TRUE))
        below.seed({"n": n} for n in range(20))
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: campaign.remove(), range(3)))
    assert [it.path for it in queue.campaign("/").tree()] == ["/"]
    assert sum(it.cancelled for it in queue.removed()) == 100


def test_campaign_that_is_opened_while_it_is_removed_leaves_no_stone(
    queue: Client, campaign: Campaign, postgres: Postgres
) -> None:
    queue.queries.rows("begin_removal", path="/c")
    campaign.resume()
    assert queue.removed() == []
    assert postgres.execute("select from taskq.stone").rowcount == 0


def test_path_that_is_used_again_shows_its_latest_ten(queue: Client, postgres: Postgres) -> None:
    for _ in range(12):
        queue.create_campaign("/c").remove()
    assert len(queue.removed("/c")) == 10
    queue.create_campaign("/c")
    assert queue.campaign("/c").path == "/c"
    assert "removed" not in unknown(queue, "/c/never")
    assert postgres.execute("select from taskq.stone").rowcount == 10


def test_removals_of_one_campaign_after_another_each_leave_a_row(
    queue: Client, campaign: Campaign
) -> None:
    """The first is not counted again with the one above it."""
    below = queue.campaign("/c/below")
    own = below.status()
    below.remove()
    campaign.remove()
    above, first = queue.removed()
    assert (first.path, first.done + first.failed + first.cancelled) == ("/c/below", own.total)
    assert (above.path, above.campaigns) == ("/c", 1)
    assert above.done + above.failed + above.cancelled == 12


COMMANDS = [
    ["status", "/c"],
    ["ls", "/c"],
    ["tree", "/c"],
    ["explain", "/c"],
    ["results", "/c"],
    ["export", "/c"],
    ["export", "/c", "--cursor", "{folder}/cursor"],
    ["retry", "/c", "--yes"],
    ["tasks", "/c"],
    ["failures", "/c"],
    ["campaign", "show", "/c"],
    ["campaign", "resume", "/c"],
    ["campaign", "rm", "/c", "--yes"],
    ["seed", "/d", "--from", "/c", "--best", "3", "--by", "result.score", "--lowest"],
    ["diff", "/d", "/c"],
    ["audit", "/c"],
    ["recover", "/c"],
]


def test_commands_name_the_archive_of_a_removed_campaign(
    dsn: str, queue: Client, database: Database, tmp_path: Path
) -> None:
    queue.create_campaign(CampaignSpec("/c", handler=TRUE))
    queue.create_campaign("/d")
    archived(database, tmp_path / "a")
    queue.campaign("/c").remove()
    taskq = CommandLine(dsn)
    for words in COMMANDS:
        code, said = taskq.refused(*(word.format(folder=tmp_path) for word in words))
        assert code == NotFound.exit_code, words
        assert said.startswith("no campaign /c; it was removed at 20"), words
        assert said.endswith(f"`taskq campaign restore {tmp_path}/a`"), words


def test_removed_campaigns_are_listed_as_table_and_records(dsn: str, queue: Client) -> None:
    queue.create_campaign("/a/b")
    queue.campaign("/a").remove()
    taskq = CommandLine(dsn)
    assert taskq.out("ls", "--removed").split()[:3] == ["REMOVED", "BY", "CAMPAIGN"]
    (record,) = taskq.json("ls", "/a", "--removed")
    assert (record["path"], record["campaigns"], record["archive"]) == ("/a", 2, None)
    assert taskq.json("ls", "/z", "--removed") == []


def test_root_cannot_be_removed(queue: Client) -> None:
    with pytest.raises(Conflict, match="root"):
        queue.queries.rows("begin_removal", path="/")
    with pytest.raises(Conflict, match="root"):
        queue.campaign("/").remove()


def points(queue: Client, postgres: Postgres, path: str, minute: int) -> tuple[int, int, int]:
    """Record a point; return what it has of a campaign."""
    postgres.execute(
        "select taskq.record_trends(clock_timestamp() + %s * interval '1 minute')", [minute]
    )
    point = queue.campaign(path).trend()[-1]
    return point.done, point.failed, point.failures


@pytest.mark.thorough
def test_trends_above_neither_fall_nor_jump_with_removals_and_restores(
    queue: Client, database: Database, campaign: Campaign, postgres: Postgres, tmp_path: Path
) -> None:
    """Removing is no progress, and restoring neither; the counts themselves follow both."""
    before = points(queue, postgres, "/", 0)
    assert before[0] > 0
    archived(database, tmp_path / "a")
    campaign.remove()
    assert queue.campaign("/").status().done == 0
    assert points(queue, postgres, "/", 1) == before
    put_back(database, tmp_path / "a")
    assert queue.campaign("/").status().done == before[0]
    assert points(queue, postgres, "/", 2) == before
    queue.campaign("/c").remove()
    assert points(queue, postgres, "/", 3) == before
    left = postgres.execute("select campaign_id, done from taskq.removed_sum").fetchall()
    assert [row["done"] for row in left] == [before[0]]


def test_trend_does_not_fall_while_its_campaign_is_being_removed(
    queue: Client, campaign: Campaign, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskq.db.access.MOVE_CHUNK", 3)
    before = points(queue, postgres, "/c", 0)
    minute = 0

    def look(*_: int) -> None:
        nonlocal minute
        minute += 1
        assert points(queue, postgres, "/", minute) == before
        if minute == 1:
            assert points(queue, postgres, "/c", minute) == before

    campaign.remove(look)
    assert minute > 3


def test_pace_above_compares_with_what_is_left(
    queue: Client, campaign: Campaign, postgres: Postgres
) -> None:
    """Else a removal would look as if all had become slow."""
    queue.create_campaign(CampaignSpec("/d", handler=TRUE)).seed([Seed({}, "a")])
    points(queue, postgres, "/", 0)
    postgres.execute("update taskq.trend set minute = minute - 20")
    ended_now = queue.campaign("/").status()
    (row,) = queue.queries.rows("explain_pace", path="/")
    assert row["ended_then"] == ended_now.done + ended_now.failed
    (pace,) = [
        it
        for it in queue.queries.rows("paces", path="/")
        if it["campaign_id"] == ended_now.campaign_id
    ]
    campaign.remove()
    (row,) = queue.queries.rows("explain_pace", path="/")
    assert row["ended_then"] == 0
    (after,) = [
        it
        for it in queue.queries.rows("paces", path="/")
        if it["campaign_id"] == ended_now.campaign_id
    ]
    assert pace["ended"] - after["ended"] == ended_now.done + ended_now.failed
