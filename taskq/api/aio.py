"""The submitters' API for asyncio: twins of `Client`, `Campaign` and `Run`.

    async with await aio.connect() as queue:
        value = await queue.submit(pow, 2, 10)
        run = await queue.map(function, arguments, name="/demo")
        async for outcome in run.as_completed():
            ...

A twin has the methods of its original, with the same arguments. Iterate with `async for` over what
returns an iterator, and await everything else. `AsyncClient.submit` gives the value of the call
instead of a future. Each call that is under way has a thread, since the original blocks one.
Cancelling a wait ends the wait; the task goes on. Cancelling a call whose value is awaited cancels
its task if that has not begun, as futures do.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, TypeAlias, TypeVar, overload

from typing_extensions import ParamSpec, Self, TypeVarTuple, Unpack

from taskq.api.client import Client
from taskq.api.connecting import connect as connect_now
from taskq.campaign.campaign import Campaign
from taskq.compute.outcomes import Outcome
from taskq.compute.run import Run
from taskq.diagnosis.maintenance import Maintenance
from taskq.diagnosis.troubles import Troubles
from taskq.ingest.sources.records import BadLine
from taskq.model.pauses import fail, in_thread
from taskq.model.seed import Seed

if TYPE_CHECKING:
    from taskq.compute.chunks import ChunkSize
    from taskq.compute.plan import MapOptions, StarOptions
    from taskq.compute.trust import Trust

_END: Final = object()

A = TypeVar("A")
T = TypeVar("T")
P = ParamSpec("P")
As = TypeVarTuple("As")
_Call: TypeAlias = Callable[P, Coroutine[Any, Any, T]]


async def connect(
    address: str | None = None,
    *,
    token_file: str | Path | None = None,
    ca: str | Path | None = None,
) -> AsyncClient:
    """Connect to a queue, as `taskq.connect` does."""
    return AsyncClient(await in_thread(connect_now, address, token_file=token_file, ca=ca))


class Awaited(Generic[P, T]):
    """A method of a twin, with the arguments of the original's, whose result `make` turns."""

    def __init__(
        self, method: Callable[Concatenate[Any, P], Any], make: Callable[[Any], T]
    ) -> None:
        self.method: Final = method
        self._make = make

    def __get__(self, twin: _Twin[Any], _: type) -> _Call[P, T]:
        @functools.wraps(self.method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return self._make(await in_thread(self.method, twin.original, *args, **kwargs))

        return call


class Iterated(Generic[P, T]):
    """A method of a twin, with the arguments of the original's, for `async for`."""

    def __init__(self, method: Callable[Concatenate[Any, P], Iterable[T]]) -> None:
        self.method: Final = method

    def __get__(self, twin: _Twin[Any], _: type) -> Callable[P, AsyncIterator[T]]:
        @functools.wraps(self.method)
        def call(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
            return _items(self.method, twin.original, *args, **kwargs)

        return call


def _same(method: Callable[Concatenate[Any, P], T]) -> Awaited[P, T]:
    return Awaited(method, lambda result: result)


def _campaign(method: Callable[Concatenate[Any, P], Campaign]) -> Awaited[P, AsyncCampaign]:
    return Awaited(method, AsyncCampaign)


class _Twin(Generic[T]):
    """A twin of `original`."""

    def __init__(self, original: T) -> None:
        self.original: Final = original

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.original!r}>"


class AsyncCampaign(_Twin[Campaign]):
    """The twin of a `Campaign`."""

    @property
    def path(self) -> str:
        """The path."""
        return self.original.path

    spec = _same(Campaign.spec)
    change = _same(Campaign.change)
    changes = _same(Campaign.changes)
    recipe = _same(Campaign.recipe)
    add_input = _same(Campaign.add_input)
    inputs = _same(Campaign.inputs)
    fetch_input = _same(Campaign.fetch_input)
    remove_input = _same(Campaign.remove_input)
    status = _same(Campaign.status)
    tree = _same(Campaign.tree)
    hedges = _same(Campaign.hedges)
    closed_by = _same(Campaign.closed_by)
    retention = _same(Campaign.retention)
    learnt_memory = _same(Campaign.learnt_memory)
    children = Awaited(
        Campaign.children, lambda found: [AsyncCampaign(campaign) for campaign in found]
    )
    child_statuses = _same(Campaign.child_statuses)
    seed = _same(Campaign.seed)
    submit = _same(Campaign.submit)
    add = _same(Campaign.add)
    pause = _same(Campaign.pause)
    resume = _same(Campaign.resume)
    cancel = _same(Campaign.cancel)
    retry = _same(Campaign.retry)
    prioritise = _same(Campaign.prioritise)
    set_priority = _same(Campaign.set_priority)
    remove = _same(Campaign.remove)
    files = _same(Campaign.files)
    fetch = _same(Campaign.fetch)
    index = _same(Campaign.index)
    drop_index = _same(Campaign.drop_index)
    indexes = _same(Campaign.indexes)
    task = _same(Campaign.task)
    attempts = _same(Campaign.attempts)
    history = _same(Campaign.history)
    failure_classes = _same(Campaign.failure_classes)
    failure_causes = _same(Campaign.failure_causes)
    usual_run_s = _same(Campaign.usual_run_s)
    trend = _same(Campaign.trend)
    forecast = _same(Campaign.forecast)
    explain = _same(Campaign.explain)
    wait = _same(Campaign.wait)
    results = Iterated(Campaign.results)
    follow = Iterated(Campaign.follow)
    tasks = Iterated(Campaign.tasks)
    logs = Iterated(Campaign.logs)
    failures = Iterated(Campaign.failures)


class AsyncRun(_Twin[Run[T]], Generic[T]):
    """The twin of a `Run`; iterate over its values with `async for`."""

    @property
    def path(self) -> str:
        """The campaign's path."""
        return self.original.path

    @property
    def campaign(self) -> AsyncCampaign:
        """The campaign of the calls."""
        return AsyncCampaign(self.original.campaign)

    def __len__(self) -> int:
        return len(self.original)

    def __aiter__(self) -> AsyncIterator[T]:
        return self.results()

    def results(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> AsyncIterator[T]:
        """Iterate over the values; see `Run.results`."""
        return _items(self.original.results, timeout, progress=progress)

    async def result(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> list[T]:
        """Return all values; see `Run.result`."""
        return await in_thread(self.original.result, timeout, progress=progress)

    def outcomes(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> AsyncIterator[Outcome[T]]:
        """Iterate over the outcomes in order; see `Run.outcomes`."""
        return _items(self.original.outcomes, timeout, progress=progress)

    def as_completed(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> AsyncIterator[Outcome[T]]:
        """Iterate over the outcomes as they come; see `Run.as_completed`."""
        return _items(self.original.as_completed, timeout, progress=progress)

    wait = _same(Run.wait)
    status = _same(Run.status)
    retry = _same(Run.retry)
    cancel = _same(Run.cancel)
    best = _same(Run.best)
    frame = _same(Run.frame)
    arrow = _same(Run.arrow)
    failures = Iterated(Run.failures)


class AsyncTroubles(_Twin[Troubles]):
    """The twin of `Client.troubles`."""

    list = _same(Troubles.list)
    acknowledge = _same(Troubles.acknowledge)
    snooze = _same(Troubles.snooze)
    undo = _same(Troubles.undo)


class AsyncMaintenance(_Twin[Maintenance]):
    """The twin of `Client.maintenance`."""

    list = _same(Maintenance.list)
    start = _same(Maintenance.start)
    end = _same(Maintenance.end)


class AsyncClient(_Twin[Client]):
    """The twin of a `Client`; `async with` closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @overload
    async def map(
        self,
        function: Callable[Concatenate[A, ...], T],
        arguments: Iterable[A],
        *,
        name: str,
        trust: Trust = (),
        chunksize: ChunkSize = 1,
        **options: Unpack[MapOptions],
    ) -> AsyncRun[T]: ...
    @overload
    async def map(
        self,
        function: Callable[..., T],
        arguments: Iterable[Seed | BadLine],
        *,
        name: str,
        trust: Trust = (),
        chunksize: ChunkSize = 1,
        **options: Unpack[MapOptions],
    ) -> AsyncRun[T]: ...
    async def map(
        self, function: Callable[..., T], arguments: Iterable[Any], **how: Any
    ) -> AsyncRun[T]:
        """Call a function for each argument; see `Client.map`."""
        call: Callable[[], Run[T]] = partial(self.original.map, function, arguments, **how)
        return AsyncRun(await in_thread(call))

    @overload
    async def starmap(
        self,
        function: Callable[[Unpack[As]], T],
        arguments: Iterable[tuple[Unpack[As]]],
        *,
        name: str,
        trust: Trust = (),
        chunksize: ChunkSize = 1,
        **options: Unpack[StarOptions],
    ) -> AsyncRun[T]: ...
    @overload
    async def starmap(
        self,
        function: Callable[..., T],
        arguments: Iterable[Iterable[Any]],
        *,
        name: str,
        trust: Trust = (),
        chunksize: ChunkSize = 1,
        **options: Unpack[MapOptions],
    ) -> AsyncRun[T]: ...
    async def starmap(
        self, function: Callable[..., T], arguments: Iterable[Any], **how: Any
    ) -> AsyncRun[T]:
        """Call a function for each tuple of arguments; see `Client.starmap`."""
        call: Callable[[], Run[T]] = partial(self.original.starmap, function, arguments, **how)
        return AsyncRun(await in_thread(call))

    async def run(self, name: str, *, trust: Trust = ()) -> AsyncRun[Any]:
        """Return the run that is stored at a path; see `Client.run`."""
        return AsyncRun(await in_thread(self.original.run, name, trust=trust))

    @overload
    async def submit(
        self, function: Callable[..., T], /, *args: Any, path: str, **kwargs: Any
    ) -> T: ...
    @overload
    async def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call a function once; return the value. See `Client.submit`."""
        return await _value(partial(self.original.submit, function, *args, **kwargs))

    @property
    def troubles(self) -> AsyncTroubles:
        """What is wrong, and who knows of it; see `Client.troubles`."""
        return AsyncTroubles(self.original.troubles)

    @property
    def maintenance(self) -> AsyncMaintenance:
        """Announced maintenance windows; see `Client.maintenance`."""
        return AsyncMaintenance(self.original.maintenance)

    close = _same(Client.close)
    runs = _same(Client.runs)
    agents = _same(Client.agents)
    agent_counts = _same(Client.agent_counts)
    left_agents = _same(Client.left_agents)
    refusals = _same(Client.refusals)
    left_over = _same(Client.left_over)
    usage = _same(Client.usage)
    removed = _same(Client.removed)
    acts = _same(Client.acts)
    drain_agents = _same(Client.drain_agents)
    feed = _same(Client.feed)
    brake = _same(Client.brake)
    recover = _same(Client.recover)
    campaign = _campaign(Client.campaign)
    create_campaign = _campaign(Client.create_campaign)
    best = Iterated(Client.best)
    audit = Iterated(Client.audit)


async def _value(submit: Callable[[], Future[T]]) -> T:
    begun: Future[Future[T]] = Future()

    def begin() -> Future[T]:
        try:
            begun.set_result(submit())
        except BaseException as error:  # noqa: BLE001  # raised below
            begun.set_exception(error)
        return begun.result()

    def cancel() -> None:
        with suppress(Exception):  # nobody waits any more
            begun.result().cancel()

    try:
        called = await in_thread(begin)
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[T] = loop.create_future()

        def tell(call: Future[T]) -> None:
            if ended.done():
                return
            if call.cancelled():
                ended.cancel()
            elif (error := call.exception()) is not None:
                fail(ended, error)
            else:
                ended.set_result(call.result())

        def done(call: Future[T]) -> None:
            with suppress(RuntimeError):  # nobody waits any more, not even the loop
                loop.call_soon_threadsafe(tell, call)

        called.add_done_callback(done)
        return await ended
    except asyncio.CancelledError:
        # Cancelling asks the queue, and the call may be on its way there: the loop must go on.
        threading.Thread(target=cancel, name="taskq-aio", daemon=True).start()
        raise


async def _items(
    method: Callable[P, Iterable[T]], *args: P.args, **kwargs: P.kwargs
) -> AsyncIterator[T]:
    items: Iterator[T] = iter(await in_thread(method, *args, **kwargs))
    following: Callable[[], Any] = partial(next, items, _END)
    while (item := await in_thread(following)) is not _END:
        yield item
