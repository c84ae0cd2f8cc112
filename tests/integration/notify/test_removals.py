"""A campaign that the keeper removes within a day is an event before it goes."""

from __future__ import annotations

from typing import Any

from taskq import Client
from taskq.db.connections import Database
from taskq.upkeep.retention import Retention
from taskq.upkeep.sender import Sender
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
from tests.helpers.retention import ended, later, run
from tests.integration.notify.conftest import Hook
from tests.integration.notify.support import Receiver, look, send


def messages(receiver: Receiver) -> list[dict[str, Any]]:
    """Return the events that arrived, in order."""
    return [event for received in receiver.got for event in received.message["events"]]


def test_removal_of_a_campaign_reaches_its_receiver_a_day_before(
    queue: Client,
    database: Database,
    postgres: Postgres,
    hire: Hire,
    sender: Sender,
    hook: Hook,
    receiver: Receiver,
    taskq: CommandLine,
) -> None:
    """Of all below the campaign of the rule, once, in the words of `explain`; not earlier."""
    hook()
    steps = Retention()
    ended(queue, hire, "/s/a", keep="30d")
    ended(queue, hire, "/s/b", keep="90d", archive_first=True)
    ended(queue, hire, "/other", keep="30d")
    taskq.out("notify", "add", "r", "--campaign", "/s", "--on", "removal", "--to", "webhook:here")
    run(database, steps)
    assert look(database, postgres) == 0
    later(postgres, 29.5)
    assert look(database, postgres) == 1
    send(sender, lambda: receiver.got)
    (event,) = messages(receiver)
    assert (event["event"], event["figures"]["campaign"]) == ("removal", "/s/a")
    assert event["text"].startswith("/s/a is removed at 20")
    assert event["commands"] == [
        "taskq campaign archive /s/a --to FOLDER",
        "taskq campaign change /s/a --keep 60d",
    ]
    explained = taskq.json("explain", "/s")["reasons"]
    assert event["text"] in [reason["text"] for reason in explained]
    assert look(database, postgres) == 0
    later(postgres, 60)
    assert look(database, postgres) == 1
    send(sender, lambda: len(messages(receiver)) == 2)
    assert "once it is archived" in messages(receiver)[1]["text"]


def test_campaign_that_goes_with_the_one_above_it_is_reported_there(
    queue: Client, database: Database, postgres: Postgres, hire: Hire, taskq: CommandLine
) -> None:
    """A rule below gets it too; it is no trouble, and needs no acknowledgement."""
    ended(queue, hire, "/s/a", keep="30d")
    ended(queue, hire, "/s/a/below")
    for path in ("/s/a", "/s/a/below"):
        queue.notifications.add(
            path.replace("/", "-").strip("-"), path, ["removal"], "webhook:here"
        )
    run(database, Retention())
    later(postgres, 29.5)
    assert look(database, postgres) == 2
    said = [
        event.subject
        for rule in queue.notifications.list()
        for event in queue.notifications.events(rule.name)
    ]
    assert said == ["/s/a", "/s/a"]
    assert taskq.json("troubles", "/")["troubles"] == []
    (reason,) = [it for it in taskq.json("explain", "/s/a")["reasons"] if it["code"] == "removal"]
    assert reason["blocks"] is False
