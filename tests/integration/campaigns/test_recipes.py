"""Recipes: what tells results apart that handler, parameters or inputs made differently."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, NotFound
from taskq.model.recipes import Difference, differences
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value


@pytest.fixture
def dock(queue: Client) -> Campaign:
    """Give a campaign with a handler, a parameter and a task."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=TRUE, params={"grid": 1}))
    campaign.seed([{"n": n} for n in range(3)])
    return campaign


def change(campaign: Campaign, **settings: Any) -> None:
    campaign.change(replace(campaign.spec(), **settings))


def numbers(campaign: Campaign) -> list[int]:
    return [made.recipe for made in campaign.changes()]


def test_recipe_number_rises_only_with_handler_parameters_and_inputs(
    dock: Campaign, tmp_path: Path
) -> None:
    """Equal content gets its old number; other settings, and the same again, change nothing."""
    assert numbers(dock) == [1]
    change(dock, time_limit_s=60.0)
    dock.pause()
    dock.resume()
    change(dock)
    assert numbers(dock) == [1]
    change(dock, params={"grid": 2, "deep": {"x": 1}})
    change(dock, handler=Handler("command", argv=("false",)))
    change(dock, params={"grid": 1}, handler=TRUE)
    receptor = tmp_path / "receptor.pdbqt"
    for content in ("old", "new", "new", "old"):
        receptor.write_text(content)
        dock.add_input(receptor)
    dock.remove_input("receptor.pdbqt")
    found = dock.changes()
    assert [made.recipe for made in found] == [1, 2, 3, 1, 4, 5, 4, 1]
    assert [made.change for made in found] == [*range(1, 9)]
    assert [made.what for made in found[:6]] == [
        [],
        ["params.deep", "params.grid"],
        ["handler.argv"],
        ["handler.argv", "params.deep", "params.grid"],
        ["inputs.receptor.pdbqt"],
        ["inputs.receptor.pdbqt"],
    ]
    assert {made.changed_by for made in found} == {found[0].changed_by}
    assert sorted(made.changed_at for made in found) == [made.changed_at for made in found]
    assert dock.recipe().recipe == 1
    assert dock.recipe(2).params == {"grid": 2, "deep": {"x": 1}}
    digests = [dock.recipe(number).inputs["receptor.pdbqt"]["digest"] for number in (4, 5)]
    assert len({*digests}) == 2
    with pytest.raises(NotFound, match="no recipe 6; `taskq campaign changes /c`"):
        dock.recipe(6)


def test_handler_and_inputs_that_change_together_are_one_change(
    dock: Campaign, tmp_path: Path
) -> None:
    """However many inputs are replaced, no recipe in between is recorded."""
    for name in "ab":
        (tmp_path / name).write_text(name)
        dock.add_input(tmp_path / name)
    inputs = dock.inputs()
    dock.change(dock.spec(), inputs={"c": inputs["a"], "d": inputs["b"]})
    assert numbers(dock) == [1, 2, 3, 4]
    dock.change(dock.spec(), inputs=inputs)
    assert numbers(dock)[4:] == [3]


def test_changes_before_the_first_task_belong_to_the_first_recipe(
    queue: Client, tmp_path: Path
) -> None:
    """Nothing can have been computed by what was there before; a removal takes all along."""
    campaign = queue.create_campaign("/c")
    (tmp_path / "receptor").write_text("x")
    campaign.add_input(tmp_path / "receptor")
    change(campaign, handler=TRUE, params={"grid": 7})
    assert numbers(campaign) == [1]
    assert campaign.recipe(1).params == {"grid": 7}
    campaign.seed([{}])
    change(campaign, params={"grid": 8})
    assert numbers(campaign) == [1, 2]
    campaign.remove()
    again = queue.create_campaign(CampaignSpec("/c", handler=TRUE))
    assert numbers(again) == [1]


def test_changes_at_once_are_recorded_one_after_the_other(
    dock: Campaign, dsn: str, postgres: Postgres
) -> None:
    """Each with a number of its own, and the campaign has the last one."""
    start = threading.Barrier(4)

    def work(own: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            start.wait()
            for grid in range(5):
                spec = f'{{"params": {{"grid": {10 * own + grid}}}}}'
                connection.execute("select taskq.change_campaign('/c', %s)", [spec])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 5)))
    found = dock.changes()
    assert [made.change for made in found] == [*range(1, 22)]
    assert [made.recipe for made in found] == [*range(1, 22)]
    assert dock.recipe().recipe == 21
    assert dock.recipe(21) == dock.recipe()
    assert value(postgres, "select recipe from taskq.campaign where path = '/c'") == 21


def test_seal_of_arguments_is_in_no_recipe(queue: Client, postgres: Postgres) -> None:
    """Neither as a change nor in what readers get."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=TRUE))
    campaign.seed([{}])
    for seal in ("s3cret", "0ther"):
        spec = f'{{"handler": {{"kind": "command", "argv": ["true"], "seal": "{seal}"}}}}'
        postgres.execute("select taskq.change_campaign('/c', %s)", [spec])
    assert numbers(campaign) == [1]
    assert "seal" not in (campaign.recipe().handler or {})


def test_commands_show_recipes_and_ask_before_results_are_mixed(
    dock: Campaign, queue: Client, hire: Hire, dsn: str, tmp_path: Path
) -> None:
    """Without results they do not ask; `--yes` answers; two campaigns are compared."""
    taskq = CommandLine(dsn)
    taskq.out("campaign", "change", "/c", "--param", "grid=2")
    agent = hire()
    agent.done(agent.claim(1)[0])
    refused = taskq("campaign", "change", "/c", "--param", "grid=3")
    assert refused.exit_code != 0
    assert "has 1 result. Those that come after this change are computed" in refused.stderr
    (tmp_path / "receptor").write_text("x")
    refused = taskq("input", "add", "/c", tmp_path / "receptor")
    assert "--yes" in refused.stderr
    assert numbers(dock) == [1, 2]
    taskq.out("campaign", "change", "/c", "--time-limit", "60")
    taskq.out("campaign", "change", "/c", "--param", "grid=3", "--yes")
    taskq.out("input", "add", "/c", tmp_path / "receptor", "--yes")
    listed = taskq.json("campaign", "changes", "/c")
    assert [record["recipe"] for record in listed] == [1, 2, 3, 4]
    assert [record["what"] for record in listed[1:]] == [["params.grid"]] * 2 + [
        ["inputs.receptor"]
    ]
    assert taskq.json("campaign", "show", "/c", "--recipe", "2")["params"] == {"grid": 2}
    assert "grid" in taskq.out("campaign", "show", "/c", "--recipe", "1")
    queue.create_campaign(CampaignSpec("/d", handler=TRUE, params={"grid": 3}))
    (row,) = taskq.json("diff", "/c", "/d")
    assert (row["what"], row["second"]) == ("inputs.receptor", None)
    assert taskq("campaign", "show", "/c", "--recipe", "9").exit_code == NotFound.exit_code


def test_differences_name_each_member_once(dock: Campaign) -> None:
    """A member that is null is not one that is missing."""
    first = dock.recipe()
    change(dock, params={"grid": 1, "none": None})
    assert differences(first, dock.recipe()) == [Difference("params.none", None, None)]
    assert differences(first, first) == []
