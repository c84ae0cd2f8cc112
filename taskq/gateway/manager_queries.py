"""Managers' statements: run by name, in threads, apart from agents' requests.

Each runs in a transaction that begins with `permit`. So PostgreSQL looks up and enforces the rights
of the token, and nothing is cached. Managers have a small pool of connections of their own.
Requests, answers and statements are bounded in size (`manager_bodies`) and number
(`manager_turns`), so that managers delay nobody but managers.

A request that waits for the end of a task (`?wait_s=20`, see `end_waits`) has no place among the
managers' requests meanwhile; the statement runs before the wait and behind it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from taskq.db.connections import Database
from taskq.db.headers import Offer
from taskq.db.tokens import hashed
from taskq.gateway.end_waits import EndWaits
from taskq.gateway.http.errors import ErrorAnswer
from taskq.gateway.http.request import LARGE_BYTES, ClientRequest
from taskq.gateway.http.response import HttpResponse
from taskq.gateway.manager_bodies import MAX_BYTES, compressed, decompressed, values_of, wait_of
from taskq.gateway.manager_statements import offered
from taskq.gateway.manager_turns import MOST_AT_ONCE, ManagerTurns, PlacedResponse
from taskq.gateway.permits import permit, permitted
from taskq.model.errors import KeyConflict, TaskqError, Unavailable

#: A refused statement with a large body keeps its turn for this multiple of the time that it took,
#: and for this many seconds at most: PostgreSQL reads the whole body before it finds the fault.
REFUSED_REST_FACTOR: Final = 20.0
REFUSED_REST_S: Final = 5.0

Result = TypeVar("Result")


class ManagerQueries:
    """Runs managers' statements; for one asyncio loop."""

    def __init__(self, database: Database) -> None:
        """database: with `MOST_AT_ONCE` connections, used by nobody else; anonymous."""
        self._database = database
        # Not the loop's own threads, which agents' blobs need.
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "taskq-managers")
        self._turns = ManagerTurns()

    async def answer(
        self, token: str, name: str, request: ClientRequest, ends: EndWaits
    ) -> HttpResponse:
        """Run a statement; answer with its columns and rows as JSON Lines, compressed by gzip.

        If it has no rows, and the request would wait for the end of one of its tasks, run it again
        after that. Raise `NotOverGateway` if it is not offered, `Unauthorized` or `Forbidden` if
        the token does not allow it, `StatementTooLong` if it exceeds its time limit, `Busy` if too
        many wait, and what the statement raises.
        """
        body = await request.read(MAX_BYTES)
        query = dict(parse_qsl(request.query.decode("latin-1"), keep_blank_values=True))
        if "wait_s" not in query or not offered(name).waits:
            return (await self._answered(token, name, request, body, query.get("rest")))[0]
        seconds, campaign, tasks = wait_of(query["wait_s"], body)
        with ends.begun(token, campaign, tasks) as wait:
            answer, has_rows = await self._answered(token, name, request, body, None)
            if has_rows or wait.ended.done():
                return answer
            answer.leave()
            request.when_gone = wait.give_up
            await wait.wait(seconds)
        if request.is_gone:
            return HttpResponse()
        return (await self._answered(token, name, request, body, None, has_waited=True))[0]

    async def _answered(
        self,
        token: str,
        name: str,
        request: ClientRequest,
        body: bytes,
        rest: str | None,
        *,
        has_waited: bool = False,
    ) -> tuple[PlacedResponse, bool]:
        """Return the answer of a statement, and whether it has rows."""
        place = self._turns.admit(token, has_waited=has_waited)
        try:
            gzipped = request.header(b"content-encoding") == "gzip"
            is_large = gzipped or len(body) > LARGE_BYTES
            async with place.turn(), _rest_if_refused(is_large):
                lines, has_rows = await self._run(
                    lambda: self._answer(token, name, body, gzipped, rest)
                )
        except BaseException:
            place.leave()
            raise
        return PlacedResponse(lines, place), has_rows

    async def check_submitter(self, token: str) -> None:
        """Raise `Forbidden` or `Unauthorized` unless a token is a submitter's."""
        await self._run(lambda: self._check(token, Offer("submitter")))

    async def _run(self, run: Callable[[], Result]) -> Result:
        """Call a function in one of the threads, when its turn comes."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def _check(self, token: str, how: Offer) -> None:
        with self._database.transaction() as statements:
            permit(statements, hashed(token), how)

    def _answer(
        self, token: str, name: str, body: bytes, gzipped: bool, rest: str | None
    ) -> tuple[bytearray, bool]:
        how = offered(name)
        values = values_of(decompressed(body) if gzipped else body, rest)
        with (
            permitted(self._database, hashed(token), name, values) as allowed,
            allowed.statements.table(allowed.name, **values) as (columns, rows),
        ):
            return compressed(columns, rows if allowed.within else iter(()), paged=how.paged)


@asynccontextmanager
async def _rest_if_refused(is_large: bool) -> AsyncIterator[None]:
    """After a refused statement, keep its turn for a rest, while its client waits."""
    began = time.monotonic()
    try:
        yield
    except Unavailable:
        raise
    except Exception:
        if is_large:
            rest_s = REFUSED_REST_FACTOR * (time.monotonic() - began)
            await asyncio.sleep(min(rest_s, REFUSED_REST_S))
        raise


def error_answer(known: ErrorAnswer, error: Exception) -> ErrorAnswer:
    """Add the name of the exception and its fields to an answer."""
    if not isinstance(error, TaskqError):
        return known
    details: dict[str, Any] = {}
    if isinstance(error, KeyConflict):
        details = {
            "count": error.count,
            "too_long": error.too_long,
            "clashes": [
                [clash.key, clash.stored, clash.offered, clash.number] for clash in error.clashes
            ],
        }
    return ErrorAnswer(
        known.status,
        known.code,
        known.message,
        known.retry,
        known.after_s,
        kind=type(error).__name__,
        details=details,
    )
