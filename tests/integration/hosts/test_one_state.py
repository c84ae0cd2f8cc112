"""Commands, the full screen and pages draw one table: they say the same of an agent and a host."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, Handler
from taskq.db.connections import Database
from taskq.diagnosis.campaign_tree import read_tree
from taskq.diagnosis.tables.agents import AGENTS
from taskq.model.columns import Column, Mark, filled
from taskq.model.views import AgentView
from taskq_cli.top.panel import Subject
from taskq_cli.top.panels import Panels
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
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


def test_all_views_show_the_named_resources_of_an_agent(
    queue: Client, database: Database, taskq: CommandLine, hire: Hire, tmp_path: Path
) -> None:
    """As options take them, not as the tags that claims compare."""
    servable(queue, "/c", 1)
    hire(offers=("resource.licence=2", f"resource.scratch={200 << 30}", "gpus=1"))
    for name, text in views_of(queue, taskq, database.dsn, tmp_path, "agents").items():
        assert "licence 2; scratch 200G" in " ".join(text.split()), (name, text)


def test_all_views_show_how_many_tasks_of_a_batch_have_begun(
    queue: Client, database: Database, taskq: CommandLine, hire: Hire, tmp_path: Path
) -> None:
    """Those that wait in a start are not fetched ahead; other tasks are counted apart."""
    handler = Handler("command", argv=("dock", "{tasks}"), batch=500)
    queue.create_campaign(CampaignSpec("/c", handler=handler)).seed({"n": n} for n in range(500))
    agent = hire(slots=2)
    tasks = agent.claim(500)
    claim = {"campaign": tasks[0].campaign, "lease": tasks[0].lease, "tasks": 500}
    agent.heartbeat(claims=[claim])
    (view,) = queue.agents()
    assert (view.working, view.together, view.begun) == (500, 500, None)
    assert shown_of(view) == {"working": "500", "begun": "", "ahead": ""}
    agent.heartbeat(claims=[claim | {"begun": [task.task for task in tasks[:12]]}])
    for name, text in views_of(queue, taskq, database.dsn, tmp_path, "agents").items():
        assert "12 of 500" in text, (name, text)
    for task in tasks[:3]:
        agent.done(task)
    (view,) = queue.agents()
    assert shown_of(view) == {"working": "497", "begun": "12 of 497", "ahead": ""}
    view = replace(view, working=503, together=495)
    assert shown_of(view) == {"working": "497", "begun": "12 of 495", "ahead": "6"}


def test_tokens_for_other_campaigns_see_no_tasks_of_batches(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    handler = Handler("command", argv=("dock", "{tasks}"), batch=500)
    queue.create_campaign(CampaignSpec("/c/d", handler=handler)).seed([{"n": 1}, {"n": 2}])
    agent = hire("/c/d")
    tasks = agent.claim(2)
    claim = {"campaign": tasks[0].campaign, "lease": tasks[0].lease, "tasks": 2}
    agent.heartbeat(claims=[claim | {"begun": [tasks[0].task]}])
    call = "select tasks, begun from taskq.batches_in_hand(%s)"
    for paths, seen in [("{/c/d}", (2, 1)), ("{/c/e}", (None, None))]:
        with postgres.transaction():
            postgres.execute("select set_config('taskq.token_paths', %s, true)", [paths])
            row = postgres.execute(call, [agent.session]).fetchone()
        assert row is not None
        assert (row["tasks"], row["begun"]) == seen


def shown_of(agent: AgentView) -> dict[str, str]:
    """Return what tables show of how many tasks an agent has."""
    wanted = {"working", "begun", "ahead"}
    return {column.title: column.text(agent) for column in AGENTS if column.title in wanted}


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
