"""Causes in what stands between agents and their tasks: the network, and the database."""

from __future__ import annotations

import random
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import psycopg

from tests.drill.drawn.case import Problem, cause
from tests.drill.drawn.farm import Farm
from tests.drill.drawn.forms import ALWAYS, CHANCE, PAIR, SINCE, SIZE, Form
from tests.drill.drawn.symptoms import AWAY, STUCK
from tests.drill.stage import Host
from tests.helpers.relay import Relay

_LONG_BYTES: Final = 8_192
_LIE: Final = "<html><title>Please log in</title>Your session has ended.</html>"
_WORDS: Final = "no heartbeat|lost|silent|network|proxy|answer|never|come through"
_IDLE: Final = "idle|free|wait for answers|answers take"
_SLOW_S: Final = 2.5


class Way(Relay):
    """The way of a site to a gateway. mode: clear, dead, lies, slow, cuts (long answers), drops."""

    def __init__(self, url: str, certificate: str, chance: random.Random) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        super().__init__(listener)
        self.url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        self.mode = "clear"
        self._chance = chance
        self._port = int(url.rpartition(":")[2])
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._trusting.check_hostname = False
        self._trusting.verify_mode = ssl.CERT_NONE

    def welcome(self, client: socket.socket) -> socket.socket:
        """Return the connection, with TLS."""
        if self.mode == "dead":
            raise OSError
        client.settimeout(5.0)
        return self._context.wrap_socket(client, server_side=True)

    def connect(self) -> socket.socket:
        """Return a connection to the gateway, or to somebody who lies."""
        if self.mode == "lies":
            ours, theirs = socket.socketpair()
            threading.Thread(target=_lie, args=(theirs,), daemon=True).start()
            return ours
        plain = socket.create_connection(("127.0.0.1", self._port))
        return self._trusting.wrap_socket(plain, server_hostname="127.0.0.1")

    def passes(self, answer: bytes) -> bool:
        """Return whether an answer goes on."""
        if self.mode == "cuts":
            return len(answer) <= _LONG_BYTES
        if self.mode == "drops":
            return self._chance.random() < 0.3
        if self.mode == "slow":
            time.sleep(_SLOW_S)
        return self.mode in {"clear", "slow"} or _LIE.encode() in answer


def _lie(client: socket.socket) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(_LIE)}\r\n\r\n"
    with suppress(OSError), client:
        while client.recv(65_536):
            client.sendall((head + _LIE).encode())


@cause("network")
def network(farm: Farm, form: Form, chance: random.Random) -> Problem:
    """Let the way of a site, or of a host, to the gateway be bad."""
    name, hosts = farm.take_site()
    late = form.is_late
    if form.name == PAIR:  # nobody can miss a host that has never been there
        hosts, late = hosts[:1], True
    modes = ("dead", "lies", "slow", "frozen")[: 4 if form.is_late else 3]
    mode = {SIZE: "cuts", CHANCE: "drops"}.get(form.name) or chance.choice(modes)
    if mode == "frozen":
        return _frozen_gateway(farm, name, hosts)
    stage = farm.stage
    way = Way(stage.urls[0], str(stage.folder / "gateway.pem"), chance)
    stage.stack.enter_context(way)
    if mode == "cuts":
        farm.bulk = True

    def become() -> None:
        way.mode = mode

    def begin() -> None:
        if not late:
            become()
        for host in hosts:
            host.start(gateways=[way.url])

    return Problem(
        f"way of site {name}{'' if form.name != PAIR else f' x host {hosts[0].name}'}: {mode}",
        (name, *(host.name for host in hosts)),
        _IDLE if mode == "slow" else _WORDS,
        AWAY,
        {name, *(host.name for host in hosts)},
        before=begin,
        strike=become if late else lambda: None,
        mend=lambda: setattr(way, "mode", "clear"),
    )


