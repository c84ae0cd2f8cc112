"""joblib on a queue: its calls are tasks, and happen once."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed

import taskq
from taskq import Campaign, Client
from taskq.model.errors import InvalidTask
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_until
from tests.payloads import called
from tests.payloads.called import BadLigand

EXAMPLE = ROOT / "examples" / "joblib-backend"
WAIT_S = 120.0


@pytest.fixture
def served(served_queue: Client) -> Iterator[Client]:
    """Give a queue that agents serve, to which joblib's calls go."""
    with taskq.joblib(served_queue):
        yield served_queue


@pytest.fixture
def unserved(queue: Client) -> Iterator[Client]:
    """Give a queue without agents, to which joblib's calls go."""
    with taskq.joblib(queue):
        yield queue


def campaign_of(queue: Client, name: str) -> Campaign:
    """Return the campaign of a function's calls."""
    (found,) = [child for child in queue.campaign("/calls").children() if f"/{name}-" in child.path]
    return found


def test_calls_are_computed_once_whatever_the_batches(served: Client) -> None:
    """In order, with names; asked again, in batches, only what is new."""
    calls = [delayed(called.square)(n, power=3) for n in range(8)]
    assert Parallel(timeout=WAIT_S)(calls[:6]) == [n**3 for n in range(6)]
    assert Parallel(timeout=WAIT_S, batch_size=3)(calls) == [n**3 for n in range(8)]
    assert campaign_of(served, "square").status().total == 8


def test_shared_argument_is_read_once_in_each_process(served: Client) -> None:
    """So its calls see what earlier ones have done to it."""

    def mark(n: int, values: list[int]) -> tuple[int, int]:
        values.append(n)
        return os.getpid(), len(values)

    values = [*range(4_000)]
    seen = Parallel(timeout=WAIT_S)(delayed(mark)(n, values) for n in range(12))
    for process in {pid for pid, _ in seen}:
        lengths = sorted(length for pid, length in seen if pid == process)
        assert lengths == [*range(4_001, 4_001 + len(lengths))]
    (pickled,) = (name for name in campaign_of(served, "mark").inputs() if name.endswith(".pickle"))
    assert pickled


@pytest.mark.thorough
def test_equal_calls_of_one_parallel_each_happen(served: Client) -> None:
    """As draws without a seed; a later one finds these, and computes what is more."""
    assert served

    def draw() -> float:
        return random.random()

    first = Parallel(timeout=WAIT_S)(delayed(draw)() for _ in range(3))
    second = Parallel(timeout=WAIT_S)(delayed(draw)() for _ in range(4))
    assert len(set(second)) == 4
    assert second[:3] == first


@pytest.mark.thorough
def test_exception_comes_back_as_itself(served: Client) -> None:
    """With the traceback from the agent; what cannot be sent is an error as well."""
    assert served
    with pytest.raises(BadLigand) as raised:
        Parallel(timeout=WAIT_S)(delayed(called.refuse)(n) for n in (2, 3, 4))
    assert raised.value.number == 3
    assert "in refuse" in str(raised.value.__cause__)
    with pytest.raises(InvalidTask, match="cannot be sent"):
        Parallel(timeout=WAIT_S)(delayed(called.same)(threading.Lock()) for _ in range(2))


@pytest.mark.thorough
def test_large_arguments_are_stored_once(served: Client) -> None:
    """By place and by name, arrays and others; processes map the array into memory."""

    def weighted(n: int, values: Any, m: int, *, weights: Any) -> tuple[float, str, bool]:
        total = float(n * m * values[: len(weights)].sum() * len(weights["ones"]))
        return total, type(values).__name__, values.flags.writeable

    many, weights = np.ones(6_000_000), {"ones": [*range(4_000)]}
    calls = [delayed(weighted)(n, many, 3, weights=weights) for n in range(3)]
    values = Parallel(timeout=WAIT_S)(calls)
    assert values == [(12_000.0 * n, "memmap", False) for n in range(3)]
    campaign = campaign_of(served, "weighted")
    assert all(len(str(task.payload)) < 100 for task in campaign.tasks())
    assert sorted(name.rpartition(".")[2] for name in campaign.inputs()) == ["npy", "pickle", "zip"]
    assert max(value.size for value in campaign.inputs().values()) == pytest.approx(
        many.nbytes, 0.001
    )


