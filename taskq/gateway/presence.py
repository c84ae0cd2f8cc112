"""The presence of a gateway in the database, for `taskq top` and the pages."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import Final

from taskq.gateway.http.certificates import ServerCertificate
from taskq.gateway.http.errors import Busy
from taskq.gateway.service import Service
from taskq.model.errors import TaskqError
from taskq.model.loop_faults import LoopFaults
from taskq.model.version import VERSION

log: Final = logging.getLogger("taskq.gateway")

PERIOD_S: Final = 10.0


class GatewayPresence:
    """Notes a gateway in the database. name: its host and port; certificate: None without TLS."""

    def __init__(
        self, service: Service, name: str, certificate: ServerCertificate | None = None
    ) -> None:
        self._service = service
        self._name = name
        self._certificate = certificate
        self._holder = str(uuid.uuid4())
        self._exchanges, self._at = 0, time.monotonic()
        self._faults = LoopFaults(log, "the record of this gateway's presence")

    async def run(self) -> None:
        """Note the gateway until cancelled; then note that it has ended."""
        try:
            while True:
                with self._faults.noted():
                    await self._note(self._sessions())
                await asyncio.sleep(PERIOD_S)
        finally:
            await self._note(None)

    def _sessions(self) -> int:
        """Return how many sessions are heard here; a live one sends within a third of its lease."""
        metrics, lease_s = self._service.metrics, self._service.settings.lease_s
        metrics.forget_silent(time.monotonic() - lease_s)
        since = time.monotonic() - lease_s / 2
        return sum(at >= since for at in metrics.heard.values())

    async def _note(self, sessions: int | None) -> None:
        now, exchanges = time.monotonic(), self._service.metrics.exchanges
        per_s = (exchanges - self._exchanges) / max(now - self._at, 1.0)
        self._exchanges, self._at = exchanges, now
        front = self._service.exchanges.front
        validity = None if self._certificate is None else self._certificate.validity()
        try:
            (row,) = await self._service.statements.rows(
                "note_gateway",
                holder=self._holder,
                name=self._name,
                release=VERSION,
                sessions=sessions,
                per_s=per_s,
                front=None if front is None else front.pool.breaker.closed,
                certificate_ends_s=None if validity is None else validity.ends,
            )
            if row["note_gateway"] is not None:
                self._service.clock_ahead_s = row["note_gateway"] - time.time()
        except (TaskqError, Busy) as error:
            log.debug("the presence of this gateway cannot be recorded: %s", error)
