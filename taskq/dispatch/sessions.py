"""Parameters of the statements that open a session; see open_session and enrol in sql/functions."""

from __future__ import annotations

from typing import Any

from taskq_agent.protocol import Hello


def session_values(hello: Hello, lease_s: float) -> dict[str, Any]:
    """Return the parameters that open a session, or find the one that the hello's key has opened.

    lease_s: silence after which the agent's tasks are handed out again, 1 to 86400 s.
    """
    return {
        "path": hello.campaign,
        "key": hello.key,
        "lease_s": lease_s,
        "agent": hello.name,
        "host": hello.host,
        "site": hello.site,
        "pid": hello.pid,
        "slots": hello.slots,
        "release": hello.release,
        "offers": list(hello.offers),
    }
