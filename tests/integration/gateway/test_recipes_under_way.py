"""A campaign that changes under agents at work: each result names the recipe that made it."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from tests.fixtures.gateways import Realm, StartGateway, opened
from tests.helpers.agent_processes import agent_process
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.paths import PAYLOADS
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import WorkerNode
from tests.integration.gateway.site import upkeep

#: Longer than a busy machine keeps a process waiting: nobody may be lost by that.
LEASE_S = 15
WAIT_S = 120.0
#: Contents in turn, which are their own numbers: the last one is the first again.
GRIDS = (1, 2, 3, 1)
TASKS = 40


def gridded(queue: Client, path: str, folder: Path, tasks: int) -> Campaign:
    """Return a campaign whose results say which grid they were computed with."""
    params = {"grid": GRIDS[0], "folder": str(folder)}
    handler = Handler("python", target="gridded:run")
    campaign = queue.create_campaign(CampaignSpec(path, handler=handler, params=params))
    campaign.seed({"n": n} for n in range(tasks))
    return campaign


def change(campaign: Campaign, grid: int) -> None:
    spec = campaign.spec()
    campaign.change(replace(spec, params={**spec.params, "grid": grid}))


def await_begun(folder: Path, grid: int, tasks: int) -> None:
    """Wait until so many tasks have begun with a grid; they end once there is its file."""
    wait_until(lambda: len([*folder.glob(f"begun-{grid}-*")]) == tasks, timeout_s=WAIT_S)


def recipes(campaign: Campaign) -> list[int | None]:
    """Return the recipe of each result, once it is what the result itself says."""
    found = []
    for result in campaign.results():
        (recipe,) = [
            ended.recipe for ended in campaign.attempts(result.key) if ended.outcome == "done"
        ]
        assert recipe == result.result["grid"], result
        found.append(recipe)
    return found


def test_task_that_began_before_a_change_keeps_its_recipe(
    queue: Client, dsn: str, tmp_path: Path
) -> None:
    """Its agent runs the terms that it got; those after it have the new ones."""
    campaign = gridded(queue, "/c", tmp_path, 2)
    words = ("--until-empty", "--path", PAYLOADS, "--quiet", "--ahead", 0)
    with agent_process(dsn, "one", tmp_path / "log", *words) as agent:
        await_begun(tmp_path, 1, 1)
        change(campaign, 2)
        for grid in (1, 2):
            (tmp_path / f"go-{grid}").touch()
        assert agent.wait(timeout=WAIT_S) == 0, (tmp_path / "log").read_text()
    assert recipes(campaign) == [1, 2]


@pytest.mark.longer  # four agents start, and two are killed
@pytest.mark.thorough
def test_each_result_names_its_recipe_while_agents_die_and_the_campaign_changes(
    dsn: str, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """Directly and over a gateway, with changes in the midst, and one back to what was first."""
    gateway = start_gateway("--lease", LEASE_S)
    with opened(dsn) as queue, upkeep(dsn), ExitStack() as stack:
        place = Realm(queue, gateway)
        campaign = gridded(queue, f"{place.path}/c", tmp_path, TASKS)
        words = ("--until-empty", "--path", PAYLOADS, "--quiet", "--slots", 2, "--ahead", 0)
        agents = []
        for number in range(2):
            direct = agent_process(
                dsn,
                f"direct-{number}",
                tmp_path / f"log-{number}",
                *(*words, "--lease", LEASE_S),
                path=campaign.path,
            )
            (tmp_path / f"node-{number}").mkdir()
            node = WorkerNode(tmp_path / f"node-{number}")
            node.token.write_text(place.site)
            far = node.at_work(
                gateway.url,
                campaign=campaign.path,
                path=PAYLOADS,
                slots=2,
                ahead=0,
                until_empty=True,
                quiet=True,
            )
            agents.append((stack.enter_context(direct), stack.enter_context(far)))
        await_begun(tmp_path, 1, 8)
        for killed in agents[0]:
            killed.send_signal(signal.SIGKILL)
        for grid, following in pairwise(GRIDS):
            change(campaign, following)
            (tmp_path / f"go-{grid}").touch()
            if following != GRIDS[0]:
                await_begun(tmp_path, following, 4)
        for survivor in agents[1]:
            assert survivor.wait(timeout=WAIT_S) == 0
        assert Counter(recipes(campaign)) == {1: TASKS - 8, 2: 4, 3: 4}
        lost = [
            ended.recipe
            for result in campaign.results()
            for ended in campaign.attempts(result.key)
            if ended.outcome == "lost"
        ]
        assert lost == [None] * 4
        assert_audit_is_clean(queue, place.path)
