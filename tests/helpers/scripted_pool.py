"""Scripted pool: a test leases ahead and returns, in place of Redis, refiller and gateway."""

from __future__ import annotations

import hmac
import json
import uuid
from collections.abc import Iterable
from typing import Any

from taskq.db.connections import Database
from tests.helpers.scripted_agent import Claimed


class ScriptedPool:
    """Leases ahead, and decodes entries as docs and SQL specify them, with code of its own."""

    def __init__(self, database: Database, campaign: int, pool_s: float = 120.0) -> None:
        self._database = database
        self.campaign = campaign
        self.holder = str(uuid.uuid4())
        self.state: dict[str, Any] = {}
        self.begin(pool_s)

    def begin(self, pool_s: float = 120.0) -> int:
        """Begin a new epoch; return its number."""
        row = self._database.row("begin_front", pool_s=pool_s)
        assert row is not None
        self.state = row
        return int(row["epoch"])

    def entries(self, most: int, *, before: int | None = None, epoch: int = 0) -> list[str]:
        """Lease some tasks ahead; return their entries."""
        row = self._database.row(
            "lease_ahead",
            epoch=epoch or self.state["epoch"],
            campaign=self.campaign,
            most=most,
            before=before,
        )
        assert row is not None
        return list(row["entries"] or ())

    def lease(self, most: int, *, before: int | None = None) -> list[Claimed]:
        """Lease some tasks ahead; return them as a gateway that pops their entries gets them."""
        return [self.read(entry) for entry in self.entries(most, before=before)]

    def read(self, entry: str) -> Claimed:
        """Return the task of an entry, after verifying its authentication tag."""
        tag, body = entry[:32], entry[32:]
        digest = hmac.new(self.state["secret"], body.encode(), "sha256").hexdigest()
        assert digest[:32] == tag
        campaign, _, task, attempt, leased_ms, key, payload = json.loads(body)
        rest = digest[32:]
        lease = uuid.UUID(f"{leased_ms:012x}8{rest[:3]}8{rest[3:18]}")
        return Claimed(campaign, task, str(lease), attempt, key, payload)

    def give_back(self, tasks: Iterable[Claimed]) -> int:
        """Return leases; the result is how many tasks wait again."""
        tasks = list(tasks)
        return int(
            self._database.value(
                "return_ahead",
                campaigns=[task.campaign for task in tasks],
                tasks=[task.task for task in tasks],
                leases=[task.lease for task in tasks],
                lost=False,
            )
        )

    def keep(self, *stocked: tuple[int, int, int], holder: str = "") -> dict[str, Any]:
        """Run a round of the refiller; stocked: tuples of campaign, entries and rank."""
        row = self._database.row(
            "keep_front",
            holder=holder or self.holder,
            term_s=10.0,
            stocked=json.dumps(stocked),
            look=True,
        )
        assert row is not None
        return row
