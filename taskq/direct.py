"""Transport of direct agents, which have their own connections to PostgreSQL.

Each call runs one or a few server-side functions. With the front (Redis lists of tasks leased
ahead), a claim without reports is served from the front first. A claim with reports goes to the
database together with them, and to the front if the database has no task or is unavailable. Unlike
in a gateway (`gateway.fronted`), a claim from the front does not check that the session is still
open; its next heartbeat does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from taskq.blobs.catalogue import open_blobs
from taskq.blobs.store import BlobStore
from taskq.db.connections import Connection, Database, Statements
from taskq.dispatch import heartbeats
from taskq.dispatch.exchange import Asked, Exchanges, asked, run, told_as_transport
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.sessions import presented
from taskq.front.address import FrontAddress
from taskq_agent.errors import SessionLost, TransportFailed
from taskq_agent.protocol import Answer, Heartbeat, HeartbeatAnswer, Hello, Request, Welcome
from taskq_agent.text import clean

if TYPE_CHECKING:
    from taskq.front.blocking import BlockingPool

LEASE_S: Final = 120.0
NOTHING: Final = Answer()


class DirectTransport:
    """Transport that calls the database directly. Heartbeats use a connection of their own."""

    def __init__(
        self,
        database: Database,
        *,
        lease_s: float = LEASE_S,
        blobs: BlobStore | None = None,
        front: FrontAddress | None = None,
    ) -> None:
        """Set the transport up; it opens no connection yet.

        lease_s: silence after which the agent's tasks are handed out again, 1 to 86400 s.
        blobs: by default those of `open_blobs`.
        front: the Redis of the front, which the refiller of a keeper or a gateway fills; None:
        claim from the database only.
        """
        self._blobs = open_blobs(database) if blobs is None else blobs
        self._exchange_connection = database.dedicated_connection()
        self._heartbeat_connection = database.dedicated_connection()
        self._lease_s = lease_s
        self._path = ""
        self._offers: tuple[str, ...] = ()
        # By session, since a heartbeat of a session that was replaced may come late.
        self._hellos: dict[int, Hello] = {}
        # By connection: the timeline of the server that is known to have the session.
        self._session_timelines: dict[Connection, int] = {}
        self._exchanges = Exchanges()
        self._front: BlockingPool | None = None
        if front is not None:
            from taskq.front.blocking import BlockingPool  # noqa: PLC0415  # the extra may be missing

            self._front = BlockingPool(database, front, self._exchanges.described)

    def open(self, hello: Hello) -> Welcome:
        """Open a session, or find the one that this key has opened."""
        with _connected(self._exchange_connection) as statements:
            session = self._open_session(statements, hello)
            self._hellos[session] = hello
            self._session_timelines[self._exchange_connection] = self._exchange_connection.timeline
            heartbeat_s = self._lease_s / 4
            if self._front is not None:  # a heartbeat must name pooled tasks before their deadline
                (front,) = statements.rows("front")
                heartbeat_s = min(heartbeat_s, front["pool_s"] / 4)
        self._path, self._offers = hello.campaign, hello.offers
        return Welcome(session=session, heartbeat_s=heartbeat_s, lease_s=self._lease_s)

    def _open_session(self, statements: Statements, hello: Hello) -> int:
        """Return the session of this hello; open it if there is none."""
        return int(statements.value("open_session", **presented(hello, self._lease_s)))

    @contextmanager
    def _in_session(self, connection: Connection, session: int) -> Iterator[Statements]:
        """Yield the connection; raise `SessionLost` if the server does not know the session.

        A standby that has taken over may lack it, and may have given its number to another session.
        The key of the hello finds a session that was replicated.
        """
        with _connected(connection) as statements:
            hello = self._hellos.get(session)
            if self._session_timelines.get(connection) != connection.timeline and hello is not None:
                found = self._open_session(statements, hello)
                if found != session:
                    statements.value("end_session", session=found, why=None, exit_code=None)
                    raise SessionLost(
                        "another server has taken over, which does not know the session"
                    )
                self._session_timelines[connection] = connection.timeline
            yield statements

    def beat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Keep the session alive."""
        with self._in_session(self._heartbeat_connection, beat.session) as statements:
            row = statements.row("beat", beats=f"[{heartbeats.encoded(beat)}]")
        answer = heartbeats.outcome(row, self._heartbeat_connection.timeline)
        if isinstance(answer, SessionLost):
            raise answer
        return answer

    def close(self, session: int, reason: str = "", exit_code: int = 0) -> None:
        """End the session, the connections, and the thread of the front."""
        try:
            # A session that the server does not know has ended; its number may be reused there.
            with (
                suppress(SessionLost),
                self._in_session(self._exchange_connection, session) as statements,
            ):
                why = clean(reason) or None
                statements.value("end_session", session=session, why=why, exit_code=exit_code)
        finally:
            self._exchange_connection.close()
            self._heartbeat_connection.close()
            if self._front is not None:
                self._front.close()

    def exchange(self, request: Request) -> Answer:
        """Report and claim; see `Exchanges.steps`."""
        scope = Scope(self._path, self._offers, request.lifetime_s, request.without)
        exchange = asked(request, scope)
        front = self._front if request.ahead and request.want else None
        if front is None:
            return self._exchanged(exchange)
        if not request.reports:
            return self._popped(exchange, front) or self._exchanged(exchange)
        try:
            answer = self._exchanged(exchange)
        except TransportFailed:
            popped = self._popped(exchange, front)
            if popped is None:
                raise
            return popped  # without verdicts: the agent sends the reports again
        return answer if answer.tasks else self._popped(exchange, front, answer) or answer

    def _exchanged(self, exchange: Asked) -> Answer:
        steps = self._exchanges.steps([exchange])
        with self._in_session(self._exchange_connection, exchange.session) as statements:
            (answer,) = run(steps, lambda query: statements.rows(query.name, **query.values))
        if isinstance(answer, SessionLost):
            raise answer
        answer.timeline = self._exchange_connection.timeline
        return answer

    def _popped(
        self, exchange: Asked, front: BlockingPool, partial: Answer = NOTHING
    ) -> Answer | None:
        """Claim tasks from the front; None: it has none, or their campaign cannot be read.

        partial: the answer of the database to the reports, whose verdicts are passed on.
        """
        tasks = front.claim(exchange.session, exchange.lease, exchange.want, exchange.serving)
        if not tasks:
            return None
        campaign = self._exchanges.described.of(tasks[0])
        if campaign is None:
            try:
                with _connected(self._exchange_connection) as statements:
                    rows = statements.rows("campaign_by_id", campaign=tasks[0].campaign)
            except TransportFailed:
                return None  # a repeated claim gets them again; otherwise their leases expire
            if not rows:  # the campaign was just removed, with its tasks
                return None
            campaign = self._exchanges.described.put(rows[0])
        for task in tasks:  # the campaign may have been changed since they were leased
            task.revision = campaign.revision
        return Answer(partial.acks, tuple(tasks), (campaign,), timeline=partial.timeline)

    def break_off(self, request: Request) -> None:
        """Do nothing: the database answers each claim at once."""

    def read_blob(self, digest: str, offset: int) -> Iterator[bytes]:
        """Yield a blob from an offset to its end."""
        with told_as_transport():
            yield from self._blobs.read(digest, offset)

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store a blob."""
        with told_as_transport():
            self._blobs.put_verified(digest, data)


@contextmanager
def _connected(connection: Connection) -> Iterator[Statements]:
    """Yield the open connection; translate errors to those of a transport."""
    with told_as_transport(), connection.connected() as statements:
        yield statements
