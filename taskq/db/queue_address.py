"""Address of the queue, of PostgreSQL or of a gateway: from a call or the environment."""

from __future__ import annotations

import os

from taskq.model.errors import UsageError


def queue_address(given: str | None = None) -> str | None:
    """Return the given address of the queue, else that of the environment, if any.

    Raise `UsageError` if the environment has two, or a wrong address of a gateway.
    """
    dsn, url = os.environ.get("TASKQ_DSN"), os.environ.get("TASKQ_URL")
    if not given and dsn and url:
        raise UsageError("both TASKQ_DSN and TASKQ_URL are set: unset one, or give the address")
    if not given and url:
        check_gateway(url, "TASKQ_URL")
    return given or dsn or url or None


def is_gateway(address: str | None) -> bool:
    """Tell whether an address is a gateway's."""
    return address is not None and address.startswith(("http://", "https://"))


def check_gateway(url: str, name: str) -> None:
    """Raise `UsageError` unless it is a gateway's address. name: of the option that has it."""
    if is_gateway(url):
        return
    if url.startswith(("postgres://", "postgresql://")):  # with a password perhaps
        raise UsageError(f"{name} is for a gateway; PostgreSQL's address goes with --dsn")
    raise UsageError(
        f"{name} is a gateway's address, as https://gw.example.org, not {url!r:.100}; "
        "http:// is for one on this machine"
    )
