"""The screen with the tree, keys, and what they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer

from taskq import Client
from taskq.db.rows import Row as Found
from taskq.diagnosis.campaign_tree import CampaignNode, Tree, usual_levels
from taskq.diagnosis.servers import read_servers
from taskq.diagnosis.shared_readings import Readings
from taskq.diagnosis.ticker import Ticker
from taskq.diagnosis.troubles import open_number
from taskq.model.errors import TaskqError
from taskq.model.pauses import in_thread
from taskq.model.words import counted, duration
from taskq_cli.display import render
from taskq_cli.display.text import one_line
from taskq_cli.top.panel import Opening, Subject
from taskq_cli.top.panels import Panels
from taskq_cli.top.screens import (
    KeysScreen,
    LineScreen,
    OpenedScreen,
    QuestionScreen,
    Rows,
    TextBox,
)
from taskq_cli.top.tree import tree_line, tree_panel

#: Seconds after which a missing tree is reported, and after which upkeep is read again.
LATE_S: Final = 3.0
UPKEEP_S: Final = 10.0
#: Seconds for which the screen shows the outcome of a key.
NOTICE_S: Final = 15.0


#: Least rows for the chosen campaign, and rows of all other parts except the tree's own.
_ABOUT: Final = 2
_FRAME: Final = 6


class TopApp(App[None]):
    """The queue on a full screen. path: the campaign at the top of the tree."""

    TITLE = "taskq top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen, Footer, FooterKey, DataTable, Static, VerticalScroll { background: ansi_default; }
    .title { text-style: bold reverse; height: 1; }
    #rows { height: 1fr; border-top: solid ansi_default; }
    #tree { height: 1fr; }
    #text { height: auto; max-height: 60%; }
    #text, #rows, #tree {
        scrollbar-color: ansi_bright_black; scrollbar-background: ansi_default;
        scrollbar-color-active: ansi_default; scrollbar-size: 0 1;
    }
    #servers { height: auto; max-height: 1; }
    .message { height: auto; max-height: 3; text-style: bold; }
    .asked { border: solid ansi_default; width: 90%; max-width: 70; height: auto; padding: 0 1; }
    QuestionScreen, LineScreen, KeysScreen { align: center middle; background: transparent; }
    DataTable > .datatable--cursor, DataTable:focus > .datatable--cursor {
        background: ansi_default; color: ansi_default; text-style: reverse;
    }
    DataTable > .datatable--header, DataTable:focus > .datatable--header,
    DataTable > .datatable--header-hover {
        background: ansi_default; color: ansi_default; text-style: bold;
    }
    """
    # Keys that end something come first: a narrow terminal cuts the rest at the right.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "Quit", key_display="q"),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("e", "open('explanation')", "Explain"),
        Binding("p", "pause", "Pause"),
        Binding("r", "retry", "Retry"),
        Binding("f", "open('failures')", "Failures"),
        Binding("h", "open('hosts')", "Hosts"),
        Binding("s", "open('sites')", "Sites"),
        Binding("a", "open('agents')", "Agents"),
        Binding("w", "open('troubles')", "Wrong now", show=False),
        Binding("t", "task", "Task", show=False),
        Binding("g", "open('servers')", "Gateways", show=False),
        Binding("o", "open('owners')", "Owners", show=False),
        Binding("plus", "levels(1)", "More levels", show=False),
        Binding("minus", "levels(-1)", "Fewer levels", show=False),
    ]

    def __init__(self, client: Client, path: str, acting: Client | None = None) -> None:
        """client: reads. acting: does what keys order; None if `client` does that too."""
        super().__init__(ansi_color=True)  # the terminal's own colours, or none with NO_COLOR
        self._client = client
        self._acting = acting or client
        self._path = path
        self._tree = Tree()
        self._levels: int | None = None
        self._trouble = ""
        self._notice = ""
        self._noticed_at = float("-inf")
        self._upkeep: Found | None = None
        self._servers = ""
        self._panels = Panels(client, lambda: self._tree)

    def compose(self) -> ComposeResult:
        """Return the parts of the first screen."""
        yield TextBox("", id="head", classes="title", markup=False)
        yield TextBox("", id="servers", markup=False)
        yield Rows("tree")
        yield TextBox("", id="about", markup=False)
        yield TextBox("", classes="message", markup=False)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to follow the queue."""
        self.theme = "ansi-dark"
        self._readings = Readings()
        self._ticker = Ticker(self._client.queries, self._path)
        self.run_worker(self._follow())
        self.run_worker(self._follow_upkeep())
        self.set_interval(1.0, self._refresh_head)
        self._refresh_head()

    def exit(self, *arguments: Any, **options: Any) -> None:
        """Quit; workers that follow the queue end before the parts that they write to."""
        self.workers.cancel_all()
        super().exit(*arguments, **options)

    async def on_unmount(self) -> None:
        """Stop reading."""
        await self._ticker.close()

    async def _follow(self) -> None:
        with self._ticker.followed():
            while True:
                try:
                    tree = await self._ticker.next_tree(LATE_S)
                except asyncio.TimeoutError:
                    if self._ticker.late_s < LATE_S:
                        continue  # the ticker asks a slow server seldom
                    age_s = time.monotonic() - self._tree.at
                    since = f" for {duration(age_s)}" if self._tree.nodes else ""
                    self._trouble = f"{self._client.queries.server} has not answered{since}"
                    continue
                self._trouble = self._ticker.trouble if tree is None else ""
                if tree is not None:
                    self._tree = tree
                    self._show_tree()

    async def _follow_upkeep(self) -> None:
        def read() -> tuple[Found | None, str]:
            queries = self._acting.queries
            found = queries.row("explain_upkeep")
            if found is not None:
                wrong = open_number(queries, self._path)
                found = {**found, "brake": queries.row("brake"), "wrong": wrong}
            return found, read_servers(queries).line()

        while True:
            try:
                self._upkeep, self._servers = await in_thread(read)
            except Exception:  # noqa: BLE001  # the ticker says why
                self._upkeep, self._servers = None, ""
            await asyncio.sleep(UPKEEP_S)

    # What is shown

    def _show_tree(self) -> None:
        tree = self._tree
        if self._levels is None:
            self._levels = usual_levels(tree.levels(self._path))
        nodes, _ = tree.shown(self._path, self._levels)
        panel = tree_panel(nodes, self.size.width, self._panels.campaign)
        table = self.screen_stack[0].query_one("#tree", Rows)
        table.fill(panel.titles, panel.rows)
        self._refresh_head()
        self._show_about()

    def on_resize(self) -> None:
        """Fit the tree again."""
        if self._tree.nodes:
            self.call_after_refresh(self._show_tree)

    def _refresh_head(self) -> None:
        found, first = self._upkeep, self.screen_stack[0]
        parts = [f"taskq top {self._path}"]
        if not self._tree.nodes and not self._trouble:
            parts.append("connecting to")
        elif self._trouble:
            parts.append("AWAY")
        else:
            parts += [] if found is None else _upkeep_parts(found)
            parts.append(f"{1_000 * self._ticker.took_s:.0f} ms")
        behind_s = self._client.behind_s if self._tree.nodes else None
        if behind_s is not None:
            parts.append(f"a standby, {duration(behind_s)} behind at most,")
        parts.append(self._client.queries.server)
        first.query_one("#head", TextBox).show_text(one_line("  ".join(parts)))
        first.query_one("#servers", TextBox).show_text(one_line(self._servers))
        notice = self._notice if time.monotonic() < self._noticed_at + NOTICE_S else ""
        trouble = f"{self._trouble}; trying again" if self._trouble else ""
        text = one_line(" - ".join(filter(None, (notice, trouble))))
        for screen in self.screen_stack:
            for message in screen.query(".message").results(TextBox):
                message.show_text(text, folded=True, fixed=False)

    @on(DataTable.RowHighlighted, "#tree")
    def _show_about(self) -> None:
        node = self._chosen()
        about = self.screen_stack[0].query_one("#about", TextBox)
        text = "" if node is None else tree_line(node)
        lines = len(render.folded(text, max(self.size.width, 1)))
        # Rows that the tree leaves blank show the rest of a reason.
        blank = self.size.height - self.screen_stack[0].query_one("#tree", Rows).row_count - _FRAME
        about.styles.height = max(_ABOUT, min(lines, blank))
        about.show_text(text, folded=True)

    def _chosen(self) -> CampaignNode | None:
        row = self.screen_stack[0].query_one("#tree", Rows).chosen
        return None if row is None else self._tree.nodes.get(row.name)

    def _subject(self) -> Subject:
        """Return what keys act on: what is open, or the chosen campaign."""
        if isinstance(self.screen, OpenedScreen):
            return self.screen.subject
        node = self._chosen()
        return Subject(self._path if node is None else node.status.path)

    def _open(self, opening: Opening) -> None:
        self._notice = ""  # it was about the screen that is left
        self.push_screen(OpenedScreen(opening, self._readings))
        self._refresh_head()

    def _note(self, text: str) -> None:
        self._notice, self._noticed_at = text, time.monotonic()
        self._refresh_head()

    # Keys

    @on(DataTable.RowSelected)
    def _open_row(self, event: DataTable.RowSelected) -> None:
        row = event.data_table.chosen if isinstance(event.data_table, Rows) else None
        if row is not None and row.opens is not None:
            self._open(row.opens)

    def action_leave(self) -> None:
        """Go back to the former screen."""
        self._notice = ""
        self.pop_screen()
        self._refresh_head()

    def action_keys(self) -> None:
        """Show all keys and what they do."""
        self.push_screen(KeysScreen())

    def action_open(self, what: str) -> None:
        """Open a panel about a campaign or a task: see `Panels.about`."""
        self._open(self._panels.about(what, self._subject()))

    def action_task(self) -> None:
        """Ask for the key of a task, and open it."""
        path = self._subject().path

        async def find(key: str) -> None:
            try:
                found = await in_thread(partial(self._panels.find_task, path, key))
            except TaskqError as error:
                self._note(f"not found: {error}")
                return
            if len(found) == 1:
                self._open(self._panels.task(found[0], key))
            elif found:
                self._note(f"{key} is a task of {', '.join(found)}: choose one of them, then t")
            else:
                self._note(f"no task {key} in {path} or below it")

        def answered(key: str | None) -> None:
            if key:
                self.run_worker(find(key))

        self.push_screen(LineScreen(f"Key of a task of {path} or below it:"), answered)

    def action_levels(self, more: int) -> None:
        """Show so many more levels of the tree; a negative number: fewer."""
        deepest = len(self._tree.levels(self._path)) - 1
        self._levels = max(0, min((self._levels or 0) + more, deepest))
        self._show_tree()

    def action_pause(self) -> None:
        """Pause a campaign, or resume it."""
        path = self._subject().path
        node = self._tree.nodes.get(path)
        if node is None:
            return
        status = node.status
        if status.state == "open" and status.finished:
            self._note(f"{path} is finished: no task is left to be paused")
        elif status.state == "open":
            tasks = (
                counted(status.unfinished, "unfinished task") if status.total else "no tasks yet"
            )
            self._ask(
                f"Pause {path} and all below it, with {tasks}? Running tasks continue.",
                lambda: self._acting.campaign(path).pause(),
                lambda changed: f"{path} is paused" + ("" if changed else " already"),
            )
        else:
            self._ask(
                f"{node.why}. Resume {path}?",
                lambda: self._acting.campaign(path).resume(),
                lambda changed: f"{path} is open" + ("" if changed else " already"),
            )

    def action_retry(self) -> None:
        """Try failed tasks of a campaign again, or the task that is open."""
        subject = self._subject()
        path, key = subject.path, subject.key
        node = self._tree.nodes.get(path)
        if key is None and (node is None or not node.status.failed):
            self._note(f"no task of {path} has failed")
            return
        failed = 1 if key is not None or node is None else node.status.failed
        what = f"the task {key}" if key is not None else f"{counted(failed, 'failed task')} of"
        whole = f"{what} of {path}" if key is not None else f"{what} {path} and all below it"
        self._ask(
            f"Try {whole} again?",
            lambda: self._acting.campaign(path).retry(keys=None if key is None else [key]),
            lambda moved: f"{counted(moved, 'task')} of {path} will be tried again",
        )

    def _ask(self, question: str, act: Callable[[], int], report: Callable[[int], str]) -> None:
        """Act in a thread if the answer is yes, and report what was done."""

        async def work() -> None:
            self._note("at work ...")
            try:
                text = report(await in_thread(act))
            except TaskqError as error:
                text = f"not done: {error}"
            self._note(text)
            # Otherwise the tree may be read much later if a statement takes long.
            with suppress(TaskqError):  # the ticker says why
                self._tree = await self._ticker.tree(anew=True)
                self._show_tree()

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(work())
            else:
                self._note("nothing was changed")

        self.push_screen(QuestionScreen(question), answered)


def _upkeep_parts(found: Found) -> list[str]:
    """Return which keeper acts, in a few words."""
    late_s = None
    if found["keeper_until"] is not None:
        late_s = (found["now"] - found["keeper_until"]).total_seconds()
    keeper = "no keeper" if late_s is None else "keeper" if late_s <= 0 else ""
    parts = [keeper or f"no keeper for {duration(late_s or 0)}"]
    if found["has_front"]:
        parts.append("front" if found["refilled"] else "front not filled")
    if found["wrong"]:
        parts.append(f"{found['wrong']:,} WRONG (w)")
    if found["brake"] is not None:
        parts.append("BRAKE ON")
    return [*parts, counted(found["agents"], "agent")]
