"""`taskq top` in a real terminal, and with a standby to read from."""

from __future__ import annotations

import asyncio
import re
import select

import pytest

import taskq
from taskq import Client
from taskq_cli.top.app import TopApp
from taskq_cli.top.screens import QuestionScreen
from tests.fixtures.gateways import opened
from tests.fixtures.replicas import Pair, pair  # noqa: F401  # a fixture, for the tests here
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine, Terminal
from tests.helpers.full_screen import on_screen, shows
from tests.helpers.waiting import wait_until

_SEQUENCE = re.compile(
    r"\x1b\[(?P<values>[\d;?>=$]*)[ !\"$]*(?P<what>[@-~])"  # of the screen
    r"|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[^\[\]]"  # of the window, and others
)
#: Of SGR, what sets a colour; 39 and 49 are the terminal's own.
_COLOUR = re.compile(r"^(3[0-8]|4[0-8]|9[0-7]|10[0-7])$")


def screen_of(output: str, lines: int = 24, columns: int = 80) -> list[str]:
    """Return the lines that a terminal shows after all this: text, and where the cursor goes."""
    cells = [[" "] * columns for _ in range(lines)]
    row = column = place = 0
    while place < len(output):
        found = _SEQUENCE.match(output, place)
        if found is not None:
            place = found.end()
            if found["what"] == "H":
                numbers = [int(number or 1) for number in (found["values"] or "1;1").split(";")]
                row, column = numbers[0] - 1, numbers[1] - 1
            continue
        char = output[place]
        place += 1
        if char == "\n":
            row += 1
        elif char == "\r":
            column = 0
        elif row < lines and column < columns:
            cells[row][column] = char
            column += 1
    return ["".join(line).rstrip() for line in cells]


def draws(terminal: Terminal, *wanted: str) -> None:
    """Wait until all of this is on the screen."""

    def seen() -> bool:
        terminal.wait_for("")
        text = "\n".join(screen_of(terminal.seen))
        return all(piece in text for piece in wanted)

    wait_until(seen, timeout_s=60, on_timeout=lambda: "\n".join(screen_of(terminal.seen)))


@pytest.mark.thorough
def test_screen_in_80_columns_without_colour(queue: Client, taskq: CommandLine) -> None:
    """Keys act, colours are left out, and the terminal is as before at the end."""
    campaign = servable(queue, "/a", 5)
    servable(queue, "/a/b", 7)
    with taskq.terminal("top", columns=80, environment={"NO_COLOR": "1"}) as terminal:
        draws(terminal, "taskq top /", "CAMPAIGN", "AGENTS", "   a", "     b", "q Quit")
        assert max(map(len, screen_of(terminal.seen))) <= 80
        terminal.type("\x1b[B")
        draws(terminal, "/a  open; 12 tasks")
        terminal.type("e")
        draws(terminal, "explain /a", "12 tasks wait", "$ taskq agent run --campaign /a")
        terminal.type("p")
        draws(terminal, "Pause /a and all below it, with 12 unfinished tasks?")
        terminal.type("y")
        draws(terminal, "/a is paused")
        terminal.type("q")
        assert terminal.end() == 0
        output = terminal.seen
    assert campaign.status().state == "paused"
    styles = [
        code["values"].split(";") for code in _SEQUENCE.finditer(output) if code["what"] == "m"
    ]
    assert not [values for values in styles if any(map(_COLOUR.match, values))]
    assert "\x1b[?1049l" in output  # what was on the screen before is back


def test_without_a_terminal_it_names_what_needs_none(taskq: CommandLine) -> None:
    """And draws nothing."""
    assert "taskq watch" in taskq.refused("top")[1]


@pytest.mark.thorough
def test_keys_typed_at_the_start_are_not_echoed_and_none_is_left(
    queue: Client, taskq: CommandLine
) -> None:
    """What it waits for is reported at once; a wrong path comes before the lack of a terminal."""
    servable(queue, "/a", 5)
    with taskq.terminal("top", columns=80) as terminal:
        terminal.wait_for("connecting to")
        terminal.type("~~~")
        draws(terminal, "taskq top /", "CAMPAIGN")
        terminal.type("q~~~")
        assert terminal.end() == 0
        assert not select.select([terminal.far], [], [], 0)[0]
        assert "~~~" not in terminal.seen
    assert "no campaign /nope" in taskq.refused("top", "/nope")[1]


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
