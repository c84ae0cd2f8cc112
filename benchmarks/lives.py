"""Lives of campaigns: seeded, run, archived elsewhere, removed; several at each stage at once."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.load import clients
from taskq.api.client import Client
from taskq.archives.writing import archive, end_archive
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.handler import Handler
from taskq.planning.trial import sample_seeds
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import DONE, Report, Request

#: Each takes the next campaign once it is seeded, waits for its end, archives and removes it.
ARCHIVERS: Final = 2
#: Campaigns that are there at a time: one of each archiver, one that waits, one that is seeded.
IN_HAND: Final = ARCHIVERS + 2
#: Agents that come for a few tasks of each campaign, and leave.
VISITORS: Final = 3
VISITORS_TASKS: Final = 10
TASKS_OF_A_START: Final = 100
HANDLER: Final = Handler("python", target="benchmarks.payload:scored", batch=TASKS_OF_A_START)
POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Removed:
    """A campaign that has gone. tasks: as many as its archive has; at: when it had gone."""

    tasks: int
    at: float


@dataclass(slots=True)
class Lives:
    """Campaigns that come and go; agents elsewhere run their tasks.

    folder: for the archives, each of which is removed once its campaign has gone.
    """

    database: Database
    folder: Path
    campaigns: int
    tasks: int
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(IN_HAND))
    _seeded: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    _removed: queue.SimpleQueue[Removed] = field(default_factory=queue.SimpleQueue)
    _stop: threading.Event = field(default_factory=threading.Event)

    def live(self, check: Callable[[], None]) -> Iterator[Removed]:
        """Let all campaigns live; yield each that has gone, when it has.

        check: called often; what it raises ends all.
        """
        parts = (self._seed, *[self._archive] * ARCHIVERS)
        with ThreadPoolExecutor(len(parts)) as threads:
            under_way = [threads.submit(part) for part in parts]
            try:
                for _ in range(self.campaigns):
                    yield self._next(under_way, check)
            finally:
                self._stop.set()
                self._room.release()

    def _next(self, under_way: list[Future[None]], check: Callable[[], None]) -> Removed:
        while True:
            check()
            for ended in wait(under_way, 0, FIRST_EXCEPTION).done:
                ended.result()
            try:
                return self._removed.get(timeout=POLL_S)
            except queue.Empty:
                continue

    def _seed(self) -> None:
        client = Client(self.database)
        for number in range(self.campaigns):
            self._room.acquire()
            if self._stop.is_set():
                return
            path = f"/campaign-{number}"
            client.create_campaign(CampaignSpec(path, handler=HANDLER))
            client.campaign(path).seed(sample_seeds(self.tasks))
            self._visit(path)
            self._seeded.put(path)

    def _visit(self, path: str) -> None:
        """Let agents come for some tasks of a campaign, and leave."""
        lease_ids = LeaseIds()
        for _ in range(VISITORS):
            with clients.session(self.database, path) as (transport, session):
                wanted = Request(session, want=VISITORS_TASKS, lease=lease_ids())
                reports = tuple(
                    Report(task.campaign, task.task, task.lease, DONE, result=clients.RESULT)
                    for task in transport.exchange(wanted).tasks
                )
                transport.exchange(Request(session, reports=reports))

    def _archive(self) -> None:
        client, blobs = Client(self.database), open_blobs(self.database)
        while not self._stop.is_set():
            try:
                path = self._seeded.get(timeout=POLL_S)
            except queue.Empty:
                continue
            while client.campaign(path).status().unfinished:
                if self._stop.wait(POLL_S):
                    return
            archived = self.folder / path[1:]
            # As `taskq campaign archive --remove`, whose start takes longer than a small campaign.
            made = archive(self.database, blobs, path, archived, lambda *_: None)
            end_archive(self.database, path, made, remove=True)
            client.campaign(path).remove()
            shutil.rmtree(archived)
            self._removed.put(Removed(made.manifest.tasks, time.perf_counter()))
            self._room.release()
