"""Credentials for a gateway: a token, from a file or the environment, never an argument."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

from taskq.model.errors import UsageError
from taskq_agent.http.transport import is_sendable

_MAX_TOKEN_BYTES: Final = 4_096
_OF_AGENTS: Final = ("tqe_", "tqs_")

log = logging.getLogger(__name__)


def manager_token(file: str | Path | None = None) -> str:
    """Return a manager's token, from a file or else from `TASKQ_TOKEN_FILE` or `TASKQ_TOKEN`.

    Raise `UsageError` if there is none, or the text cannot be one.
    """
    named = file or os.environ.get("TASKQ_TOKEN_FILE")
    if named:
        token, where = _read(Path(named)), str(named)
    else:
        token, where = os.environ.get("TASKQ_TOKEN", "").strip(), "TASKQ_TOKEN"
        if not token:
            raise UsageError(
                "a gateway asks for a manager's token: put it into a file, and name that in "
                "TASKQ_TOKEN_FILE"
            )
    if not is_sendable(token):
        raise UsageError(f"{where}: this is no token")
    if token.startswith(_OF_AGENTS):
        raise UsageError(f"{where}: this is a token of agents; this needs a manager's")
    return token


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            token = stream.read(_MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise UsageError(f"the token's file {file}: {error.strerror}") from None
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        log.warning("%s can be read by other users: chmod 600", file)
    return token
