"""Commands, the full screen and pages draw one table: they say the same of an agent and a host."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskq import CampaignSpec, Client, Handler
from taskq.db.connections import Database
from taskq.diagnosis.campaign_tree import read_tree
from taskq.diagnosis.tables.agents import AGENTS
from taskq.model.columns import Column, Mark, filled
from taskq.model.errors import UsageError
from taskq.model.views import AgentView
from taskq_cli.top.panel import Subject
from taskq_cli.top.panels import Panels
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import ScriptedAgent
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_all_views_show_the_device_that_each_slot_has(
    queue: Client,
    database: Database,
    postgres: Postgres,
    taskq: CommandLine,
    hire: Hire,
    tmp_path: Path,
) -> None:
    """By the beginning of its UUID, and its part; tasks, their histories and explanations too."""
    campaign = servable(queue, "/c/dock", 2)
    agent = hire("/c", slots=2)
    agent.campaign = value(
        postgres, "select campaign_id from taskq.campaign where path = '/c/dock'"
    )
    task, other = agent.claim(2)
    device = {"name": "GPU-5c0f1e2d-7b1a-4c3e-9d55-0a6b8f2c4e71", "parts": 250}
    share = {"campaign": task.campaign, "task": task.task, "devices": [device]}
    licence = {"slot": 3, "resources": [{"name": "licence", "amount": 2}]}
    agent.heartbeat([task, other], says={"shares": [share | {"slot": 0}, share | licence]})
    (view,) = queue.agents()
    assert [each["path"] for each in view.shares] == ["/c/dock"] * 2
    has = "0: GPU-5c0f1e2d (0.25) for /c/dock; 3: GPU-5c0f1e2d (0.25), licence 2 for /c/dock"
    for name, text in views_of(queue, taskq, database.dsn, tmp_path, "agents").items():
        assert has in " ".join(text.split()), (name, text)
    (shown, plain) = campaign.tasks("working")
    assert shown.share == {"devices": {device["name"]: 0.25}, "resources": {}}
    assert plain.share is None
    assert "with GPU-5c0f1e2d (0.25)." in campaign.explain(task.key).reasons[0].text
    assert "it runs with GPU-5c0f1e2d (0.25)" in campaign.history(task.key)[-1].detail


def test_share_of_another_campaign_is_shown_without_its_path(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """To a token that is not for it: others have the device."""
    servable(queue, "/c/d", 1)
    agent = hire("/c/d")
    (task,) = agent.claim()
    share: dict[str, Any] = {"slot": 0, "campaign": task.campaign, "task": task.task}
    share["resources"] = [{"name": "licence", "amount": 1}]
    agent.heartbeat([task], says={"shares": [share]})
    for paths, path in [("{/c/d}", "/c/d"), ("{/c/e}", None)]:
        with postgres.transaction():
            postgres.execute("select set_config('taskq.token_paths', %s, true)", [paths])
            (seen,) = value(postgres, "select taskq.shares_of(%s)", agent.session)
        assert (seen["path"], seen["resources"]) == (path, {"licence": 1})


@pytest.mark.parametrize(
    "said",
    [
        {"shares": [{"slot": "x"}]},
        {"shares": [{"slot": 0, "devices": 3}]},
        {"shares": [{"slot": 0, "devices": [{"name": "GPU-1", "parts": "half"}]}]},
        {"shares": [{"slot": 0, "devices": [None]}]},
        {"shares": [{"slot": 0, "resources": [{"name": "licence", "amount": 10**30}]}]},
        {"shares": [None]},
        {"batches": [None]},
        {"trouble": {"warnings": [None]}},
    ],
)
def test_heartbeat_that_no_view_could_show_is_refused(
    agent: ScriptedAgent, said: dict[str, Any]
) -> None:
    """What cannot be drawn for one agent would be missing for all."""
    with pytest.raises(UsageError, match="heartbeat"):
        agent.heartbeat(says=said)


def test_share_that_lacks_members_leaves_views_whole(queue: Client, agent: ScriptedAgent) -> None:
    agent.heartbeat(
        says={"shares": [{}, {"slot": 1}, {"slot": 2, "devices": [{}], "resources": [{}]}]}
    )
    (view,) = queue.agents()
    assert [share["slot"] for share in view.shares] == [1, 2]
    assert shown_of(view, "in use") == {"in use": "1, 2: "}


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


def shown_of(agent: AgentView, *titles: str) -> dict[str, str]:
    """Return what tables show of an agent, by default of how many tasks it has."""
    wanted = titles or ("working", "begun", "ahead")
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
    assert [column.title for column in filled(columns, rows)] == ["name", "slots", "state"]
    state = columns[-1]
    assert (state.text(rows[0]), state.full_text(rows[0])) == (
        "banned, late",
        "banned: its disk is full; late",
    )


def test_titles_of_a_table_are_different() -> None:
    """Views choose columns by them."""
    titles = [column.title for column in AGENTS]
    assert len({*titles}) == len(titles)
