"""Scripted agent: does what a test says, and calls the SQL functions as a real agent does."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from taskq.db.connections import Database
from taskq.model.errors import SessionEnded
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import DONE, FAILED, RELEASED
from taskq_agent.resources import with_protocol


@dataclass(frozen=True, slots=True)
class Claimed:
    """A task that an agent holds."""

    campaign: int
    task: int
    lease: str
    attempt: int
    key: str
    payload: dict[str, Any]

    @property
    def fence(self) -> dict[str, Any]:
        """The attempt, as heartbeats name it."""
        return {"campaign": self.campaign, "task": self.task, "lease": self.lease}


class ScriptedAgent:
    """One session, on a connection of its own. speaks: it offers the protocol, as agents do."""

    def __init__(
        self,
        database: Database,
        path: str = "/c",
        *,
        lease_s: float = 3_600.0,
        host: str = "node1",
        site: str = "here",
        offers: Sequence[str] = (),
        agent: str = "double",
        speaks: bool = True,
        slots: int = 1,
    ) -> None:
        self.path = path
        self.key = str(uuid.uuid4())
        self.drawn: str | None = None
        self.kept: dict[str, list[int]] = {}
        self._lease_ids = LeaseIds()
        self.database = database
        self._line = database.dedicated_connection()
        self.campaign: int = self._row("campaign", path=path)["campaign_id"]
        self.session: int = self._value(
            "open_session",
            path=path,
            key=self.key,
            lease_s=lease_s,
            agent=agent,
            host=host,
            site=site,
            pid=1,
            slots=slots,
            release="0",
            offers=list(with_protocol(tuple(offers)) if speaks else offers),
        )

    def close(self) -> None:
        """Close the connection; the session stays as it is."""
        self._line.close()

    def draw_lease(self) -> str:
        """Draw a lease id, younger than all before."""
        self.drawn = self._lease_ids()
        return self.drawn

    def forget_position(self) -> None:
        """Let the next claim search from the first task on, as on a new connection."""
        with self._line.connected() as statements:
            statements.script(f"set taskq.position_{self.campaign} = ''")

    def exchange(
        self, reports: Sequence[dict[str, Any]] = (), want: int = 0, *, lease: str | None = None
    ) -> dict[str, Any]:
        """Do one exchange; return `acks`, `tasks` and `refused` as the server gives them.

        With the statement that taskq's agents would use.
        """
        reporters = [report.get("session", self.session) for report in reports]
        if reporters == [self.session] and want in (0, 1):
            return self._row(
                "exchange_one",
                campaign=self.campaign,
                reports=json.dumps(list(reports)),
                session=self.session,
                lease=(lease or self.draw_lease()) if want else None,
            )
        return self._row(
            "exchange",
            campaign=self.campaign,
            reports=json.dumps(list(reports)) if reports else None,
            sessions=[self.session] if want else None,
            leases=[lease or self.draw_lease()] if want else None,
            wants=[want] if want else None,
        )

    def claim_singly(self, count: int) -> list[Claimed]:
        """Claim some tasks one by one, so that each has a row of its own."""
        return [task for _ in range(count) for task in self.claim(1)]

    def claim(self, want: int = 1, *, lease: str | None = None) -> list[Claimed]:
        """Claim tasks; return them in the order of their ids."""
        answer = self.exchange(want=want, lease=lease)
        assert answer["refused"] is None, "the session has ended"
        return self.claimed(answer)

    def claimed(self, answer: dict[str, Any]) -> list[Claimed]:
        """Return the tasks of an answer in the order of their ids."""
        tasks = [
            Claimed(self.campaign, task, held_under, attempt, key, payload)
            for held_under, task, attempt, key, payload, _ in answer["tasks"] or ()
        ]
        return sorted(tasks, key=lambda task: task.task)

    def report(self, task: Claimed, outcome: str, **details: Any) -> str:
        """Report how an attempt ended; return the verdict."""
        (verdict,) = self.exchange([report_of(task, outcome, **details)])["acks"]
        return str(verdict)

    def done(self, task: Claimed, result: dict[str, Any] | None = None) -> str:
        """Report an attempt as done; return the verdict."""
        return self.report(task, DONE, result=result or {})

    def fail(self, task: Claimed, error_class: str = "Boom", *, retry: bool = True) -> str:
        """Report an attempt as failed; return the verdict."""
        return self.report(task, FAILED, error_class=error_class, error="it broke", retry=retry)

    def release(self, task: Claimed, *, started: bool) -> str:
        """Hand an attempt back; return the verdict."""
        return self.report(task, RELEASED, started=started)

    def heartbeat(
        self,
        held: Iterable[Claimed] | None = (),
        *,
        pending: Iterable[str] = (),
        drawn: str | None = None,
        timeline: int = 0,
        warnings: Sequence[str] = (),
        claims: Sequence[dict[str, Any]] = (),
        says: Mapping[str, object] = MappingProxyType({}),
    ) -> set[int]:
        """Send a heartbeat that knows all leases drawn; return the tasks to stop.

        claims: as agents name them; `kept` has what the answer says of them: tasks by lease. says:
        further members.
        """
        beat = {
            "session": self.session,
            "held": None if held is None else [task.fence for task in held],
            "pending": list(pending),
            "drawn": drawn or self.drawn,
            "timeline": timeline,
            "claims": [*claims],
            **says,
        }
        if warnings:
            beat["trouble"] = {
                "failures": 0,
                "error_class": "",
                "try_in_s": 0.0,
                "warnings": [*warnings],
            }
        with self._line.connected() as statements:
            rows = statements.rows("beat", beats=json.dumps([beat]))
        if any(row["ended"] for row in rows):
            raise SessionEnded("the session has ended")
        self.kept = {lease: tasks for row in rows for _, lease, tasks in row["kept"] or ()}
        return {task for row in rows for _, task, _ in row["stop"] or ()}

    def leave(self, attempts: int | None = None) -> int:
        """End the session; return how many attempts were handed back."""
        end = {"why": None, "exit_code": None, "attempts": attempts}
        return int(self._value("end_session", session=self.session, **end))

    def _row(self, name: str, /, **values: object) -> dict[str, Any]:
        with self._line.connected() as statements:
            (row,) = statements.rows(name, **values)
        return row

    def _value(self, name: str, /, **values: object) -> Any:
        return next(iter(self._row(name, **values).values()))


def report_of(task: Claimed, outcome: str, **details: Any) -> dict[str, Any]:
    """Return a report as an exchange takes it."""
    return {"task": task.task, "lease": task.lease, "outcome": outcome, **details}
