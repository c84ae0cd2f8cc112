"""The full screen, driven and read by a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from taskq import Campaign, Client
from taskq_cli.top.app import TopApp
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.scripted_agent import report_of

PATIENCE_S = 90.0


@asynccontextmanager
async def shown(
    queue: Client, path: str = "/", size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[TopApp, Pilot[None]]]:
    """Give the screen, and what presses its keys."""
    app = TopApp(queue, path)
    async with app.run_test(size=size) as pilot:
        yield app, pilot
        app.exit()


def text_of(app: TopApp) -> str:
    """Return what is on the screen, line by line."""
    strips = app.screen._compositor.render_strips()  # noqa: SLF001  # no other way is shorter
    return "\n".join(strip.text for strip in strips)


async def shows(app: TopApp, *wanted: str) -> str:
    """Wait until all of this is on the screen, perhaps folded; return its text."""
    for _ in range(int(PATIENCE_S / 0.05)):
        text = text_of(app)
        folded = " ".join(text.replace("│", "").split())
        if all(name in text or name in folded for name in wanted):
            return text
        await asyncio.sleep(0.05)
    raise AssertionError(f"{wanted} is not shown:\n{text_of(app)}")


async def on_screen(app: TopApp, kind: type) -> None:
    """Wait until a screen of this kind is in front."""
    for _ in range(int(PATIENCE_S / 0.05)):
        if isinstance(app.screen, kind):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{app.screen} is in front")


def failing(queue: Client, hire: Hire, **words: Any) -> Campaign:
    """Return the campaign /a/b with three tasks: one done, one failed, one waiting."""
    campaign = servable(queue, "/a/b", 3)
    agent = hire("/a/b", **words)
    done, failed = agent.claim(2)
    bad = {"error_class": "Boom", "error": "it broke", "tail": "the end of it"}
    agent.exchange([report_of(done, "done"), report_of(failed, "failed", retry=False, **bad)])
    return campaign
