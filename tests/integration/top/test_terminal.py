"""`taskq top` in a real terminal, as somebody sees it who looks at the screen."""

from __future__ import annotations

import re
import select

from taskq import Client
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine, Terminal
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
                numbers = [int(one or 1) for one in (found["values"] or "1;1").split(";")]
                row, column = numbers[0] - 1, numbers[1] - 1
            continue
        one = output[place]
        place += 1
        if one == "\n":
            row += 1
        elif one == "\r":
            column = 0
        elif row < lines and column < columns:
            cells[row][column] = one
            column += 1
    return ["".join(line).rstrip() for line in cells]


def shows(terminal: Terminal, *wanted: str) -> None:
    """Wait until all of this is on the screen."""

    def seen() -> bool:
        terminal.wait_for("")
        text = "\n".join(screen_of(terminal.seen))
        return all(one in text for one in wanted)

    wait_until(seen, timeout_s=60, on_timeout=lambda: "\n".join(screen_of(terminal.seen)))


def test_screen_in_80_columns_without_colour(queue: Client, taskq: CommandLine) -> None:
    """Keys act, colours are left out, and the terminal is as before at the end."""
    campaign = servable(queue, "/a", 5)
    servable(queue, "/a/b", 7)
    with taskq.terminal("top", columns=80, environment={"NO_COLOR": "1"}) as terminal:
        shows(terminal, "taskq top /", "CAMPAIGN", "AGENTS", "   a", "     b", "q Quit")
        assert max(map(len, screen_of(terminal.seen))) <= 80
        terminal.type("\x1b[B")
        shows(terminal, "/a  open; 12 tasks")
        terminal.type("e")
        shows(terminal, "explain /a", "12 tasks wait", "$ taskq agent run --campaign /a")
        terminal.type("p")
        shows(terminal, "Pause /a and all below it, with 12 unfinished tasks?")
        terminal.type("y")
        shows(terminal, "/a is paused")
        terminal.type("q")
        assert terminal.end() == 0
        output = terminal.seen
    assert campaign.status().state == "paused"
    styles = [one["values"].split(";") for one in _SEQUENCE.finditer(output) if one["what"] == "m"]
    assert not [values for values in styles if any(map(_COLOUR.match, values))]
    assert "\x1b[?1049l" in output  # what was on the screen before is back


def test_without_a_terminal_it_names_what_needs_none(taskq: CommandLine) -> None:
    """And draws nothing."""
    assert "taskq watch" in taskq.refused("top")[1]


def test_keys_typed_at_the_start_are_not_echoed_and_none_is_left(
    queue: Client, taskq: CommandLine
) -> None:
    """What it waits for is said at once; a wrong path comes before the lack of a terminal."""
    servable(queue, "/a", 5)
    with taskq.terminal("top", columns=80) as terminal:
        terminal.wait_for("connecting to")
        terminal.type("~~~")
        shows(terminal, "taskq top /", "CAMPAIGN")
        terminal.type("q~~~")
        assert terminal.end() == 0
        assert not select.select([terminal.far], [], [], 0)[0]
        assert "~~~" not in terminal.seen
    assert "no campaign /nope" in taskq.refused("top", "/nope")[1]
