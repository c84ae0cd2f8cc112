"""Managers' statements: run by name, in threads, apart from agents' requests.

The header of a statement says whether it is offered (`db.catalogue`). Its parameters name the
campaigns that it is about: `path` and `scope` by path, `campaign` by id.

Each runs in a transaction that begins with `permit`. So PostgreSQL looks up and enforces the rights
of the token, and nothing is cached. Managers have a small pool of connections of their own.
Requests, answers and statements are bounded in size and number (`manager_turns`), so that managers
delay nobody but managers.

A body is a JSON object with the parameters. One of them, named by a query string (`?rest=tasks`),
may follow the first line as it is, so that a chunk of tasks need not be decoded here. An answer is
JSON Lines: the columns, as [name, type of PostgreSQL], then an array for each row.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response

from taskq.db.address import Row
from taskq.db.catalogue import Offer, all_statements
from taskq.db.connections import Database, JsonText, Statements
from taskq.db.statements import EncodedText
from taskq.db.stored_spec import check_handler_of
from taskq.db.tokens import hashed
from taskq.files.blob_store import MAX_INPUT_BYTES, BlobStore
from taskq.gateway.errors import Busy, ErrorAnswer, StatementTooLong, TooLarge
from taskq.gateway.manager_turns import MOST_AT_ONCE, ManagerTurns, PlacedAnswer
from taskq.gateway.messages import MAX_BODY_BYTES, BadRequest, encode, read_values
from taskq.gateway.requests import LARGE_BYTES, read_body
from taskq.model.errors import (
    Forbidden,
    KeyConflict,
    NotOverGateway,
    ServerUnsuitable,
    TaskqError,
    Unavailable,
    UsageError,
)
from taskq.model.seed import check_path

_PATHS: Final = frozenset({"path", "scope"})
_COUNTS: Final = frozenset({"ended", "limit", "most", "named", "scan"})
_WHOLE_NUMBERS: Final = frozenset({"smallint", "integer", "bigint"})


def offered(name: str) -> Offer:
    """Return how a statement is offered; raise `NotOverGateway` if it is not."""
    known = all_statements().get(name)
    if known is None or known.offer is None:
        raise NotOverGateway(name if name.isidentifier() and len(name) <= 60 else "this")  # noqa: PLR2004
    return known.offer


def checked(name: str, values: dict[str, Any]) -> None:
    """Raise `BadRequest` or `InvalidPath` unless the values fit the parameters of a statement."""
    parameters = all_statements()[name].parameters
    wanted = parameters.keys()
    if values.keys() != wanted:
        raise BadRequest(f"{name} takes {', '.join(sorted(wanted)) or 'nothing'}, by these names")
    for one in _PATHS & wanted:
        check_path(str(values[one]))
    for one in _COUNTS & wanted:
        if type(values[one]) is not int or not 0 <= values[one] <= offered(name).most:
            raise BadRequest(f"{one} must be a number from 0 to {offered(name).most}")
    if "campaign" in wanted and type(values["campaign"]) is not int:
        raise BadRequest("campaign must be the id of one")
    if isinstance(values.get("spec"), (str, bytes)):
        check_handler_of(values["spec"])
    for one, kind in parameters.items():
        # PostgreSQL would round it.
        if kind in _WHOLE_NUMBERS and isinstance(values[one], (bool, float)):
            raise BadRequest(f"{one} must be a whole number")


def about(name: str, values: dict[str, Any]) -> tuple[list[str], list[int]]:
    """Return the campaigns that a statement is about: by paths, and by ids."""
    if offered(name).whole:
        return ["/"], []
    paths = [str(values[one]) for one in sorted(_PATHS & values.keys())]
    return paths, [values["campaign"]] if "campaign" in values else []


MAX_BYTES: Final = 8 << 20
#: Limits of an answer, in bytes. A page ends after the first. Any other answer is refused if it has
#: more than the second, compressed, since it is kept until the client takes it; or more than the
#: third, uncompressed.
PAGE_BYTES: Final = 4 << 20
MAX_KEPT_BYTES: Final = 8 << 20
MAX_ANSWER_BYTES: Final = 256 << 20
#: Inputs that are uploaded at a time; each is a temporary file meanwhile.
MOST_UPLOADS: Final = 2
#: A refused statement with a large body keeps its turn for this multiple of the time that it took,
#: and for this many seconds at most: PostgreSQL reads the whole body before it finds the fault.
REFUSED_REST_FACTOR: Final = 20.0
REFUSED_REST_S: Final = 5.0

_GZIP: Final = 31  # of zlib: with the header of gzip
_FAST: Final = 1
_TAKES_TOO_LONG: Final = frozenset({"57014", "55P03"})  # cancelled by a time limit
_NO_RIGHT: Final = "42501"

Result = TypeVar("Result")


class ManagerQueries:
    """Runs managers' statements; for one asyncio loop."""

    def __init__(self, database: Database) -> None:
        """database: with `MOST_AT_ONCE` connections, used by nobody else; anonymous."""
        self._database = database
        # Not the loop's own threads, which agents' blobs need.
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "taskq-managers")
        self._uploads = asyncio.Semaphore(MOST_UPLOADS)
        self._turns = ManagerTurns()

    async def answer(self, token: str, name: str, request: Request) -> Response:
        """Run a statement; answer with its columns and rows as JSON Lines, compressed by gzip.

        Raise `NotOverGateway` if it is not offered, `Unauthorized` or `Forbidden` if the token does
        not allow it, `StatementTooLong` if it exceeds its time limit, and what the statement
        raises.
        """
        place = self._turns.admit(token)
        try:
            body = await read_body(request, MAX_BYTES)
            gzipped = request.headers.get("content-encoding") == "gzip"
            rest = request.query_params.get("rest")
            is_large = gzipped or len(body) > LARGE_BYTES
            async with place.turn(), _rest_if_refused(is_large):
                lines = await self._run(lambda: self._answer(token, name, body, gzipped, rest))
        except BaseException:
            place.leave()
            raise
        return PlacedAnswer(lines, place)

    async def store(self, token: str, digest: str, blobs: BlobStore, request: Request) -> None:
        """Store an input of at most 1 GiB, for a submitter's token; see `BlobStore.put_file`."""
        await self._run(lambda: self._check(token, Offer("submitter")))
        if self._uploads.locked():
            raise Busy
        async with self._uploads:
            with tempfile.NamedTemporaryFile(prefix="taskq-input-") as file:
                size = 0
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > MAX_INPUT_BYTES:
                        raise TooLarge(f"an input of at most {MAX_INPUT_BYTES} bytes is allowed")
                    await self._run(partial(file.write, chunk))
                file.flush()
                await self._run(lambda: blobs.put_file(Path(file.name), digest))

    async def _run(self, run: Callable[[], Result]) -> Result:
        """Call a function in one of the threads, when its turn comes."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def _check(self, token: str, how: Offer) -> None:
        with self._database.transaction() as statements:
            _permitted(statements, token, how)

    def _answer(
        self, token: str, name: str, body: bytes, gzipped: bool, rest: str | None
    ) -> bytearray:
        how = offered(name)
        values = _values(_decompressed(body) if gzipped else body, rest)
        checked(name, values)
        paths, campaigns = about(name, values)
        try:
            with self._database.transaction() as statements:
                found = _permitted(statements, token, how, paths=paths, campaigns=campaigns)
                lesser = how.instead is not None and found["kind"] == "manager"
                with statements.table(how.instead or name if lesser else name, **values) as table:
                    columns, rows = table
                    return _compressed(
                        columns, rows if found["within"] else iter(()), paged=how.paged
                    )
        except (ServerUnsuitable, Unavailable) as error:
            raise _for_manager(error, name, how) from error


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
            "clashes": [[one.key, one.stored, one.offered, one.number] for one in error.clashes],
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


def _permitted(
    statements: Statements,
    token: str,
    how: Offer,
    *,
    paths: Sequence[str] = (),
    campaigns: Sequence[int] = (),
) -> Row:
    return statements.rows(
        "permit",
        hash=hashed(token),
        kind=how.kind,
        paths=list(paths),
        campaigns=list(campaigns),
        quiet=how.quiet,
        timeout_s=how.timeout_s,
    )[0]


def _for_manager(error: ServerUnsuitable | Unavailable, name: str, how: Offer) -> Exception:
    """Translate the error of a statement for a manager."""
    state = getattr(error.__cause__, "sqlstate", None)
    if state in _TAKES_TOO_LONG:
        return StatementTooLong(
            f"{name} took longer than {how.timeout_s:g} s; {how.hint}, or connect to PostgreSQL"
        )
    if state == _NO_RIGHT:
        return Forbidden(
            "this gateway's login may not do that for managers; the owner of the schema lets it, "
            "by `taskq db grant manager LOGIN`"
        )
    if isinstance(error, ServerUnsuitable):
        return UsageError(f"{name} does not take such values")
    return error


def _values(body: bytes, rest: str | None) -> dict[str, Any]:
    """Return the parameters in a body; raise `BadRequest` or `TooLarge`.

    It decodes only the first line, which is small: nothing else runs while it decodes.
    """
    end = -1 if rest is None else body.find(b"\n")
    end = len(body) if end < 0 else end
    if end > MAX_BODY_BYTES:
        raise TooLarge(
            f"parameters of at most {MAX_BODY_BYTES} bytes are allowed in an object; a longer one "
            "follows its line as it is, named as in ?rest=tasks"
        )
    if rest is None:
        return dict(read_values(body))
    return {**read_values(body[:end]), rest: EncodedText(memoryview(body)[end + 1 :])}


def _decompressed(body: bytes) -> bytes:
    stream = zlib.decompressobj(_GZIP)
    try:
        data = stream.decompress(body, MAX_BYTES + 1)
    except zlib.error:
        raise BadRequest("the body is not compressed by gzip, as its head says") from None
    if len(data) > MAX_BYTES:
        raise TooLarge(f"a body of at most {MAX_BYTES} bytes is allowed here, uncompressed")
    if not stream.eof or stream.unused_data:
        raise BadRequest("the body is not one whole gzip member")
    return data


def _compressed(
    columns: Sequence[tuple[str, str]], rows: Iterator[tuple[Any, ...]], *, paged: bool
) -> bytearray:
    """Return columns and rows as gzipped JSON Lines; if paged, the first rows only."""
    stream = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    kept = bytearray(stream.compress(encode(columns) + b"\n"))
    size = 0
    for row in rows:
        line = encode([Raw(one) if type(one) is JsonText else one for one in row])
        kept += stream.compress(line + b"\n")
        size += len(line)
        if paged and size > PAGE_BYTES:
            break
        if size > MAX_ANSWER_BYTES or len(kept) > MAX_KEPT_BYTES:
            raise TooLarge("the answer is too large; ask for less, or connect to PostgreSQL")
    kept += stream.flush()
    return kept
