"""Commands, the full screen and pages draw one table: they say the same of an agent and a host."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from taskq import Client
from taskq.db.connections import Database
from taskq.diagnosis.campaign_tree import read_tree
from taskq.diagnosis.tables.agents import AGENTS
from taskq.model.columns import Column, Mark, filled
from taskq_cli.top.panel import Subject
from taskq_cli.top.panels import Panels
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.integration.web.conftest import WebProcess


def views_of(
    queue: Client, taskq: CommandLine, dsn: str, folder: Path, what: str
) -> dict[str, str]:
    """Return what each view says of agents, hosts or sites."""
    panels = Panels(queue, lambda: read_tree(queue.queries, "/"))
    panel = panels.about(what, Subject("/c")).read()
    web = WebProcess(dsn, folder)
    try:
        page = web.page(f"/{what}", path="/c").text
    finally:
        web.stop()
    return {
        "command": taskq.out(what, "/c"),
        "screen": "\n".join(" ".join(row.cells) for row in panel.rows),
        "page": page,
    }


@pytest.mark.parametrize("what", ["agents", "hosts"])
def test_banned_host_whose_agents_still_drain_is_banned_in_all_views(
    queue: Client,
    database: Database,
    taskq: CommandLine,
    hire: Hire,
    tmp_path: Path,
    what: str,
) -> None:
    """A ban of the host orders its agents to drain; the ban is what people need to know."""
    servable(queue, "/c", 1)
    hire(agent="a1", host="n17")
    queue.fleet.ban("host", "n17", why="its disk is full", until=timedelta(days=1))
    for view, text in views_of(queue, taskq, database.dsn, tmp_path, what).items():
        assert "banned" in text, (view, text)
        assert "a1  draining" not in text, (view, text)
    assert " banned " in taskq.out("hosts", "show", "n17", "/c").splitlines()[-1]


def test_table_leaves_out_what_says_nothing_and_marks_say_why_where_there_is_room() -> None:
    """Zeros of sparse columns say nothing; other zeros do."""
    columns: list[Column[dict[str, object]]] = [
        Column("name"),
        Column("failed", kind="count", sparse=True),
        Column("slots", kind="count"),
        Column("state", kind="marks"),
    ]
    marks = [Mark("banned", "its disk is full"), Mark("late")]
    rows: list[dict[str, object]] = [{"name": "a", "failed": 0, "slots": 0, "state": marks}]
    assert [one.title for one in filled(columns, rows)] == ["name", "slots", "state"]
    state = columns[-1]
    assert (state.text(rows[0]), state.full_text(rows[0])) == (
        "banned, late",
        "banned: its disk is full; late",
    )


def test_titles_of_a_table_are_different() -> None:
    """Views choose columns by them."""
    titles = [column.title for column in AGENTS]
    assert len({*titles}) == len(titles)
