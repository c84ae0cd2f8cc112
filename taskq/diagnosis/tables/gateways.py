"""Gateways: columns."""

from __future__ import annotations

from typing import Final

from taskq.diagnosis.servers import GatewayLoad
from taskq.model.columns import Column

NONE_KNOWN: Final = "No gateway is known here; each reports every 10 s."

GATEWAYS: Final[tuple[Column[GatewayLoad], ...]] = (
    Column("gateway", lambda gateway: gateway.name),
    Column("release"),
    Column("sessions", kind="count", means="Sessions that it has lately heard."),
    Column("exchanges", lambda gateway: gateway.per_s, "rate"),
    Column("state", is_bad=lambda gateway: not gateway.is_there or gateway.front is False),
)
