"""Admission of managers' requests, bounded for each token and in all.

A request keeps its place until the client has taken the answer, and the bytes of answers not yet
taken are counted. So a client that sends costly statements or reads slowly delays requests of its
own token, and the memory of all answers is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from taskq.gateway.http.errors import Busy
from taskq.gateway.http.request import ClientRequest
from taskq.gateway.http.response import HttpResponse

#: Statements at a time, each on a connection of its own: in all, and of one token.
MOST_AT_ONCE: Final = 4
MOST_AT_ONCE_OF_TOKEN: Final = 2
#: Requests that are read, wait, run, or are answered: in all, and of one token.
MOST_ADMITTED: Final = 16
MOST_OF_TOKEN: Final = 4
#: With this many bytes of answers not yet taken, no further statement begins: in all, and of one
#: token.
MOST_KEPT_BYTES: Final = 64 << 20
MOST_KEPT_BYTES_OF_TOKEN: Final = 8 << 20


@dataclass(slots=True)
class _Token:
    """What is under way with a token. waited: requests that have waited for the end of a task."""

    requests: int = 0
    waited: int = 0
    kept: int = 0
    turns: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE_OF_TOKEN)
    )


class AdmittedRequest:
    """The place of an admitted request; `leave` it when the client has taken the answer."""

    def __init__(self, turns: ManagerTurns, name: str, token: _Token, *, has_waited: bool) -> None:
        self._turns = turns
        self._name = name
        self._token = token
        self._has_waited = has_waited
        self._kept = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until the token may run another statement; raise `Busy` if it reads slowly."""
        async with self._token.turns:
            self._turns.check(self._token)
            yield

    def keep(self, size: int) -> None:
        """Count the bytes of an answer, which is kept until the client has taken it."""
        self._kept += size
        self._token.kept += size
        self._turns.kept += size

    def leave(self) -> None:
        """Make room for another request."""
        self.keep(-self._kept)
        self._turns.leave(self._name, self._token, has_waited=self._has_waited)


class ManagerTurns:
    """Admits requests of managers; for one asyncio loop. kept: bytes of answers."""

    def __init__(self) -> None:
        self._tokens: dict[str, _Token] = {}
        self._requests = 0
        self.kept = 0

    def admit(self, name: str, *, has_waited: bool = False) -> AdmittedRequest:
        """Admit a request, before its body is read; raise `Busy` if there is too much already.

        has_waited: for the end of a task, as one of a bounded number (`end_waits`). Many ends may
        come together: such requests take their turns one after the other, and no places of others.
        """
        token = self._tokens.get(name) or _Token()
        if not has_waited and (self._requests >= MOST_ADMITTED or token.requests >= MOST_OF_TOKEN):
            raise Busy
        self.check(token)
        self._tokens[name] = token
        if has_waited:
            token.waited += 1
        else:
            self._requests += 1
            token.requests += 1
        return AdmittedRequest(self, name, token, has_waited=has_waited)

    def check(self, token: _Token) -> None:
        """Raise `Busy` if answers not yet taken have too many bytes."""
        if self.kept >= MOST_KEPT_BYTES or token.kept >= MOST_KEPT_BYTES_OF_TOKEN:
            raise Busy

    def leave(self, name: str, token: _Token, *, has_waited: bool) -> None:
        """Forget a request; see `AdmittedRequest.leave`."""
        if has_waited:
            token.waited -= 1
        else:
            self._requests -= 1
            token.requests -= 1
        if not token.requests and not token.waited:
            del self._tokens[name]


class PlacedResponse(HttpResponse):
    """JSON Lines, gzipped: sent as the client takes them; after that, the place is free."""

    def __init__(self, body: bytearray, place: AdmittedRequest) -> None:
        super().__init__(headers={"content-encoding": "gzip"}, media_type="application/jsonl")
        self._kept = memoryview(body)
        self._place = place
        place.keep(len(body))

    def leave(self) -> None:
        """Make room for another request: it is not sent."""
        self._place.leave()

    async def send(self, request: ClientRequest) -> None:
        """Send it in pieces; a piece waits until the client has taken most of those before."""
        try:
            request.start(self.status, self.lines, len(self._kept))
            await request.write(self._kept)
            request.finish()
        finally:
            self._place.leave()
