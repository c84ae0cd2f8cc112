"""What keeps the whole server waiting, mostly sessions of PostgreSQL, and the reason for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from taskq.db.access import Queries
from taskq.diagnosis.reasons import Reason, brief, some, verb
from taskq.model.words import command, counted, duration, instant

#: Seconds after which a reader that waits for somebody's lock looks whose it is.
LOCK_WAIT_S: Final = 5.0
_STANDBY: Final = "SyncRep"
#: Code of the reason that comes before all others.
SET_BACK: Final = "set-back"


@dataclass(frozen=True, slots=True)
class Blocker:
    """What others wait for in PostgreSQL, mostly a session; see `explain_blockers.sql`."""

    pid: int
    login: str | None
    since: datetime | None
    statement: str | None
    waiting: int
    longest_s: float
    tables: Sequence[str]
    passed_by: bool = False
    event: str | None = None
    standbys: str | None = None

    @property
    def keeps(self) -> str:
        """What it keeps from whom, in words."""
        it = f"the session {self.pid} of {self.login or 'an unknown login'}"
        if self.waiting:
            return (
                f"{counted(self.waiting, 'session')} of the database "
                f"{verb(self.waiting, 'waits', 'wait')} for up to {duration(self.longest_s)} for a "
                f"lock that {it} holds"
            )
        number = len(self.tables)
        if self.passed_by:
            return (
                f"{it[:1].upper()}{it[1:]} keeps rows of the {verb(number, 'table', 'tables')} "
                f"{some(self.tables)} locked, and does nothing: claims pass such tasks by"
            )
        return (
            f"Nobody can read the {verb(number, 'table', 'tables')} {some(self.tables)}, which "
            f"{it} keeps locked"
        )


def read_blockers(database: Queries) -> list[Blocker]:
    """Return what keeps the server from its work; that can be read at any time."""
    return [Blocker(**row) for row in database.rows("explain_blockers")]


def server_blocked(blockers: Iterable[Blocker]) -> Iterator[Reason]:
    """Name that for which the server stands still, and the administrator's remedy."""
    for it in blockers:
        if it.event is not None:
            yield _commits_wait(it, it.event)
            continue
        since = f", in a transaction since {instant(it.since)}" if it.since else ""
        last = f"; its last statement: {brief(it.statement)}" if it.statement else ""
        yield Reason(
            "server-blocked",
            f"{it.keeps}{since}{last}. Results wait meanwhile; cancel "
            "nothing. Its owner should end the transaction; an administrator of "
            f"PostgreSQL can end it by: select pg_terminate_backend({it.pid})",
            lost=it.waiting or it.passed_by,
            blocks=not it.passed_by,
            figures={"pid": it.pid, "waiting": it.waiting, "longest_s": it.longest_s},
            since=it.since,
        )


def stands_still(blockers: Iterable[Blocker]) -> bool:
    """Return whether all may stand still, so that no silence is anybody's fault."""
    return any(not it.passed_by for it in blockers)


def _commits_wait(it: Blocker, event: str) -> Reason:
    number = it.waiting
    text = f"{counted(number, 'commit')} of the database {verb(number, 'waits', 'wait')} for up to "
    text += f"{duration(it.longest_s)} "
    if event == _STANDBY:
        text += f"for a standby to confirm (synchronous_standby_names = '{brief(it.standbys)}'): "
        text += "it is not there, or behind"
        remedy = "start the standby; or `alter system set synchronous_standby_names = ''`, then "
        remedy += "`select pg_reload_conf()`: what is acknowledged is then on one server"
    else:
        text += f"for the disk of its log ({event})"
        remedy = "look at that disk and its file system: full, slow, or gone"
    return Reason(
        "server-blocked",
        f"{text}. Claims, reports and heartbeats wait meanwhile; cancel and restart nothing. An "
        f"administrator of PostgreSQL should {remedy}.",
        lost=number,
        blocks=True,
        commands=[command("db", "check")],
        figures={"event": event, "waiting": number, "longest_s": it.longest_s},
        since=it.since,
    )


def stood_still(stalled: Mapping[str, Any] | None) -> Iterator[Reason]:
    """Say that the queue stood still within the hour. stalled: see `explain_upkeep.sql`."""
    if stalled is None:
        return
    until = instant(datetime.fromisoformat(stalled["until"]))
    yield Reason(
        "stood-still",
        f"The queue stood still for {duration(stalled['seconds'])} within the hour, until {until}: "
        "the server was away, its commits waited, or a session kept a table for itself, so nobody "
        "could claim or report. No attempt is judged by that time.",
        figures={"stalled_s": stalled["seconds"], "until": until},
    )


def was_set_back(path: str, found: Mapping[str, Any] | None) -> Iterator[Reason]:
    """Say that committed work is gone, and what people must do again. found: see `Upkeep`."""
    if found is None:
        return
    since, until, noted = (
        datetime.fromisoformat(found[name]) for name in ("gone_since", "gone_until", "noted_at")
    )
    gone_s = max(0.0, (until - since).total_seconds())
    yield Reason(
        SET_BACK,
        f"The database was set back, as was found at {instant(noted)}: up to {duration(gone_s)} of "
        f"what was committed until {instant(until)} is gone, since a backup was restored, or a "
        "server took over that lacked it. Results of that time are computed again. What people did "
        "in that time is not: repeat your seeds and cancels, and changes of campaigns, tokens and "
        "bans.",
        lost=1,
        commands=[command("audit", path), command("seed", path, "FILE")],
        figures={"gone_s": gone_s, "noted_at": instant(noted)},
        since=noted,
    )
