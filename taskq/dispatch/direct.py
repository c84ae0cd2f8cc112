"""Direct transport: an agent with a connection of its own to PostgreSQL, without a gateway.

Each call is one or a few server-side functions. With a front (Redis lists of tasks that the front's
pool session leased before an agent asks), a claim without reports is served from the front first. A
claim with reports goes to the database together with them, and to the front if the database has no
task or is away. Unlike in a gateway (`gateway.fronted`), nothing checks on the way whether the
session still lives: its next heartbeat finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from taskq.db.connections import Connection, Database, Statements
from taskq.dispatch import heartbeats
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.campaign_faults import as_transport_errors
from taskq.dispatch.exchange import Exchanges, run
from taskq.dispatch.exchange_request import ExchangeRequest, exchange_request, session_values
from taskq.dispatch.fair_share import Scope
from taskq.files.archives import Checkpoints, Outputs
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq_agent.errors import AnswerUnreadable, SessionLost, TransportFailed
from taskq_agent.protocol import (
    Answer,
    Heartbeat,
    HeartbeatAnswer,
    Held,
    Hello,
    Input,
    Request,
    Task,
    Welcome,
)
from taskq_agent.text import clean

#: Seconds of silence after which an agent's tasks are handed out again.
LEASE_S: Final = 120.0
NOTHING: Final = Answer()


class LeasedAhead(Protocol):
    """Tasks that were leased before an agent asks; see `taskq.front.blocking.BlockingPool`."""

    def claim(self, session: int, lease: str, want: int, scope: Scope) -> list[Task]:
        """Return up to `want` tasks of one campaign; empty: claim in PostgreSQL."""

    def close(self) -> None:
        """Stop serving them."""


class DirectTransport:
    """The agent's transport to PostgreSQL. Heartbeats use a connection of their own."""

    def __init__(
        self,
        database: Database,
        *,
        lease_s: float = LEASE_S,
        blobs: BlobStore | None = None,
        front: Callable[[Database, CampaignCache], LeasedAhead] | None = None,
    ) -> None:
        """Open nothing yet.

        lease_s: silence after which the agent's tasks are handed out again, 1 to 86400 s.
        blobs: by default those of `open_blobs`.
        front: makes the source of tasks leased ahead, and puts the terms of their campaigns into
        the cache; None if there is no front.
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
        self._front = None if front is None else front(database, self._exchanges.campaign_cache)

    def open(self, hello: Hello) -> Welcome:
        """Open a session, or find the one that this hello's key has opened."""
        with _statements_on(self._exchange_connection) as statements:
            session = self._find_or_open(statements, hello)
            self._hellos[session] = hello
            self._known_on[self._exchange_connection] = self._exchange_connection.timeline
            heartbeat_s = self._lease_s / 4
            if self._front is not None:  # a heartbeat must name pooled tasks before their deadline
                (front,) = statements.rows("front_state")
                heartbeat_s = min(heartbeat_s, front["pool_s"] / 4)
        self._path, self._offers = hello.campaign, hello.offers
        return Welcome(session=session, heartbeat_s=heartbeat_s, lease_s=self._lease_s)

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
                    statements.value("end_session", session=found, why=None, exit_code=None)
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
            answer = heartbeats.outcome(row, timeline, why["why"] if why else "")
        if isinstance(answer, SessionLost):
            raise answer
        return answer

    def close(self, session: int, reason: str = "", exit_code: int = 0) -> None:
        """End the session, the connections, and the thread of the front."""
        try:
            # A session that the server has lost needs no end; its number may be another agent's.
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
        answer = self._exchange(request, scope)
        if request.want:
            self._found_nothing = not answer.tasks
        return answer

    def _exchange(self, request: Request, scope: Scope) -> Answer:
        exchange = exchange_request(request, scope)
        front = self._front if request.ahead and request.want else None
        if front is None:
            return self._run_exchange(exchange)
        if not request.reports:
            return self._claim_ahead(exchange, front) or self._run_exchange(exchange)
        try:
            answer = self._run_exchange(exchange)
        except TransportFailed:
            popped = self._claim_ahead(exchange, front)
            if popped is None:
                raise
            return popped  # without verdicts: the reports come again
        return answer if answer.tasks else self._claim_ahead(exchange, front, answer) or answer

    def _run_exchange(self, exchange: ExchangeRequest) -> Answer:
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

    def _claim_ahead(
        self, exchange: ExchangeRequest, front: LeasedAhead, reported: Answer = NOTHING
    ) -> Answer | None:
        """Claim from the front; None if it has no task or the campaign's terms cannot be read."""
        tasks = front.claim(exchange.session, exchange.lease, exchange.want, exchange.scope)
        if not tasks:
            return None
        campaign = self._exchanges.campaign_cache.of(tasks[0])
        if campaign is None:
            try:
                with _statements_on(self._exchange_connection) as statements:
                    rows = statements.rows("campaign_by_id", campaign=tasks[0].campaign)
            except TransportFailed:
                return None  # a repeated claim gets them again; otherwise their lease expires
            if not rows:  # removed just now, with its tasks
                return None
            campaign = self._exchanges.campaign_cache.put(rows[0])
        for task in tasks:  # which may have been leased before the campaign was changed
            task.revision = campaign.revision
        return Answer(reported.acks, tuple(tasks), (campaign,), timeline=reported.timeline)

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
