"""A campaign under load while an engine is struck; its end is judged by exports and the audit."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import redis

from taskq import CampaignSpec, Client, Handler, Seed
from taskq.model.errors import Unavailable
from tests.fixtures.gateways import GatewayProcess, Realm
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import PAYLOADS, ROOT
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult
from tests.integration.gateway.site import Site

FILES = ROOT / "docs" / "high-availability"
#: Seconds within which everything happens that must happen; the machine may be busy.
LATER_S = 120.0
#: What a gateway, whose log is empty otherwise, may say while an engine is away.
SAID = ("database", "trying again", "works", "front", "refilling", "the heartbeats")
TAKES_S = 0.05
SLOTS = 4
#: Tasks that are added at a time, seconds of work.
BATCH = 400


def program(name: str, package: str) -> str:
    """Return the path of a program, which must be installed."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, f"these tests need {name}: `apt-get install {package}` as root"
    return found


def configured(name: str, changes: Mapping[str, str]) -> str:
    """Return a file of docs/high-availability with other values; each must be in it."""
    text = (FILES / name).read_text(encoding="utf-8")
    for there, here in changes.items():
        assert there in text, there
        text = text.replace(there, here)
    return text


def is_master(server: RedisServer) -> bool:
    """Return whether a server has been promoted; Sentinels then cut its connections."""
    try:
        return bool(server.admin.info("replication")["role"] == "master")
    except redis.ConnectionError:
        return False


class Load:
    """A campaign that gets tasks as long as they are wanted, and agents of a gateway for them."""

    def __init__(self, queue: Client, gateway: GatewayProcess, folder: Path) -> None:
        self.gateway = gateway
        self._site = Site(folder)
        self._place = Realm(queue, gateway)
        self._folder = folder
        self._tasks = 0
        handler = Handler("python", target="unhurried:run")
        params = self._site.params(takes_s=TAKES_S)
        self.path = f"{self._place.path}/c"
        self._campaign = queue.create_campaign(
            CampaignSpec(self.path, handler=handler, params=params)
        )

    @contextmanager
    def running(self, agents: int = 2) -> Iterator[None]:
        """Have agents work meanwhile; then see all tasks done, and the agents leave as ordered."""
        with ExitStack() as stack:
            started = [
                stack.enter_context(
                    self._site.node(self._place.site).at_work(
                        self.gateway.url, path=PAYLOADS, slots=SLOTS
                    )
                )
                for _ in range(agents)
            ]
            self.goes_on()
            yield
            self.goes_on()
            wait_until(self._is_done, timeout_s=LATER_S, on_timeout=self._said)
            for process in started:
                process.terminate()
            ended = [AgentResult(process) for process in started]
        assert [result.code for result in ended] == [0] * agents, [result.err for result in ended]

    def until(self, condition: Callable[[], bool], said: Callable[[], str] = str) -> None:
        """Wait for a condition, and add tasks meanwhile, so that agents always have some."""

        def look() -> bool:
            if self._tasks - self._begun() < BATCH / 2:
                self._feed()
            return condition()

        wait_until(look, timeout_s=LATER_S, on_timeout=lambda: said() + self._said())

    def goes_on(self) -> None:
        """See that some tasks are begun from now on."""
        begun = self._begun()
        self.until(lambda: self._begun() >= begun + BATCH / 4)

    def hits(self) -> int:
        """Return how many claims were served from the front."""
        reply = self.gateway.ask("GET", "/metrics", token=self._place.manager)
        found = re.search(r"^taskq_front_hits_total (\S+)$", reply.body.decode(), re.MULTILINE)
        assert found, reply
        return int(float(found[1]))

    def assert_whole(self, *, once: bool) -> None:
        """Each task has one result, the right one, in the export; the audit finds nothing.

        once: no task was executed twice either.
        """
        line = CommandLine(self.gateway.dsn)
        file = self._folder / "export.jsonl"
        line.out("export", self.path, "--to", file)
        records = [json.loads(line) for line in file.read_text().splitlines()]
        results = sorted((record["payload"]["n"], record["result"]["twice"]) for record in records)
        assert results == [(n, 2 * n) for n in range(self._tasks)]
        assert line.json("audit", self.path) == []
        executions = self._site.executions()
        assert set(executions) == set(range(self._tasks))
        if once:
            assert executions.total() == self._tasks

    def _begun(self) -> int:
        return len(self._site.executions())

    def _feed(self) -> None:
        """Add tasks. What is not acknowledged is added again, as users do."""
        batch = range(self._tasks, self._tasks + BATCH)
        with suppress(Unavailable):
            self._campaign.seed(Seed({"n": n}, str(n)) for n in batch)
            self._tasks += BATCH

    def _is_done(self) -> bool:
        with suppress(Unavailable):
            return self._campaign.status().done == self._tasks
        return False

    def _said(self) -> str:
        return f"{self._begun()} of {self._tasks} tasks were begun: {self.gateway.errors()}"
