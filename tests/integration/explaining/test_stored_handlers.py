"""Handlers that somebody has stored by SQL, which this version cannot read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskq import Client, InvalidCampaign
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres

HANDLERS: dict[str, dict[str, Any]] = {
    "no-kind": {},
    "strange-kind": {"kind": "spell"},
    "strange-field": {"kind": "command", "argv": ["true"], "colour": "red"},
    "no-program": {"kind": "command", "argv": 5},
}


@pytest.mark.parametrize("name", HANDLERS)
def test_campaign_whose_handler_nobody_can_read_is_shown_and_mended(
    name: str, queue: Client, postgres: Postgres, dsn: str
) -> None:
    """Lists and explanations go on; what needs the handler names it, and what mends it."""
    body = json.dumps({"handler": HANDLERS[name]})
    postgres.execute("select taskq.create_campaign('/c', %s)", [body])
    campaign = queue.campaign("/c")
    campaign.seed([{"n": 1}])
    (task,) = campaign.tasks()
    assert campaign.explain().path == "/c"
    assert campaign.explain(task.key).headline == "waiting"
    assert [one.path for one in queue.runs()] in ([], ["/c"])
    assert queue.left_over().unfinished == 1
    taskq = CommandLine(dsn)
    for words in (("status", "/"), ("explain", "/c"), ("explain", "/c", task.key)):
        taskq.out(*words)
    with pytest.raises(InvalidCampaign, match=r"handler.*stored for /c.*taskq campaign change /c"):
        campaign.spec()
    queue.create_campaign("/d", exist_ok=False)
    campaign.change(queue.campaign("/d").spec())
    assert campaign.spec().handler is None
