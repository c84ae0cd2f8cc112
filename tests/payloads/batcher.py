"""Does what each of many tasks says: as a command, a resident process, or a Python callable.

A payload: do (`well`, `die`, `die-later`, `hang`, `fail`, `skip`, `torn`, `twice`; `die-later` dies
too, but hangs when it runs alone for the first time); marks: say what begins; company: die only if
so many tasks are there; file: leave one of this name; size: give a result with so many
characters; gate: wait for this file first. Each start is noted in the file that `log` names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from taskq_agent import output_path

Say = Callable[[dict[str, Any]], None]


def note_start(payloads: list[dict[str, Any]]) -> None:
    """Note which tasks have begun together."""
    with Path(payloads[0]["log"]).open("a") as log:
        log.write(json.dumps([payload["n"] for payload in payloads]) + "\n")
    if len(payloads) >= payloads[0].get("company", len(payloads) + 1):
        os.kill(os.getpid(), signal.SIGKILL)
    while (gate := payloads[0].get("gate")) and not Path(gate).exists():
        time.sleep(0.02)


def result_of(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the result that a payload asks for."""
    large = {"x": "x" * payload["size"]} if "size" in payload else {}
    return {"n": payload["n"], **large}


def act(number: int, payload: dict[str, Any], say: Say, write: Callable[[str], None]) -> None:
    """Do what a payload says."""
    if payload.get("marks"):
        say({"id": number, "begun": True})
    what = payload.get("do", "well")
    if what == "die-later":
        *before, now = Path(payload["log"]).read_text().splitlines()
        what = "hang" if now == f"[{payload['n']}]" and now not in before else "die"
    if what == "die":
        sys.stderr.write(f"dying of {payload['n']}\n")
        os.kill(os.getpid(), signal.SIGSEGV)
    elif what == "hang":
        time.sleep(600)
    elif what == "fail":
        say({"id": number, "error": "bad", "error_class": "Odd", "verdict": "fail"})
    elif what == "torn":
        write('{"id": 1, "resu')
        os._exit(3)
    elif what != "skip":
        kept = "size" in payload
        say({"id": number, **({"result_file": True} if kept else {"result": result_of(payload)})})
    if what == "twice":
        say({"id": number, "result": {"n": -1}})
        say({"id": 10**9, "result": {}})
        write("no JSON\n")


def leave_file(message: dict[str, Any]) -> None:
    """Leave the output file that a payload names, and a large result."""
    payload = message["payload"]
    if name := payload.get("file"):
        Path(message["task"]["out"], name).write_text(str(payload["n"]))
    if "size" in payload:
        result = Path(message["task"]["scratch"], "taskq-result.json")
        result.write_text(json.dumps(result_of(payload)))


def from_file() -> None:
    """Run as a command: the last argument is the file of tasks; `backwards` turns it around."""
    tasks = [json.loads(line) for line in Path(sys.argv[-1]).read_text().splitlines()]
    with open(os.environ["TASKQ_OUTCOMES"], "a", buffering=1) as outcomes:  # noqa: PTH123
        note_start([task["payload"] for task in tasks])
        for task in reversed(tasks) if "backwards" in sys.argv else tasks:
            leave_file(task)
            act(
                task["id"],
                task["payload"],
                lambda answer: print(json.dumps(answer), file=outcomes),
                outcomes.write,
            )


def answered(text: str) -> None:
    """Write to the standard output, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def from_lines(most: int) -> None:
    """Run as a resident process that takes so many tasks at a time, and answers these at once."""
    sys.stdin.readline()
    tasks: list[dict[str, Any]] = []
    for line in sys.stdin:
        tasks.append(json.loads(line))
        if len(tasks) == most:
            note_start([task["payload"] for task in tasks])
            for task in tasks:
                leave_file(task)
                act(
                    task["id"],
                    task["payload"],
                    lambda answer: answered(f"{json.dumps(answer)}\n"),
                    answered,
                )
            tasks = []


def together(payloads: list[dict[str, Any]], shared: object) -> list[Any]:
    """Return all results at the end."""
    return [*one_by_one(payloads, shared)]


def too_few(payloads: list[dict[str, Any]], shared: object) -> list[Any]:
    """Return one result too few."""
    return together(payloads, shared)[1:]


def one_by_one(payloads: list[dict[str, Any]], _: object) -> Iterator[Any]:
    """Yield a result after the other."""
    note_start(payloads)
    for position, payload in enumerate(payloads):
        if name := payload.get("file"):
            folder = output_path(position)
            assert folder is not None
            (folder / name).write_text(str(payload["n"]))
        said: list[dict[str, Any]] = []
        act(0, payload, said.append, lambda _: 0)
        answers = [record for record in said if "begun" not in record]
        yield ValueError("bad") if "error" in answers[0] else result_of(payload)


if __name__ == "__main__":
    if sys.argv[1] == "lines":
        from_lines(int(sys.argv[2]))
    else:
        from_file()
