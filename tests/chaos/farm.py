"""A whole farm: PostgreSQL, Redis in front, a keeper, two gateways, agents of both sorts, feeders.

              clients (seed, steer, ban), a feeder ------- way ----+
                                                                   v
agents over HTTP --- way ---> gateway ----------- way -------> PostgreSQL
                                 |                               ^    ^
                                 +----> Redis <--- keeper -------+    |
                                          ^                           |
                                          +------ agents next to the database
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from taskq import Campaign, CampaignSpec, Client, Handler, RetryPolicy
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.embedded import Server
from tests.chaos import funnel
from tests.chaos.clocks import Clock, shim
from tests.chaos.faulty_relay import FaultyRelay
from tests.chaos.parts import AgentPart, AnyPart, Part, RedisPart
from tests.helpers.command_line import PROGRAM
from tests.helpers.paths import PAYLOADS, ROOT
from tests.helpers.waiting import free_port, wait_until

CAMPAIGN = "/chaos"
#: A limit that the campaign may name, and the starts that it allows: of agents' slots, not all.
LIMIT, MOST = "chaos", 7
LEASE_S = 3.0
POOL_S = 4.0
SLOTS = 3
GATEWAYS = 2
FEEDERS = ("feeder-0", "feeder-1")
AGENTS = ("http-0", "http-1", "direct-0", "direct-1")

_READY_S = 60.0
_MAX_LOSSES = 50
_HANDLER = Handler("python", target="noted:run", prepare="noted:prepare")
_BATCHES = Handler(
    "command",
    argv=(sys.executable, str(PAYLOADS / "noted_batch.py"), "{tasks}", "{params.history}"),
    batch=20,
)
_RETRY = RetryPolicy(max_attempts=3, max_losses=_MAX_LOSSES, backoff_s=0.2, backoff_max_s=1.0)


class Ground:
    """What any farm stands on: a database of its own, and what its parts are made of.

    folder: for logs, history and spools; a short path.
    """

    campaign: Campaign
    gateways: list[Part]
    parts: list[AnyPart]

    def __init__(self, server: Server, database: Database, folder: Path, stack: ExitStack) -> None:
        self.server = server
        self.database = database
        self.client = Client(database)
        self.folder = folder
        self._stack = stack
        for name in ("history", "logs", "ways"):
            (folder / name).mkdir()
        self.history = folder / "history"

    def dsn(self, name: str) -> str:
        """Return the address of the database for one part, known by its name there."""
        return make_conninfo(self.database.dsn, application_name=name)

    def _secret(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.touch(mode=0o600)
        file.write_text(text)
        return file

    def _part(
        self,
        name: str,
        words: list[str],
        dsn: str | None = None,
        *,
        program: Sequence[str] = (str(PROGRAM),),
        **reach: str,
    ) -> Part:
        log = self.folder / "logs" / f"{name}.log"
        reach |= {} if dsn is None else {"TASKQ_DSN": dsn}
        part = Part(name, lambda _: [*program, *words], reach, log)
        self._stack.callback(part.close)
        return part


class Farm(Ground):
    """All parts."""

    def __init__(
        self,
        server: Server,
        database: Database,
        folder: Path,
        stack: ExitStack,
        *,
        salvages: bool,
        batches: bool,
        limited: bool,
    ) -> None:
        super().__init__(server, database, folder, stack)
        self.client.limits.set(LIMIT, MOST)
        spec = CampaignSpec(
            CAMPAIGN,
            named_limits=(LIMIT,) if limited else (),
            handler=_BATCHES if batches else _HANDLER,
            retry=_RETRY,
            late_results="salvage" if salvages else "reject",
            hedge=1.0 if salvages else None,
            params={"history": str(self.history)},
        )
        self.campaign = self.client.create_campaign(spec)
        database.rows("begin_front", pool_s=POOL_S)
        self.redis = RedisPart(folder)
        stack.callback(self.redis.close)
        redis = self.redis.server.url
        words = ["keeper", "--redis", redis]
        self.keeper = self._part("keeper", words, self.dsn("keeper"))
        self.gateways: list[Part] = []
        self.agent_ways: list[FaultyRelay] = []
        self.database_ways: dict[str, FaultyRelay] = {}
        self._doors: list[str] = []
        for number in range(GATEWAYS):
            self._add_gateway(number, redis)
        clients = Database(self._dsn_on_a_way("clients")).open()
        stack.callback(clients.close)
        self.clients_campaign = Client(clients).campaign(CAMPAIGN)
        token, _ = self.client.tokens.create("site", "farm", [CAMPAIGN])
        self._token = self._secret("token", token)
        self.client.create_campaign(funnel.NEXT)
        self.feeders = [self._feeder(name, n) for n, name in enumerate(FEEDERS)]
        made = shim(folder)
        self.agents = [self._agent(name, made) for name in AGENTS]
        #: All that can be killed and frozen, but for PostgreSQL and Redis.
        self.parts = [self.keeper, *self.gateways, *self.agents, *self.feeders]

    def start(self) -> None:
        """Start all parts, and wait until the agents have come."""
        for part in self.parts:
            part.start()
        wait_until(lambda: len(self.client.agents()) == len(AGENTS), timeout_s=_READY_S)

    def _dsn_on_a_way(self, name: str) -> str:
        """Lay a way to the database for one part; return the address there."""
        folder = self.folder / "ways" / name
        folder.mkdir()
        known = conninfo_to_dict(self.database.dsn)
        socket = f".s.PGSQL.{known['port']}"
        self.database_ways[name] = self._way(f"{folder}/{socket}", f"{known['host']}/{socket}")
        return make_conninfo(self.dsn(name), host=str(folder))

    def _add_gateway(self, number: int, redis: str) -> None:
        name = f"gateway-{number}"
        port, door = free_port(), free_port()
        words = [
            "gateway",
            "--listen",
            f"127.0.0.1:{port}",
            "--lease",
            f"{LEASE_S:g}",
            "--drain",
            "0",
        ]
        words += ["--no-keeper", "--redis", redis]
        self.gateways.append(self._part(name, words, self._dsn_on_a_way(name)))
        self.agent_ways.append(self._way(("127.0.0.1", door), ("127.0.0.1", port)))
        self._doors.append(f"http://127.0.0.1:{door}")

    def _way(self, here: Any, there: Any) -> FaultyRelay:
        return self._stack.enter_context(FaultyRelay(here, there))

    def _feeder(self, name: str, number: int) -> Part:
        """Return what feeds the next stage: the first over a way, others over a gateway."""
        words = funnel.words(CAMPAIGN)
        if not number:
            return self._part(name, words, self._dsn_on_a_way(name))
        text, _ = self.client.tokens.create("manager", name, ["/"])
        file = self._secret(f"{name}.token", text)
        reach = {"TASKQ_URL": self._doors[0], "TASKQ_TOKEN_FILE": str(file)}
        return self._part(name, words, **reach)

    def _agent(self, name: str, made: Path | None) -> AgentPart:
        kind = name.partition("-")[0]
        words = ["run", "--campaign", CAMPAIGN, "--slots", str(SLOTS), "--ahead", "0.05"]
        words += ["--host", name, "--site", kind]
        words += ["--path", str(PAYLOADS), "--stop", "3", "--payload-grace", "1"]
        words += ["--spool", str(self.folder / "spools" / name), "--farewell", "3", "--grace", "0"]
        if kind == "http":
            words += ["--token-file", str(self._token)]
            words += [word for door in self._doors for word in ("--gateway", door)]
        else:
            words = ["agent", *words, "--lease", f"{LEASE_S:g}"]

        def argv(start: int) -> list[str]:
            program = [sys.executable, "-m", "tests.chaos.witness", kind]
            return [*program, *words, "--name", f"{name}.{start}"]

        environment = {
            "TASKQ_DSN": self.dsn(name),
            "PYTHONPATH": str(ROOT),
            "CHAOS_HISTORY": str(self.history),
        }
        clock = None
        if made is not None:
            clock = Clock(made, self.folder / f"{name}.clock")
            environment |= clock.environment
        part = AgentPart(name, argv, environment, self.folder / "logs" / f"{name}.log")
        part.clock = clock
        self._stack.callback(part.close)
        return part


@contextmanager
def farm(
    server: Server, folder: Path, *, salvages: bool, batches: bool, limited: bool = False
) -> Iterator[Farm]:
    """Give a farm that is at work, on a new database of a server that is up.

    salvages: whether its campaign salvages late results, and is hedged. batches: whether a start
    gets many tasks; such a campaign is not hedged. limited: whether it names a limit; nor is that.
    """
    with scratch(server) as database, ExitStack() as stack:
        built = Farm(
            server, database, folder, stack, salvages=salvages, batches=batches, limited=limited
        )
        built.start()
        yield built


@contextmanager
def scratch(server: Server) -> Iterator[Database]:
    """Give a new database of a server that is up, with the schema."""
    parent = Database(server.up().dsn).open()
    try:
        with parent.scratch() as database:
            migrations.migrate(database)
            yield database
    finally:
        parent.close()
