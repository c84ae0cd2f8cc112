"""The best calls of one run are the arguments of the next."""

from __future__ import annotations

import psycopg
import pytest

import taskq
from taskq import Client, Seed
from taskq.model.errors import CampaignPaused
from tests.payloads import called

WAIT_S = 120.0


@pytest.mark.thorough
def test_the_best_calls_are_the_next_stage(served_queue: Client, name: str) -> None:
    """Mappings keep their keys, other arguments are themselves; of equal ones the first."""
    ligands = [Seed({"smiles": "C" * (1 + n % 3), "n": n}, f"t{n}") for n in range(9)]
    run = served_queue.map(called.scored, ligands, name=name)
    run.wait(WAIT_S)  # else the best so far may begin, with warnings, that are not the best of all
    best = run.best(percent=100, by="score", group="smiles", timeout=WAIT_S)
    again = served_queue.map(called.scored, best, name=f"{name}/next")
    outcomes = list(again.outcomes(WAIT_S))
    assert sorted(one.key for one in outcomes) == ["t0", "t1", "t2"]
    scores = [one.value["score"] for one in outcomes]
    assert scores == sorted(scores)
    squares = served_queue.map(called.square, [3, 1, 2], name=f"{name}/squares")
    assert list(squares.best(n=2, by="value", timeout=WAIT_S)) == [1, 2]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.*had begun and are not among the best")  # at times
def test_the_next_stage_goes_while_the_first_does(near_queue: Client, name: str) -> None:
    """Asked while calls run, `map` waits with agents at work; what is left is that of the end."""
    run = near_queue.map(called.scored, [{"smiles": "C" * n} for n in range(1, 41)], name=name)
    best = run.best(percent=10, by="score", timeout=WAIT_S)
    with taskq.local_agents(near_queue, 2, name):
        refined = near_queue.map(called.scored, best, name=f"{name}/next")
        outcomes = list(refined.outcomes(WAIT_S))
    assert not run.status().unfinished
    chosen = [one.payload for one in run.best(percent=10, by="score")]
    assert [one.argument for one in outcomes] == chosen
    assert len(outcomes) == 4
    again = near_queue.map(called.scored, run.best(percent=10, by="score"), name=f"{name}/next")
    assert [one.key for one in again.outcomes(WAIT_S)] == [one.key for one in outcomes]


def test_a_stage_that_pauses_ends_the_wait_for_its_best(near_queue: Client, name: str) -> None:
    """Nobody would wait for ever."""
    near_queue.create_campaign(name).pause()  # agents of other tests serve all that is open
    first = f"{name}/first"
    run = near_queue.map(called.scored, [{"smiles": "C"}], name=first)
    with pytest.raises(TimeoutError):
        near_queue.map(called.scored, run.best(n=1, by="score", timeout=0.1), name=f"{name}/next")
    run.campaign.pause()
    with psycopg.connect(near_queue.database.dsn) as connection:
        connection.execute("update taskq.campaign set paused_why = 'why' where path = %s", [first])
    with pytest.raises(CampaignPaused, match="why"):
        near_queue.map(called.scored, run.best(n=1, by="score"), name=f"{name}/next")
