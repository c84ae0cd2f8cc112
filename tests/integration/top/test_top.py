"""The full screen: what it shows, and what its keys do, on a real queue."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from textual.widgets import Input

from taskq import Client
from taskq.db.connections import Database, Row
from taskq.diagnosis import ticker
from taskq.diagnosis.ticker import PERIOD_S
from taskq.model.errors import Unavailable
from taskq_cli.top.screens import FRESH_S, LineScreen, OpenedScreen, QuestionScreen, Rows
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.front_harness import until
from tests.helpers.full_screen import PATIENCE_S, failing, on_screen, shown, shows, text_of
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import report_of

pytestmark = pytest.mark.both_transports(
    near=[
        "test_view_reports_a_database_that_is_away_and_recovers",
        "test_owners_are_shown_with_their_quotas",
        "test_keys_work_while_the_database_hangs",
        "test_number_of_statements_of_the_screen_is_bounded",
    ]
)
HOSTILE = "\x1b]0;owned\x07[bold]\u202ex"


@pytest.mark.thorough
async def test_tree_follows_the_queue(queue: Client, hire: Hire) -> None:
    """Counts change by themselves, as do campaigns that come."""
    failing(queue, hire)
    async with shown(queue) as (app, _):
        text = await shows(app, "  a", "    b", "66.6 %", "1 agent")
        assert max(map(len, text.splitlines())) <= 80
        queue.create_campaign("/a/new").seed({"n": n} for n in range(12))
        await shows(app, "    new", "15 tasks")


@pytest.mark.thorough
async def test_part_of_the_tree_has_the_agents_above_it(queue: Client, hire: Hire) -> None:
    """And nothing of what is next to it."""
    failing(queue, hire)
    servable(queue, "/elsewhere", 3)
    hire("/a")
    hire("/elsewhere")
    async with shown(queue, "/a/b") as (app, _):
        text = await shows(app, "/a/b", "66.6 %", "2 \n")
        assert "elsewhere" not in text


async def test_plus_and_minus_show_more_and_fewer_levels(queue: Client) -> None:
    """No fewer than the top, no more than there are."""
    servable(queue, "/a/b/c", 1)
    async with shown(queue) as (app, pilot):
        await shows(app, "      c")
        for keys, rows in (("--", 2), ("--", 1), ("+", 2), ("+++", 4), ("-", 3)):
            await pilot.press(*keys)
            await until(lambda rows=rows: app.query_one("#tree", Rows).row_count == rows)


@pytest.mark.thorough
async def test_effect_of_a_key_is_shown_however_slowly_the_tree_is_read(
    queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy server is asked seldom, but somebody who acted waits for the effect."""
    monkeypatch.setattr(ticker, "SHARE", 1_000_000)
    monkeypatch.setattr("taskq_cli.top.app.LATE_S", 0.3)
    servable(queue, "/a", 5)
    async with shown(queue) as (app, pilot):
        await shows(app, "  a")
        await pilot.press("down", "p")
        await on_screen(app, QuestionScreen)
        await pilot.press("y")
        await shows(app, "/a is paused", "paused by an operator")
        await asyncio.sleep(1.0)  # several times as long as makes a server late that is asked
        assert "AWAY" not in text_of(app)


@pytest.mark.thorough
async def test_pause_asks_and_says_what_it_did(queue: Client) -> None:
    """No is the answer of all keys but y."""
    campaign = servable(queue, "/a", 5)
    async with shown(queue) as (app, pilot):
        await shows(app, "  a")
        await pilot.press("down", "p")
        await shows(app, "Pause /a and all below it, with 5 unfinished tasks?")
        await pilot.press("enter")
        await shows(app, "nothing was changed")
        assert campaign.status().state == "open"
        await pilot.press("p")
        await on_screen(app, QuestionScreen)
        await pilot.press("y")
        await shows(app, "/a is paused", "paused by an operator")
        assert campaign.status().state == "paused"
        await pilot.press("p")
        await shows(app, "/a was paused by an operator. Resume /a?")
        await pilot.press("y")
        await shows(app, "/a is open")
        assert campaign.status().state == "open"


