"""Troubles: what keepers remember of what is wrong, and who knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from taskq import Campaign, Client
from taskq.api.aio import AsyncClient
from taskq.db.connections import Database
from taskq.diagnosis.troubles import KnownTrouble
from taskq.model.errors import Conflict, NotFound, UsageError
from taskq.upkeep.notifications import Notifications
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.integration.notify.support import look, pass_by

TARGET = "webhook:here"
Lose = Callable[[int], None]


@pytest.fixture
def lose(campaign: Campaign, hire: Hire, postgres: Postgres) -> Lose:
    """Give a function that loses the host with so many slots, 1 to 3; tasks of /c wait."""
    campaign.seed({"n": n} for n in range(40))
    hire("/c", host="n0").claim()
    for number in (1, 2, 3):
        hire("/c", host=f"n{number}", slots=number)

    def lost(slots: int) -> None:
        postgres.execute(
            "update taskq.session set ended_at = now(), expired = true where host = %s",
            [f"n{slots}"],
        )

    return lost


@pytest.fixture
def now(queue: Client, database: Database, postgres: Postgres) -> Callable[[], KnownTrouble]:
    """Give a function that lets a keeper look, and returns the only trouble of the queue."""

    def looked() -> KnownTrouble:
        look(database, postgres)
        (trouble,) = queue.troubles.list("/").troubles
        return trouble

    return looked


def test_trouble_keeps_its_id_while_it_holds_and_is_remembered_after_it(
    queue: Client,
    lose: Lose,
    now: Callable[[], KnownTrouble],
    postgres: Postgres,
    database: Database,
) -> None:
    """With since when, the cost and the place of the reason; for three days."""
    lose(3)
    first = now()
    assert (first.code, first.state, first.cost) == ("capacity-lost", "now", 3)
    assert (first.path, first.site) == ("/", "here")
    assert first.since == value(postgres, "select max(ended_at) from taskq.session")
    assert "taskq host list /" in first.commands
    pass_by(postgres, 301)
    again = now()
    assert (again.trouble_id, again.since) == (first.trouble_id, first.since)
    postgres.execute("delete from taskq.session where ended_at is not null")
    look(database, postgres)
    assert queue.troubles.list("/").troubles == []
    (over,) = queue.troubles.list("/", since=timedelta(days=1)).troubles
    assert (over.trouble_id, over.state) == (first.trouble_id, "over")
    pass_by(postgres, 3 * 86_400 + 601)
    look(database, postgres)
    assert queue.troubles.list("/", since=timedelta(days=9)).troubles == []


def test_trouble_that_comes_back_within_ten_minutes_is_the_same(
    now: Callable[[], KnownTrouble], lose: Lose, postgres: Postgres, database: Database
) -> None:
    """After that it is another, which nobody has acknowledged."""
    hide = "update taskq.session set ended_at = ended_at - interval '2 days' where host = 'n3'"
    show = hide.replace("- interval", "+ interval")
    lose(3)
    first = now()
    Client(database).troubles.acknowledge(first.trouble_id or 0)
    postgres.execute(hide)
    look(database, postgres)
    postgres.execute(show)
    assert (now().trouble_id, now().state) == (first.trouble_id, "acknowledged")
    postgres.execute(hide)
    look(database, postgres)
    pass_by(postgres, 601)
    look(database, postgres)
    postgres.execute(show)
    assert now().trouble_id != first.trouble_id
    assert now().state == "now"


def test_trouble_that_did_not_last_is_forgotten(
    queue: Client,
    now: Callable[[], KnownTrouble],
    lose: Lose,
    postgres: Postgres,
    database: Database,
) -> None:
    """So that what comes and goes does not fill the list of yesterday."""
    lose(3)
    now()
    postgres.execute("delete from taskq.session where ended_at is not null")
    look(database, postgres)
    assert queue.troubles.list("/", since=timedelta(days=1)).troubles == []


def test_acknowledged_trouble_sends_no_message_until_it_costs_twice_as_much(
    queue: Client,
    rules: Notifications,
    now: Callable[[], KnownTrouble],
    lose: Lose,
    database: Database,
    postgres: Postgres,
) -> None:
    """What waits unsent is not sent, nor by a later rule. What has become worse is sent once."""
    rules.add("r", "/", ["trouble"], TARGET, after_s=0)
    lose(3)
    first = now()
    assert rules.rule("r").waiting == 1
    assert first.trouble_id is not None
    queue.troubles.acknowledge(first.trouble_id, note="the vendor comes")
    assert rules.rule("r").waiting == 0
    lose(2)
    known = now()
    assert (known.state, known.note, known.cost) == ("acknowledged", "the vendor comes", 5)
    assert known.known.startswith(f"acknowledged by {known.by} at 20")
    assert known.by
    rules.add("later", "/", ["trouble"], TARGET, after_s=0)
    assert look(database, postgres) == 0
    assert rules.remove("later")
    lose(1)
    worse = now()
    assert (worse.trouble_id, worse.state, worse.cost) == (first.trouble_id, "now", 6)
    assert worse.known.startswith("has become worse at 20")
    assert rules.rule("r").waiting == 1
    assert look(database, postgres) == 0
    queue.troubles.acknowledge(first.trouble_id)
    queue.troubles.undo(first.trouble_id)
    assert now().state == "now"


def test_snoozed_trouble_is_reported_again_when_the_time_is_over(
    queue: Client,
    rules: Notifications,
    now: Callable[[], KnownTrouble],
    lose: Lose,
    database: Database,
    postgres: Postgres,
) -> None:
    """Also one that was reported before. It is not reported again if it is over by then."""
    rules.add("r", "/", ["trouble"], TARGET, after_s=0)
    lose(3)
    trouble_id = now().trouble_id or 0
    postgres.execute("update taskq.notify_event set status = 'sent'")
    queue.troubles.snooze(trouble_id, timedelta(hours=2))
    assert now().state == "snoozed"
    assert look(database, postgres) == 0
    postgres.execute("update taskq.known_trouble set snoozed_until = now() - interval '1 s'")
    assert now().state == "now"
    assert rules.rule("r").waiting == 1
    for wrong in (0, -1, 8 * 86_400):
        with pytest.raises(UsageError, match="a week at most"):
            queue.troubles.snooze(trouble_id, wrong)


def test_acknowledgement_covers_the_same_trouble_at_campaigns_below(
    queue: Client,
    rules: Notifications,
    lose: Lose,
    database: Database,
    postgres: Postgres,
) -> None:
    """As rules there see it; one of a campaign covers nothing above it."""
    rules.add("r", "/c", ["trouble"], TARGET, after_s=0)
    lose(3)
    look(database, postgres)
    (above,) = queue.troubles.list("/").troubles
    (below,) = queue.troubles.list("/c").troubles
    queue.troubles.acknowledge(below.trouble_id or 0)
    assert [it.state for it in queue.troubles.list("/").troubles] == ["now"]
    queue.troubles.undo(below.trouble_id or 0)
    queue.troubles.acknowledge(above.trouble_id or 0)
    assert [it.state for it in queue.troubles.list("/c").troubles] == ["acknowledged"]


def test_unknown_and_ended_troubles_cannot_be_acknowledged(
    queue: Client,
    now: Callable[[], KnownTrouble],
    lose: Lose,
    database: Database,
    postgres: Postgres,
) -> None:
    """Each by an error of its own."""
    lose(3)
    trouble_id = now().trouble_id or 0
    with pytest.raises(NotFound, match="no trouble 9999"):
        queue.troubles.acknowledge(9_999)
    pass_by(postgres, 301)
    look(database, postgres)
    postgres.execute("delete from taskq.session where ended_at is not null")
    look(database, postgres)
    pass_by(postgres, 601)
    look(database, postgres)
    with pytest.raises(Conflict, match="is over"):
        queue.troubles.acknowledge(trouble_id)


def test_without_a_keeper_that_looks_the_reasons_of_now_are_listed(
    queue: Client, lose: Lose, database: Database, postgres: Postgres
) -> None:
    """A list is never empty since nobody looked; what is known by an earlier look is shown."""
    lose(3)
    (live,) = queue.troubles.list("/c").troubles
    assert (live.code, live.trouble_id, live.cost) == ("capacity-lost", None, 3)
    look(database, postgres)
    (known,) = queue.troubles.list("/").troubles
    queue.troubles.acknowledge(known.trouble_id or 0)
    postgres.execute("update taskq.watch set looked_at = now() - interval '10 min'")
    found = queue.troubles.list("/")
    assert found.looked_at is None
    assert [(it.trouble_id, it.state) for it in found.troubles] == [
        (known.trouble_id, "acknowledged")
    ]
    (elsewhere,) = queue.troubles.list("/c").troubles
    assert (elsewhere.trouble_id, elsewhere.state) == (known.trouble_id, "acknowledged")


def test_command_line_lists_and_acknowledges(
    taskq: CommandLine, lose: Lose, database: Database, postgres: Postgres
) -> None:
    """The exit code says whether there is something that nobody knows of."""
    lose(3)
    look(database, postgres)
    shown = taskq("troubles", "-o", "json")
    assert shown.exit_code == 1
    assert '"code": "capacity-lost"' in shown.stdout
    assert "1 trouble that nobody has acknowledged" in shown.stderr
    text = " ".join(taskq("troubles").stdout.split())
    assert text.startswith("/ 1 wrong; looked at 20")
    assert "It costs about 3.0 core-hours an hour." in text
    (trouble,) = Client(database).troubles.list("/").troubles
    taskq.out("troubles", "acknowledge", trouble.trouble_id, "--note", "known\x1b[2J")
    text = taskq.out("troubles")
    assert "acknowledged by" in text
    assert "\x1b" not in text
    found = taskq.json("troubles")
    assert (found["open"], found["troubles"][0]["state"]) == (0, "acknowledged")
    taskq.out("troubles", "acknowledge", trouble.trouble_id, "--undo")
    taskq.out("troubles", "snooze", trouble.trouble_id, "2h")
    assert taskq.json("troubles", "/", "--since", "1d")["troubles"][0]["state"] == "snoozed"


def test_asynchronous_twin_lists_and_acknowledges(
    queue: Client, lose: Lose, database: Database, postgres: Postgres
) -> None:
    """It has the calls of its original."""
    lose(3)
    look(database, postgres)

    async def acknowledged() -> Any:
        troubles = AsyncClient(queue).troubles
        (trouble,) = (await troubles.list("/")).troubles
        await troubles.acknowledge(trouble.trouble_id or 0)
        return (await troubles.list("/")).open

    assert asyncio.run(acknowledged()) == []
