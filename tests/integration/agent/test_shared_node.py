"""examples/shared-node: campaigns share a made-up GPU and named resources, and views name them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from taskq import Client
from tests.helpers.command_line import TIMEOUT_S, CommandLine
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_until

EXAMPLE = ROOT / "examples" / "shared-node"
PATH = "/demo/shared-node"
GIB = 1 << 30
COMMANDS = [
    line.split()
    for line in (EXAMPLE / "README.md").read_text().splitlines()
    if line.startswith("    ")
]
*PREPARE, EXPORT, RUN = COMMANDS
DEVICE = EXPORT[1].partition("=")[2]


def prepared(taskq: CommandLine, *, seconds: int = 0) -> None:
    """Make the campaigns of the example, with tasks that take so long."""
    for command in PREPARE:
        words = [ROOT / word if (ROOT / word).is_file() else word for word in command[1:]]
        taskq.out(*[f"seconds={seconds}" if word == "seconds=1" else word for word in words])


def most_at_once(results: Iterable[dict[str, Any]]) -> int:
    """Return how many have overlapped at most."""
    spans = [(found["begun"], found["ended"]) for found in results]
    return max(sum(begun <= at <= ended for begun, ended in spans) for at, _ in spans)


def test_example_never_gives_out_more_than_the_node_has(queue: Client, taskq: CommandLine) -> None:
    prepared(taskq)
    variables = {"CUDA_VISIBLE_DEVICES": DEVICE}
    with taskq.process(*RUN[1:], environment=variables) as agent:
        _, log = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 0, log
    docked, minimised = (
        [dict(found.result or {}) for found in queue.campaign(f"{PATH}/{name}").results()]
        for name in ("dock", "minimise")
    )
    assert [found["device"] for found in docked] == [DEVICE] * 8
    assert {(found["licences"], found["scratch"]) for found in docked} == {(0, 0)}
    assert [(found["licences"], found["scratch"]) for found in minimised] == [(1, 20 * GIB)] * 4
    assert most_at_once(docked) <= 4
    assert most_at_once(minimised) <= 2


@pytest.mark.thorough
def test_views_name_what_each_slot_and_task_has(
    queue: Client, taskq: CommandLine, tmp_path: Path
) -> None:
    """As heartbeats say it. The device by the beginning of its UUID."""
    prepared(taskq, seconds=3_600)
    # Heartbeats come four times in a lease.
    words = [*RUN[1:], "--lease", "20", "--scratch", tmp_path]
    with taskq.process(*words, environment={"CUDA_VISIBLE_DEVICES": DEVICE}) as agent:
        wait_until(lambda: [it for it in queue.agents() if len(it.shares) == 6])
        table = " ".join(taskq.out("agent", "list").split())
        dock, minimise = (queue.campaign(f"{PATH}/{name}") for name in ("dock", "minimise"))
        docking, minimising = (
            next(task for task in campaign.tasks("working") if task.share is not None)
            for campaign in (dock, minimise)
        )
        said = [taskq.out("explain", dock.path, docking.key)]
        said += [taskq.out("explain", minimise.path, minimising.key)]
        for campaign in (dock, minimise):
            campaign.cancel()
        _, log = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 0, log
    assert f"{DEVICE[:12]} (0.25) for {PATH}/dock" in table
    assert f"licence 1, scratch 20G for {PATH}/minimise" in table
    assert docking.share == {"devices": {DEVICE: 0.25}, "resources": {}}
    assert minimising.share == {"devices": {}, "resources": {"licence": 1, "scratch": 20 * GIB}}
    assert f"with {DEVICE[:12]} (0.25)." in " ".join(said[0].split())
    assert "with licence 1, scratch 20G." in " ".join(said[1].split())
