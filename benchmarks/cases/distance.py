"""Agents, gateway and database far from each other."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.cases.crowds import Crowd
from benchmarks.findings import Finding, Goal, not_measured
from benchmarks.gateways import HOST, RunningGateways, running_gateways
from benchmarks.load.work import LoadTarget, LoadWork
from benchmarks.stage import Bench
from benchmarks.turns import compare
from benchmarks.wan import delayed
from taskq.db.connections import Database
from taskq.model.errors import ServerUnsuitable

ROUND_TRIP_S: Final = 0.25
DATABASE_ROUND_TRIP_S: Final = 0.025
PORT: Final = 6432
"""Names a socket; there is no TCP."""


def agents(bench: Bench) -> Iterator[Finding]:
    """Let 1,000 agents be a quarter of a second away from their gateway."""
    scale, work = bench.scale, LoadWork(bench.scale.agents_far, spread_s=ROUND_TRIP_S)
    most = work.agents / ROUND_TRIP_S
    with bench.stage() as stage, running_gateways(stage.database.dsn, 1, bench.folder) as gateways:
        target = "{0.host}:{0.port}".format(*gateways.addresses)
        listener = socket.create_server((HOST, 0), backlog=work.agents)
        far = RunningGateways((LoadTarget(*listener.getsockname()),), gateways.pids)
        with listener, delayed(listener, target, ROUND_TRIP_S / 2):
            crowd = Crowd(stage, work.agents, scale.seconds)
            compared = compare(
                lambda: crowd.rate(far, work),
                lambda: most,
                scale.rounds,
            )
    yield compared.finding(
        f"{work.agents:,} agents, {1_000 * ROUND_TRIP_S:g} ms from their gateway and back",
        "tasks/s",
        "agents / round trip",
        Goal(0.9),
    )


def database(bench: Bench) -> Iterator[Finding]:
    """Let the database be 25 ms away from the gateway of 2,000 agents, next to none."""
    scale, work = bench.scale, LoadWork(bench.scale.agents_far_database)
    what = f"{work.agents:,} agents, gateway {1_000 * DATABASE_ROUND_TRIP_S:g} ms from the database"
    with bench.stage() as stage, ExitStack() as entered:
        try:
            dsn = entered.enter_context(far_address(stage.database, bench.folder))
        except ServerUnsuitable as error:
            yield not_measured(what, str(error))
            return
        far = entered.enter_context(running_gateways(dsn, 1, bench.folder))
        near = entered.enter_context(running_gateways(stage.database.dsn, 1, bench.folder))
        crowd = Crowd(stage, work.agents, scale.seconds)
        compared = compare(
            lambda: crowd.rate(far, work),
            lambda: crowd.rate(near, work),
            scale.rounds,
        )
    yield compared.finding(what, "tasks/s", "the same near it", Goal(0.7))


@contextmanager
def far_address(database: Database, folder: Path) -> Iterator[str]:
    """Give an address of a database at which it is 25 ms away; raise `ServerUnsuitable`.

    Only for a server at a socket of this machine. folder: for the socket of the proxy.
    """
    (server,) = database.rows("benchmarks.sql/server")
    if not server["here"]:
        raise ServerUnsuitable("the server is not reached by a socket of this machine")
    target = f"{server['socket_dir']}/.s.PGSQL.{server['port']}"
    path = folder / f".s.PGSQL.{PORT}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        try:
            listener.listen()
            with delayed(listener, target, DATABASE_ROUND_TRIP_S / 2):
                yield f"host={folder} port={PORT} user={server['role']} dbname={server['database']}"
        finally:
            path.unlink()
