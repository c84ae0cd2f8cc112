"""Archives of ended campaigns: what is in them, and what the queue refuses meanwhile."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from taskq import Campaign, CampaignSpec, Client, Conflict, RetryPolicy, Seed
from taskq.archives import tables, writing
from taskq.archives.columns import LEFT_OUT, NOT_ARCHIVED, SOURCES, TABLES
from taskq.db.connections import Database
from taskq.model.errors import UnknownCampaign, UsageError
from tests.fixtures.queues import Hire
from tests.helpers.archives import archived, ended, shown
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, expire, silence
from tests.helpers.scripted_agent import report_of

pytestmark = pytest.mark.usefixtures("true_counts")


@pytest.fixture
def campaign(queue: Client, hire: Hire, tmp_path: Path) -> Campaign:
    """Give /c, which has ended in all the ways there are."""
    return ended(queue, hire, tmp_path)


def test_archive_has_each_column_of_each_table_of_campaigns(postgres: Postgres) -> None:
    """A new column is in the archive, or `LEFT_OUT` says why not."""
    found: dict[str, set[str]] = {}
    for row in postgres.execute(
        "select table_name, column_name from information_schema.columns c"
        " join information_schema.tables t using (table_schema, table_name)"
        " where table_schema = 'taskq' and table_type = 'BASE TABLE'"
    ):
        found.setdefault(row["table_name"], set()).add(row["column_name"])
    of_campaigns = {name for name, columns in found.items() if "campaign_id" in columns}
    assert of_campaigns | {"blob", "blob_part"} | {"result_index"} == {*SOURCES, *NOT_ARCHIVED}
    for name, table in SOURCES.items():
        if name == "blob":
            continue
        columns = set(TABLES[table]) | set(LEFT_OUT[name])
        assert found[name] - columns == _in_settings(name, found[name] - columns), name


def _in_settings(table: str, columns: set[str]) -> set[str]:
    """Return those that the settings of a campaign have, under their own names."""
    known = set(CampaignSpec("/c").to_settings())
    return columns & known if table == "campaign" else set()


def test_pandas_reads_an_archive_without_taskq(
    database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    archived(database, tmp_path / "a")

    def all_of(table: str) -> pd.DataFrame:
        files = sorted((tmp_path / "a/c000001").glob(f"{table}-*.parquet"))
        return pd.concat(map(pd.read_parquet, files))

    tasks, attempts = all_of("tasks"), all_of("attempts")
    assert tasks["status"].value_counts().to_dict() == {"done": 4, "cancelled": 7, "failed": 1}
    results = attempts[attempts["outcome"] == "done"].merge(tasks, on="task_id")
    scores = {json.loads(text).get("score") for text in results["result"]}
    assert scores == {None, -0.1, -2}
    assert json.loads(tasks["payload"].iloc[0])["text"] == "\u00e4\u2028\\"
    assert campaign.status(below=False).done == 4


def test_archived_campaign_refuses_all_that_would_change_it(
    queue: Client, database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    archived(database, tmp_path / "a")
    given = tmp_path / "receptor.txt"
    below = queue.campaign("/c/below")
    refused: list[Callable[[], object]] = [
        lambda: campaign.seed([Seed({"n": 99}, "new")]),
        lambda: campaign.add(Seed({"n": 99}, "new")),
        lambda: below.seed([Seed({"n": 99}, "new")]),
        campaign.retry,
        lambda: campaign.retry(status="done"),
        lambda: below.retry(status="done"),
        campaign.pause,
        below.cancel,
        below.pause,
        below.remove,
        lambda: campaign.change(replace(campaign.spec(), weight=2)),
        lambda: below.change(replace(below.spec(), weight=2)),
        lambda: campaign.add_input(given, "other"),
        lambda: campaign.remove_input("receptor.txt"),
        lambda: queue.create_campaign("/c/new"),
        lambda: queue.create_campaign("/c/below/new/deeper"),
    ]
    before = shown(queue)
    for call in refused:
        with pytest.raises(Conflict, match=r"archived"):
            call()
    assert [status.state for status in campaign.tree()] == ["archived", "archived"]
    assert campaign.status().state == "archived"
    assert shown(queue) == before
    assert campaign.resume()
    assert campaign.retry() == 1


def test_late_result_of_an_archived_campaign_is_superseded(
    queue: Client, database: Database, hire: Hire, postgres: Postgres, tmp_path: Path
) -> None:
    policy = RetryPolicy(max_losses=1)
    spec = CampaignSpec("/c", handler=TRUE, retry=policy, late_results="salvage")
    campaign = queue.create_campaign(spec)
    campaign.seed([Seed({}, "a")])
    agent = hire()
    (task,) = agent.claim()
    silence(postgres, agent.session)
    assert expire(postgres) == 1
    archived(database, tmp_path / "a")
    later = hire()
    assert later.exchange([report_of(task, "done") | {"by": agent.session}])["acks"] == [
        "superseded"
    ]
    assert campaign.status().failed == 1
    campaign.resume()
    assert later.exchange([report_of(task, "done") | {"by": agent.session}])["acks"] == ["accepted"]


def test_unfinished_campaign_is_not_archived(
    queue: Client, database: Database, hire: Hire, tmp_path: Path
) -> None:
    campaign = queue.create_campaign(CampaignSpec("/c", handler=TRUE))
    queue.create_campaign(CampaignSpec("/c/below", handler=TRUE)).seed([Seed({}, "a")])
    for _ in range(2):
        with pytest.raises(Conflict, match="of those below, 1 have not ended"):
            archived(database, tmp_path / "a")
        assert campaign.status().state == "open"
        hire("/c/below").claim()
    assert not (tmp_path / "a").exists(), "nothing is left of what did not begin"


def test_command_says_that_no_campaign_is_made_below_an_archived_one(
    taskq: CommandLine, database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    archived(database, tmp_path / "a")
    assert "archived: /c;" in taskq.refused("campaign", "create", "/c/x/y", "--", "true")[1]
    campaign.resume()
    taskq.out("campaign", "create", "/c/x/y", "--", "true")


def test_nested_archives_are_refused(
    queue: Client, database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    """An archive has all that is below its campaign, so there is one for each of them."""
    archived(database, tmp_path / "a")
    with pytest.raises(Conflict, match="campaign /c is archived already"):
        archived(database, tmp_path / "b", "/c/below")
    campaign.resume()
    archived(database, tmp_path / "b", "/c/below")
    with pytest.raises(Conflict, match="campaign /c/below is archived already"):
        archived(database, tmp_path / "a")
    with pytest.raises(UsageError, match="the root cannot be archived"):
        archived(database, tmp_path / "r", "/")
    assert queue.campaign("/c").status().state == "open"


def test_repeated_archive_keeps_its_files(
    database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    first = archived(database, tmp_path / "a")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*.parquet")}
    assert archived(database, tmp_path / "a").digest == first.digest
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*.parquet")}
    assert after == before
    campaign.resume()
    with pytest.raises(UsageError, match="another archive"):
        archived(database, tmp_path / "a")


@pytest.mark.usefixtures("campaign")
def test_archive_that_reads_a_task_at_a_time_is_the_same(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rests after each; what is read together makes no difference to what is there."""
    whole = archived(database, tmp_path / "whole", range_tasks=5)
    monkeypatch.setattr(writing, "SLICE_TASKS", 1)
    Client(database).campaign("/c").resume()
    sliced = archived(database, tmp_path / "sliced", range_tasks=5)
    assert sliced.manifest.archive != whole.manifest.archive
    assert sliced.manifest.files[1:] == whole.manifest.files[1:]
    assert len(sliced.manifest.files) > 10


