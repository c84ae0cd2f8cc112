"""Calls of Python functions on two agents of this machine, next to executors of processes."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import taskq
from benchmarks.findings import Finding, Goal, not_measured
from benchmarks.stage import Bench, Stage
from benchmarks.turns import compare

SLOTS: Final = 2
IN_FLIGHT: Final = 20
LATENCIES: Final = 15
#: Between two single calls, so that the agents are idle.
PAUSE_S: Final = 0.2
#: Numbers of an array of 5 MB.
NUMBERS: Final = 655_360
WAIT_S: Final = 600.0

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def called(bench: Bench) -> Iterator[Finding]:
    """Call functions: one call, 20 in flight, no-ops, cheap calls, and arrays as results."""
    with bench.stage() as stage, taskq.local_agents(stage.client, SLOTS, "/"):
        numbers = count()
        _warm(stage)
        yield _latency(stage, numbers)
        yield _in_flight(stage, numbers, bench.scale.seconds)
        calls, cheap, arrays = bench.scale.calls, bench.scale.cheap_calls, bench.scale.arrays
        runs = count()

        def ours(function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterable[Any]:
            run = stage.client.map(function, arguments, name=f"/map{next(runs)}")
            return run.results(WAIT_S, progress=False)

        _rate(ours, abs, range(IN_FLIGHT))
        yield from _beside(bench, ours, "no-ops", abs, range(calls))

        def chunked(function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterable[Any]:
            name = f"/map{next(runs)}"
            run = stage.client.map(function, arguments, name=name, chunksize="auto")
            return run.results(WAIT_S, progress=False)

        for how, what in ((ours, "each a task"), (chunked, 'chunksize="auto"')):
            began = time.perf_counter()
            _rate(how, abs, range(cheap))
            took_s = time.perf_counter() - began
            yield Finding(f"{cheap:,} cheap calls, {what}", took_s, "s")
        if importlib.util.find_spec("numpy") is None:
            yield not_measured("arrays as results", "numpy is not installed")
            return
        import numpy as np  # noqa: PLC0415  # only this needs it

        yield from _beside(bench, ours, "arrays of 5 MB", np.zeros, [NUMBERS] * arrays)


def _warm(stage: Stage) -> None:
    """Let each slot start its child."""
    calls = [stage.client.submit(time.sleep, 0.3 + number / 1_000) for number in range(2 * SLOTS)]
    concurrent.futures.wait(calls)


def _latency(stage: Stage, numbers: Iterator[int]) -> Finding:
    took: list[float] = []
    for _ in range(LATENCIES):
        time.sleep(PAUSE_S)
        began = time.perf_counter()
        stage.client.submit(abs, next(numbers)).result(WAIT_S)
        took.append(1_000 * (time.perf_counter() - began))
    return Finding("a single call, until its value", statistics.median(took), "ms")


def _in_flight(stage: Stage, numbers: Iterator[int], seconds: float) -> Finding:
    pending: set[concurrent.futures.Future[int]] = {
        stage.client.submit(abs, next(numbers)) for _ in range(IN_FLIGHT)
    }
    ended, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        done, pending = concurrent.futures.wait(
            pending, return_when=concurrent.futures.FIRST_COMPLETED
        )
        ended += len(done)
        pending |= {stage.client.submit(abs, next(numbers)) for _ in done}
    took = time.perf_counter() - began
    concurrent.futures.wait(pending)
    return Finding(f"calls with {IN_FLIGHT} in flight", ended / took, "calls/s")


def _beside(
    bench: Bench,
    ours: Map,
    what: str,
    function: Callable[[Any], Any],
    arguments: Iterable[Any],
) -> Iterator[Finding]:
    """Compare with the executors that are installed."""
    for name, others, goal in _others():
        with others as its_map:
            _rate(its_map, abs, range(IN_FLIGHT))
            compared = compare(
                lambda: _rate(ours, function, arguments),
                lambda its=its_map: _rate(its, function, arguments),  # type: ignore[misc]
                min(3, bench.scale.rounds),
            )
        yield compared.finding(what, "calls/s", name, goal)


def _others() -> Iterator[tuple[str, Any, Goal | None]]:
    yield "ProcessPoolExecutor", _of_processes(), None
    if importlib.util.find_spec("distributed") is not None:
        yield "Dask", _of_dask(), Goal(1.0)


def _rate(its_map: Map, function: Callable[[Any], Any], arguments: Iterable[Any]) -> float:
    began = time.perf_counter()
    calls = sum(1 for _ in its_map(function, arguments))
    return calls / (time.perf_counter() - began)


@contextmanager
def _of_processes() -> Iterator[Map]:
    with concurrent.futures.ProcessPoolExecutor(SLOTS) as executor:
        yield executor.map


@contextmanager
def _of_dask() -> Iterator[Map]:
    distributed: Any = importlib.import_module("distributed")
    with (
        distributed.LocalCluster(SLOTS, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield lambda function, arguments: client.gather(
            client.map(function, list(arguments), pure=False)
        )
