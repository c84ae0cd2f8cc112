"""Pages of a gateway: a process that the gateway starts, with a socket to serve at.

Every viewer needs a manager's token. The first line of standard input says where the queue is. The
end of standard input means that the gateway has ended.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from typing import Final

from taskq.api.client import Client
from taskq.db.connections import Database
from taskq.db.starting import await_start
from taskq.gateway.web.server import serve_at
from taskq.model.errors import TaskqError

#: Agents go first.
NICENESS: Final = 10
_CONNECTIONS: Final = 3


def main() -> None:
    """Serve until standard input ends."""
    logging.basicConfig(format="pages: %(message)s", level=logging.ERROR)
    logging.getLogger("taskq.pages").setLevel(logging.INFO)
    os.nice(NICENESS)
    words = json.loads(sys.stdin.readline())
    database = Database(words["dsn"], server="the database", most=_CONNECTIONS)
    await_start(words["dsn"], lambda: None)  # a gateway answers that the pages are busy meanwhile
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        listener.setblocking(False)
        try:
            with Client(database.open()) as client:
                serve_at(listener, client, secure=words["secure"], ends=sys.stdin.fileno())
        except TaskqError as error:
            sys.exit(f"pages: {error}")


if __name__ == "__main__":
    main()
