"""Parameters of the statements that open a session; see open_session and enrol in sql/functions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from taskq_agent.protocol import Hello


def session_values(hello: Hello, lease_s: float) -> dict[str, Any]:
    """Return the parameters that open a session, or find the one that the hello's key has opened.

    lease_s: silence after which the agent's tasks are handed out again, 1 to 86400 s.
    """
    values = asdict(hello) | {"offers": list(hello.offers), "lease_s": lease_s}
    return values | {"path": values.pop("campaign"), "agent": values.pop("name")}
