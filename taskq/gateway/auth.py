"""Authentication: looks up tokens in batches, and caches the results.

A cached result says only which session a token names, and that never changes. Each statement that
uses a session checks in the database that it still lives. Revoking a token ends its sessions, so no
cache entry can outlive a revocation. A manager's token has no session, so it is looked up again
after some seconds. A standby that takes over may lack a session and give its number to another one,
so a takeover drops the whole cache.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from taskq.db.tokens import hashed
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.recent import Recent
from taskq.gateway.http.errors import Busy
from taskq.gateway.messages import Exchange
from taskq.gateway.statement_pool import StatementPool
from taskq.gateway.token_rate import TokenRate
from taskq.model.errors import Unauthorized
from taskq_agent.errors import SessionLost

#: Seconds for which a manager's token is cached; a revocation must work within 30 s.
MANAGER_FRESH_S: Final = 10.0
#: Limits on a token's requests for managers' verbs and blobs, which take threads and look-ups:
#: requests at once, requests a second in the long run, and the most seconds that one more waits.
ASKED_AT_ONCE: Final = 200
ASKED_PER_S: Final = 100.0
ASKED_WAIT_S: Final = 5.0
#: Tokens kept, and for how long after their last use. An agent sends heartbeats more often.
_MOST_KEPT: Final = 100_000
_KEPT_S: Final = 300.0
_MOST_WAITING: Final = 4_096
_MOST_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class AgentSession:
    """An agent's session. scope: the campaigns that it serves; token_id: its site's token."""

    session: int
    scope: Scope
    token_id: int

    def scope_for(self, message: Exchange) -> Scope:
        """Return the session's scope with the lifetime and the exclusions of a claim."""
        if message.lifetime_s is None and not message.without:
            return self.scope
        scope = self.scope
        return Scope(scope.path, scope.offers, message.lifetime_s, message.without)


@dataclass(frozen=True, slots=True)
class Manager:
    """A campaign manager. paths: the campaigns that the token is for, each with all below it."""

    paths: tuple[str, ...]
    known_at: float
    token_id: int


Identity: TypeAlias = AgentSession | Manager


class TokenCache:
    """The identities of the tokens that this gateway has seen. The key is the whole token.

    takeovers: returns how often another server has taken over. Such a server may not know a
    session, or may know another one by its number.
    """

    def __init__(self, statements: StatementPool, takeovers: Callable[[], int]) -> None:
        self._statements = statements
        self._takeovers = takeovers
        self._known_since = 0
        self._known: Recent[str, Identity] = Recent(_MOST_KEPT, _KEPT_S)
        self._asked: dict[str, asyncio.Future[Identity]] = {}
        self._rate = TokenRate(ASKED_AT_ONCE, ASKED_PER_S)
        self._asking: asyncio.Task[None] | None = None

    def agent(self, token: str) -> AgentSession | None:
        """Return the cached session of a token, if it is an agent's."""
        known = self._remembered(token)
        return known if isinstance(known, AgentSession) else None

    def _remembered(self, token: str) -> Identity | None:
        if self._known_since != self._takeovers():
            self._known_since = self._takeovers()
            self._known.clear()
        return self._known.get(token)

    def remember(self, token: str, identity: Identity) -> None:
        """Cache the identity of a token."""
        self._known.put(token, identity)

    def forget(self, token: str) -> None:
        """Drop a token from the cache."""
        self._known.forget(token)

    async def admit(self, token: str, *, anew: bool = False) -> Identity:
        """Identify a token, after a wait if it has asked very often; see `identify`.

        Raise `Busy` if it would wait for longer than `ASKED_WAIT_S`.
        """
        wait_s = self._rate.wait_s(token)
        if wait_s > ASKED_WAIT_S:
            raise Busy(wait_s)
        self._rate.count(token)
        await asyncio.sleep(wait_s)
        try:
            return await self.identify(token, anew=anew)
        except Unauthorized:
            self._rate.forget(token)  # unknown tokens take no room here
            raise

    async def identify(self, token: str, *, anew: bool = False) -> Identity:
        """Return the identity of a token; anew: from the database, not from the cache.

        Raise `Unauthorized` if the token is unknown, expired or revoked, `SessionLost` if its
        session has ended, `Busy` if too many look-ups wait.
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
        """Look up the requested tokens in batches, until none is left."""
        try:
            while self._asked:
                tokens, known_on = list(self._asked)[:_MOST_AT_ONCE], self._known_since
                try:
                    found = await self._looked_up(tokens)
                except Exception as error:  # noqa: BLE001  # raised for each caller
                    found = dict.fromkeys(tokens, error)
                for token in tokens:
                    asked, identity = self._asked.pop(token), found[token]
                    if isinstance(identity, Exception):
                        asked.set_exception(identity)
                        asked.exception()  # mark as retrieved: all callers may have gone
                    else:
                        # Otherwise the answer may come from a server that has been replaced.
                        if self._known_since == known_on:
                            self.remember(token, identity)
                        asked.set_result(identity)
        finally:
            self._asking = None

    async def _looked_up(self, tokens: list[str]) -> dict[str, Identity | Exception]:
        by_hash = {hashed(token): token for token in tokens}
        found: dict[str, Identity | Exception] = {
            token: Unauthorized(
                "the token is not valid: unknown, expired or revoked; ask for another"
            )
            for token in tokens
        }
        for row in await self._statements.rows("identify", hashes=list(by_hash)):
            token = by_hash[row["hash"]]
            if row["session_id"] is None:
                found[token] = Manager(tuple(row["paths"]), time.monotonic(), row["token_id"])
            elif row["ended"]:
                found[token] = SessionLost("the session has ended")
            else:
                found[token] = AgentSession(
                    row["session_id"],
                    Scope(row["path"], tuple(row["offers"])),
                    row["token_id"],
                )
        return found
