"""Inputs that were replaced: their content stays if the campaign keeps it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, NotFound
from taskq.model.errors import Conflict, ResultLost
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres

pytestmark = pytest.mark.both_transports


@pytest.fixture(autouse=True)
def _no_other_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASKQ_BLOBS", raising=False)


@pytest.fixture
def dock(queue: Client, tmp_path: Path) -> Campaign:
    """Give a campaign with a task, whose input `box` was replaced twice and then removed."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=TRUE, keep_inputs=True))
    campaign.seed([{"n": 1}])
    box = tmp_path / "box"
    for content in ("first", "second", "third"):
        box.write_text(content)
        campaign.add_input(box)
    campaign.remove_input("box")
    return campaign


def clean(postgres: Postgres) -> None:
    """Remove unused blobs, whatever their age."""
    postgres.execute("select taskq.remove_unused_blobs(100, 0)")


def content(campaign: Campaign, recipe: int, to: Path) -> str:
    campaign.fetch_input("box", to, recipe=recipe)
    return to.read_text()


def test_replaced_inputs_stay_as_long_as_the_campaign_keeps_them(
    dock: Campaign, postgres: Postgres, tmp_path: Path
) -> None:
    """Each recipe's content can be fetched; without the setting, the next cleaning removes it."""
    clean(postgres)
    found = [content(dock, number, tmp_path / "found") for number in (2, 3, 4)]
    assert found == ["first", "second", "third"]
    with pytest.raises(NotFound, match="has no input box; "):
        dock.fetch_input("box", tmp_path / "none")
    with pytest.raises(NotFound, match="has no input other in its recipe 2"):
        dock.fetch_input("other", tmp_path / "none", recipe=2)
    dock.change(replace(dock.spec(), keep_inputs=False))
    clean(postgres)
    with pytest.raises(ResultLost, match="with the setting keep_inputs only"):
        dock.fetch_input("box", tmp_path / "none", recipe=2)
    assert not (tmp_path / "none").exists()


def test_input_is_fetched_by_command_and_replaces_no_file_unasked(
    dock: Campaign, taskq: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of the input's name is not overwritten by default."""
    to = tmp_path / "before"
    record = taskq.json("input", "fetch", "/c", "box", "--recipe", 3, "--to", to)
    assert (record["size"], to.read_text()) == (6, "second")
    dock.add_input(to, "box")
    taskq.out("input", "fetch", "/c", "box", "--to", to)
    assert to.read_text() == "second"
    monkeypatch.chdir(tmp_path)
    assert taskq.refused("input", "fetch", "/c", "box")[0] == 2
    (tmp_path / "box").unlink()
    taskq.out("input", "fetch", "/c", "box")
    assert (tmp_path / "box").read_text() == "second"


def test_kept_inputs_count_in_the_owners_bytes(
    dock: Campaign, queue: Client, postgres: Postgres, tmp_path: Path
) -> None:
    """Each content once, next to those that the campaign has now; no more is taken beyond."""
    owner = queue.owners.of("/c")
    assert owner is not None

    def stored() -> int:
        return next(it.bytes for it in queue.owners.list("/c") if it.owner == owner)

    assert stored() == len("first" + "second" + "third")
    again = tmp_path / "again"
    again.write_text("second")
    dock.add_input(again, "box")
    assert stored() == len("first" + "second" + "third")
    postgres.execute("select taskq.set_quota(%s, '{\"max_bytes\": 20}')", [owner])
    again.write_text("a longer text")
    with pytest.raises(Conflict, match="no room for 13 more"):
        dock.add_input(again, "box")
    dock.change(replace(dock.spec(), keep_inputs=False))
    assert stored() == len("second")
    dock.add_input(again, "box")
