"""A pickle is read without `trust` only if this user's agent reported it to this user's server."""

from __future__ import annotations

import base64
import json
import os
import pickle
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import taskq
from taskq import Client, Executor
from taskq.compute.outcomes import OutcomeReader
from taskq.compute.run import Run
from taskq.compute.trust import ResultReader, own_results
from taskq.db.connections import Database
from taskq.model.errors import ResultNotTrusted
from taskq_agent import buffers
from taskq_agent.handlers.calls import pickled
from tests.fixtures.gateways import Realm
from tests.fixtures.logins import Staff
from tests.fixtures.queues import Hire
from tests.helpers.scripted_agent import ScriptedAgent
from tests.payloads.shapes import Odd

WAIT_S = 100.0


class Bomb:
    """What makes a folder when its pickle is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def result_of(value: object) -> dict[str, Any]:
    """Return the result that holds a pickle, as an agent reports it."""
    text = json.dumps(pickled(value), default=buffers.as_base64)
    return {"value": {"$pickle": json.loads(text)}}


def run_at(queue: Client, path: str) -> Run[Any]:
    """Return a run of one call of a function by value."""
    return queue.map(lambda smiles: smiles, ["CCO"], name=path)


@pytest.fixture
def own(dsn: str) -> Iterator[Client]:
    """Give the test's queue as one on this user's own server."""
    with Client(Database(dsn).open(), embedded=True) as queue:
        yield queue


def test_results_of_own_agents_at_the_own_server_need_no_trust(own: Client, hire: Hire) -> None:
    """By runs, rows and futures; the same result on a server of others does."""
    run = run_at(own, "/own")
    agent = hire("/own")
    (task,) = agent.claim()
    agent.done(task, result_of([Odd("CCO")]))
    assert run.result(WAIT_S)[0][0].smiles == "CCO"
    assert own.run("/own").frame()["value"][0][0].smiles == "CCO"
    (outcome,) = Client(own.database).run("/own").outcomes(WAIT_S)
    with pytest.raises(ResultNotTrusted, match="trust="):
        _ = outcome.value


@pytest.mark.thorough
def test_local_agents_of_the_own_server_give_objects_of_any_class(own: Client) -> None:
    """As plain futures, in chunks, large ones, from an executor."""
    with taskq.local_agents(own, 2, "/"):
        assert own.submit(lambda: Odd("C")).result(WAIT_S).smiles == "C"
        several = own.map(lambda n: Odd("C" * n), [1, 2, 3], name="/several", chunksize=2)
        assert [odd.smiles for odd in several.result(WAIT_S)] == ["C", "CC", "CCC"]
        large = own.submit(lambda: Odd("C" * 400_000)).result(WAIT_S)
        assert len(large.smiles) == 400_000
        with Executor(own) as executor:
            assert executor.submit(Odd, "CC").result(WAIT_S).smiles == "CC"


def test_result_that_came_by_a_gateway_is_not_trusted(realm: Realm, tmp_path: Path) -> None:
    """At the own server too: anyone with a site's token may have made it."""
    bomb = tmp_path / "made"
    with Client(Database(realm.queue.database.dsn).open(), embedded=True) as mine:
        run = run_at(mine, f"{realm.path}/f")
        agent = realm.agent()
        (task,) = agent.claim()
        assert agent.report(task, result=result_of(Bomb(bomb))) == ["accepted"]
        with pytest.raises(ResultNotTrusted, match="Bomb"):
            run.result(WAIT_S)
    assert not bomb.exists()


def test_token_reports_nothing_in_the_name_of_an_own_agent(realm: Realm, tmp_path: Path) -> None:
    """Even if it has learnt the lease: else its result would be trusted as that agent's."""
    bomb = tmp_path / "made"
    with Client(Database(realm.queue.database.dsn).open(), embedded=True) as mine:
        run = run_at(mine, f"{realm.path}/f")
        own_agent = ScriptedAgent(mine.database, run.path)
        (held,) = own_agent.claim()
        thief = realm.agent()
        stolen = {"campaign": held.campaign, "task": held.task, "lease": str(held.lease)}
        assert thief.report(stolen, result=result_of(Bomb(bomb))) == ["unknown"]
        own_agent.done(held, result_of(Odd("CCO")))
        assert run.result(WAIT_S)[0].smiles == "CCO"
        own_agent.close()
    assert not bomb.exists()


def test_result_that_was_read_before_an_own_one_took_its_place_is_not_trusted(
    realm: Realm, tmp_path: Path
) -> None:
    """It is judged by the attempt that it is of."""
    bomb = tmp_path / "made"
    with Client(Database(realm.queue.database.dsn).open(), embedded=True) as mine:
        run = run_at(mine, f"{realm.path}/f")
        stranger = realm.agent()
        (task,) = stranger.claim()
        stranger.report(task, result=result_of(Bomb(bomb)))
        reader = OutcomeReader(
            mine.queries,
            run.campaign.campaign_id,
            ResultReader(is_own=own_results(mine.queries, embedded=True)),
        )
        (planted,) = run.campaign.results()
        run.campaign.retry(status="done", keys=[planted.key])
        own_agent = ScriptedAgent(mine.database, run.path)
        (held,) = own_agent.claim()
        own_agent.done(held, result_of(Odd("CCO")))
        own_agent.close()
        assert run.result(WAIT_S)[0].smiles == "CCO"
        with pytest.raises(ResultNotTrusted):
            reader.value(planted.task_id, planted.attempt, planted.result)
    assert not bomb.exists()


@pytest.mark.thorough
def test_nothing_is_own_where_another_login_may_report(staff: Staff, tmp_path: Path) -> None:
    """A login with a role could report in the name of any session."""
    bomb = tmp_path / "made"
    with Client(Database(staff.owner.database.dsn).open(), embedded=True) as mine:
        run = run_at(mine, f"/{secrets.token_hex(6)}")
        agent = ScriptedAgent(mine.database, run.path)
        (task,) = agent.claim()
        agent.done(task, result_of(Odd("CCO")))
        assert run.result(WAIT_S)[0].smiles == "CCO"
        again = run_at(mine, f"/{secrets.token_hex(6)}")
        login = staff.login("agent")
        with Client(Database(login.dsn).open()) as stranger:
            forging = ScriptedAgent(mine.database, again.path)
            (task,) = forging.claim()
            details = json.dumps({"result": result_of(Bomb(bomb))})
            words = {"task": task.task, "lease": task.lease, "outcome": "done", "details": details}
            assert stranger.database.value("report", path=again.path, **words) == "accepted"
        with pytest.raises(ResultNotTrusted):
            again.result(WAIT_S)
        agent.close()
        forging.close()
    assert not bomb.exists()


def test_argument_needs_no_seal_to_be_refused_as_a_result(own: Client, hire: Hire) -> None:
    """A function by name has no pickled results, also if an own agent reports one."""
    run = own.map(abs, [1], name="/named")
    agent = hire("/named")
    (task,) = agent.claim()
    data = base64.b64encode(pickle.dumps(1)).decode()
    agent.done(task, {"value": {"$pickle": ["builtins:int", data]}})
    with pytest.raises(ResultNotTrusted, match="by name"):
        run.result(WAIT_S)
