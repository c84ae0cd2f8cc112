"""Messages, `explain`, `top`, pages, `status` and `watch` name one reason in the same words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.diagnosis.campaign_tree import Tree
from taskq.diagnosis.events import BY_NAME, event_named, event_of
from taskq.diagnosis.shared_readings import Readings
from taskq.diagnosis.ticker import Ticker
from taskq.gateway.web.access import EVERYTHING
from taskq.gateway.web.asked import Asked
from taskq.gateway.web.pages import Pages
from taskq.upkeep.sender import Sender
from taskq_cli.display.render import as_text
from taskq_cli.top.panel import Subject
from taskq_cli.top.panels import Panels
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, keep, silence
from tests.helpers.scripted_agent import report_of
from tests.integration.notify.conftest import Hook
from tests.integration.notify.support import Receiver, look, send
from tests.integration.web.conftest import Page


@dataclass
class Scene:
    """A queue with 40 tasks in /c, which agents may claim."""

    queue: Client
    campaign: Campaign
    hire: Hire
    postgres: Postgres

    def work(self, *, done: int = 0, failed: int = 0) -> None:
        """Let an agent end so many tasks, and stay."""
        agent = self.hire("/c")
        tasks = agent.claim(done + failed)
        reports = [report_of(task, "done", result={}) for task in tasks[:done]]
        reports += [report_of(task, "failed", error_class="Boom") for task in tasks[done:]]
        assert set(agent.exchange(reports)["acks"]) == {"accepted"}
        keep(self.postgres)


State = Callable[[Scene], object]


def all_silent(scene: Scene) -> None:
    """All agents stop sending heartbeats."""
    silence(scene.postgres, scene.hire("/c").session)


def lack_a_tag(scene: Scene) -> None:
    """No agent has the tag that the campaign requires."""
    scene.campaign.change(replace(scene.campaign.spec(), requires=["gpu"]))
    scene.hire("/c")


def drained(scene: Scene) -> None:
    """All agents leave."""
    scene.hire("/c")
    scene.queue.drain_agents("/c")


def pause_itself(scene: Scene) -> None:
    """Nearly everything fails, so the campaign pauses."""
    scene.hire("/c")
    scene.postgres.execute(
        "update taskq.campaign set status = 'paused', paused_why = '97 of 100 failed'"
        " where path = '/c'"
    )


def slow_down(scene: Scene) -> None:
    """Far fewer tasks end than before."""
    scene.work(done=7)
    scene.postgres.execute(
        "insert into taskq.trend (campaign_id, minute, done, failed, failures, unfinished,"
        " working, agents)"
        " select %s, floor(extract(epoch from clock_timestamp()) / 60) - w.age, w.done, 0, 0,"
        " 10, 0, 0 from (values (135, -400), (15, 0)) w (age, done)",
        [scene.campaign.campaign_id],
    )


def reach_the_quota(scene: Scene) -> None:
    """Run as many tasks as the owner's quota allows."""
    owner = scene.queue.owners.of("/c")
    scene.postgres.execute("select taskq.set_quota(%s, %s)", [owner, '{"max_running": 2}'])
    scene.hire("/c").claim(2)


def bare(scene: Scene) -> None:
    """Nobody has said how its tasks are run."""
    scene.campaign.change(replace(scene.campaign.spec(), handler=None))


STATES: Final[dict[str, tuple[State, set[str], set[str]]]] = {
    "no agent": (lambda _: None, {"no-agents"}, {"no-agents"}),
    "all silent": (all_silent, {"silent"}, {"no-agents"}),
    "all leave": (drained, {"draining"}, {"no-agents"}),
    "none suits": (lack_a_tag, {"tags"}, {"no-agents"}),
    "paused by hand": (lambda it: it.campaign.pause(), {"paused"}, {"paused"}),
    "paused by failures": (pause_itself, {"paused"}, {"paused"}),
    "failing": (lambda it: it.work(failed=21, done=1), {"failing"}, {"failing"}),
    "slow": (slow_down, {"slow"}, {"slow"}),
    "quota": (reach_the_quota, {"quota-running"}, {"trouble"}),
    "no handler": (bare, {"no-handler"}, {"trouble"}),
    "nothing is wrong": (lambda it: it.hire("/c").claim(1), set(), set()),
    "finished": (lambda it: it.work(done=40), {"finished"}, {"finished"}),
}


@pytest.mark.parametrize("state", STATES, ids=lambda name: name.replace(" ", "-"))
def test_every_view_names_the_same_reasons_in_the_same_words(
    state: str,
    queue: Client,
    postgres: Postgres,
    hire: Hire,
    database: Database,
    sender: Sender,
    hook: Hook,
    receiver: Receiver,
    taskq: CommandLine,
) -> None:
    """The message's event is the word of the rule; code and sentence are those of `explain`."""
    act, codes, events = STATES[state]
    hook()
    keep(postgres)
    scene = Scene(queue, servable(queue, "/c", 40), hire, postgres)
    queue.notifications.add("all", "/c", [*BY_NAME], "webhook:here", after_s=0)
    act(scene)
    explained = scene.campaign.explain()
    said = [(reason.code, reason.text) for reason in explained.reasons if event_of(reason)]
    assert {code for code, _ in said} == codes
    if said:
        assert look(database, postgres) == len(said)
        send(sender, lambda: receiver.got)
        (message,) = (received.message for received in receiver.got)
        assert sorted((event["code"], event["text"]) for event in message["events"]) == sorted(said)
        assert {event["event"] for event in message["events"]} == events
        for code, text in said:
            assert event_named(code).name in events
            assert f"{text}\n" in message["text"]
    else:
        assert look(database, postgres) == 0
    for view in ("status", "explain"):
        shown = [(reason["code"], reason["text"]) for reason in taskq.json(view, "/c")["reasons"]]
        assert [pair for pair in shown if pair[0] in codes] == said
    assert [(reason["code"], reason["text"]) for reason in _watched(taskq)["reasons"]] == said
    page, top, status = _page(queue), _top(queue), " ".join(taskq.out("status", "/c").split())
    for code, text in said:
        assert {"data-code": code} in page.all("li")
        assert text in page.text
        assert text in top
        assert text in status


def _watched(taskq: CommandLine) -> dict[str, list[dict[str, str]]]:
    """Return what `taskq watch` writes first."""
    result = taskq("watch", "/c", "--timeout", 0, "--output", "jsonl")
    found: dict[str, list[dict[str, str]]] = json.loads(result.stdout.splitlines()[0])
    return found


def _page(queue: Client) -> Page:
    """Return the page of the campaign."""

    async def read() -> str:
        pages = Pages(queue, Ticker(queue.queries), Readings())
        return await pages.campaign(Asked(EVERYTHING, {"path": "/c"}, signed_in=False))

    return Page(asyncio.run(read()))


def _top(queue: Client) -> str:
    """Return what `taskq top` shows as the explanation."""
    panel = Panels(queue, Tree).about("explanation", Subject("/c")).read()
    return " ".join(" ".join(map(as_text, panel.pictures)).split())
