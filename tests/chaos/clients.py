"""Those who use a farm: they seed, cancel and retry, steer sets, withdraw, read, ban and hedge.

Most try until they are acknowledged; the one who seeds gives up now and then.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg

from taskq import Campaign, Cursor, Seed
from taskq.diagnosis.bans import PlaceKind
from taskq.model.errors import TaskqError
from taskq.results.following import WithdrawnResult
from tests.chaos.farm import AGENTS, Farm, Ground
from tests.chaos.history import Writer

_PAUSE_S = 0.1
_RECENT = 200
_PATIENCE = 0.5
_ORDERS_PAUSE_S = 0.05
_STEERING_PAUSE_S = 0.3
_WITHDRAWALS_PAUSE_S = 0.1
_LOOKS_PAUSE_S = 0.2
_COUNTS_PAUSE_S = 0.02
_BANS_PAUSE_S = 2.0
_BAN_S = 1.0
_PLACES: tuple[tuple[PlaceKind, str], ...] = (
    *(("host", name) for name in AGENTS),
    ("site", "http"),
    ("site", "direct"),
)
_HEDGES_PAUSE_S = 0.2
_HEDGE = """
    select count(*) filter (
               where taskq.hedge_task(t.campaign_id, t.task_id, t.lease_id, 'chaos')) as hedged
      from (
          select t.campaign_id, t.task_id, t.lease_id
            from taskq.state t
           where t.status = 'working'
           order by random()
           limit 4
      ) t
