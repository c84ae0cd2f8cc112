"""Views of the full screen: the ways out of them, what they are about, and what they say."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from taskq import Client
from taskq_cli.top.app import TopApp
from taskq_cli.top.screens import LineScreen, OpenedScreen, QuestionScreen
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.full_screen import PATIENCE_S, failing, on_screen, shown, shows, text_of
from tests.helpers.scripted_agent import report_of

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.both_transports(near=["test_states_of_hosts_are_shown"]),
]


async def settled(app: TopApp) -> str:
    """Wait until what is open was read, so that no thread reads at the end; return its text."""
    for _ in range(int(PATIENCE_S / 0.05)):
        if "reading ..." not in (text := text_of(app)):
            return text
        await asyncio.sleep(0.05)
    raise AssertionError(f"it is still read:\n{text_of(app)}")


async def test_ways_out_are_seen_in_every_view(queue: Client, hire: Hire) -> None:
    """In 80 columns and less; `?` shows all keys, with those that have no room below."""
    failing(queue, hire)
    async with shown(queue) as (app, pilot):
        await shows(app, "    b", "q Quit", "? Keys", "a Agents")
        for key in ("e", "w", "f", "h", "s", "a", "g", "o"):
            await pilot.press(key)
            await on_screen(app, OpenedScreen)
            await settled(app)
            text = await shows(app, "esc Back", "q Quit", "? Keys", "s Sites")
            assert max(map(len, text.splitlines())) <= 80
            await pilot.press("escape")
        await pilot.press("e", "question_mark")
        await shows(app, "+ -", "gateways and the database", "owners", "Enter", "quit")
        await pilot.press("q")
        await on_screen(app, OpenedScreen)
        await settled(app)


async def test_troubles_are_one_key_away(queue: Client) -> None:
    """With the commands that mend it, also where no keeper looks."""
    servable(queue, "/a", 3).pause()
    async with shown(queue) as (app, pilot):
        await shows(app, "q Quit", "paused")
        await pilot.press("w")
        await on_screen(app, OpenedScreen)
        text = await settled(app)
        assert "1 that nobody knows of." in text
        assert "$ taskq campaign resume /a" in text


async def test_views_keep_what_they_are_about(queue: Client, hire: Hire) -> None:
    """Gateways are not about a campaign, but keys go on to be; known text is not repeated."""
    failing(queue, hire)
    async with shown(queue) as (app, pilot):
        await shows(app, "    b")
        await pilot.press("down", "down", "p")
        await on_screen(app, QuestionScreen)
        await pilot.press("n")
        await shows(app, "nothing was changed")
        await pilot.press("g")
        await on_screen(app, OpenedScreen)
        assert "nothing was changed" not in await settled(app)
        for key, title in (("o", "owners in /a/b"), ("f", "failures of /a/b")):
            await pilot.press(key)
            await shows(app, title)
            await settled(app)


async def test_task_of_a_campaign_below_is_found_by_its_key(queue: Client, hire: Hire) -> None:
    """One that several have is not guessed, one that none has is reported."""
    campaign = failing(queue, hire)
    for path in ("/a/c", "/a/d"):
        queue.create_campaign(path).submit({}, key="twice")
    key = next(iter(campaign.failures())).key

    async def ask(app: TopApp, pilot: Pilot[None], wanted: str) -> None:
        await pilot.press("t")
        await on_screen(app, LineScreen)
        app.screen.query_one(Input).value = wanted
        await pilot.press("enter")

    async with shown(queue) as (app, pilot):
        await shows(app, "    b", "    d")
        await ask(app, pilot, "twice")
        await shows(app, "twice is a task of /a/c, /a/d: choose one of them")
        await ask(app, pilot, "never")
        await shows(app, "no task never in / or below it")
        await ask(app, pilot, key)
        await shows(app, f"/a/b {key}", "the end of it")


async def test_finished_campaign_is_not_paused(queue: Client, hire: Hire) -> None:
    """It is called finished, has no rate, and the key says so."""
    servable(queue, "/a", 2)
    agent = hire("/a")
    for task in agent.claim(2):
        agent.done(task)
    async with shown(queue) as (app, pilot):
        await shows(app, "  a", "100.0 %", "finished")
        await pilot.press("down", "p")
        await shows(app, "/a is finished: no task is left to be paused", "/a  finished; 2 tasks")
        await pilot.press("enter")
        assert "pace" not in await shows(app, "/a  finished", "█ done")


async def test_states_of_hosts_are_shown(queue: Client, hire: Hire) -> None:
    """With the end of a ban, who made it, and the command that lifts it."""
    failing(queue, hire, host="n17", site="alpha")
    queue.fleet.ban("host", "n17", why="exit-1", until=timedelta(days=1))
    async with shown(queue) as (app, pilot):
        await shows(app, "    b")
        await pilot.press("h")
        text = await shows(app, "STATE", "banned: exi")
        assert max(map(len, text.splitlines())) <= 80
        await pilot.press("enter")
        text = await shows(app, "n17 is banned until 20", "Z, by ", "$ taskq host unban n17")
        await pilot.press("escape", "escape", "s")
        text = await shows(app, "sites of /", "AGENTS")
        assert text.count("SITE") == 1


async def test_long_texts_of_a_table_end_with_a_mark(queue: Client, hire: Hire) -> None:
    """No row has a bar to scroll sideways."""
    campaign = servable(queue, "/a", 1)
    agent = hire("/a")
    (task,) = agent.claim(1)
    bad = {"error_class": "Boom", "error": "it broke " + "so " * 60, "tail": "written at the end"}
    agent.exchange([report_of(task, "failed", retry=False, **bad)])
    key = next(iter(campaign.failures())).key
    async with shown(queue) as (app, pilot):
        await shows(app, "  a")
        await pilot.press("f")
        text = await shows(app, "unclear: ", f"Such as {key}: ", "| written at the end", "Boom")
        (row,) = [line for line in text.splitlines() if line.startswith(f" {key[:10]}")]
        assert row.rstrip().endswith("…")
        assert "▊" not in text