@pytest.mark.thorough
async def test_failed_tasks_are_retried(queue: Client, hire: Hire) -> None:
    """All of a campaign, after a question that says how many; none where none has failed."""
    campaign = failing(queue, hire)
    queue.create_campaign("/z")
    async with shown(queue) as (app, pilot):
        await shows(app, "    b", "  z")
        await pilot.press("down", "r")
        await shows(app, "Try 1 failed task of /a and all below it again?")
        await pilot.press("y")
        await shows(app, "1 task of /a will be tried again")
        assert (campaign.status().failed, campaign.status().unfinished) == (0, 2)
        await pilot.press("down", "down", "r")
        await shows(app, "no task of /z has failed")


@pytest.mark.thorough
async def test_owners_are_shown_with_their_quotas(queue: Client, hire: Hire) -> None:
    """Of the chosen campaign and all below it, within 80 columns; a campaign says whose it is."""
    failing(queue, hire)
    evil = "alice" + HOSTILE
    queue.owners.give("/a/b", evil)
    queue.owners.set_quota(evil, {"max_running": 2_000, "max_waiting": 5_000_000})
    async with shown(queue) as (app, pilot):
        await shows(app, "    b")
        await pilot.press("down", "down", "o")
        text = await shows(app, "owners in /a/b", "1 owner,", "0 of 2,000", "1 of 5,000,000")
        assert not {"\x1b", "\u202e"} & set(text)
        assert max(map(len, text.splitlines())) <= 80
        await pilot.press("escape", "enter")
        await shows(app, "owner      alice")


@pytest.mark.thorough
async def test_one_task_is_retried(queue: Client, hire: Hire) -> None:
    """The one that is open."""
    campaign = failing(queue, hire)
    key = next(iter(campaign.failures())).key
    async with shown(queue) as (app, pilot):
        await shows(app, "    b")
        await pilot.press("down", "down", "t")
        await on_screen(app, LineScreen)
        app.screen.query_one(Input).value = key
        await pilot.press("enter")
        await shows(app, f"/a/b {key}", "Boom: it broke", "the end of it", "claimed")
        await pilot.press("r")
        await shows(app, f"Try the task {key}", "y: yes")
        await pilot.press("y")
        await shows(app, "1 task of /a/b will be tried again")
    assert campaign.task(key).status != "failed"


@pytest.mark.thorough
async def test_campaign_task_and_host_are_opened(queue: Client, hire: Hire) -> None:
    """Each from where it is listed; Escape goes back."""
    failing(queue, hire, host="n17")
    async with shown(queue) as (app, pilot):
        await shows(app, "    b")
        await pilot.press("down", "down", "enter")
        await shows(app, "█ done      1", "FAILED TASK", "Boom", "it broke")
        await pilot.press("enter")
        await shows(app, "The task was given up", "the end of it", "n17")
        await pilot.press("escape", "escape", "e")
        await shows(app, "explain /a/b", "1 task")
        await pilot.press("escape", "h")
        await shows(app, "hosts of /a/b", "n17")
        await pilot.press("enter")
        await shows(app, "host n17", "WORKING")
        await pilot.press("escape", "escape", "s")
        await shows(app, "sites of /a/b")
        await pilot.press("escape", "a")
        await shows(app, "agents of /a/b", "1 agent at work")
        await pilot.press("escape", "f")
        await shows(app, "failures of /a/b", "Boom in /a/b: 1 attempt")
        await pilot.press("backspace")
        await shows(app, "taskq top /")


@pytest.mark.thorough
async def test_nothing_from_outside_reaches_the_terminal(queue: Client, hire: Hire) -> None:
    """Control characters are shown as their numbers, markup as it is written."""
    campaign = servable(queue, "/a")
    campaign.submit({"text": HOSTILE}, key="[bold]\u202ex")  # keys have no control characters
    agent = hire("/a", agent=HOSTILE, host=HOSTILE)
    (task,) = agent.claim(1)
    bad = {"error_class": HOSTILE, "error": HOSTILE, "tail": HOSTILE}
    agent.exchange([report_of(task, "failed", retry=False, **bad)])
    seen = []
    async with shown(queue, size=(120, 40)) as (app, pilot):
        await shows(app, "  a")
        await pilot.press("down")
        for keys in (["enter"], ["enter"], ["h"], ["enter"], ["s"], ["a"], ["f"], ["e"]):
            await pilot.press(*keys)
            await on_screen(app, OpenedScreen)
            await shows(app, "esc Back")
            for _ in range(200):
                if "reading ..." not in text_of(app):
                    break
                await asyncio.sleep(0.05)
            seen.append(text_of(app))
    assert sum(r"\x1b]0;owned\x07[bold]\u202ex" in text for text in seen) >= 5, seen
    for text in seen:
        assert all(char.isprintable() or char == "\n" for char in text), text


