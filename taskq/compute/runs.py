"""Makes and finds runs and single calls: the function's campaign, and its arguments as tasks."""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeVar

from taskq.campaign import bulk
from taskq.campaign.campaign import Campaign
from taskq.campaign.filter_compiler import compiled
from taskq.compute.best_calls import BestCalls
from taskq.compute.chunks import (
    MEASURED,
    CallSeeds,
    ChunkSize,
    calls_in,
    check_size,
    measured_size,
)
from taskq.compute.functions import Arguments, Function
from taskq.compute.futures import TaskFuture, Watcher
from taskq.compute.outbox import Call, CallOutbox, Lane, retry_cancelled
from taskq.compute.plan import FunctionPlan, MapOptions
from taskq.compute.run import Run
from taskq.compute.trust import IsOwn, ResultReader, Trust
from taskq.db.access import Queries, task_ids
from taskq.db.gateway_queries import home
from taskq.ingest.sources.records import BadLine, Source
from taskq.model.call_settings import CallSettings
from taskq.model.errors import (
    Clash,
    Conflict,
    KeyConflict,
    NotFound,
    UsageError,
)
from taskq.model.given import elements
from taskq.model.seed import STATUSES, Seed, check_path
from taskq.model.views import Status
from taskq_agent.protocol import Input

if TYPE_CHECKING:
    from taskq.compute.local_agents import LocalAgents

T = TypeVar("T")

#: Calls in the first batch, which is small so that agents begin soon, and in the others.
FIRST_BATCH: Final = MEASURED
BATCH: Final = 5_000


def start(
    database: Queries,
    agents: list[LocalAgents],
    function: Callable[..., T],
    arguments: Iterable[Any],
    *,
    name: str,
    trust: Trust,
    is_own: IsOwn,
    options: MapOptions,
    chunksize: ChunkSize = 1,
    batch: int | None = None,
    spread: bool = False,
) -> Run[T]:
    """Seed the campaign `name` with a call for each argument; see `Client.map`.

    spread: each argument is an iterable of the positional arguments of a call.
    """
    check_size(chunksize)
    arguments = elements("arguments", arguments)
    if chunksize != 1 and isinstance(arguments, AbstractSet):
        raise UsageError(
            "the elements of a set have another order in each process, so their chunks would be "
            "computed again: give sorted(them), or leave chunksize out"
        )
    if batch is not None and chunksize != 1:
        raise UsageError("batch does not go with chunksize: each argument of a batch is a task")
    if chunksize != 1 and isinstance(arguments, BestCalls):
        raise UsageError("chunksize does not go with the best of another run")
    called = Function.of(function)
    read = called.reader(trust, is_own)
    with arguments if isinstance(arguments, Source) else nullcontext():  # a file
        campaign = FunctionPlan(database, name, called, batch=batch, **options).prepared()
        make = CallSeeds(Arguments.of(database, campaign, called.defines), spread=spread)
        put = partial(_seeded, database, campaign, agents, make, size=chunksize)
        if isinstance(arguments, BestCalls):
            tasks = arguments.feed(campaign, put)
        else:
            tasks = put(arguments)
    if not tasks and isinstance(arguments, Iterator):
        warnings.warn(
            f"the iterator of arguments for {name} gave none: one that was used before is empty. "
            "Give a list to use it twice",
            stacklevel=4,
        )
    if campaign.status(below=False).cancelled:
        retry_cancelled(database, campaign.campaign_id, tasks)
    return Run(database, campaign, called.name, tasks, read=read, agents=agents)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in the list of `Client.runs`. status: the campaign's own counts."""

    path: str
    function: str
    description: str
    status: Status


def stored(database: Queries, path: str | None) -> list[StoredRun]:
    """Return the runs at and below a path, ordered by path; see `Client.runs`."""
    path = path or home(database) or "/"
    counts = {
        row["path"]: row for row in database.rows("counts", path=check_path(path), depth=None)
    }
    # A campaign that is made between the two statements is in the next list.
    return [
        StoredRun(**row, status=Status(**counts[row["path"]]))
        for row in database.rows("runs", path=path)
        if row["path"] in counts
    ]


