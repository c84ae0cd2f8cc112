"""Stage of the cases: scratch databases with a campaign, on a given server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.load.clients import Clients, Load
from benchmarks.scale import Scale
from taskq.api.client import Client
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.ingest.seeding import SeedCount
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.handler import Handler
from taskq.model.retry_policy import RetryPolicy
from taskq.planning.trial import CAMPAIGN, sample_seeds
from taskq.upkeep.keeper import Keeper

APART: Final = Load(2, 4, 1, CAMPAIGN)
"""8 clients, one task at a time, that share nothing."""

TELL_S: Final = 5.0
POLL_S: Final = 0.05

Tell: TypeAlias = Callable[[str], None]


class Stage:
    """A scratch database with one campaign, whose failed tasks may be tried again at once."""

    def __init__(self, database: Database, tell: Tell) -> None:
        migrations.migrate(database)
        self.database = database
        self.client = Client(database)
        self._tell = tell
        self.add(CAMPAIGN)

    def add(self, path: str) -> None:
        """Create a campaign that can be claimed in; nothing is ever executed."""
        no_op = Handler("command", argv=("true",))
        retry = RetryPolicy(backoff_s=0)
        self.client.create_campaign(CampaignSpec(path, handler=no_op, retry=retry))

    def seed(self, count: int, path: str = CAMPAIGN) -> None:
        """Add waiting tasks, as users do."""
        reported_at = time.monotonic()

        def progress(so_far: SeedCount) -> None:
            nonlocal reported_at
            if time.monotonic() > reported_at + TELL_S:
                reported_at = time.monotonic()
                self._tell(f"seeded {so_far.added:,} of {count:,} tasks")

        self.client.campaign(path).seed(sample_seeds(count), on_progress=progress)

    def top_up(self, waiting: int, path: str = CAMPAIGN) -> None:
        """Add tasks until at least this many are waiting."""
        missing = waiting - self.client.campaign(path).status().waiting
        if missing > 0:
            self.seed(missing, path)

    def done(self) -> int:
        """Return how many tasks have been done."""
        return self.client.campaign(CAMPAIGN).status().done

    def finish(self, load: Load, tasks: int) -> None:
        """Complete this many tasks with clients."""
        reported_at = time.monotonic()
        before = self.done()
        with Clients(self.database, load) as clients:
            # Counted by the queue: the clients' count lacks reports before they were ready.
            while (done := self.done() - before) < tasks:
                clients.check()
                if time.monotonic() > reported_at + TELL_S:
                    reported_at = time.monotonic()
                    self._tell(f"finished {done:,} of {tasks:,} tasks")
                time.sleep(POLL_S)

    def settle(self) -> None:
        """Bring the statistics up to date, as autovacuum does some time after seeding."""
        self.database.execute("benchmarks.sql/analyze")

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Do the upkeep during the block."""
        stop = threading.Event()
        keeper = threading.Thread(target=Keeper(self.database).run, args=(stop,))
        keeper.start()
        try:
            yield
        finally:
            stop.set()
            keeper.join()


@dataclass(frozen=True, slots=True)
class Bench:
    """Environment of a case.

    folder: for its files; removed afterwards. tell: called with a line about the progress.
    """

    server: Database
    folder: Path
    scale: Scale
    tell: Tell

    @contextmanager
    def stage(self) -> Iterator[Stage]:
        """Give a new database with a campaign; drop it afterwards, whatever happens."""
        with self.server.scratch() as database:
            yield Stage(database, self.tell)
