"""Waiting for a server that recovers and takes no connections yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import psycopg

from taskq.db.dsn import DEFAULTS, no_other_host
from taskq.db.timeouts import READ_TIMEOUT_S

#: Seconds between two looks at a server that recovers.
START_POLL_S: Final = 0.5


def is_starting(dsn: str) -> bool:
    """Return whether a host of the DSN has a server that recovers and takes no connections yet.

    This looks at the code of the refusal, which is the same in all languages.
    """
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    several = {
        name: str(parts[name]).split(",") for name in ("host", "hostaddr", "port") if name in parts
    }
    for number in range(max([1, *map(len, several.values())])):
        own = {name: values[number % len(values)] for name, values in several.items()}
        patience: dict[str, Any] = {"connect_timeout": READ_TIMEOUT_S}  # for each host
        conninfo = psycopg.conninfo.make_conninfo(
            **no_other_host(parts) | DEFAULTS | parts | own | patience
        )
        if psycopg.pq.PGconn.ping(conninfo.encode()) == psycopg.pq.Ping.REJECT:
            return True
    return False


def await_start(dsn: str, say: Callable[[], None]) -> None:
    """Wait while a server of the DSN recovers, for as long as that takes; see `is_starting`.

    say: called once, before the wait.
    """
    announced = False
    while is_starting(dsn):
        if not announced:
            say()
            announced = True
        time.sleep(START_POLL_S)
