"""Whatever happens to a batch while part of it is reported: as if one had come after the other.

An agent holds six tasks by one claim, of which two have begun. Two transactions meet, in each
order, and the first commits or is undone. What is left is what one of the two orders leaves one by
one. A heartbeat passes over what is locked, so there is a next one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, Seed
from tests.fixtures.queues import Hire
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.postgres import Postgres, expire, silence
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.interleavings.meeting import EXPIRE, calling, meet, telling

Act: TypeAlias = Callable[[Postgres], Any]
#: By key, how a task stands: its status, and the outcomes and classes of its attempts.
Left: TypeAlias = dict[str, tuple[str, list[tuple[str, str | None]]]]


@dataclass(frozen=True)
class Scene:
    """An agent that has fallen silent with a batch, of which `begun` had begun."""

    campaign: Campaign
    agent: ScriptedAgent
    tasks: list[Claimed]
    begun: list[Claimed]

    def beats(self, *begun: Claimed, named: bool = True) -> Act:
        """Return an act that sends a heartbeat of the agent. named: it still knows the claim."""
        claim = {"campaign": self.tasks[0].campaign, "lease": self.tasks[0].lease}
        claim |= {"tasks": len(self.tasks), "begun": [task.task for task in begun]}
        beat = {
            "session": self.agent.session,
            "held": [],
            "pending": [],
            "drawn": self.agent.drawn,
            "claims": [claim] if named else [],
        }
        return calling("select count(*) from taskq.beat(%s)", json.dumps([beat]))


def report_part(scene: Scene) -> Act:
    words = [report_of(scene.tasks[0], "done"), report_of(scene.tasks[3], "failed", retry=True)]
    return telling(scene.tasks[0].campaign, words)


def give_back_part(scene: Scene) -> Act:
    some = scene.tasks[1], scene.tasks[4]
    words = [report_of(task, "released", started=False) for task in some]
    return telling(scene.tasks[0].campaign, words)


def cancel_some(scene: Scene) -> Act:
    """Cancel one that has begun, one that has not, and one that is being reported."""
    tasks = [scene.tasks[number].task for number in (0, 1, 5)]
    query = "select moved from taskq.cancel(%s, %s, 0, 10)"
    return calling(query, scene.tasks[0].campaign, tasks)


def leave(scene: Scene) -> Act:
    return calling("select taskq.end_session(%s)", scene.agent.session)


def say_more_has_begun(scene: Scene) -> Act:
    return scene.beats(*scene.begun, scene.tasks[4])


def forget_the_claim(scene: Scene) -> Act:
    return scene.beats(named=False)


def give_up(_: Scene) -> Act:
    return EXPIRE


ACTS = [
    report_part,
    give_back_part,
    cancel_some,
    leave,
    say_more_has_begun,
    forget_the_claim,
    give_up,
]

HEARTBEATS = [say_more_has_begun, forget_the_claim]


class Stage:
    """Makes scenes, each in a campaign of its own."""

    def __init__(self, queue: Client, hire: Hire, postgres: Postgres) -> None:
        self._queue = queue
        self._hire = hire
        self.postgres = postgres
        self._numbers = itertools.count()

    def scene(self, *, singly: bool) -> Scene:
        """Return an agent with a batch. singly: its tasks have rows of their own."""
        path = f"/c{next(self._numbers)}"
        spec = CampaignSpec(path, handler=Handler("command", argv=("dock",), batch=10))
        campaign = self._queue.create_campaign(spec)
        campaign.seed(Seed({}, key) for key in "abcdef")
        agent = self._hire(path)
        if singly:  # they went back once, and wait as rows
            for task in agent.claim(6):
                agent.release(task, started=False)
        tasks = agent.claim(6)
        begun = tasks[:2]
        scene = Scene(campaign, agent, tasks, begun)
        scene.beats(*begun)(self.postgres)
        silence(self.postgres, agent.session)
        return scene

    def left_by(self, scene: Scene) -> Left:
        """Return what is left once all has come to rest."""
        expire(self.postgres)
        assert_audit_is_clean(self._queue, scene.campaign.path)
        return {
            task.key: (
                task.status,
                [
                    (attempt.outcome, attempt.error_class)
                    for attempt in scene.campaign.attempts(task.key)
                ],
            )
            for task in scene.campaign.tasks()
        }

    def one_by_one(self, *acts: Callable[[Scene], Act], singly: bool) -> Left:
        """Do acts one after the other; return what they leave."""
        scene = self.scene(singly=singly)
        for act in acts:
            act(scene)(self.postgres)
        return self.left_by(scene)


@pytest.fixture
def stage(queue: Client, hire: Hire, postgres: Postgres) -> Stage:
    return Stage(queue, hire, postgres)


def _or_again(act: Act) -> Act:
    """Return an act that returns whether it is to be repeated: it may not wait for a row."""

    def try_it(connection: Postgres) -> bool:
        try:
            act(connection)
        except psycopg.errors.LockNotAvailable:
            return True
        return False

    return try_it


def assert_they_meet_as_if_one_came_later(
    stage: Stage,
    dsn: str,
    first: Callable[[Scene], Act],
    second: Callable[[Scene], Act],
    *,
    singly: bool,
) -> None:
    for undo in (False, True):
        scene = stage.scene(singly=singly)
        later = second(scene)
        must_repeat = meet(dsn, first(scene), _or_again(later), undo=undo).second
        if must_repeat or second in HEARTBEATS:
            later(stage.postgres)
        orders = [(second,)] if undo else [(first, second), (second, first)]
        left = stage.left_by(scene)
        assert left in [stage.one_by_one(*order, singly=singly) for order in orders], undo
        charged = [key for key, (_, ends) in left.items() if ("lost", "agent-lost") in ends]
        more = ["e"] if say_more_has_begun in (first, second) else []
        assert {*charged} <= {"a", "b", *more}, "only what had begun"


@pytest.mark.thorough
@pytest.mark.parametrize("singly", [False, True], ids=["bundle", "rows"])
@pytest.mark.parametrize("second", ACTS)
@pytest.mark.parametrize("first", ACTS)
def test_parts_of_a_batch_end_as_if_one_thing_came_after_the_other(
    stage: Stage,
    dsn: str,
    first: Callable[[Scene], Act],
    second: Callable[[Scene], Act],
    singly: bool,
) -> None:
    assert_they_meet_as_if_one_came_later(stage, dsn, first, second, singly=singly)


@pytest.mark.parametrize("other", [cancel_some, forget_the_claim, leave, give_up])
def test_report_of_part_of_a_batch_meets_what_ends_the_rest(
    stage: Stage, dsn: str, other: Callable[[Scene], Act]
) -> None:
    assert_they_meet_as_if_one_came_later(stage, dsn, report_part, other, singly=False)
    assert_they_meet_as_if_one_came_later(stage, dsn, other, report_part, singly=False)
