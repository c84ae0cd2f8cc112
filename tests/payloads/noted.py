"""Payload code that writes down when it begins and how it ends, outside the database."""

from __future__ import annotations

import os
import resource
import secrets
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from taskq_agent import FailForGood, Retry
from tests.chaos.history import Writer


def prepare(params: Mapping[str, Any]) -> Writer:
    """Open the history of this process."""
    # A spool whose disk is full is played by a limit that the agent hands on to its children.
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    return Writer(params["history"], f"executions-{os.environ['CHAOS_AGENT']}-{os.getpid()}")


def run(payload: Mapping[str, Any], history: Writer) -> dict[str, Any]:
    """Take the time and come to the end that the payload wants."""
    execution = secrets.token_hex(8)
    attempt = int(os.environ["TASKQ_ATTEMPT"])
    history.note(
        "began",
        execution=execution,
        agent=os.environ["CHAOS_AGENT"],
        key=os.environ["TASKQ_KEY"],
        attempt=attempt,
    )
    time.sleep(payload["takes_s"])
    good = payload["good_from"] is not None and attempt >= payload["good_from"]
    history.note("ended", execution=execution, outcome="done" if good else "failed")
    if not good:
        _fail(payload["otherwise"], f"execution {execution}")
    return {"execution": execution}


def _fail(how: str, said: str) -> NoReturn:
    if how == "crash":
        os._exit(1)
    raise {"retry": Retry, "fail": FailForGood, "error": ValueError}[how](said)
