"""`taskq` with a gateway that soon loses patience with its clients."""

from __future__ import annotations

from taskq.gateway.http import connection, handshakes, server
from taskq_cli.main import main

ARRIVAL_S = 1.0
MOST_SHAKING, MOST_OF_ADDRESS = 12, 5

if __name__ == "__main__":
    connection.ARRIVAL_S = ARRIVAL_S  # type: ignore[misc]  # final, but for tests
    connection.TAKING_S = ARRIVAL_S  # type: ignore[misc]
    connection.LINGER_S = ARRIVAL_S  # type: ignore[misc,attr-defined]
    handshakes.HANDSHAKE_S = ARRIVAL_S  # type: ignore[misc]
    handshakes.MOST_SHAKING, handshakes.MOST_OF_ADDRESS = MOST_SHAKING, MOST_OF_ADDRESS  # type: ignore[misc]
    server.LOOK_S = 0.1  # type: ignore[misc]
    main()
