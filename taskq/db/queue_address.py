"""Address of the queue, of PostgreSQL or of a gateway, and the token for a gateway.

Both come from a call or the environment; the token also from a file, never from an argument.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from taskq.model.errors import UsageError
from taskq_agent.http.transport import is_sendable, token_in

_OF_AGENTS: Final = ("tqe_", "tqs_")


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
    """Return whether an address is a gateway's."""
    return address is not None and address.startswith(("http://", "https://"))


def check_gateway(url: str, name: str) -> None:
    """Raise `UsageError` unless it is a gateway's address. name: of the option that has it."""
    if is_gateway(url):
        return
    if url.startswith(("postgres://", "postgresql://")):  # with a password perhaps
        raise UsageError(f"{name} is for a gateway; give PostgreSQL's address by --dsn")
    raise UsageError(
        f"{name} is a gateway's address, such as https://gw.example.org, not {url!r:.100}; "
        "http:// is for one on this machine"
    )


def manager_token(file: str | Path | None = None) -> str:
    """Return a manager's token, from a file or else from `TASKQ_TOKEN_FILE` or `TASKQ_TOKEN`.

    Raise `UsageError` if there is none, or the text cannot be one.
    """
    named = file or os.environ.get("TASKQ_TOKEN_FILE")
    if named:
        try:
            token, where = token_in(Path(named)), str(named)
        except OSError as error:
            raise UsageError(f"the token's file {named}: {error.strerror}") from None
    else:
        token, where = os.environ.get("TASKQ_TOKEN", "").strip(), "TASKQ_TOKEN"
        if not token:
            raise UsageError(
                "a gateway asks for a manager's token: put it into a file, and name that in "
                "TASKQ_TOKEN_FILE"
            )
    if not is_sendable(token):
        raise UsageError(f"{where}: this is not a token")
    if token.startswith(_OF_AGENTS):
        raise UsageError(
            f"{where}: this is a token of agents; people need a manager's, from "
            "`taskq token create NAME --kind manager --campaign PATH --to FILE`"
        )
    return token
