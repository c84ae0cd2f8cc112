"""Payload code of the tests: each function is a way in which a task can end."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from taskq_agent import (
    Continue,
    FailForGood,
    NodeBroken,
    Retry,
    checkpoint_path,
    input_path,
    output_path,
    progress,
)

Values = dict[str, Any]


class Unlucky(FailForGood):
    """Payload code may have verdicts of its own."""


def prepare(params: Values) -> Values:
    """Note each preparation in a file, and hand something on."""
    with Path(params["journal"]).open("a") as journal:
        journal.write(f"{os.getpid()}\n")
    return {"offset": 100, "folder": str(Path.cwd()), "temporary": tempfile.gettempdir()}


def add(payload: Values, shared: Values) -> Values:
    return {"sum": payload["x"] + shared["offset"], "pid": os.getpid()}


def shared_is(_: Values, shared: Values) -> Values:
    return shared


def occupy(payload: Values, _: Values) -> Values:
    """Occupy memory, and be busy."""
    kept = b"x" * (payload["mebibytes"] << 20)
    begun = time.process_time()
    while time.process_time() < begun + payload["busy_s"]:
        pass
    return {"pid": os.getpid()} if kept else {}


def no_memory(_: Values, __: Values) -> Values:
    raise MemoryError


def echo(payload: Values, _: Values) -> Values:
    return payload


def places(_: Values, __: Values) -> Values:
    """Say where this task lives, and leave something there."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        name = file.name
    Path("left").write_text("behind")
    wanted = {name: value for name, value in os.environ.items() if name.startswith("TASKQ_")}
    return {"cwd": str(Path.cwd()), "temporary": name, "environment": wanted}


def read_input(payload: Values, _: Values) -> Values:
    """Say what an input holds, and what all are called."""
    names = list(json.loads(os.environ["TASKQ_INPUTS"]))
    return {"text": input_path(payload["name"]).read_text(), "names": names}


def large(payload: Values, _: Values) -> Values:
    return {"x": "\u00e4" * payload["length"]}


def nothing(_: Values, __: Values) -> None:
    pass


def say(payload: Values, _: Values) -> Values:
    """Write through Python, through C and through a grandchild."""
    sys.stdout.write(f"python {payload['word']}\n")
    ctypes.CDLL(None).puts(f"c {payload['word']}".encode())
    subprocess.run(["echo", "grandchild", payload["word"]], check=True)
    sys.stdout.write("no line end")
    return {}


def variables(payload: Values, _: Values) -> Values:
    return {name: os.environ.get(name) for name in payload["names"]}


def answer(payload: Values, _: Values) -> Any:
    """Return what cannot be a result."""
    return {
        "list": [1],
        "nan": {"x": float("nan")},
        "set": {"x": {1}},
        "huge": {"x": "y" * (payload["what"] == "huge") * 64 * 2**20},
        "reserved": {"taskq_blob": {"digest": "0" * 64, "size": 1}},
        "nul": {"x": "a\0b"},
        "surrogate": {"x": "\ud800"},
        "escaped": {"x": "\\u0000"},
        "none": None,
    }[payload["what"]]


def fail(payload: Values, _: Values) -> Values:
    errors: dict[str, BaseException] = {
        "Retry": Retry("busy"),
        "FailForGood": FailForGood("bad ligand"),
        "NodeBroken": NodeBroken("no licence"),
        "jobs.Unlucky": Unlucky("never"),
        "ValueError": ValueError("bad \x1b[31mvalue\0"),
        "SystemExit": SystemExit(3),
        "KeyboardInterrupt": KeyboardInterrupt(),
    }
    raise errors[payload["how"]]


def crash(_: Values, __: Values) -> Values:
    sys.stdout.write("about to crash\n")
    ctypes.string_at(0)
    return {}


def leave(payload: Values, _: Values) -> Values:
    os._exit(payload["code"])


def fork(_: Values, __: Values) -> Values:
    """Let the copy of this process return from the task as well."""
    return {"copy": os.fork() == 0}


def hold(payload: Values, _: Values) -> Values:
    """Sleep without giving up the interpreter's lock, as compiled code may."""
    Path(payload["ready"]).write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(600)
    return {}


def ignore_sigterm(payload: Values, shared: Values) -> Values:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return hold(payload, shared)


def prepare_badly(params: Values) -> Values:
    return fail(params, {})


def prepare_crashing(params: Values) -> Values:
    return crash(params, {})


not_callable = 3


def search_path(_: Values, __: Values) -> Values:
    return {"path": sys.path}


def go_on(_: Values, __: Values) -> Values:
    """Leave something for another attempt, which finds it."""
    folder = checkpoint_path()
    if folder is not None and (folder / "state").exists():
        return {"found": (folder / "state").read_text()}
    if folder is not None:
        (folder / "state").write_text("state")
    raise Continue("one step")


def leave_files(payload: Values, _: Values) -> Values:
    """Leave a file for each name, where the campaign keeps output files."""
    folder = output_path()
    if folder is not None:
        for name, text in payload["files"].items():
            (folder / name).write_text(text)
    return {"kept": folder is not None}


def tells_progress(_: Values, __: Values) -> Values:
    """Say how far it is; return what others can read."""
    progress(0.5, "half")
    return {"said": Path(os.environ["TASKQ_PROGRESS"]).read_text()}
