"""The agents of a load do what they count, and tell of what would falsify a figure."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import measurement
from benchmarks.gateways import RunningGateways, running_gateways
from benchmarks.load import sessions
from benchmarks.load.agent_load import AgentLoad
from benchmarks.load.work import Credentials, LoadWork
from benchmarks.stage import Stage
from taskq.db.connections import Database
from taskq.model.errors import Conflict
from taskq.planning.trial import CAMPAIGN
from tests.helpers.postgres import Postgres, value

pytestmark = pytest.mark.thorough

AGENTS = 6
WORK = LoadWork(AGENTS, processes=2)
SOON_S = 100.0


@pytest.fixture
def stage(database: Database) -> Stage:
    return Stage(database, lambda _: None)


@pytest.fixture
def gateways(stage: Stage, tmp_path: Path) -> Iterator[RunningGateways]:
    with running_gateways(stage.database.dsn, 1, tmp_path) as started:
        yield started


def opened(stage: Stage) -> tuple[Credentials, ...]:
    return sessions.opened(stage.database, CAMPAIGN, AGENTS)


def test_every_task_that_the_load_counts_as_reported_is_done_in_the_database(
    stage: Stage, gateways: RunningGateways
) -> None:
    """Each agent of the load has a session of its own."""
    stage.seed(5_000)
    with AgentLoad(WORK, gateways.addresses, opened(stage)) as load:
        load.warm(0)
        load.wait(lambda totals: totals.reported >= 100, SOON_S)
        totals = load.totals()
    assert totals.errors == {}
    assert stage.client.campaign(CAMPAIGN).status().done >= totals.reported


def test_every_agent_of_a_load_holds_what_it_wants(
    stage: Stage, gateways: RunningGateways, postgres: Postgres
) -> None:
    """In a session of its own, and never more."""
    stage.seed(2_000)
    with AgentLoad(replace(WORK, rate=20.0, want=2), gateways.addresses, opened(stage)) as load:
        load.warm(0)
        load.wait(lambda totals: totals.reported > 0, SOON_S)
    rows = postgres.execute(
        "select count(*) as held from taskq.state where status = 'working' group by session_id"
    ).fetchall()
    assert [row["held"] for row in rows] == [2] * AGENTS


def test_agents_that_enroll_are_served_each_once(
    stage: Stage, gateways: RunningGateways, postgres: Postgres
) -> None:
    """Each opens one session and is content with one task."""
    stage.seed(100)
    token = sessions.enrolment_token(stage.database, CAMPAIGN)
    work = replace(WORK, enrol=token, campaign=CAMPAIGN, content=True, spread_s=0.1)
    with AgentLoad(work, gateways.addresses) as load:
        load.wait(lambda totals: totals.served == AGENTS, SOON_S)
        totals = load.totals()
    assert (totals.claimed, totals.errors) == (AGENTS, {})
    assert value(postgres, "select count(*) from taskq.session") == AGENTS
    assert stage.client.campaign(CAMPAIGN).status().working == AGENTS


def test_agents_of_the_load_send_heartbeats_while_they_wait(
    stage: Stage, gateways: RunningGateways
) -> None:
    """Idle agents cost what idle agents cost."""
    stage.seed(1)  # with none the campaign would be finished
    work = replace(WORK, wait_s=30.0, beat_s=1.0, content=True)
    with AgentLoad(work, gateways.addresses, opened(stage)) as load:
        load.wait(lambda totals: totals.beats >= 2 * AGENTS, SOON_S)
        assert load.totals().errors == {}


def test_unknown_agents_count_as_refused_and_not_as_idle(
    stage: Stage, gateways: RunningGateways
) -> None:
    """Otherwise their silence would look like a lack of tasks."""
    strangers = [
        Credentials(credentials.session, f"{credentials.token[:-1]}_")
        for credentials in opened(stage)
    ]
    with AgentLoad(WORK, gateways.addresses, strangers) as load:
        load.wait(lambda totals: totals.refused == AGENTS, SOON_S)


def test_gateway_that_vanishes_is_noticed(stage: Stage, gateways: RunningGateways) -> None:
    """A rate that was measured meanwhile is no figure."""
    stage.seed(20_000)
    with AgentLoad(WORK, gateways.addresses, opened(stage)) as load:
        load.warm(0)
        os.kill(gateways.pids[0], signal.SIGKILL)
        load.wait(lambda totals: totals.broken >= AGENTS, SOON_S)
        with pytest.raises(Conflict, match="broken"):
            measurement.check(replace(load.watch(0.0), totals=load.totals()))


def test_agents_that_run_out_of_tasks_give_no_figure(
    stage: Stage, gateways: RunningGateways
) -> None:
    """A rate measured while nothing is waiting would be too low."""
    stage.seed(2)
    lone = replace(WORK, agents=1)  # of several, one might take all before another has its first
    with pytest.raises(Conflict, match="ran out of tasks"):
        measurement.run(stage.database, gateways, lone, opened(stage), 0.2)


def test_load_that_is_interrupted_leaves_no_process(
    stage: Stage, gateways: RunningGateways
) -> None:
    """Ctrl-C ends the agents."""
    stage.seed(1_000)
    with pytest.raises(KeyboardInterrupt), AgentLoad(WORK, gateways.addresses, opened(stage)):
        raise KeyboardInterrupt
    assert multiprocessing.active_children() == []
