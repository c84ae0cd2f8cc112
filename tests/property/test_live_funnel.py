"""The live funnel ends as the one at the end does, whatever happens on the way, and to feeders."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from taskq import Best, CampaignSpec, Client, RetryPolicy, Seed
from taskq.db.access import Queries
from taskq.results.feeder import Fed, Feeder
from taskq.results.selection import select
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, promote
from tests.helpers.scripted_agent import Claimed
from tests.helpers.variants import rest_thorough

pytestmark = [pytest.mark.thorough, pytest.mark.both_transports]

SCORES: tuple[Any, ...] = (-9.5, -9, -9, -7.25, 0, 0.0, 3, 1e-9, None, "-99")
STAGES = ("/dock", "/dock/a")
#: Steps of the world around a look, and of how many looks one is killed.
STEPS = 80
KILLED = 0.5
MOST_STATEMENTS = 25


class Killed(BaseException):
    """A feeder died."""


class Watched:
    """A connection of a feeder that lets the world go on between statements, and may break.

    It breaks before or after a statement: what was sent may have been done.
    """

    is_closed = False

    def __init__(self, database: Queries, between: Callable[[], None], lives: int | None) -> None:
        self._database = database
        self._between = between
        self._lives = lives

    def rows(self, name: str, /, **values: object) -> list[dict[str, Any]]:
        """Run a statement, unless the feeder dies before; it may die after."""
        self._between()
        if self._lives is not None:
            self._lives -= 1
        if self._lives == 0:
            raise Killed
        rows = self._database.rows(name, **values)
        if self._lives == 1:
            raise Killed
        return rows

    def row(self, name: str, /, **values: object) -> dict[str, Any] | None:
        """Return the first row of it."""
        return next(iter(self.rows(name, **values)), None)

    def value(self, name: str, /, **values: object) -> Any:
        """Return the first column of that."""
        return next(iter((self.row(name, **values) or {None: None}).values()))


class World:
    """Two campaigns of a stage and the next one, with agents at work; and feeders."""

    def __init__(
        self, queue: Client, postgres: Postgres, hire: Hire, wanted: Best, target: str, seed: int
    ) -> None:
        self.draw = random.Random(seed)
        self.queue = queue
        self.postgres = postgres
        self.wanted = wanted
        self.target = target
        self.deep = 0
        retry = RetryPolicy(max_attempts=3, backoff_s=0)
        for path in (*STAGES, target):
            queue.create_campaign(CampaignSpec(path, retry=retry, max_failure_share=None))
        queue.campaign(target).seed([Seed({"x": 1}, "own")])
        self.seeded = 0
        self.more(30)
        self.agents = {path: hire(path) for path in (*STAGES, target)}
        self.held: list[tuple[str, Claimed]] = []

    def more(self, count: int) -> None:
        """Add tasks to the first stage; some have a key in both of its campaigns."""
        for path in STAGES:
            first, self.seeded = self.seeded - 5, self.seeded + count
            numbers = range(max(0, first), self.seeded)
            self.queue.campaign(path).seed(
                Seed({"smiles": "C" * (1 + n % 7)}, f"t{n}") for n in numbers
            )

    def step(self) -> None:
        """Let something happen."""
        chance = self.draw.random()
        if chance < 0.35:
            path = self.draw.choice((*STAGES, *STAGES, self.target))
            claimed = self.agents[path].claim(self.draw.randint(1, 6))
            self.held += [(path, task) for task in claimed]
        elif chance < 0.85:
            self.end_some()
        elif chance < 0.87:
            self.queue.campaign("/dock").retry()
        elif self.deep < 2:
            self.feed()

    def end_some(self) -> None:
        """Report some of the held tasks, in any order."""
        promote(self.postgres)
        self.draw.shuffle(self.held)
        for _ in range(min(len(self.held), self.draw.randint(1, 6))):
            path, task = self.held.pop()
            how = self.draw.random()
            if how < 0.8:
                self.agents[path].done(task, {"score": self.draw.choice(SCORES)})
            else:
                self.agents[path].fail(task, retry=how < 0.95)

    def feeder(self, *, mortal: bool) -> Feeder:
        """Return a feeder, around whose statements the world goes on."""
        lives = self.draw.randint(1, MOST_STATEMENTS) if mortal else None
        database = Watched(self.queue.queries, self.sometimes, lives)
        stages = (Client(database).campaign(path) for path in ("/dock", self.target))
        return Feeder(database, *stages, self.wanted)

    def sometimes(self) -> None:
        """Let something happen, now and then."""
        if self.draw.random() < 0.3:
            self.step()

    def feed(self) -> None:
        """Have a feeder look, which may die at that."""
        self.deep += 1
        try:
            self.feeder(mortal=self.draw.random() < KILLED).look()
        except Killed:
            pass
        finally:
            self.deep -= 1

    def finish(self) -> Fed:
        """End all that is held or waits in the first stage; let a feeder come to its end."""
        stage = self.queue.campaign("/dock")
        while self.held or any(
            status.unfinished for status in stage.tree() if not status.path.startswith(self.target)
        ):
            self.step()
            self.end_some()
        stages = stage, self.queue.campaign(self.target)
        return Feeder(self.queue.queries, *stages, self.wanted).run(pause=lambda _: None)


def check(world: World, fed: Fed) -> None:
    """Compare the next stage with the one that is seeded at the end."""
    queue = world.queue
    stage = queue.campaign("/dock")
    chosen = {
        result.key: result.payload
        for result in select(queue.queries, stage, world.wanted, but=world.target)
    }
    tasks = {task.key: task for task in queue.campaign(world.target).tasks(below=False)}
    own = tasks.pop("own")
    assert own.status != "cancelled"
    assert {key: tasks[key].payload for key in chosen} == chosen
    assert all(tasks[key].status != "cancelled" for key in chosen)
    others = [
        task for task in tasks.values() if task.key not in chosen and task.status != "cancelled"
    ]
    assert all(task.status not in {"waiting", "delayed"} for task in others)
    assert (fed.complete, fed.begun) == (True, len(others))
    assert set(fed.some_begun) <= {task.key for task in others}
    assert {queue.campaign(world.target).task(key).status for key in fed.some_begun} <= {
        "working",
        "done",
        "failed",
    }


@pytest.mark.parametrize(
    ("seed", "wanted", "target"),
    rest_thorough(
        [
            (number, wanted, target)
            for number in range(2)
            for wanted, target in (
                (Best("result.score", percent=20, group="payload.smiles"), "/md"),
                (Best("result.score", n=9), "/dock/md"),
                (Best("result.score", percent=12.5, lowest=False), "/md"),
                (Best("result.score", n=3, group="payload.smiles"), "/md"),
            )
        ],
        quick=1,
    ),
)
def test_live_end_is_that_of_the_end(
    queue: Client, postgres: Postgres, hire: Hire, seed: int, wanted: Best, target: str
) -> None:
    """For any order of arrival, retries, ties, feeders that die, and several at a time.

    When the first stage gets more tasks afterwards, the same is true at its next end.
    """
    world = World(queue, postgres, hire, wanted, target, seed)
    for more in (0, 12):
        if more:
            world.more(more)
        for _ in range(STEPS):
            world.step()
        check(world, world.finish())