"""
#: How tasks end, and how many of a thousand: what they do, and how long they take at most.
_SORTS: tuple[tuple[int, dict[str, Any], float], ...] = (
    (965, {"good_from": 1}, 0.01),
    (10, {"good_from": 1}, 2.5),
    (10, {"good_from": 2, "otherwise": "retry"}, 0.002),
    (5, {"good_from": 3, "otherwise": "error"}, 0.1),
    (5, {"good_from": None, "otherwise": "fail"}, 0.002),
    (3, {"good_from": None, "otherwise": "error"}, 0.002),
    (2, {"good_from": 2, "otherwise": "crash"}, 0.002),
)


class Seeder:
    """Sees to it that some tasks wait, until it gets the order to stop.

    chunk: tasks that it adds at a time; backlog: of fewer that wait, it adds more.
    """

    chunk, backlog = 250, 1_000

    def __init__(self, farm: Ground, seed: int, stop: threading.Event) -> None:
        self._campaign = farm.clients_campaign
        self._history = Writer(farm.history, "seeder")
        self._draw = random.Random(seed)
        self._stop = stop
        self._seeded = 0
        self.recent: deque[str] = deque(maxlen=_RECENT)

    def run(self) -> None:
        """Seed in chunks; most are sent until they are acknowledged."""
        while not self._stop.is_set():
            chunk = self._chunk()
            keys = [seed.key for seed in chunk]
            self._history.note("seeding", keys=keys)
            while not (seeded := self._is_seeded(chunk)) and self._draw.random() < _PATIENCE:
                self._stop.wait(_PAUSE_S)
            if seeded:
                self._history.note("seeded", keys=keys)
                self.recent.extend(key for key in keys if key)
            while not self._stop.is_set() and not self._is_wanted():
                self._stop.wait(_PAUSE_S)

    def _is_seeded(self, chunk: list[Seed]) -> bool:
        try:
            self._campaign.seed(chunk)
        except TaskqError:
            return False
        return True

    def _is_wanted(self) -> bool:
        try:
            return self._campaign.status().waiting < self.backlog
        except TaskqError:
            return False

    def _chunk(self) -> list[Seed]:
        chunk = []
        for _ in range(self.chunk):
            self._seeded += 1
            priority = self._draw.choice((0, 0, 0, 1))
            chunk.append(Seed(self._payload(self._draw), f"task-{self._seeded:06}", priority))
        return chunk

    def _payload(self, draw: random.Random) -> dict[str, Any]:
        weights = [weight for weight, _, _ in _SORTS]
        ((_, sort, most_s),) = draw.choices(_SORTS, weights)
        return {**sort, "takes_s": draw.uniform(0, most_s)}


class Operator:
    """Cancels tasks, and retries some of those and some that failed, until its stop."""

    def __init__(self, farm: Farm, seed: int, seeder: Seeder, stop: threading.Event) -> None:
        self._campaign = farm.clients_campaign
        self._history = Writer(farm.history, "operator")
        self._draw = random.Random(seed)
        self._seeder = seeder
        self._stop = stop

    def run(self) -> None:
        """Give an order every now and then, and repeat it until it is acknowledged."""
        while not self._stop.wait(_ORDERS_PAUSE_S):
            if not self._seeder.recent:
                continue
            key = self._draw.choice(self._seeder.recent)
            if self._draw.random() < 0.5:
                self._order("cancel", key)
                if self._draw.random() < 0.5:
                    self._order("retry", key, "cancelled")
            else:
                self._order("retry", key, "failed")

    def _order(self, verb: str, key: str, status: str = "") -> None:
        self._history.note("ordering", verb=verb, key=key)
        moved = self._moved(verb, key, status)
        while moved is None and not self._stop.wait(_PAUSE_S):
            moved = self._moved(verb, key, status)
        if moved is not None:
            self._history.note("ordered", verb=verb, key=key, moved=moved)

    def _moved(self, verb: str, key: str, status: str) -> int | None:
        try:
            if verb == "cancel":
                return self._campaign.cancel([key])
            return self._campaign.retry(status=status, keys=[key])
        except TaskqError:
            return None


class Manager:
    """Changes priorities, and cancels and retries sets of tasks, until it gets the order to stop.

    changed: of how many tasks it has changed the priority. swept: how many sets it has moved.
    """

    def __init__(self, farm: Farm, seed: int, seeder: Seeder, stop: threading.Event) -> None:
        self._campaign = farm.clients_campaign
        self._history = Writer(farm.history, "manager")
        self._draw = random.Random(seed)
        self._seeder = seeder
        self._stop = stop
        self.changed = self.swept = 0

    def run(self) -> None:
        """Steer by keys and by a filter; what got no answer is not repeated."""
        while not self._stop.wait(_STEERING_PAUSE_S):
            if self._seeder.recent:
                with suppress(TaskqError):
                    self.changed += self._steer()
                with suppress(TaskqError):
                    self._sweep()

    def _sweep(self) -> None:
        verb, word = self._draw.choice(("cancel", "retry")), f"{self._draw.randrange(100):02}"
        word += self._draw.choice("0123456789") if verb == "cancel" else ""
        self._history.note("sweeping", verb=verb, word=word)
        act = self._campaign.cancel if verb == "cancel" else self._campaign.retry
        moved = act(where=f'key ~ "{word}"')
        self._history.note("swept")
        self.swept += moved > 0

    def _steer(self) -> int:
        if self._draw.random() < 0.5:
            keys = self._draw.choices(self._seeder.recent, k=_RECENT // 4)
            levels = {key: self._draw.randint(0, 3) for key in keys}
            return self._campaign.prioritise(levels).changed
        where = f'state = "waiting" and key ~ "{self._draw.randrange(100):02}"'
        return self._campaign.set_priority(self._draw.randint(0, 3), where=where)


class Reader:
    """Reads all results with a cursor until its stop. recent: the keys of the last ones."""

    def __init__(self, farm: Farm, stop: threading.Event) -> None:
        self._campaign = farm.clients_campaign
        self._history = Writer(farm.history, "reader")
        self._stop = stop
        self._cursor = Cursor()
        self.recent: deque[str] = deque(maxlen=_RECENT)

    def run(self) -> None:
        """Look for what has come or gone; a look may break off anywhere."""
        while not self._stop.wait(_LOOKS_PAUSE_S):
            with suppress(TaskqError):
                self.look(self._campaign)

    def look(self, campaign: Campaign) -> None:
        """Look once, and write down what that gave, also if it breaks off."""
        gone: list[tuple[str, int]] = []
        given: list[tuple[str, int]] = []
        try:
            for result in campaign.results(since=self._cursor):
                found = gone if isinstance(result, WithdrawnResult) else given
                found.append((result.key, result.attempt))
        finally:
            self.recent.extend(key for key, _ in given)
            if gone or given:
                self._history.note("read", gone=gone, given=given)


class Counting:
    """Looks all the time how many starts count towards the limit. most: the most that it saw."""

    def __init__(self, farm: Farm, stop: threading.Event) -> None:
        self._client = farm.client
        self._stop = stop
        self.most = 0

    def run(self) -> None:
        """Look until its stop; each look is one snapshot."""
        while not self._stop.wait(_COUNTS_PAUSE_S):
            with suppress(TaskqError):
                self.most = max(self.most, *(named.used for named in self._client.limits.list()))


class Inspector:
    """Withdraws results that were read, until its stop. withdrawn: how many."""

    def __init__(self, farm: Farm, seed: int, reader: Reader, stop: threading.Event) -> None:
        self._campaign = farm.clients_campaign
        self._history = Writer(farm.history, "inspector")
        self._draw = random.Random(seed)
        self._reader = reader
        self._stop = stop
        self.withdrawn = 0

    def run(self) -> None:
        """Withdraw one result after the other, by key or by a filter, if it is still there.

        What got no answer is not repeated: a task may have been done and withdrawn twice by then.
        """
        while not self._stop.wait(_WITHDRAWALS_PAUSE_S):
            if self._reader.recent:
                with suppress(TaskqError):
                    self._withdraw(self._draw.choice(self._reader.recent))

    def _withdraw(self, key: str) -> None:
        self._history.note("withdrawing", key=key)
        if self._draw.random() < 0.5:
            moved = self._campaign.retry(status="done", keys=[key])
        else:
            moved = self._campaign.retry(where=f'key = "{key}" and status = done')
        self._history.note("withdrew", moved=moved)
        self.withdrawn += moved


class Warden:
    """Bans a host or a site, and lifts the ban, until it gets the order to stop. banned: how often.

    The last ban may stay: at the end all agents there must have the order to leave. It is next to
    the database, so that no order of its own is carried out after it was given up.
    """

    def __init__(self, farm: Farm, seed: int, stop: threading.Event) -> None:
        self._fleet = farm.client.fleet
        self._history = Writer(farm.history, "warden")
        self._draw = random.Random(seed)
        self._stop = stop
        self.banned = 0

    def run(self) -> None:
        """Ban one place at a time, for a while."""
        while not self._stop.wait(_BANS_PAUSE_S):
            place = self._draw.choice(_PLACES)
            while not self._is_done(partial(self._fleet.ban, *place, why="chaos")):
                time.sleep(_PAUSE_S)
            self._history.note("banned", kind=place[0], name=place[1])
            self.banned += 1
            if self._stop.wait(self._draw.uniform(0, _BAN_S)):
                return
            self._history.note("lifting")
            while not self._is_done(partial(self._fleet.unban, *place)):
                time.sleep(_PAUSE_S)

    @staticmethod
    def _is_done(act: Callable[[], object]) -> bool:
        try:
            act()
        except TaskqError:  # the server is coming up
            return False
        return True


class Hedger:
    """Hedges attempts, whether they are slow or not, until its stop. hedged: how many."""

    def __init__(self, farm: Farm, stop: threading.Event) -> None:
        self._dsn = farm.dsn("hedger")
        self._stop = stop
        self.hedged = 0

    def run(self) -> None:
        """Hedge one attempt after the other; what got no answer is not repeated."""
        while not self._stop.wait(_HEDGES_PAUSE_S):
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(self._dsn, autocommit=True) as connection,
            ):
                row = connection.execute(_HEDGE).fetchone()
                self.hedged += row[0] if row else 0
