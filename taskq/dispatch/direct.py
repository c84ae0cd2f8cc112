"""Direct transport: an agent with a connection of its own to PostgreSQL, without a gateway.

Each call is one or a few server-side functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from taskq.db.connections import Connection, Database, Statements
from taskq.dispatch import heartbeats
from taskq.dispatch.exchange import Exchanges, run
from taskq.dispatch.exchange_request import ExchangeRequest, exchange_request, session_values
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.transport_errors import as_transport_errors
from taskq.files.archives import Checkpoints, Outputs
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq_agent.errors import AnswerUnreadable, SessionLost
from taskq_agent.protocol import (
    SILENT_END,
    Answer,
    Heartbeat,
    HeartbeatAnswer,
    Held,
    Hello,
    Input,
    Request,
    SessionEnd,
    Welcome,
)

#: Seconds of silence after which an agent's tasks are handed out again.
LEASE_S: Final = 120.0


class DirectTransport:
    """The agent's transport to PostgreSQL. Heartbeats use a connection of their own."""

    def __init__(
        self,
        database: Database,
        *,
        lease_s: float = LEASE_S,
        blobs: BlobStore | None = None,
    ) -> None:
        """Open nothing yet.

        lease_s: silence after which the agent's tasks are handed out again, 1 to 86400 s.
        blobs: by default those of `open_blobs`.
        """
        self._blobs = open_blobs(database) if blobs is None else blobs
        self._checkpoints = Checkpoints(database, self._blobs)
        self._outputs = Outputs(database, self._blobs)
        self._exchange_connection = database.dedicated_connection()
        self._heartbeat_connection = database.dedicated_connection()
        self._lease_s = lease_s
        self._path = ""
        self._offers: tuple[str, ...] = ()
        # By session: the heartbeat of a replaced session may come late.
        self._hellos: dict[int, Hello] = {}
        # The timeline of the server that knows the session, by the connection that asked it.
        self._known_on: dict[Connection, int] = {}
        self._exchanges = Exchanges()
        self._found_nothing = self._look_again = False

    def open(self, hello: Hello) -> Welcome:
        """Open a session, or find the one that this hello's key has opened."""
        with _statements_on(self._exchange_connection) as statements:
            session = self._find_or_open(statements, hello)
            banned = heartbeats.campaign_bans(statements.value("session_bans", session=session))
            self._hellos[session] = hello
            self._known_on[self._exchange_connection] = self._exchange_connection.timeline
        self._path, self._offers = hello.campaign, hello.offers
        return Welcome(session, self._lease_s / 4, self._lease_s, banned=banned)

    def _find_or_open(self, statements: Statements, hello: Hello) -> int:
        """Return the session that this hello's key has opened, or open one."""
        return int(statements.value("open_session", **session_values(hello, self._lease_s)))

    @contextmanager
    def _in_session(self, connection: Connection, session: int) -> Iterator[Statements]:
        """Give statements on a connection; raise `SessionLost` if its server has lost the session.

        A standby that has taken over may lack the session, and may have given its number to another
        session. The key of the hello still finds a session that was not lost.
        """
        with _statements_on(connection) as statements:
            hello = self._hellos.get(session)
            if self._known_on.get(connection) != connection.timeline and hello is not None:
                found = self._find_or_open(statements, hello)
                if found != session:
                    statements.value(
                        "end_session", session=found, why=None, exit_code=None, attempts=None
                    )
                    raise SessionLost(
                        "another server has taken over, which does not know the session"
                    )
                self._known_on[connection] = connection.timeline
            yield statements

    def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Renew the session; raise `SessionLost` if it has ended."""
        with self._in_session(self._heartbeat_connection, heartbeat.session) as statements:
            row = statements.row("beat", beats=f"[{heartbeats.encoded(heartbeat)}]")
            if updates := heartbeats.encoded_updates(heartbeat):
                statements.rows("note_updates", updates=f"[{updates}]")
            why = None
            if (sessions := heartbeats.draining([row])) != heartbeats.NOBODY:
                why = statements.row("drain_reasons", sessions=sessions)
            timeline = self._heartbeat_connection.timeline
            stamp = str(statements.value("stamp"))
            if later := heartbeats.later_stamps([heartbeat.stamp], stamp):
                heartbeats.log_set_back(statements.rows("note_stamps", stamps=later))
            answer = heartbeats.outcome(row, timeline, why["why"] if why else "", stamp)
        if isinstance(answer, SessionLost):
            raise answer
        return answer

    def close(self, session: int, end: SessionEnd = SILENT_END) -> None:
        """End the session and the connections."""
        try:
            # A session that the server has lost needs no end; its number may be another agent's.
            with (
                suppress(SessionLost),
                self._in_session(self._exchange_connection, session) as statements,
            ):
                statements.value(
                    "end_session",
                    session=session,
                    why=end.reason or None,
                    exit_code=end.exit_code,
                    attempts=end.attempts,
                )
        finally:
            self._exchange_connection.close()
            self._heartbeat_connection.close()

    def look_again(self) -> None:
        """Forget that there was nothing to claim a moment ago. May be called from any thread."""
        self._look_again = True

    def exchange(self, request: Request) -> Answer:
        """Report and claim; see `Exchanges.steps`."""
        scope = Scope(self._path, self._offers, request.lifetime_s, request.without)
        if self._look_again:
            self._look_again = False
            if self._found_nothing:
                self._exchanges.forget(scope)
        answer = self._exchange(exchange_request(request, scope))
        if request.want:
            self._found_nothing = not answer.tasks
        return answer

    def _exchange(self, exchange: ExchangeRequest) -> Answer:
        steps = self._exchanges.steps([exchange])
        with self._in_session(self._exchange_connection, exchange.session) as statements:
            try:
                (answer,) = run(steps, lambda query: statements.rows(query.name, **query.values))
            except (RecursionError, ValueError) as error:
                raise AnswerUnreadable(f"an answer cannot be read: {error}") from error
        if isinstance(answer, SessionLost):
            raise answer
        answer.timeline = self._exchange_connection.timeline
        return answer

    def cancel_exchange(self, request: Request) -> None:
        """Do nothing: a direct claim is always answered at once."""

    def read_blob(self, digest: str, offset: int) -> Iterator[bytes]:
        """Yield a blob from an offset to its end."""
        with as_transport_errors():
            yield from self._blobs.read(digest, offset)

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store a blob."""
        with as_transport_errors():
            self._blobs.put_named(digest, data)

    def find_checkpoint(self, held: Held) -> Input | None:
        """Return the blob with the last checkpoint of a task."""
        with as_transport_errors():
            return self._checkpoints.find(None, held)[0]

    def memory_failures(self, held: Held) -> int:
        """Return how often a task has run out of memory."""
        with as_transport_errors():
            return self._checkpoints.find(None, held)[1]

    def save_checkpoint(self, held: Held, saved: Input) -> bool:
        """Make a stored blob the checkpoint of a task."""
        with as_transport_errors():
            return self._checkpoints.save(None, held, saved)

    def save_output(self, held: Held, saved: Input) -> bool:
        """Make a stored blob the output files of an attempt."""
        with as_transport_errors():
            return self._outputs.save(None, held, saved)


@contextmanager
def _statements_on(connection: Connection) -> Iterator[Statements]:
    """Give statements on a connection; translate the queue's errors."""
    with as_transport_errors():
        try:
            with connection.connected() as statements:
                yield statements
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            connection.check_installed()  # rows of another release may differ
            raise
