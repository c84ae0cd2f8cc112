"""A program that speaks the protocol of `process` handlers, and breaks it on request."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def say(message: Any) -> None:
    text = message if isinstance(message, str) else json.dumps(message)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    prepared = None
    for line in sys.stdin:
        message = json.loads(line)
        if "prepare" in message:
            prepared = message
            continue
        payload = message["payload"]
        sys.stderr.write(f"working on {message['task']['key']}\n")
        misbehave(payload)
        if "write_result" in payload:
            path = Path(message["task"]["scratch"], "taskq-result.json")
            path.write_text(payload["write_result"])
        about = {"prepared": prepared, "message": message, "pid": os.getpid()}
        for answer in payload.get("lines", [{"id": message["id"], "result": about}]):
            say({"id": message["id"], **answer} if isinstance(answer, dict) else answer)
        if "exit_after" in payload:
            sys.exit(0)


def say_goodbye(path: str) -> int:
    Path(path).touch()
    return 0


def misbehave(payload: dict[str, Any]) -> None:
    if "exit" in payload:
        sys.exit(payload["exit"])
    if "polite" in payload:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(say_goodbye(payload["polite"])))
    if "ready" in payload:
        Path(payload["ready"]).touch()
    if "mute" in payload:
        os.close(1)
        time.sleep(600)
    while "flood" in payload:
        sys.stdout.write("x" * 65_536)
    time.sleep(payload.get("sleep", 0))


main()
