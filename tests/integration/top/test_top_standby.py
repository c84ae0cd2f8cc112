"""The full screen beside a hot standby: it reads there, and acts on the primary."""

from __future__ import annotations

import asyncio

import pytest

import taskq
from taskq_cli.top.app import TopApp
from taskq_cli.top.screens import QuestionScreen
from tests.fixtures.gateways import opened
from tests.fixtures.replicas import Pair, pair  # noqa: F401  # a fixture, for the tests here
from tests.helpers.full_screen import on_screen, shows
from tests.helpers.waiting import wait_until

BEHIND_S = 1e6


@pytest.mark.thorough
def test_it_reads_from_the_standby_and_acts_on_the_primary(pair: Pair) -> None:  # noqa: F811
    """Its first line says where it reads; what a key has changed comes by the standby."""
    with opened(pair.primary_dsn) as acting:
        acting.create_campaign("/c").seed([{"n": 1}])
        pair.catch_up()
        reading = taskq.connect_to_read(
            pair.standby_dsn, pair.primary_dsn, most_behind_s=BEHIND_S, say=lambda _: None
        )

        async def run() -> None:
            app = TopApp(reading, "/c", acting)
            async with app.run_test(size=(120, 24)) as pilot:
                await shows(app, "a standby, ", "behind at most", "/c")
                await pilot.press("p")
                await on_screen(app, QuestionScreen)
                await pilot.press("y")
                await shows(app, "paused")

        with reading:
            asyncio.run(run())
        wait_until(lambda: acting.campaign("/c").status().state == "paused")
