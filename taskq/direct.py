"""The agent's transport beside the database: each call is one or a few server-side functions.

An exchange names one campaign, so an agent that serves a subtree must choose. The open campaigns
with waiting tasks are asked for once a second at most; one of them is drawn at random, all alike,
and if it turns out empty another, so no campaign starves.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from taskq.database import Database, Line, SessionEnded, Statements, array
from taskq.errors import TaskqError, Unavailable
from taskq_agent import protocol
from taskq_agent.errors import Refused, SessionLost, TransportFailed
from taskq_agent.protocol import (
    Ack,
    Answer,
    Beat,
    BeatAnswer,
    Held,
    Hello,
    Report,
    Request,
    Welcome,
)

LEASE_S: Final = 120.0
CHOICE_S: Final = 1.0
TRIES: Final = 3


class DirectTransport:
    """Speaks with the queue in the database. Beats use a connection of their own."""

    def __init__(
        self, database: Database, *, lease_s: float = LEASE_S, seed: int | None = None
    ) -> None:
        """lease_s: silence after which the agent's tasks are handed out again, 1 to 86400 s."""
        self._exchange_line = database.line()
        self._beat_line = database.line()
        self._lease_s = lease_s
        self._path = ""
        self._campaigns: dict[int, protocol.Campaign] = {}
        self._choice = _Choice(random.Random(seed))  # noqa: S311  # spreads load, guards nothing
        # Where the last claim went: asked again, it must go to the same campaign.
        self._claimed: tuple[str, int] | None = None

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
            )
        self._path = hello.campaign
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
        """Report and claim: one call for each campaign reported on, one of which claims too."""
        reports: dict[int, list[Report]] = {}
        for report in request.reports:
            reports.setdefault(report.campaign, []).append(report)
        verdicts: dict[tuple[int, int, str], str] = {}
        tasks: list[protocol.Task] = []
        with _connected(self._exchange_line) as statements:
            if request.want:
                for campaign in self._candidates(statements, request):
                    tasks = self._call(
                        statements, campaign, reports.pop(campaign, []), request, verdicts
                    )
                    if tasks:
                        break
            for campaign, rest in reports.items():
                self._call(statements, campaign, rest, None, verdicts)
            campaigns = self._campaigns_of(statements, tasks)
            unfinished = None
            if request.want and not tasks:
                counts = statements.rows("counts", path=self._path, depth=0)[0]
                unfinished = counts["waiting"] + counts["delayed"] + counts["working"]
        return Answer(
            acks=tuple(
                Ack(one.campaign, one.task, one.lease, verdicts[one.campaign, one.task, one.lease])
                for one in request.reports
            ),
            tasks=tuple(tasks),
            campaigns=campaigns,
            unfinished=unfinished,
        )

    def _candidates(self, statements: Statements, request: Request) -> Iterator[int]:
        """Yield the campaigns to claim in, one after the other until one gives tasks."""
        if self._claimed is not None and self._claimed[0] == request.lease:
            yield self._claimed[1]
        for _ in range(TRIES):
            campaign = self._choice.draw(statements, self._path, request.lifetime_s)
            if campaign is None:
                return
            self._claimed = (request.lease, campaign)
            yield campaign
            self._choice.empty(campaign)

    def _call(
        self,
        statements: Statements,
        campaign: int,
        reports: Sequence[Report],
        claim: Request | None,
        verdicts: dict[tuple[int, int, str], str],
    ) -> list[protocol.Task]:
        (row,) = statements.rows(
            "exchange",
            campaign=campaign,
            reports=json.dumps([encoded(one) for one in reports]) if reports else None,
            sessions=None if claim is None else array([claim.session]),
            leases=None if claim is None else array([claim.lease]),
            wants=None if claim is None else array([claim.want]),
        )
        for report, verdict in zip(reports, row["acks"] or (), strict=True):
            verdicts[campaign, report.task, report.lease] = verdict
        if row["refused"]:
            raise SessionLost("the session has ended")
        return [
            protocol.Task(
                campaign=campaign,
                revision=row["revision"],
                task=task,
                key=key,
                attempt=attempt,
                lease=lease,
                payload=payload,
            )
            for lease, task, attempt, key, payload in row["tasks"] or ()
        ]

    def _campaigns_of(
        self, statements: Statements, tasks: Sequence[protocol.Task]
    ) -> tuple[protocol.Campaign, ...]:
        """Return what the campaigns of these tasks share, asking for it when it has changed."""
        for task in tasks[:1]:
            known = self._campaigns.get(task.campaign)
            if known is None or known.revision != task.revision:
                row = statements.row("campaign_by_id", campaign=task.campaign)
                if row is None:  # removed just now; nobody misses its tasks
                    return ()
                self._campaigns[task.campaign] = protocol.Campaign(
                    campaign=task.campaign,
                    revision=task.revision,
                    path=row["path"],
                    handler=row["handler"] or {},
                    params=row["params"],
                    time_limit_s=row["time_limit_s"],
                )
            return (self._campaigns[task.campaign],)
        return ()


class _Choice:
    """The campaigns that can be claimed in, as they were within the last second."""

    def __init__(self, draw: random.Random) -> None:
        self._random = draw
        self._asked_at = float("-inf")
        self._waiting: list[int] = []

    def draw(self, statements: Statements, path: str, lifetime_s: float | None) -> int | None:
        """Return a campaign to claim in; None if no open one has waiting tasks."""
        now = time.monotonic()
        if now - self._asked_at > CHOICE_S:
            rows = statements.rows("servable", path=path, lifetime_s=lifetime_s)
            self._asked_at = now
            self._waiting = [row["campaign_id"] for row in rows]
        return self._random.choice(self._waiting) if self._waiting else None

    def empty(self, campaign: int) -> None:
        """Leave a campaign out that has turned out to have nothing waiting."""
        self._waiting = [one for one in self._waiting if one != campaign]


@contextmanager
def _connected(line: Line) -> Iterator[Statements]:
    """Give the line's connection; errors come out as a transport's."""
    try:
        with line.connected() as statements:
            yield statements
    except Unavailable as error:
        raise TransportFailed(str(error)) from error
    except SessionEnded as error:
        raise SessionLost(str(error)) from error
    except TaskqError as error:
        raise Refused(str(error)) from error


def encoded(report: Report) -> dict[str, Any]:
    """Return a report as the server-side functions take it, without what goes without saying."""
    body = {
        "task": report.task,
        "lease": report.lease,
        "outcome": report.outcome,
        "result": report.result,
        "error_class": report.error_class,
        "error": report.error,
        "exit_code": report.exit_code,
        "tail": report.tail,
        "phases": report.phases or None,
        "retry": report.retry if report.outcome == protocol.FAILED else None,
        "started": report.started if report.outcome == protocol.RELEASED else None,
    }
    return {name: value for name, value in body.items() if value is not None}
