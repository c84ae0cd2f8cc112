"""Calls of Python functions on two agents of this machine, next to executors of processes."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import os
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any, Final, Protocol

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
#: Goals: of a single call, of calls in flight, and of cheap calls that are chunked.
LATENCY_MS: Final = 15.0
IN_FLIGHT_RATE: Final = 1_500.0
CHEAP_S: Final = 10.0
WAIT_S: Final = 600.0

Function = Callable[[Any], Any]


class CallPool(Protocol):
    """What calls functions on other processes."""

    def map(self, function: Function, arguments: Iterable[Any], /) -> Iterable[Any]:
        """Return the values."""

    def submit(self, function: Function, argument: Any, /) -> Any:
        """Return a future."""


def called(bench: Bench) -> Iterator[Finding]:
    """Call functions: one call, 20 in flight, no-ops, cheap calls, and arrays as results."""
    with bench.stage() as stage, taskq.local_agents(stage.client, SLOTS, "/"):
        numbers = count()
        _warm(stage)
        yield _latency(stage, numbers)
        yield _in_flight(stage, numbers, bench.scale.seconds)
        calls, cheap, arrays = bench.scale.calls, bench.scale.cheap_calls, bench.scale.arrays
        single, chunked = Runs(stage.client), Runs(stage.client, chunksize="auto")
        _rate(single, abs, range(IN_FLIGHT))
        yield from _compared(bench, single, "no-ops", abs, range(calls), goals={"Dask": Goal(4.0)})
        for runs, what in ((single, "each a task"), (chunked, 'chunksize="auto"')):
            began = time.perf_counter()
            _rate(runs, abs, range(cheap))
            took_s = time.perf_counter() - began
            goal = Goal(CHEAP_S, "most") if runs is chunked else None
            yield Finding(f"{cheap:,} cheap calls, {what}", took_s, "s", goal=goal)
        goals = {"ProcessPoolExecutor": Goal(0.8)}
        what = 'no-ops, chunksize="auto"'
        yield from _compared(bench, chunked, what, abs, range(cheap // 10), goals=goals)
        with taskq.Executor(stage.client) as executor:
            goals, what = {"Dask": Goal(2.0)}, "calls submitted to an executor"
            yield from _compared(
                bench, executor, what, abs, range(calls), goals=goals, measure=_submitted
            )
            if importlib.util.find_spec("numpy") is None:
                yield not_measured("arrays as results", "numpy is not installed")
                return
            import numpy as np  # noqa: PLC0415  # only this needs it

            goals = {"Dask": Goal(1.0)}
            lengths = NewLengths(arrays)
            yield from _compared(bench, executor, "arrays of 5 MB", np.arange, lengths, goals=goals)


class NewLengths:
    """Lengths of arrays, each time others: equal arrays would be one blob, stored already."""

    def __init__(self, arrays: int) -> None:
        self._arrays = arrays
        self._next = NUMBERS

    def __iter__(self) -> Iterator[int]:
        first, self._next = self._next, self._next + self._arrays
        return iter(range(first, self._next))


class Runs:
    """`Client.map` with these options, a campaign for each."""

    def __init__(self, client: taskq.Client, **options: Any) -> None:
        self._client = client
        self._options = options

    def map(self, function: Function, arguments: Iterable[Any]) -> Iterable[Any]:
        """Return the values."""
        name = f"/map{next(_CAMPAIGNS)}"
        run = self._client.map(function, arguments, name=name, **self._options)
        return run.results(WAIT_S, progress=False)

    def submit(self, function: Function, argument: Any) -> Any:
        """Return a future."""
        return self._client.submit(function, argument)


_CAMPAIGNS: Final = count()


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
    goal = Goal(LATENCY_MS, "most")
    return Finding("a single call, until its value", statistics.median(took), "ms", goal=goal)


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
    what = f"calls with {IN_FLIGHT} in flight"
    return Finding(what, ended / took, "calls/s", goal=Goal(IN_FLIGHT_RATE))


def _rate(caller: CallPool, function: Function, arguments: Iterable[Any]) -> float:
    began = time.perf_counter()
    calls = sum(1 for _ in caller.map(function, arguments))
    return calls / (time.perf_counter() - began)


def _submitted(caller: CallPool, function: Function, arguments: Iterable[Any]) -> float:
    began = time.perf_counter()
    futures = [caller.submit(function, argument) for argument in arguments]
    for future in futures:
        future.result()
    return len(futures) / (time.perf_counter() - began)


def _compared(
    bench: Bench,
    ours: CallPool,
    what: str,
    function: Function,
    arguments: Iterable[Any],
    *,
    goals: Mapping[str, Goal],
    measure: Callable[[CallPool, Function, Iterable[Any]], float] = _rate,
) -> Iterator[Finding]:
    """Compare with the executors that are installed; goals: by their names."""
    for name, others in _others():
        with others as other:
            for caller in (ours, other):
                _rate(caller, function, [*arguments][:IN_FLIGHT])
            compared = compare(
                lambda: measure(ours, function, arguments),
                lambda its=other: measure(its, function, arguments),  # type: ignore[misc]
                min(3, bench.scale.rounds),
            )
        yield compared.finding(what, "calls/s", name, goals.get(name))


def _others() -> Iterator[tuple[str, AbstractContextManager[CallPool]]]:
    yield "ProcessPoolExecutor", concurrent.futures.ProcessPoolExecutor(SLOTS)
    if importlib.util.find_spec("distributed") is not None:
        yield "Dask", _dask()
    if importlib.util.find_spec("parsl") is not None:
        yield "Parsl", _parsl()


class Dask:
    """Dask's client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def map(self, function: Function, arguments: Iterable[Any]) -> Iterable[Any]:
        """Return the values."""
        futures = self._client.map(function, list(arguments), pure=False)
        values: list[Any] = self._client.gather(futures)
        return values

    def submit(self, function: Function, argument: Any) -> Any:
        """Return a future."""
        return self._client.submit(function, argument, pure=False)


@contextmanager
def _dask() -> Iterator[CallPool]:
    distributed: Any = importlib.import_module("distributed")
    with (
        distributed.LocalCluster(SLOTS, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield Dask(client)


class Parsl:
    """An app of Parsl that calls any function."""

    def __init__(self, app: Callable[[Function, Any], Any]) -> None:
        self.submit = app

    def map(self, function: Function, arguments: Iterable[Any]) -> Iterable[Any]:
        """Return the values."""
        futures = [self.submit(function, argument) for argument in arguments]
        return [future.result() for future in futures]


@contextmanager
def _scripts_on_path() -> Iterator[None]:
    """Let Parsl find the programs of its workers, which it starts by name."""
    before = os.environ["PATH"]
    os.environ["PATH"] = sysconfig.get_path("scripts") + os.pathsep + before
    try:
        yield
    finally:
        os.environ["PATH"] = before


@contextmanager
def _parsl() -> Iterator[CallPool]:
    parsl: Any = importlib.import_module("parsl")
    local: Any = importlib.import_module("parsl.providers").LocalProvider(max_blocks=1)
    here = {"address": "127.0.0.1", "loopback_address": "127.0.0.1"}

    def call(function: Function, argument: Any) -> Any:
        return function(argument)

    with tempfile.TemporaryDirectory() as folder, _scripts_on_path():
        executor = parsl.HighThroughputExecutor(
            "two", max_workers_per_node=SLOTS, provider=local, **here
        )
        config = parsl.Config([executor], run_dir=folder, initialize_logging=False)
        with parsl.load(config):
            yield Parsl(parsl.python_app(call))
