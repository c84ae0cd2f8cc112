"""Sessions of PostgreSQL that keep the whole server waiting, and the reason that names them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from taskq.diagnosis.reasons import Reason, brief, verb
from taskq.model.words import counted, duration, instant


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session of PostgreSQL that others wait for; see `explain_blockers.sql` for the fields."""

    pid: int
    login: str | None
    since: datetime | None
    statement: str | None
    waiting: int
    longest_s: float


def server_blocked(blockers: Iterable[Blocker]) -> Iterator[Reason]:
    """Name the sessions for which the server stands still, and the administrator's remedy."""
    for it in blockers:
        since = f", in a transaction since {instant(it.since)}" if it.since else ""
        last = f"; its last statement: {brief(it.statement)}" if it.statement else ""
        number = counted(it.waiting, "session")
        yield Reason(
            "server-blocked",
            f"{number} of the database {verb(it.waiting, 'waits', 'wait')} for up to "
            f"{duration(it.longest_s)} for a lock that the session {it.pid} of "
            f"{it.login or 'an unknown login'} holds{since}{last}. Results wait meanwhile; cancel "
            "nothing. Its owner should end the transaction; an administrator of "
            f"PostgreSQL can end it by: select pg_terminate_backend({it.pid})",
            lost=it.waiting,
            blocks=True,
            figures={"pid": it.pid, "waiting": it.waiting, "longest_s": it.longest_s},
        )
