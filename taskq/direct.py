"""The agent's transport beside the database: each call is one or a few server-side functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from taskq.choice import Serving
from taskq.database import Database, Line, Statements
from taskq.exchanging import Exchanges, asked, run, told_as_transport
from taskq_agent.errors import SessionLost
from taskq_agent.protocol import Answer, Beat, BeatAnswer, Held, Hello, Request, Welcome

LEASE_S: Final = 120.0


class DirectTransport:
    """Speaks with the queue in the database. Beats use a connection of their own."""

    def __init__(self, database: Database, *, lease_s: float = LEASE_S) -> None:
        """lease_s: silence after which the agent's tasks are handed out again, 1 to 86400 s."""
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
        held = json.dumps([[one.campaign, one.task, one.lease] for one in beat.held])
        with _connected(self._beat_line) as statements:
            rows = statements.rows(
                "heartbeat",
                session=beat.session,
                held=held,
                pending=list(beat.pending),
                drawn=beat.drawn or None,
            )
        return BeatAnswer(
            tuple(Held(row["campaign_id"], row["task_id"], row["lease_id"]) for row in rows)
        )

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


@contextmanager
def _connected(line: Line) -> Iterator[Statements]:
    """Give the line's connection; errors come out as a transport's."""
    with told_as_transport(), line.connected() as statements:
        yield statements
