"""Who is it? Tokens are looked up once, many at a time, and then remembered.

What is remembered is only which session a token names, and that never changes. Whether the session
still lives is asked by each statement that uses it, in the database: to revoke a token ends its
sessions, so nothing remembered here can outlive a revocation. A manager's token is no session, so
that one is looked up anew after some seconds. A standby that has taken over may not know a session,
and give its number to another one: then all is forgotten.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from taskq.dispatch.fair_share import Scope, Without
from taskq.errors import Unauthorized
from taskq.gateway.db_pool import StatementPool
from taskq.gateway.errors import Busy
from taskq.tokens import hashed
from taskq_agent.errors import SessionLost

#: Within the 30 s in which a revocation is promised to work.
MANAGER_FRESH_S: Final = 10.0
_MOST_KEPT: Final = 100_000
_MOST_WAITING: Final = 4_096
_MOST_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class AgentSession:
    """An agent's session, and what it serves."""

    session: int
    scope: Scope

    @property
    def path(self) -> str:
        """The campaign that it serves, with all below it."""
        return self.scope.path

    def scope_for(self, lifetime_s: float | None, without: Without = ()) -> Scope:
        """Return what it serves in the time it has left; None: as long as it likes.

        without: but for these campaigns.
        """
        if lifetime_s is None and not without:
            return self.scope
        return replace(self.scope, lifetime_s=lifetime_s, without=without)


@dataclass(frozen=True, slots=True)
class Manager:
    """A campaign manager, and the campaigns that the token is for, each with all below it."""

    paths: tuple[str, ...]
    known_at: float

    def may(self, path: str) -> bool:
        """Say whether the token is for a campaign."""
        return any(path == one or path.startswith(one.rstrip("/") + "/") for one in self.paths)


Identity: TypeAlias = AgentSession | Manager


class TokenCache:
    """The tokens that this gateway has seen. Keyed by the scope token, never by a part of it.

    timeline: returns the highest of the servers that have answered; see `AsyncConnection`.
    """

    def __init__(self, statements: StatementPool, timeline: Callable[[], int]) -> None:
        self._statements = statements
        self._timeline = timeline
        self._known_on = 0
        self._known: dict[str, Identity] = {}
        self._asked: dict[str, asyncio.Future[Identity]] = {}
        self._asking: asyncio.Task[None] | None = None

    def agent(self, token: str) -> AgentSession | None:
        """Return the agent that a token is remembered for."""
        known = self._remembered(token)
        return known if isinstance(known, AgentSession) else None

    def _remembered(self, token: str) -> Identity | None:
        if self._known_on != self._timeline():
            self._known_on = self._timeline()
            self._known.clear()
        return self._known.get(token)

    def remember(self, token: str, identity: Identity) -> None:
        """Know whose token it is."""
        if len(self._known) >= _MOST_KEPT:
            for old in list(self._known)[: _MOST_KEPT // 2]:
                del self._known[old]
        self._known[token] = identity

    def forget(self, token: str) -> None:
        """Ask again next time."""
        self._known.pop(token, None)

    async def identify(self, token: str, *, anew: bool = False) -> Identity:
        """Return whose token it is; anew: as the database knows it now.

        Raise `Unauthorized` if nobody's, `SessionLost` if its session has ended.
        """
        known = None if anew else self._remembered(token)
        if known is not None and not (
            isinstance(known, Manager) and time.monotonic() > known.known_at + MANAGER_FRESH_S
        ):
            return known
        if token not in self._asked:
            if len(self._asked) >= _MOST_WAITING:
                raise Busy
            self._asked[token] = asyncio.get_running_loop().create_future()
            if self._asking is None:
                self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asked[token])

    async def _ask(self) -> None:
        """Look up all that have been asked for, together, until there are none."""
        try:
            while self._asked:
                tokens, known_on = list(self._asked)[:_MOST_AT_ONCE], self._known_on
                try:
                    found = await self._looked_up(tokens)
                except Exception as error:  # noqa: BLE001  # told to each who waits
                    found = dict.fromkeys(tokens, error)
                for token in tokens:
                    asked, identity = self._asked.pop(token), found[token]
                    if isinstance(identity, Exception):
                        asked.set_exception(identity)
                        asked.exception()  # those who have asked may all have gone
                    else:
                        # Else it may be what the server has said that was replaced meanwhile.
                        if self._known_on == known_on:
                            self.remember(token, identity)
                        asked.set_result(identity)
        finally:
            self._asking = None

    async def _looked_up(self, tokens: list[str]) -> dict[str, Identity | Exception]:
        by_hash = {hashed(token): token for token in tokens}
        found: dict[str, Identity | Exception] = {
            token: Unauthorized("this token is unknown, has expired or was revoked")
            for token in tokens
        }
        for row in await self._statements.rows("identify", hashes=list(by_hash)):
            token = by_hash[row["hash"]]
            if row["session_id"] is None:
                found[token] = Manager(tuple(row["paths"]), time.monotonic())
            elif row["ended"]:
                found[token] = SessionLost("the session has ended")
            else:
                found[token] = AgentSession(
                    row["session_id"], Scope(row["path"], tuple(row["offers"]))
                )
        return found
