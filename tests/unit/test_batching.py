"""Which exchanges share a statement: what one client sends makes it dear for nobody else."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from taskq.dispatch.endings import cancel
from taskq.dispatch.exchange_request import EncodedReports, ExchangeRequest, Fence
from taskq.dispatch.fair_queue import (
    APART_S,
    LARGE_CAMPAIGNS,
    LARGE_TASKS,
    MOST_CHARS,
    MOST_KINDS,
    MOST_TASKS,
    FairQueue,
)
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.seldom import MOST, PERIOD_S, Seldom

NOW = 100.0


@dataclass
class Queued:
    """An exchange that waits."""

    exchange: ExchangeRequest
    callback: Any = print


def queued(
    session: int,
    path: str = "/c",
    *,
    want: int = 1,
    reports: int = 0,
    chars: int = 2,
    **options: Any,
) -> Queued:
    """Return an exchange. campaigns: on how many of them it reports."""
    campaigns = itertools.cycle(range(options.pop("campaigns", 1)))
    fences = [Fence(next(campaigns), number, "lease") for number in range(reports)]
    scope = Scope(path, **options)
    encoded = [EncodedReports(fence.campaign, 1, "r" * chars) for fence in fences]
    return Queued(ExchangeRequest(session, want, "lease", scope, fences, encoded))


def batcher(*some: Queued) -> FairQueue[Queued]:
    """Return a batcher with these."""
    made: FairQueue[Queued] = FairQueue()
    for each in some:
        made.put(each, NOW)
    return made


def sessions(taken: list[Queued]) -> list[int]:
    """Return whose exchanges were taken."""
    return [each.exchange.session for each in taken]


def test_session_stands_in_line_once() -> None:
    """A thousand requests of one are no more than one next to those of others."""
    batches = batcher(*(queued(1) for _ in range(1_000)), queued(2), queued(3))
    for _ in range(3):
        taken = batches.take(256, NOW)
        assert sorted(sessions(taken)) == [1, 2, 3]
        assert batches.take(256, NOW) == []
        batches.done(taken, NOW)
        for other in (2, 3):
            batches.put(queued(other), NOW)
    assert len(batches) == 997 + 2


def test_most_numerous_go_with_every_statement() -> None:
    """However many others there are, each of whom serves something else."""
    strange = [queued(1_000 + number, f"/strange/{number}") for number in range(200)]
    batches = batcher(*strange, *(queued(number) for number in range(100)))
    seen: Counter[int] = Counter()
    for turn in range(200 // (MOST_KINDS - 1) + 1):
        taken = batches.take(256, NOW)
        paths = Counter(each.exchange.scope.path for each in taken)
        assert len(paths) <= MOST_KINDS
        if turn == 0:
            assert paths["/c"] == 100
        seen.update(sessions(taken))
        batches.done(taken, NOW)
        for each in taken:
            if each.exchange.session < 1_000:
                batches.put(queued(each.exchange.session), NOW)
    assert all(seen[each.exchange.session] == 1 for each in strange), "one waits for ever"
    assert min(seen[number] for number in range(100)) > 20


def test_two_kinds_get_equal_shares() -> None:
    """When there are more than go into a statement."""
    batches = batcher(
        *(queued(number) for number in range(300)),
        *(queued(1_000 + number, "/d") for number in range(30)),
    )
    taken = batches.take(64, NOW)
    assert Counter(each.exchange.scope.path for each in taken) == {"/c": 34, "/d": 30}


def test_lifetimes_are_no_kinds() -> None:
    """Agents of one farm, each with some time left, share what they claim."""
    batches = batcher(*(queued(number, lifetime_s=float(number)) for number in range(100)))
    assert len(batches.take(256, NOW)) == 100


def test_statement_takes_so_many_tasks_reports_and_characters() -> None:
    """But at least one exchange, and nothing is lost."""
    wanting = batcher(*(queued(number, want=LARGE_TASKS) for number in range(9)))
    assert len(wanting.take(256, NOW)) == MOST_TASKS // LARGE_TASKS
    telling = batcher(*(queued(number, want=0, reports=LARGE_TASKS) for number in range(9)))
    assert len(telling.take(256, NOW)) == MOST_TASKS // LARGE_TASKS
    long = batcher(*(queued(number, reports=1, chars=MOST_CHARS // 3) for number in range(9)))
    taken = long.take(256, NOW)
    assert len(taken) == 3
    assert (len(long), long.common) == (6, 6)


def test_large_exchange_has_a_statement_of_its_own() -> None:
    """Many tasks, many campaigns, many characters."""
    large = [
        queued(1, want=LARGE_TASKS + 1),
        queued(2, want=0, reports=LARGE_TASKS + 1),
        queued(3, reports=LARGE_CAMPAIGNS + 1, campaigns=LARGE_CAMPAIGNS + 1),
        queued(4, reports=1, chars=MOST_CHARS),
    ]
    batches = batcher(*large, queued(5))
    assert sessions(batches.take(256, NOW)) == [5]
    assert [batches.take_large(NOW) for _ in range(5)] == [*large, None]


def test_exchange_that_made_a_statement_fail_goes_alone_for_a_while() -> None:
    """Then with the others again."""
    batches = batcher()
    batches.set_apart(1, NOW)
    batches.put(queued(1), NOW)
    assert batches.take(256, NOW) == []
    taken = batches.take_large(NOW)
    assert taken is not None
    batches.done([taken], NOW)
    later = NOW + APART_S
    batches.put(queued(1), later)
    assert sessions(batches.take(256, later)) == [1]


def test_exchange_without_a_waiting_caller_is_left_out() -> None:
    """It keeps nobody behind it from standing in line."""
    some = [queued(1), queued(1), queued(1), queued(2, want=LARGE_TASKS + 1), queued(2)]
    batches = batcher(*some)
    for number in (0, 1, 3):
        some[number].callback = None
    assert batches.take_large(NOW) is None
    assert sessions(batches.take(256, NOW)) == [2, 1]
    assert (len(batches), batches.common, batches.large) == (0, 0, 0)


async def test_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    """What `asyncio.wait_for` may do to a cancellation leaves nothing running."""
    lost = 0

    async def forgetful() -> None:
        nonlocal lost
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        lost += 1
        await asyncio.Event().wait()

    running = [asyncio.create_task(forgetful()) for _ in range(2)]
    await asyncio.sleep(0)
    await cancel(running)
    assert all(task.cancelled() for task in running)
    assert lost == 2


def test_nothing_to_cancel_is_done_at_once() -> None:
    """Anyone who has started nothing may close all the same."""
    asyncio.run(cancel([]))


def test_errors_caused_by_clients_are_logged_a_few_times_a_minute() -> None:
    """Of each kind; the first of the next minute says how many were left out."""
    now = [0.0]
    seldom = Seldom(clock=lambda: now[0])

    def written(text: str) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "", 0, text, (1,), None)
        return str(record.msg) if seldom.filter(record) else None

    assert [written("odd %d") for _ in range(MOST)] == ["odd %d"] * MOST
    assert [written("odd %d") for _ in range(1_000)] == [None] * 1_000
    assert written("other %d") == "other %d"
    now[0] += PERIOD_S
    assert written("odd %d") == "odd %d (and 1000 more like this before)"
    assert written("odd %d") == "odd %d"