def _frozen_gateway(farm: Farm, name: str, hosts: Sequence[Host]) -> Problem:
    """Let the only gateway that a site knows do nothing."""
    url = farm.stage.gateway()
    process = farm.stage.gateways[-1]

    def begin() -> None:
        for host in hosts:
            host.start(gateways=[url])

    return Problem(
        f"gateway of site {name} is frozen",
        (name, *(host.name for host in hosts), "gateway"),
        "no heartbeat|lost|silent|no sign",
        AWAY,
        {name, *(host.name for host in hosts)},
        before=begin,
        strike=partial(process.send_signal, signal.SIGSTOP),
        mend=partial(process.send_signal, signal.SIGCONT),
    )


class Stranger:
    """A session of PostgreSQL that keeps something to itself."""

    def __init__(self, dsn: str, statement: str) -> None:
        self._dsn, self._statement = dsn, statement
        self._session: psycopg.Connection | None = None

    def keep(self) -> None:
        """Run the statement in a transaction that stays open."""
        self._session = psycopg.connect(self._dsn)
        self._session.execute(self._statement.encode())

    def let_go(self) -> None:
        """End the session."""
        if self._session is not None:
            with suppress(psycopg.Error):
                self._session.close()

    def keep_a_while(self, seconds: float) -> None:
        """Keep it for so long."""
        self.keep()
        time.sleep(seconds)
        self.let_go()


@cause("database")
def database(farm: Farm, form: Form, chance: random.Random) -> Problem:
    """Let somebody else use the database badly, or set it badly."""
    dsn = farm.stage.database.dsn
    problem = Problem(
        "",
        ("session", "database", "server", "PostgreSQL"),
        "lock|stood still|stands still",
        STUCK,
        {*farm.stage.hosts, *farm.stage.sites, *farm.stage.campaigns},
    )
    if form.name == SIZE:
        return _set(problem, dsn, "statement_timeout", "3ms")
    if form.name == ALWAYS:
        return _set(problem, dsn, "default_transaction_read_only", "on")
    if form.name == SINCE and chance.choice(("lock", "standby")) == "standby":
        return _waits_for_standby(problem, dsn)
    table = chance.choice(("task", "session", "attempt", "bundle", "delta"))
    statement = f"lock table taskq.{table}"
    problem.what = f"database: {table} is locked {form.name}"
    if form.name == PAIR:
        path = farm.take_campaign()
        number = farm.stage.client.campaign(path).status().campaign_id
        statement = f"select from taskq.span where campaign_id = {number} for update"
        problem.what, problem.campaign = f"database x {path}: its tasks are locked", path
    stranger = Stranger(dsn, statement)
    problem.strike, problem.mend = stranger.keep, stranger.let_go
    if form.name == CHANCE:
        ends: list[Callable[[], None]] = []
        problem.strike = lambda: ends.append(farm.every(2.0, partial(stranger.keep_a_while, 8.0)))
        problem.mend = lambda: [stop() for stop in ends]
    return problem


def _set(problem: Problem, dsn: str, setting: str, value: str) -> Problem:
    """Let the database have a setting."""
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]

    def change(line: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as session:
            session.execute(b"set default_transaction_read_only = off; set statement_timeout = 0")
            session.execute(f'alter database "{name}" {line}'.encode())
            session.execute(_END_OTHERS)

    problem.what, problem.words = f"database: {setting} = {value}", f"{setting}|read-only"
    problem.strike = partial(change, f"set {setting} = '{value}'")
    problem.mend = partial(change, f"reset {setting}")
    return problem


def _waits_for_standby(problem: Problem, dsn: str) -> Problem:
    """Let commits wait for a standby that is not there."""

    def change(line: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as session:
            session.execute(line.encode())
            session.execute(b"select pg_reload_conf()")

    problem.what, problem.words = "database: commits wait for a standby", "standby"
    problem.strike = partial(change, "alter system set synchronous_standby_names = 'gone'")
    problem.mend = partial(change, "alter system reset synchronous_standby_names")
    return problem


_END_OTHERS: Final = b"""select pg_terminate_backend(pid) from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid()
   and backend_type = 'client backend'"""
