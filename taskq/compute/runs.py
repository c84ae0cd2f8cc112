"""Makes and finds runs and single calls: the function's campaign, and its arguments as tasks."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from taskq.campaign import bulk
from taskq.campaign.campaign import Campaign
from taskq.campaign.filter_compiler import compiled
from taskq.compute.functions import Arguments, Function
from taskq.compute.futures import TaskFuture, Watcher
from taskq.compute.plan import FunctionPlan, OnChange
from taskq.compute.run import BestCalls, Run
from taskq.compute.unpickling import ResultReader, Trust
from taskq.db.access import Queries, in_chunks, task_ids
from taskq.ingest.sources.records import BadLine, Source
from taskq.model.errors import Clash, Conflict, InvalidTask, KeyConflict, NotFound
from taskq.model.seed import STATUSES, Seed, check_path
from taskq.model.views import Status

if TYPE_CHECKING:
    from taskq.compute.local_agents import LocalAgents

#: Arguments in the first chunk, which is small so that agents begin soon, and in the others.
FIRST_CHUNK: Final = 100
CHUNK: Final = 5_000


def start(
    database: Queries,
    function: Callable[..., Any],
    arguments: Iterable[Any],
    *,
    name: str,
    inputs: Iterable[str | Path],
    params: Mapping[str, Any],
    on_change: OnChange,
    trust: Trust,
    settings: Mapping[str, Any],
    agents: list[LocalAgents],
) -> Run:
    """Seed the campaign `name` with a call for each argument; see `Client.map`."""
    called = Function.of(function)
    read = ResultReader(trust, by_value=called.target is None)
    with arguments if isinstance(arguments, Source) else nullcontext():  # a file
        plan = FunctionPlan(
            database,
            name,
            called,
            params=params,
            inputs=inputs,
            on_change=on_change,
            settings=settings,
        )
        campaign = plan.prepared()
        put = partial(_seeded, database, campaign)
        if isinstance(arguments, BestCalls):
            tasks = arguments.feed(campaign, put)
        else:
            tasks = put(arguments)
    if campaign.tree()[0].cancelled:
        how = {"status": "cancelled", "error_class": None, "dry_run": False}
        in_chunks(database, "retry", campaign=campaign.campaign_id, tasks=tasks, **how)
    return Run(database, campaign, called.name, tasks, read=read, agents=agents)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in the list of `Client.runs`. status: the campaign's own counts."""

    path: str
    function: str
    description: str
    status: Status


def stored(database: Queries, path: str) -> list[StoredRun]:
    """Return the runs at and below a path, ordered by path; see `Client.runs`."""
    counts = {
        row["path"]: row for row in database.rows("counts", path=check_path(path), depth=None)
    }
    # A campaign that is made between the two statements is in the next list.
    return [
        StoredRun(**row, status=Status(**counts[row["path"]]))
        for row in database.rows("runs", path=path)
        if row["path"] in counts
    ]


def attached(database: Queries, path: str, *, trust: Trust, agents: list[LocalAgents]) -> Run:
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
        tasks.extend(page.tasks)
    read = ResultReader(trust, by_value=handler.get("archive") is not None)
    return Run(database, campaign, handler["name"], tasks, read=read, agents=agents)


def _seeded(database: Queries, campaign: Campaign, arguments: Iterable[Any]) -> array[int]:
    """Seed a call for each argument; return the ids of their tasks, in this order."""
    tasks = array("q")
    clashes: list[Clash] = []
    for seeds in _chunks(_seeds(arguments, Arguments(_seal(campaign)))):
        # A pickle may differ from the stored one, though its content and its key are the same.
        campaign.seed(seeds, on_conflict="skip", on_clash=clashes.append)
        _refuse(clashes, campaign.path)
        keys = [seed.encoded()[0] for seed in seeds if isinstance(seed, Seed)]
        known = task_ids(database, campaign.campaign_id, keys)
        tasks.extend(known[key] for key in keys)
    return tasks


class Calls:
    """Single calls of functions, each function in a campaign of its own, with their futures."""

    def __init__(self, database: Queries, agents: list[LocalAgents]) -> None:
        self._database = database
        self._watcher = Watcher(database, agents)
        self._campaigns: dict[str, tuple[Campaign, Arguments]] = {}

    def submit(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> TaskFuture:
        """Call a function with arguments, unless it was called before; see `Client.submit`."""
        called = Function.of(function)
        path = called.default_path
        try:
            return self._submit(called, path, args, kwargs)
        except NotFound:
            if self._campaigns.pop(path, None) is None:
                raise
            return self._submit(called, path, args, kwargs)  # it was removed meanwhile

    def _submit(
        self, called: Function, path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> TaskFuture:
        if path not in self._campaigns:
            settings = {"max_failure_share": None}
            plan = FunctionPlan(
                self._database,
                path,
                called,
                params={},
                inputs=(),
                on_change="fail",
                settings=settings,
            )
            campaign = plan.prepared()
            self._campaigns[path] = campaign, Arguments(_seal(campaign))
        campaign, make = self._campaigns[path]
        payload, key = make.call(args, kwargs)
        if not campaign.add(Seed(payload, key), on_conflict="skip"):
            campaign.retry(status="cancelled", keys=[key])  # as `map` does
        known = task_ids(self._database, campaign.campaign_id, [key])
        future = TaskFuture(campaign, known[key], key)
        read = ResultReader(by_value=called.target is None)
        self._watcher.watch(campaign, read, [future])
        return future


def _seal(campaign: Campaign) -> str | None:
    handler = campaign.spec().handler
    return None if handler is None else handler.seal


def _seeds(arguments: Iterable[Any], make: Arguments) -> Iterator[Seed | BadLine]:
    number = -1
    try:
        for number, item in enumerate(arguments):  # noqa: B007  # the error names it
            yield make.of_item(item)
    except InvalidTask as error:
        raise InvalidTask(f"argument {number}: {error}") from error


def _chunks(seeds: Iterator[Seed | BadLine]) -> Iterator[list[Seed | BadLine]]:
    size = FIRST_CHUNK
    while chunk := list(islice(seeds, size)):
        yield chunk
        size = CHUNK


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
