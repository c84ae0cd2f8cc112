"""Libraries that take an executor, a pool or `map`: docs/python.md lists what is tested here."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import as_completed
from typing import Any

import numpy as np
import pytest

import taskq
from taskq import Client, Executor
from tests.helpers.paths import ROOT
from tests.payloads import called

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the libraries

WAIT_S = 120.0


@pytest.fixture
def executor(served_queue: Client) -> Iterator[Executor]:
    """Give an executor whose calls agents of this machine serve."""
    with Executor(served_queue) as found:
        yield found


@pytest.mark.thorough
@pytest.mark.longer
def test_scikit_learn_searches_and_validates(served_queue: Client) -> None:
    """The same as here; arrays are stored once, estimators come back if they are trusted."""
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.model_selection import GridSearchCV, cross_validate  # noqa: PLC0415

    values, classes = datasets.make_classification(2_000, 50, random_state=7)
    search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, cv=2)
    here = search.fit(values, classes).cv_results_["mean_test_score"]
    with taskq.joblib(served_queue, trust=["sklearn"]):
        there = search.fit(values, classes).cv_results_["mean_test_score"]
        model = LogisticRegression(C=0.5)
        made = cross_validate(model, values, classes, cv=2, return_estimator=True)
    assert there == pytest.approx(here)
    assert [value.C for value in made["estimator"]] == [0.5, 0.5]
    campaigns = served_queue.campaign("/calls").children()
    sizes = {
        n: i.size
        for campaign in campaigns
        for n, i in campaign.inputs().items()
        if n.endswith("npy")
    }
    assert sum(size > values.nbytes for size in sizes.values()) == 1


SEARCH = """
import sys, warnings
import numpy as np
import taskq
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from taskq.db.connections import Database

{before}
values = np.linspace(0, {top}, 80).reshape(20, 4) ** 2
search = GridSearchCV(Ridge(), {{"alpha": {alphas}}}, cv=2, verbose={verbose})
with taskq.Client(Database(sys.argv[1]).open()) as queue, taskq.joblib(queue):
    search.fit(values, values.sum(axis=1))
    {after}
"""


@pytest.mark.thorough
@pytest.mark.longer
@pytest.mark.parametrize(
    "others",
    [
        [{}, {"before": "warnings.simplefilter('ignore', RuntimeWarning)"}, {"verbose": 3}],
        [{"after": "search.fit(values, values.sum(axis=1))"}, {"alphas": [0.1, 1.0, 10.0]}],
    ],
    ids=["the same", "more"],
)
def test_search_of_scikit_learn_computes_no_fit_again(
    served_queue: Client, near_queue: Client, others: list[dict[str, object]]
) -> None:
    """In another process, with other warnings, on a fitted search, or with more to search.

    scikit-learn puts a fresh identity, the time and the whole search into each call.
    """
    pytest.importorskip("sklearn")
    dsn, top = near_queue.database.dsn, secrets.randbelow(1_000_000) + 1  # fits of its own

    def searched(changes: dict[str, object]) -> int:
        """Return how many fits are stored after a search in a process of its own."""
        usual = {"before": "", "alphas": [0.1, 1.0], "verbose": 0, "after": "", "top": top}
        argv = [sys.executable, "-W", "ignore", "-c", SEARCH.format(**usual | changes), dsn]
        subprocess.run(argv, check=True, timeout=WAIT_S, stdout=subprocess.DEVNULL)
        return sum(
            child.total
            for child in served_queue.campaign("/calls").child_statuses()
            if "/fit_and_score-" in child.path
        )

    first = searched({})
    assert first >= 4
    for changes in others:
        assert searched(changes) == first + (2 if "alphas" in changes else 0), changes


@pytest.mark.thorough
def test_scipy_maps_its_workers(executor: Executor) -> None:
    """Populations and grids are evaluated on agents."""
    optimize = pytest.importorskip("scipy.optimize")
    found = optimize.differential_evolution(
        optimize.rosen,
        [(0, 2), (0, 2)],
        workers=executor.map,
        updating="deferred",
        popsize=4,
        maxiter=3,
        rng=7,
        polish=False,
    )
    here = optimize.differential_evolution(
        optimize.rosen,
        [(0, 2), (0, 2)],
        updating="deferred",
        popsize=4,
        maxiter=3,
        rng=7,
        polish=False,
    )
    assert found.x == pytest.approx(here.x)
    ranges = (slice(0, 2, 1), slice(0, 2, 1))
    best = optimize.brute(optimize.rosen, ranges, workers=executor.map, finish=None)
    assert best.tolist() == [1, 1]


@pytest.mark.thorough
def test_dask_computes_on_the_pool(executor: Executor) -> None:
    """Delayed functions and arrays, with the scheduler that takes a pool."""
    dask = pytest.importorskip("dask")
    total = dask.delayed(sum)([dask.delayed(called.square)(n) for n in range(4)])
    assert total.compute(scheduler="threads", pool=executor) == 14
    array = pytest.importorskip("dask.array")
    ones = array.ones((100, 100), chunks=50)
    assert ones.sum().compute(scheduler="threads", pool=executor) == 10_000


@pytest.mark.thorough
def test_tqdm_shows_what_comes(executor: Executor, served_queue: Client, name: str) -> None:
    """Futures, values and outcomes."""
    tqdm = pytest.importorskip("tqdm").tqdm
    futures = [executor.submit(called.square, n) for n in range(4)]
    with tqdm(as_completed(futures, WAIT_S), total=4) as bar:
        assert sorted(value.result() for value in bar) == [0, 1, 4, 9]
        assert bar.n == 4
    with tqdm(executor.map(called.square, range(4)), total=4) as bar:
        assert [*bar] == [0, 1, 4, 9]
    run = served_queue.map(called.square, range(4), name=name)
    with tqdm(run.as_completed(WAIT_S), total=len(run)) as bar:
        assert sorted(value.value for value in bar) == [0, 1, 4, 9]


def test_asyncio_runs_in_the_executor(executor: Executor) -> None:
    """Several at a time, and exceptions."""

    async def work() -> list[Any]:
        loop = asyncio.get_running_loop()
        calls = (loop.run_in_executor(executor, called.refuse, n) for n in (0, 1, 2))
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), WAIT_S)

    values = asyncio.run(work())
    assert (values[0], values[2]) == (0, 2)
    assert isinstance(values[1], called.BadLigand)


def test_executor_takes_what_numpy_is(executor: Executor) -> None:
    """Arrays go in and out, by `map` of several iterables."""
    values = [*executor.map(np.add, [np.ones(3), np.zeros(2)], [1, 2], timeout=WAIT_S)]
    assert [value.tolist() for value in values] == [[2.0] * 3, [2.0] * 2]


@pytest.mark.parametrize("library", ["scikit-learn", "SciPy", "Dask", "tqdm", "asyncio"])
def test_page_lists_what_was_run(library: str) -> None:
    """With the line that runs it."""
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    assert f"| {library} |" in page
