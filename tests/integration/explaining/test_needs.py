"""`taskq explain` on campaigns that need more than any node has: what to change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.integration.explaining.support import Make, explained, only

OFFERS = ("gpu", "cores=8", "mem=15.5", "gpus=2")


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        ({"cores": 512}, "taskq campaign change /c --cores 8"),
        ({"memory": (64 << 30,)}, "taskq campaign change /c --memory 15872M"),
        ({"gpus": 8}, "taskq campaign change /c --gpus 2"),
        ({"gpu_memory": 64 << 30, "gpus": 1}, "taskq campaign change /c --gpu-memory none"),
    ],
)
def test_campaign_that_needs_more_than_nodes_have_is_to_be_changed(
    settings: dict[str, Any], change: str, make: Make, hire: Hire, taskq: CommandLine
) -> None:
    """That is the first remedy, and it helps: an agent that says more has no more."""
    campaign = make(requires=("gpu",), **settings)
    agent = hire("/c", offers=OFFERS)
    reason = only(campaign)
    assert (reason.code, reason.commands[0]) == ("tags", change)
    taskq.out(*change.split()[1:], "--yes")
    assert agent.claim()
    assert campaign.spec().requires == ("gpu",)


def test_tag_that_nobody_offers_is_to_be_left_out_alone(
    make: Make, hire: Hire, taskq: CommandLine
) -> None:
    """The others stay."""
    campaign = make(requires=("gpu", "licence"))
    agent = hire("/c", offers=OFFERS)
    (reason,) = explained(campaign).reasons
    assert reason.commands == [
        "taskq agent run --campaign /c --offer licence",
        "taskq campaign change /c --require gpu",
    ]
    taskq.out(*reason.commands[1].split()[1:])
    assert agent.claim()
