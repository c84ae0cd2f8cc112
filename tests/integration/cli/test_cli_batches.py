"""What the command line shows of campaigns whose tasks begin together."""

from __future__ import annotations

from taskq import CampaignSpec, Client, Handler
from tests.helpers.command_line import CommandLine


def test_campaign_shows_all_that_its_handler_says(queue: Client, taskq: CommandLine) -> None:
    queue.create_campaign(
        CampaignSpec(
            "/c",
            handler=Handler(
                "command",
                argv=("dock", "{list}"),
                container="dock.sif",
                batch=1_500,
                line="{smiles} {task.n}",
                ordered=True,
                batch_silence_s=90,
            ),
        )
    )
    (line,) = (
        line for line in taskq.out("campaign", "show", "/c").splitlines() if "command:" in line
    )
    title, _, text = line.partition(" ")
    assert title == "handler"
    assert text.strip() == (
        'command: ["dock", "{list}"], container dock.sif, batch 1,500, line {smiles} {task.n}, '
        "ordered yes, batch silence 1 min 30 s"
    )
