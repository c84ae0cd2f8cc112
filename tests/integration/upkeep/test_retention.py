"""Retention: campaigns that ended long ago are announced, archived and removed, and no others."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client
from taskq.archives.restoring import restore
from taskq.archives.retaining import archive_due
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from taskq.model.errors import InvalidCampaign
from taskq.upkeep import retention
from taskq.upkeep.keeper import Keeper
from taskq.upkeep.retention import Retention
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.retention import ended, later, paths, run, step
from tests.helpers.server_checks import only
from tests.helpers.usage import sum_up

pytestmark = pytest.mark.usefixtures("true_counts")

DAY_S = 86_400.0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Retention:
    """Give the retention of a keeper that looks at each step, and deletes two tasks in one."""
    monkeypatch.setattr(retention, "LOOK_S", 0.0)
    monkeypatch.setattr(retention, "STEP_TASKS", 2)
    return Retention()


def begun_without_a_look(queue: Client) -> bool:
    """Return whether a step begins something with what the last look saw."""
    queue.queries.rows("retain", campaign=None, after=0, limit=2)
    (row,) = queue.queries.rows("retain", campaign=None, after=0, limit=2)
    return row["path"] is not None


def test_campaign_is_removed_when_it_ended_as_long_ago_as_it_is_kept(
    queue: Client, database: Database, hire: Hire, postgres: Postgres, steps: Retention
) -> None:
    """It is announced, nothing else goes, and a stone says who removed it."""
    campaign = ended(queue, hire, "/a", keep="30d")
    ended(queue, hire, "/b")
    assert run(database, steps) == []
    announced = campaign.retention()
    assert announced is not None
    assert (announced.path, announced.keep_s) == ("/a", 30 * DAY_S)
    assert announced.due_at - announced.ended_at == timedelta(days=30)
    assert queue.campaign("/b").retention() is None
    later(postgres, 29.9)
    assert run(database, steps) == []
    later(postgres, 0.2)
    assert run(database, steps) == ["/a"]
    assert paths(queue) == ["/b"]
    (gone,) = queue.removed()
    assert (gone.path, gone.removed_by, gone.done) == ("/a", "retention", 3)


def test_keeper_removes_in_its_rounds(
    queue: Client, database: Database, hire: Hire, postgres: Postgres, steps: Retention
) -> None:
    ended(queue, hire, "/a", keep="30d")
    run(database, steps)
    later(postgres, 31)
    with closing(Keeper(database)) as keeper:
        rounds = 0
        while paths(queue):
            assert keeper.round().acting
            rounds += 1
            assert rounds < 20
    assert rounds > 2


def test_folder_of_campaigns_stays_and_what_is_directly_below_goes_as_a_whole(
    queue: Client, database: Database, hire: Hire, postgres: Postgres, steps: Retention
) -> None:
    """A chain of stages goes when its last has ended, and what works keeps all of it."""
    queue.create_campaign(CampaignSpec("/f", keep="30d"))
    for path in ("/f/run/one", "/f/run/two", "/f/busy/one"):
        ended(queue, hire, path)
    queue.create_campaign(CampaignSpec("/f/busy/two", handler=TRUE)).seed([{"n": 1}])
    assert run(database, steps) == []
    later(postgres, 31)
    assert run(database, steps) == ["/f/run"]
    assert paths(queue) == ["/f", "/f/busy", "/f/busy/one", "/f/busy/two"]
    retention_of_run = queue.removed("/f/run")
    assert [gone.campaigns for gone in retention_of_run] == [3]


def test_longer_keep_below_counts_and_a_shorter_one_goes_first(
    queue: Client, database: Database, hire: Hire, postgres: Postgres, steps: Retention
) -> None:
    ended(queue, hire, "/a", keep="30d")
    ended(queue, hire, "/a/long", keep="60d")
    ended(queue, hire, "/a/short", keep="10d")
    run(database, steps)
    later(postgres, 11)
    assert run(database, steps) == ["/a/short"]
    later(postgres, 20)
    assert run(database, steps) == []
    later(postgres, 30)
    assert "/a" in run(database, steps)
    assert paths(queue) == []


def test_campaign_that_is_reopened_or_works_again_stays(
    queue: Client, database: Database, hire: Hire, postgres: Postgres, steps: Retention
) -> None:
    """Also between a look and the step that would remove it: it is looked at again under locks."""
    campaign = ended(queue, hire, "/a", keep="30d")
    run(database, steps)
    later(postgres, 31)
    queue.campaign("/a").cancel()
    campaign.resume()
    assert not begun_without_a_look(queue)
    assert run(database, steps) == []
    announced = campaign.retention()
    assert announced is not None
    later(postgres, 29)
    assert run(database, steps) == []
    assert campaign.retry(status="done") == 3
    later(postgres, 2)
    assert not begun_without_a_look(queue)
    run(database, steps)
    assert campaign.retention() is None
    agent = hire("/a")
    for task in agent.claim(3):
        agent.done(task)
    later(postgres, 20)
    assert run(database, steps) == []
    later(postgres, 20)
    run(database, steps)
    assert campaign.status().done == 3
    later(postgres, 31)
    assert run(database, steps) == ["/a"]


def test_seed_after_a_look_keeps_a_campaign(
    queue: Client, database: Database, hire: Hire, postgres: Postgres, steps: Retention
) -> None:
    campaign = ended(queue, hire, "/a", keep="30d")
    run(database, steps)
    later(postgres, 31)
    campaign.seed([{"n": 99}])
    assert not begun_without_a_look(queue)
    assert campaign.status().total == 4


def test_campaign_that_is_restored_is_kept_anew(
    queue: Client,
    database: Database,
    hire: Hire,
    postgres: Postgres,
    steps: Retention,
    tmp_path: Path,
) -> None:
    campaign = ended(queue, hire, "/a", keep="30d", archive_first=True)
    run(database, steps)
    later(postgres, 31)
    sum_up(postgres)
    assert archive_due(database, str(tmp_path)) == "/a"
    assert run(database, steps) == ["/a"]
    (gone,) = queue.removed()
    assert gone.archive is not None
    restore(database, open_blobs(database), Path(gone.archive), None, lambda *_: None)
    assert run(database, steps) == []
    announced = queue.campaign("/a").retention()
    assert announced is not None
    left = announced.due_at - value(postgres, "select clock_timestamp()")
    assert timedelta(days=29) < left < timedelta(days=31)
    assert campaign.status().done == 3


def test_old_campaign_that_gets_a_keep_is_announced_a_day_before(
    queue: Client, database: Database, hire: Hire, postgres: Postgres, steps: Retention
) -> None:
    """Its end is known from what it used; the same for a keep that is made shorter."""
    campaign = ended(queue, hire, "/a", keep="365d")
    sum_up(postgres)
    later(postgres, 100)
    run(database, steps)
    announced = campaign.retention()
    assert announced is not None
    assert announced.due_at - announced.ended_at == timedelta(days=365)
    queue.create_campaign(CampaignSpec("/a", handler=TRUE, keep="30d"), exist_ok=True)
    assert run(database, steps) == []
    announced = campaign.retention()
    assert announced is not None
    left = announced.due_at - value(postgres, "select clock_timestamp()")
    assert timedelta(hours=23) < left <= timedelta(days=1)
    later(postgres, 1)
    assert run(database, steps) == ["/a"]


@pytest.mark.thorough
def test_nothing_that_is_to_be_archived_goes_without_an_archive(
    queue: Client,
    database: Database,
    hire: Hire,
    postgres: Postgres,
    steps: Retention,
    tmp_path: Path,
) -> None:
    """Whether the setting stands at the campaign, above it or below it."""
    queue.create_campaign(CampaignSpec("/f", keep="30d", archive_first=True))
    ended(queue, hire, "/f/a")
    ended(queue, hire, "/g", keep="30d")
    ended(queue, hire, "/g/below", archive_first=True)
    run(database, steps)
    later(postgres, 31)
    assert run(database, steps) == []
    assert {archive_due(database, str(tmp_path)) for _ in range(3)} == {"/f/a", "/g", None}
    assert sorted(run(database, steps)) == ["/f/a", "/g"]
    assert paths(queue) == ["/f"]
    for gone in queue.removed():
        assert gone.archive is not None
        assert Path(gone.archive).parent == tmp_path
        assert (Path(gone.archive) / "manifest.json").exists()


def test_archive_that_is_resumed_before_the_removal_does_not_count(
    queue: Client,
    database: Database,
    hire: Hire,
    postgres: Postgres,
    steps: Retention,
    tmp_path: Path,
) -> None:
    campaign = ended(queue, hire, "/a", keep="30d", archive_first=True)
    run(database, steps)
    later(postgres, 31)
    assert archive_due(database, str(tmp_path)) == "/a"
    campaign.resume()
    assert run(database, steps) == []
    later(postgres, 31)
    assert run(database, steps) == []
    assert archive_due(database, str(tmp_path)) == "/a"
    assert run(database, steps) == ["/a"]


def test_removal_goes_on_in_another_keeper_until_somebody_resumes(
    queue: Client, database: Database, hire: Hire, postgres: Postgres, steps: Retention
) -> None:
    campaign = ended(queue, hire, "/a", tasks=9, keep="30d")
    run(database, steps)
    later(postgres, 31)
    while step(database, steps) is None or campaign.status().total == 9:
        pass
    another = Retention()
    assert step(database, another) == "/a"
    left = campaign.status().total
    assert 0 < left < 7
    campaign.resume()
    assert run(database, another) == []
    assert campaign.status().total == left
    assert queue.removed() == []


def test_trouble_with_one_campaign_keeps_no_other(
    queue: Client, database: Database, hire: Hire, postgres: Postgres, steps: Retention
) -> None:
    """A part that somebody archived stays, with all above it."""
    for path in ("/a", "/b"):
        ended(queue, hire, path, keep="30d")
    ended(queue, hire, "/a/below")
    run(database, steps)
    later(postgres, 31)
    queue.queries.rows("begin_archive", path="/a/below")
    assert run(database, steps) == ["/b"]
    assert paths(queue) == ["/a", "/a/below"]


def test_removal_is_announced_by_commands(
    dsn: str, queue: Client, database: Database, hire: Hire, postgres: Postgres, steps: Retention
) -> None:
    ended(queue, hire, "/a", keep="30d")
    ended(queue, hire, "/a/below")
    ended(queue, hire, "/b", keep="30d", archive_first=True)
    taskq = CommandLine(dsn)
    assert "removed" not in taskq.out("campaign", "show", "/a")
    run(database, steps)
    assert "30 d after the end" in taskq.out("campaign", "show", "/a")
    assert "It is removed with /a at 20" in taskq.out("campaign", "show", "/a/below")
    assert taskq.json("campaign", "show", "/a/below")["retention"]["path"] == "/a"
    assert "It is removed at 20" in taskq.json("explain", "/a")["reasons"][0]["text"]
    found = only(database, "retention")
    assert (found.state, found.figures["campaigns"]) == ("fine", 0)
    later(postgres, 30.1)
    found = only(database, "retention")
    assert (found.state, found.figures["campaigns"]) == ("advice", 2)
    assert "1 campaign of them must be archived first" in found.text


def test_keeper_needs_a_folder_for_archives(dsn: str, tmp_path: Path) -> None:
    code, said = CommandLine(dsn).refused("keeper", "--archive-to", tmp_path / "none")
    assert (code, "none" in said) == (2, True)


def test_keep_of_a_campaign_without_tasks_removes_nothing(
    queue: Client, database: Database, postgres: Postgres, steps: Retention
) -> None:
    """An empty campaign may be about to be seeded."""
    queue.create_campaign(CampaignSpec("/a", handler=TRUE, keep="30d"))
    queue.create_campaign("/a/b")
    run(database, steps)
    later(postgres, 400)
    assert run(database, steps) == []
    assert paths(queue) == ["/a", "/a/b"]


@pytest.mark.parametrize("keep", ["1x", "", 3_599, "36501d", True, "none", float("nan")])
def test_keep_of_another_form_is_refused(keep: object) -> None:
    with pytest.raises(InvalidCampaign, match="keep must be a time"):
        CampaignSpec("/a", keep=keep)  # type: ignore[arg-type]


def test_keep_may_be_text_or_seconds() -> None:
    assert CampaignSpec("/a", keep="90d") == CampaignSpec("/a", keep=90 * 86_400)  # type: ignore[arg-type]
