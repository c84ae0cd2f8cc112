"""Background tasks end when they are told to."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from taskq.dispatch.group_commit import cancel


def test_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    """What `asyncio.wait_for` may do to a cancellation leaves nothing running."""
    lost = 0

    async def forgetful() -> None:
        nonlocal lost
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        lost += 1
        await asyncio.Event().wait()

    async def whole() -> None:
        running = [asyncio.create_task(forgetful()) for _ in range(2)]
        await asyncio.sleep(0)
        await cancel(running)
        assert all(task.cancelled() for task in running)

    asyncio.run(asyncio.wait_for(whole(), 30))
    assert lost == 2


def test_nothing_to_cancel_is_done_at_once() -> None:
    """Whoever has started nothing may close all the same."""
    asyncio.run(cancel([]))