def attached(
    database: Queries, path: str, *, trust: Trust, is_own: IsOwn, agents: list[LocalAgents]
) -> Run[Any]:
    """Return the run that is stored at a path; see `Client.run`."""
    row = database.row("campaign", path=check_path(path))
    if row is None:
        raise NotFound(
            f"no run {path}: `queue.runs()` lists those there are, and `queue.map(function, "
            f"arguments, name={path!r})` makes this one"
        )
    handler = row["settings"]["handler"] or {}
    if handler.get("kind") != "function":
        raise Conflict(
            f"{path} is a campaign that holds no calls of a function: "
            f"`queue.campaign({path!r})` reads it, and `queue.runs()` lists the runs"
        )
    campaign = Campaign(database, row["campaign_id"], path)
    tasks = array("q")  # without their payloads, in the order of seeding
    for page in bulk.pages(database, campaign.campaign_id, compiled(None), STATUSES):
        for row in page.rows:
            tasks.extend(repeat(row["task_id"], calls_in(row["key"])))
    homes = [handler["target"].partition(":")[0]] if "target" in handler else []
    by_value = handler.get("archive") is not None
    read = ResultReader(trust, is_own=is_own, by_value=by_value, homes=homes)
    return Run(database, campaign, handler["name"], tasks, read=read, agents=agents)


def _seeded(
    database: Queries,
    campaign: Campaign,
    agents: list[LocalAgents],
    make: CallSeeds,
    arguments: Iterable[Any],
    *,
    size: ChunkSize,
) -> array[int]:
    """Seed a call for each argument; return for each the id of its task, in this order."""
    tasks = array("q")
    clashes: list[Clash] = []
    measured = partial(measured_size, database, campaign, tasks)
    for seeds in _batches(make.of(arguments, size, measured)):
        # A pickle may differ from the stored one, though its content and its key are the same.
        campaign.seed(seeds, on_conflict="skip", on_clash=clashes.append)
        for agent in list(agents):
            agent.wake()
        _refuse(clashes, campaign.path)
        keys = [seed.encoded()[0] for seed in seeds if isinstance(seed, Seed)]
        known = task_ids(database, campaign.campaign_id, keys)
        for key in keys:
            tasks.extend(repeat(known[key], calls_in(key)))
    return tasks


class Calls:
    """Single calls of functions, each function in a campaign of its own, with their futures."""

    def __init__(self, database: Queries, agents: list[LocalAgents], is_own: IsOwn) -> None:
        self._database = database
        self._is_own = is_own
        self._outbox = CallOutbox(database, Watcher(database, agents))
        self._home: str | None = None
        self._lanes: dict[tuple[str, str], Lane] = {}

    def submit(
        self,
        function: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        path: str | None = None,
        aside: Mapping[str, Any] | None = None,
        stored: Mapping[str, Input] | None = None,
        trust: Trust = (),
    ) -> TaskFuture[T]:
        """Call a function with arguments, unless it was called before; see `Client.submit`.

        aside: named arguments that do not tell calls apart. stored: inputs of the function's
        campaign. trust: see `Client.map`.
        """
        called = Function.of(function)
        if path is None:
            if self._home is None:
                self._home = home(self._database)
            path = f"{self._home}{called.default_path}"
        if (lane := self._lanes.get((path, called.fingerprint))) is None:
            how: CallSettings = {"max_failure_share": None}
            plan = FunctionPlan(self._database, path, called, stored=stored, **how)
            read = called.reader(trust, self._is_own)
            lane = Lane(self._database, plan.prepared(), read, plan.prepared, called.defines)
            self._lanes[path, called.fingerprint] = lane
        payload, key = lane.arguments.call(args, kwargs, aside or {})
        call = Call.of(lane, payload, key, lambda made: made.call(args, kwargs, aside or {})[0])
        self._outbox.put(lane, [call])
        return call.future

    def close(self) -> None:
        """Wait until all calls are stored."""
        self._outbox.close()


def _batches(seeds: Iterator[Seed | BadLine]) -> Iterator[list[Seed | BadLine]]:
    """Yield seeds that are stored together: those of some number of calls."""
    batch: list[Seed | BadLine] = []
    calls, most = 0, FIRST_BATCH
    for seed in seeds:
        batch.append(seed)
        calls += calls_in(seed)
        if calls >= most:
            yield batch
            batch, calls, most = [], 0, BATCH
    if batch:
        yield batch


def _refuse(clashes: list[Clash], path: str) -> None:
    """Raise `KeyConflict` for records whose own keys are stored with other payloads."""
    odd = [clash for clash in clashes if not clash.key.startswith("sha256:")]
    if odd:
        raise KeyConflict(
            f"{path} has the key {odd[0].key!r} with another payload: {odd[0].stored} instead of "
            f"{odd[0].offered}",
            count=len(odd),
            clashes=odd,
        )
