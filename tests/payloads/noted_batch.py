"""As `noted`, for many tasks at one start: now and then it says what begins, and some crash it.

The arguments: the file of tasks, the folder of the history.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import sys
import time
from pathlib import Path
from typing import Any

from tests.chaos.history import Writer

#: What the errors of tasks are to the queue.
_VERDICTS = {"retry": "retry", "error": "retry", "fail": "fail"}


def said_of(task: dict[str, Any], payload: dict[str, Any], history: Writer) -> dict[str, Any]:
    """Take the time and come to the end that a payload wants; return its line."""
    execution = secrets.token_hex(8)
    history.note(
        "began",
        execution=execution,
        agent=os.environ["CHAOS_AGENT"],
        key=task["key"],
        attempt=task["attempt"],
    )
    time.sleep(payload["takes_s"])
    good = payload["good_from"] is not None and task["attempt"] >= payload["good_from"]
    history.note("ended", execution=execution, outcome="done" if good else "failed")
    if good:
        return {"result": {"execution": execution}}
    if payload["otherwise"] == "crash":
        os._exit(1)
    return {"error": f"execution {execution}", "verdict": _VERDICTS[payload["otherwise"]]}


def main() -> None:
    """Answer all tasks, in an order that nobody knows."""
    # As in `noted`: the disk of the agent is full, not ours.
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    history = Writer(sys.argv[2], f"executions-{os.environ['CHAOS_AGENT']}-{os.getpid()}")
    tasks = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    secrets.SystemRandom().shuffle(tasks)
    marks = secrets.randbelow(2)
    outcomes = os.open(os.environ["TASKQ_OUTCOMES"], os.O_WRONLY | os.O_APPEND)
    for task in tasks:
        if marks:
            os.write(outcomes, json.dumps({"id": task["id"], "begun": True}).encode() + b"\n")
        said = said_of(task["task"], task["payload"], history)
        os.write(outcomes, json.dumps({"id": task["id"], **said}).encode() + b"\n")


if __name__ == "__main__":
    main()