@pytest.mark.thorough
def test_pickle_that_was_replaced_is_not_read(served: Client, tmp_path: Path, name: str) -> None:
    """By somebody who may change inputs, and may not send pickles."""

    def first(values: list[str], n: int) -> str:
        return values[n]

    many = [f"{name}-{n}" for n in range(1_000)]
    assert Parallel(timeout=WAIT_S)([delayed(first)(many, 7)]) == [f"{name}-7"]
    campaigns = served.campaign("/calls").children()
    (campaign, file) = max(
        (campaign.campaign_id, campaign, file)
        for campaign in campaigns
        for file in campaign.inputs()
        if file.endswith(".pickle")
    )[1:]
    other = tmp_path / file
    other.write_bytes(pickle.dumps(["x"] * 5_000))
    campaign.add_input(other)
    with pytest.raises(ValueError, match="is not the one that was sent"):
        Parallel(timeout=WAIT_S)([delayed(first)(many, 8)])


@pytest.mark.thorough
def test_nested_calls_stay_in_their_slot(served: Client) -> None:
    """Though they ask for more processes."""
    assert served

    def outer(n: int) -> bool:
        inner = Parallel(n_jobs=4)(delayed(os.getpid)() for _ in range(n))
        return inner == [os.getpid()] * n

    assert Parallel(timeout=WAIT_S)(delayed(outer)(n) for n in (2, 3)) == [True, True]


@pytest.mark.parametrize("choice", [{"prefer": "threads"}, {"n_jobs": 1}])
def test_calls_that_shall_stay_here_do(unserved: Client, choice: dict[str, Any]) -> None:
    """What prefers threads is small, and shares what it reads."""
    assert Parallel(**choice)(delayed(os.getpid)() for _ in range(2)) == [os.getpid()] * 2
    assert unserved.campaign("/").children() == []


@pytest.mark.parametrize("word", ["n_job", "batchsize", "exhaustiveness"])
def test_keywords_that_joblib_does_not_know_are_refused(queue: Client, word: str) -> None:
    """By `taskq.joblib`, and by the `Parallel` within, which would drop them."""
    with pytest.raises(TypeError, match=word):
        taskq.joblib(queue, **{word: 3})
    with taskq.joblib(queue, n_jobs=2, max_nbytes=None), pytest.raises(TypeError, match=word):
        Parallel(**{word: 3})(delayed(called.same)(n) for n in range(2))
    assert queue.campaign("/").children() == []


def test_without_agents_there_is_a_warning_and_leaving_cancels(
    unserved: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone who waits learns why, and leaves nothing that has not begun."""
    monkeypatch.setattr(taskq.compute.waiting, "QUIET_S", 0.2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        values = Parallel(return_as="generator")(delayed(called.same)(n) for n in range(3))
        wait_until(lambda: bool(said), timeout_s=60)
        values.close()
    assert "no agent serves /calls/same-" in str(said[0].message)
    status = unserved.campaign("/calls").status()
    assert (status.waiting, status.cancelled) == (0, 3)


def interrupted(number: int) -> Iterator[Any]:
    """Yield calls; Ctrl-C comes when all are tasks."""
    yield from (delayed(called.same)(n) for n in range(number))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.mark.thorough
def test_calls_cancelled_by_ctrl_c_or_a_timeout_are_computed_when_asked_again(
    unserved: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At once; nothing waits meanwhile."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        Parallel()(interrupted(3))
    with pytest.raises(multiprocessing.TimeoutError):
        Parallel(timeout=0.2)(delayed(called.same)(n) for n in range(3))
    status = unserved.campaign("/calls").status()
    assert (status.waiting, status.cancelled) == (0, 3)
    with taskq.local_agents(unserved, 1, "/calls"):
        assert Parallel(timeout=WAIT_S)(delayed(called.same)(n) for n in range(3)) == [0, 1, 2]


@pytest.mark.thorough
def test_python_of_the_readme_runs(
    served: Client, near_queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As printed."""
    assert served
    monkeypatch.setenv("TASKQ_DSN", near_queue.database.dsn)
    program = re.findall(r"```python\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec("".join(program), names)  # noqa: S102  # it is ours
    assert names["values"] == [1, 1, 2, 6, 24]
    names["queue"].close()


@pytest.mark.thorough
def test_example_computes_once(queue: Client, tmp_path: Path) -> None:
    """Killed, and run twice."""
    argv = [sys.executable, str(EXAMPLE / "conformers.py")]
    environment = os.environ | {
        "TASKQ_DSN": queue.database.dsn,
        "XDG_CACHE_HOME": str(tmp_path),
    }
    with subprocess.Popen(argv, env=environment) as killed:
        wait_until(lambda: queue.campaign("/").status().total > 0, timeout_s=60)
        killed.kill()
    said = [
        subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said[0] == said[1]
    assert len(said[0].splitlines()) == 8
    campaign = campaign_of(queue, "strain")
    assert campaign.status().done == campaign.status().total == 8