def test_archive_goes_to_an_empty_folder_only(
    database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="is not empty"):
        archived(database, tmp_path)
    assert campaign.status().state == "open"


def test_archive_of_a_damaged_file_removes_nothing(
    taskq: CommandLine, database: Database, campaign: Campaign, tmp_path: Path
) -> None:
    archived(database, tmp_path / "a")
    damaged = next((tmp_path / "a/c000001").glob("attempts-*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"x" + damaged.read_bytes()[-8:])
    code, text = taskq.refused(
        "campaign", "archive", "/c", "--to", tmp_path / "a", "--remove", "--yes"
    )
    assert code == 65
    assert damaged.name in text
    assert campaign.status().done == 5


def test_command_archives_and_removes_only_if_asked(
    taskq: CommandLine, queue: Client, campaign: Campaign, tmp_path: Path
) -> None:
    words = ("campaign", "archive", "/c", "--to", tmp_path / "a")
    text = taskq.out(*words)
    assert "14 tasks are in" in text
    assert "refuses changes until it is resumed" in text
    assert campaign.status().done == 5
    record = taskq.json(*words, "--remove", "--yes")
    assert (record["tasks"], record["campaigns"], record["lost_files"]) == (14, 2, 0)
    assert record["digest"] in text
    with pytest.raises(UnknownCampaign):
        queue.campaign("/c")
    assert (tmp_path / "a/manifest.json").exists()
    assert taskq.refused("campaign", "archive", "/c", "--to", "gs://bucket/a")[0] == 2


def test_long_texts_do_not_lengthen_the_description_of_a_file() -> None:
    """Its reader takes one of bounded length only, so what was written could not be verified."""
    row = dict.fromkeys(TABLES["attempts"]) | {"task_id": 1, "attempt": 1}
    texts = (f"{number:04}" * 900 for number in range(6_000))
    rows = (tuple((row | {"result": text, "error": text, "tail": text}).values()) for text in texts)
    stream = io.BytesIO()
    assert tables.write(stream, "attempts", rows) == 6_000
    described = int.from_bytes(stream.getvalue()[-8:-4], "little")
    assert described * 50 < tables.MAX_FOOTER_BYTES
    assert sum(1 for _ in tables.read(stream, "attempts", "attempts")) == 6_000