class Trouble(Database):
    """A database that can be away or hang, and notes what it is asked."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.away = False
        self.goes = threading.Event()
        self.goes.set()
        self.asked: list[str] = []

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Run a statement."""
        self.asked.append(name)
        return super().rows(name, **values)

    @contextmanager
    def _lent(self) -> Iterator[Any]:
        self.goes.wait(10 * PATIENCE_S)
        if self.away:
            raise Unavailable("the server has \x1b[31mgone")
        with super()._lent() as connection:
            yield connection


@pytest.fixture
def trouble(dsn: str) -> Any:
    """Give a database that can be in trouble."""
    database = Trouble(dsn).open()
    yield database
    database.goes.set()
    database.close()


@pytest.mark.thorough
async def test_view_reports_a_database_that_is_away_and_recovers(trouble: Trouble) -> None:
    """What was known stays on the screen; an action says that it was not done."""
    queue = Client(trouble)
    servable(queue, "/a", 5)
    async with shown(queue) as (app, pilot):
        await shows(app, "  a")
        trouble.away = True
        await shows(app, "AWAY", "the server has gone; trying again", "  a")
        await pilot.press("down", "p")
        await on_screen(app, QuestionScreen)
        await pilot.press("y")
        await shows(app, "not done: the server has")
        await pilot.press("e")
        await shows(app, "explain /a", "the server has gone")
        await pilot.press("escape")
        trouble.away = False
        await shows(app, " ms  the")
        assert "AWAY" not in text_of(app)


@pytest.mark.thorough
async def test_keys_work_while_the_database_hangs(trouble: Trouble) -> None:
    """They open, go back and leave; the end waits for nobody."""
    queue = Client(trouble)
    servable(queue, "/a", 5)
    async with shown(queue) as (app, pilot):
        await shows(app, "  a")
        trouble.goes.clear()
        await pilot.press("down", "enter")
        await shows(app, "reading ...")
        await pilot.press("escape")
        await shows(app, "/a  open", "has not answered for")
        await pilot.press("q")
    assert not trouble.goes.is_set()


@pytest.mark.thorough
async def test_number_of_statements_of_the_screen_is_bounded(trouble: Trouble) -> None:
    """However many keys are pressed: of the tree a statement a second, others after a while."""
    queue = Client(trouble)
    servable(queue, "/a", 5)
    most: dict[str, float] = {}
    async with shown(queue) as (app, pilot):
        await shows(app, "  a")
        trouble.asked.clear()
        began = time.monotonic()
        for _ in range(20):
            await pilot.press("down", "f", "escape", "up")
        took_s = time.monotonic() - began
        most.update(counts=took_s / PERIOD_S + 2, latest_attempts=took_s / FRESH_S + 2)
    for name, number in most.items():
        assert 1 <= trouble.asked.count(name) <= number, name


@pytest.mark.thorough
async def test_gateways_and_database_are_shown(
    queue: Client, database: Database, postgres: Postgres
) -> None:
    """In a line of the first screen, and by key with all that is known of them."""
    for name, front in (("n1:8443", True), (f"n2{HOSTILE}:8443", False)):
        database.rows(
            "note_gateway",
            holder=str(uuid.uuid4()),
            name=name,
            release="1.2",
            sessions=1_234,
            per_s=1_500.0,
            front=front,
            certificate_ends_s=None,
        )
    # However long this takes.
    postgres.execute("update taskq.gateway set seen_at = now() + interval '1 h'")
    async with shown(queue) as (app, pilot):
        text = await shows(app, " gateways", "3,000/s exchanges", "FRONT AVOIDED", "connections")
        # The gateway through which this is read may have recorded itself by now.
        assert "2 gateways" in text or "3 gateways" in text
        assert max(map(len, text.splitlines())) <= 80
        await pilot.press("g")
        text = await shows(app, "PostgreSQL", "n1:8443", "1,234", "front avoided")
        assert "\x1b" not in text
        assert "\u202e" not in text
