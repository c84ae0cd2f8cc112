"""Operators' verbs for a front: report on it, flush it, rebuild it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from taskq.db.catalogue import array
from taskq.db.connections import Database
from taskq.dispatch.exchange_request import fence_arrays
from taskq.front.address import FrontAddress
from taskq.front.entries import FrontState, Keys
from taskq.front.lists import Lists
from taskq.front.redis import FrontDown, RedisLink
from taskq.model.errors import Conflict

#: Seconds between two looks at the lists while a rebuild waits for entries.
LOOK_S: Final = 0.1
#: Seconds that a script may take; longer than in a gateway, since no claim waits for it.
ANSWER_S: Final = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FrontList:
    """The list of a campaign. entries and low_water: None if Redis has none or does not answer.

    leased_ahead: tasks in the list, and tasks that were handed out and that no heartbeat has named
    yet.
    """

    campaign: str
    entries: int | None
    low_water: int | None
    leased_ahead: int


@dataclass(frozen=True, slots=True)
class FrontReport:
    """The state of a front.

    epoch: 0 if there never was one. refilled: whether a refiller is at work. pool_s: seconds for
    which a task stays leased to the pool. version: of the Redis or Valkey server; None if it was
    not asked, or does not answer: then `trouble` says why. redis_epoch: None if no epoch was begun
    there.
    """

    epoch: int
    begun_at: datetime | None
    refilled: bool
    pool_s: float
    version: str | None
    redis_epoch: int | None
    trouble: str | None
    lists: list[FrontList]


@dataclass(frozen=True, slots=True)
class Flushed:
    """The result of a flush. epoch: the new one. withdrawn: genuine entries taken out of the lists.

    returned: tasks that wait again; agents have named or reported the tasks of the other entries.
    """

    epoch: int
    withdrawn: int
    returned: int


@dataclass(frozen=True, slots=True)
class Refilled:
    """The contents of the lists after a rebuild. entries: 0 if none came in time."""

    lists: int
    entries: int
    took_s: float


class _Contents(NamedTuple):
    epoch: int | None
    low_water: dict[int, int]
    entries: dict[int, int | None]


def report(database: Database, address: FrontAddress | None) -> FrontReport:
    """Report what PostgreSQL knows of the front and, given its address, what Redis holds."""
    if address is None:
        return asyncio.run(_report(database, None))
    return _linked(address, lambda link: _report(database, link))


def flush(database: Database, address: FrontAddress) -> Flushed:
    """Begin a new epoch, take all entries out of the lists, and give their leases back.

    If it is broken off, nothing is lost: the entries are invalid, and tasks that were not given
    back wait again after the pool's deadline. Raise `Conflict` if there is no front; `FrontDown` if
    Redis does not answer, before anything is changed.
    """
    return _linked(address, lambda link: _flush(database, link))


def check_refilled(database: Database) -> None:
    """Raise `Conflict` if no refiller is at work."""
    (known,) = database.rows("front_status")
    if not known["refilled"]:
        raise Conflict(
            "no refiller is at work: start `taskq keeper --redis` or `taskq gateway --redis`; "
            "nothing was changed"
        )


def rebuild(
    database: Database, address: FrontAddress, *, within_s: float
) -> tuple[Flushed, Refilled]:
    """Flush, and wait until the refiller has pushed an entry, `within_s` seconds at most.

    Raise as `flush`, and `Conflict` if no refiller is at work; then nothing is changed.
    """
    check_refilled(database)

    async def work(link: RedisLink) -> tuple[Flushed, Refilled]:
        return await _flush(database, link), await _wait_for_entries(database, link, within_s)

    return _linked(address, work)


def _linked(address: FrontAddress, work: Callable[[RedisLink], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        link = RedisLink(address, ANSWER_S)
        try:
            return await work(link)
        finally:
            await link.close()

    return asyncio.run(run())


async def _report(database: Database, link: RedisLink | None) -> FrontReport:
    (known,) = database.rows("front_status")
    contents = _Contents(None, {}, {})
    version = trouble = None
    if link is not None:
        keys = Keys(known["name"])
        try:
            version = (await link.info(keys.state)).version
            contents = await _contents(link, keys)
        except FrontDown as error:
            trouble = str(error)
    lists = [
        FrontList(
            campaign=row["path"],
            entries=contents.entries.get(row["campaign_id"]),
            low_water=contents.low_water.get(row["campaign_id"]),
            leased_ahead=row["leased"],
        )
        for row in database.rows("front_lists", campaigns=array(contents.low_water))
    ]
    return FrontReport(
        epoch=known["epoch"],
        begun_at=known["begun_at"],
        refilled=known["refilled"],
        pool_s=known["pool_s"],
        version=version,
        redis_epoch=contents.epoch,
        trouble=trouble,
        lists=lists,
    )


async def _flush(database: Database, link: RedisLink) -> Flushed:
    (row,) = database.rows("front_state")
    old = FrontState.from_row(row, time.monotonic())
    if old.epoch == 0:
        raise Conflict(
            "there is no front: `taskq keeper --redis` or `taskq gateway --redis` begins one"
        )
    before = Lists(link, old)
    campaigns = await before.known()
    (row,) = database.rows("begin_front", pool_s=old.pool_s)
    new = FrontState.from_row(row, time.monotonic())
    withdrawn = returned = 0
    for campaign in campaigns:
        fences = await before.withdrawn(campaign)
        withdrawn += len(fences)
        returned += database.value("return_ahead", lost=False, **fence_arrays(fences))
    await Lists(link, new).begin()
    return Flushed(new.epoch, withdrawn, returned)


async def _wait_for_entries(database: Database, link: RedisLink, within_s: float) -> Refilled:
    begin = time.monotonic()
    while True:
        seen = await _report(database, link)
        filled = [found.entries for found in seen.lists if found.entries]
        took_s = time.monotonic() - begin
        if (filled and seen.redis_epoch == seen.epoch) or took_s > within_s:
            return Refilled(len(filled), sum(filled), took_s)
        await asyncio.sleep(LOOK_S)


async def _contents(link: RedisLink, keys: Keys) -> _Contents:
    epoch, low_water, _ = await _read_contents(link, keys, [])
    _, _, entries = await _read_contents(link, keys, [*low_water])
    return _Contents(epoch, low_water, entries)


async def _read_contents(link: RedisLink, keys: Keys, campaigns: list[int]) -> _Contents:
    answer = await link.run("contents", [keys.state, *map(keys.tasks, campaigns)], ())
    try:
        epoch, marks, lengths = answer
        return _Contents(
            None if epoch is None else int(epoch),
            dict(zip(map(int, marks[::2]), map(int, marks[1::2]), strict=True)),
            dict(zip(campaigns, lengths, strict=True)),
        )
    except (TypeError, ValueError):
        raise FrontDown(
            "Redis holds no valid front; `taskq front flush` begins a new one"
        ) from None
