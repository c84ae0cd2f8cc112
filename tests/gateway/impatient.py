"""`taskq` with a gateway that soon loses patience with its clients."""

from __future__ import annotations

from taskq.gateway import connection, server
from taskq_cli.main import main

ARRIVAL_S = 1.0

if __name__ == "__main__":
    connection.ARRIVAL_S = ARRIVAL_S  # type: ignore[misc]  # final, but for tests
    connection.TAKING_S = ARRIVAL_S  # type: ignore[misc]
    server.LOOK_S = 0.1  # type: ignore[misc]
    main()
