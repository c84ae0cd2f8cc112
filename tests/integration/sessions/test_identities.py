"""Memory of a gateway for tokens: when it asks, and when it forgets."""

from __future__ import annotations

import asyncio

from taskq import Client
from taskq.gateway.auth import Manager, TokenCache
from taskq.gateway.pace import StatementPool


def test_who_it_is_is_not_remembered_if_another_server_took_over_meanwhile(queue: Client) -> None:
    """The one that was asked may not be the one that serves now."""
    token, _ = queue.tokens.create("manager", "m", ["/"])
    timeline = 1

    async def asked() -> list[Manager]:
        nonlocal timeline
        lines = StatementPool(queue.database, 1)
        identities = TokenCache(lines, lambda: timeline)

        async def known() -> Manager:
            found = await identities.identify(token)
            assert isinstance(found, Manager)
            return found

        first = asyncio.create_task(known())
        for _ in range(2):  # until the statement is under way
            await asyncio.sleep(0)
        timeline = 2
        assert identities.agent("of another agent") is None
        found = [await first, await known(), await known()]
        await lines.close()
        return found

    early, anew, remembered = asyncio.run(asked())
    assert anew is not early
    assert remembered is anew
