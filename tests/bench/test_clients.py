"""The clients of the benchmark tell of what would falsify a figure, and leave nothing behind."""

from __future__ import annotations

import multiprocessing
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.load import clients
from benchmarks.load.clients import Clients, Load
from benchmarks.meter import held_snapshot
from benchmarks.scale import SHORT
from benchmarks.stage import Bench, Stage
from taskq.db.connections import Database
from taskq.model.errors import Conflict, Unavailable
from taskq.planning.trial import CAMPAIGN
from tests.helpers.postgres import Postgres, value

pytestmark = pytest.mark.thorough

LOAD = Load(1, 2, 1, CAMPAIGN)


@pytest.fixture
def stage(database: Database) -> Stage:
    return Stage(database, lambda _: None)


def test_clients_that_run_out_of_tasks_give_no_figure(stage: Stage) -> None:
    """A rate measured while nothing is waiting would be too low."""
    stage.seed(4)
    with pytest.raises(Conflict, match="ran out of tasks"):
        clients.rate(stage.database, LOAD, 0.3)


def test_failure_of_a_client_process_raises_in_the_benchmark_at_once(stage: Stage) -> None:
    """What went wrong in another process is reported in this one, at once."""
    with pytest.raises(Unavailable, match="no campaign /absent"):
        clients.rate(stage.database, Load(2, 2, 1, "/absent"), 0.1)
    assert multiprocessing.active_children() == []


def test_completed_tasks_are_done_in_the_database(stage: Stage) -> None:
    """What the clients count has happened."""
    stage.seed(200)
    stage.finish(LOAD, 200)
    assert stage.client.campaign(CAMPAIGN).status().done == 200


def test_interrupted_measurement_leaves_no_process_and_no_database(
    server_dsn: str, tmp_path: Path, postgres: Postgres
) -> None:
    """Ctrl-C drops the scratch database and ends the clients."""
    names: list[str] = []

    def interrupted(bench: Bench) -> None:
        with bench.stage() as stage:
            stage.seed(1_000)
            names.append(stage.database.rows("benchmarks.sql/server")[0]["database"])
            with Clients(stage.database, LOAD):
                raise KeyboardInterrupt

    with closing(Database(server_dsn).open()) as server, pytest.raises(KeyboardInterrupt):
        interrupted(Bench(server, tmp_path, SHORT, lambda _: None))
    assert multiprocessing.active_children() == []
    assert value(postgres, "select count(*) from pg_database where datname = %s", *names) == 0


def test_held_snapshot_stands_still_while_others_work(stage: Stage) -> None:
    """What the case says about a held snapshot was measured under one."""
    stage.seed(100)
    with held_snapshot(stage.database):
        stage.finish(LOAD, 100)


def test_snapshot_that_got_lost_is_noticed(stage: Stage, postgres: Postgres) -> None:
    """A figure without the snapshot is not printed as one under it."""
    with pytest.raises((Conflict, Unavailable)), held_snapshot(stage.database):
        postgres.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and backend_xmin is not null"
            " and pid <> pg_backend_pid()"
        )
