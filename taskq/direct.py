"""The agent's transport beside the database: each call is one or a few server-side functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from taskq import beats
from taskq.blob_store import BlobStore
from taskq.blobs import open_blobs
from taskq.choice import Serving
from taskq.database import Database, Line, Statements
from taskq.exchanging import Exchanges, asked, run, told_as_transport
from taskq_agent.errors import SessionLost
from taskq_agent.protocol import Answer, Beat, BeatAnswer, Hello, Request, Welcome

LEASE_S: Final = 120.0


class DirectTransport:
    """Speaks with the queue in the database. Beats use a connection of their own."""

    def __init__(
        self, database: Database, *, lease_s: float = LEASE_S, blobs: BlobStore | None = None
    ) -> None:
        """Note where the queue is; nothing is opened yet.

        lease_s: silence after which the agent's tasks are handed out again, 1 to 86400 s.
        blobs: by default those of `open_blobs`.
        """
        self._blobs = open_blobs(database) if blobs is None else blobs
        self._exchange_line = database.line()
        self._beat_line = database.line()
        self._lease_s = lease_s
        self._path = ""
        self._offers: tuple[str, ...] = ()
        self._exchanges = Exchanges()

    def open(self, hello: Hello) -> Welcome:
        """Open a session, or find the one that this key has opened."""
        with _connected(self._exchange_line) as statements:
            session = statements.value(
                "open_session",
                path=hello.campaign,
                key=hello.key,
                lease_s=self._lease_s,
                agent=hello.name,
                host=hello.host,
                site=hello.site,
                pid=hello.pid,
                slots=hello.slots,
                release=hello.release,
                offers=list(hello.offers),
            )
        self._path, self._offers = hello.campaign, hello.offers
        return Welcome(session=session, heartbeat_s=self._lease_s / 4, lease_s=self._lease_s)

    def beat(self, beat: Beat) -> BeatAnswer:
        """Keep the session alive."""
        with _connected(self._beat_line) as statements:
            row = statements.row("beat", beats=f"[{beats.encoded(beat)}]")
        answer = beats.outcome(row)
        if isinstance(answer, SessionLost):
            raise answer
        return answer

    def close(self, session: int) -> None:
        """End the session and the connections."""
        try:
            with _connected(self._exchange_line) as statements:
                statements.value("end_session", session=session)
        finally:
            self._exchange_line.close()
            self._beat_line.close()

    def exchange(self, request: Request) -> Answer:
        """Report and claim; see `Exchanges.steps`."""
        serving = Serving(self._path, self._offers, request.lifetime_s)
        steps = self._exchanges.steps([asked(request, serving)])
        with _connected(self._exchange_line) as statements:
            (answer,) = run(steps, lambda query: statements.rows(query.name, **query.values))
        if isinstance(answer, SessionLost):
            raise answer
        return answer

    def break_off(self, request: Request) -> None:
        """Do nothing: the database keeps no claim waiting."""

    def read_blob(self, digest: str, offset: int) -> Iterator[bytes]:
        """Yield a blob from an offset to its end."""
        with told_as_transport():
            yield from self._blobs.read(digest, offset)

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store a blob."""
        with told_as_transport():
            self._blobs.put_verified(digest, data)


@contextmanager
def _connected(line: Line) -> Iterator[Statements]:
    """Give the line's connection; errors come out as a transport's."""
    with told_as_transport(), line.connected() as statements:
        yield statements
