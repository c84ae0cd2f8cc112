"""Screens on top of the tree: what was opened, and questions."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Input, Static

from taskq.diagnosis.shared_readings import Readings
from taskq.model.errors import TaskqError
from taskq_cli.display import render
from taskq_cli.display.text import one_line
from taskq_cli.top.panels import Opening, Panel, Subject
from taskq_cli.top.tables import Rows, Told

#: Seconds after which what is open is read again.
FRESH_S: Final = 5.0
#: All keys, as the help screen has them.
KEYS: Final = (
    ("Enter", "open the row: a campaign, task, host or agent"),
    ("Esc", "go back"),
    ("Tab", "the other part of the screen, to scroll it"),
    ("Left Right", "move a table that is wider than the screen"),
    ("+ -", "more or fewer levels of the tree"),
    ("e", "explain why the campaign or task does not run"),
    ("p", "pause the campaign, or resume it"),
    ("r", "retry failed tasks of the campaign, or the open task"),
    ("f", "failures, and whose fault they are"),
    ("h s a", "hosts, sites, agents"),
    ("t", "a task by its key"),
    ("g", "gateways and the database"),
    ("o", "owners and their quotas"),
    ("?", "these keys"),
    ("q", "quit"),
)


class OpenedScreen(Screen[None]):
    """What was opened, read again while it is looked at."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.leave", "Back", key_display="esc"),
        Binding("tab", "app.focus_next", "Other part", show=False),
        Binding("a", "app.agents", "Agents", show=False),  # there is no room for its name
    ]

    def __init__(self, opening: Opening, readings: Readings) -> None:
        super().__init__()
        self._opening = opening
        self._readings = readings

    @property
    def subject(self) -> Subject:
        """What keys act on."""
        return self._opening.subject

    def compose(self) -> ComposeResult:
        """Return the parts: a title, pictures, a table."""
        yield Static(render.line(one_line(self._opening.title)), classes="title")
        with VerticalScroll(id="text"):
            yield Static("reading ...", id="pictures", markup=False)
        yield Rows("rows")
        yield Told("", classes="message", markup=False)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to follow."""
        self.query_one(Rows).display = False
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        while True:
            if self.is_current:
                opening = self._opening
                found: Panel | TaskqError
                try:
                    key = opening.title, opening.subject
                    found = await self._readings.get(key, FRESH_S, opening.read)
                except TaskqError as error:
                    found = error
                if self.is_current:  # still; else its parts may be gone
                    self._show(found)
            await asyncio.sleep(FRESH_S)

    def _show(self, found: Panel | TaskqError) -> None:
        pictures = self.query_one("#pictures", Static)
        if isinstance(found, TaskqError):
            pictures.update(render.paragraph("", one_line(str(found))))
            return
        pictures.update(render.stack(found.pictures))
        table = self.query_one(Rows)
        table.fill(found.titles, found.rows)
        first = not table.display and found.rows
        table.display = bool(found.rows)
        if first:
            table.focus()


class KeysScreen(ModalScreen[None]):
    """Shows all keys; any of those that end something ends it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,enter,q,question_mark", "dismiss", "Back"),
    ]

    def compose(self) -> ComposeResult:
        """Return the keys, each with what it does."""
        with Vertical(classes="asked"):
            lines = (f"{key:<10}  {what}" for key, what in KEYS)
            yield Static("\n".join(lines) + "\n\nesc: back", markup=False)


class QuestionScreen(ModalScreen[bool]):
    """Asks for a yes; anything else is a no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape,enter,q", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Return the question."""
        with Vertical(classes="asked"):
            yield Static(f"{one_line(self._question)}\n\ny: yes   n: no", markup=False)


class LineScreen(ModalScreen[str]):
    """Asks for a line of text; empty: none was given."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "Cancel")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Return the question and a place for the answer."""
        with Vertical(classes="asked"):
            yield Static(one_line(self._question), markup=False)
            yield Input(compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the answer."""
        self.dismiss(event.value)
