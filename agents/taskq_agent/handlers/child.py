"""Resident child that runs Python callables; its other end is in `resident`.

For its messages it uses copies of its standard input and output, made before any payload code is
imported. For payload code, standard output is the pipe of standard error, and standard input is
empty. When the agent is gone, the input of the child ends, and so does the child.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Optional, Tuple

from taskq_agent.errors import Continue, FailForGood, HandlerError, NodeBroken
from taskq_agent.handlers import calls, results
from taskq_agent.handlers.base import MOST_CALLS
from taskq_agent.protocol import MAX_ERROR_CHARS

Function = Callable[..., Any]

#: Exceptions of taskq whose texts need no class name.
_SPEAKING = (calls.CannotPrepare, results.BadResult)


def main() -> None:
    """Prepare as the first line orders, then answer each further line."""
    questions, replies = _take_channels()
    pid = os.getpid()
    function: Optional[Function] = None
    shared: Any = None
    describe, tokens = False, None
    for line in questions:
        question = json.loads(line)
        if function is None:
            function, shared, reply = _prepare(question)
            describe, tokens = question["describe"], question.get("tokens")
            if tokens is not None:
                os.set_inheritable(tokens, False)
        elif tokens is not None and "calls" in question:
            _attempt_all(function, shared, question, tokens, replies)
            continue
        else:
            reply = _attempt(function, shared, question, describe=describe)
        _flush(pid)
        replies.write(reply.encode() + b"\n")
        replies.flush()


def _take_channels() -> Tuple[BinaryIO, BinaryIO]:
    questions, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # line buffered: the last output before a crash must not be lost
    sys.stdout = os.fdopen(
        1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    faulthandler.enable()
    return questions, replies


def _prepare(order: Dict[str, Any]) -> Tuple[Optional[Function], Any, str]:
    sys.path[:0] = order["python_path"]
    try:
        function = _found(order["target"])
        prepare = _found(order["prepare"]) if order["prepare"] else None
    except BaseException as error:  # noqa: BLE001 - importing runs payload code
        traceback.print_exc()
        return None, None, _refusal(error, results.NODE_BROKEN, "handler-not-found")
    try:
        shared = order["params"] if prepare is None else prepare(order["params"])
        return function, shared, f'{{"id":{order["id"]},"result":{{}}}}'
    except HandlerError as error:
        return None, None, _refusal(error, _verdict(error))
    except BaseException as error:  # noqa: BLE001 - payload code may raise anything
        traceback.print_exc()
        return None, None, _refusal(error, results.NODE_BROKEN, "prepare-failed")


def _attempt_all(
    function: Function, shared: Any, question: Dict[str, Any], tokens: int, replies: BinaryIO
) -> None:
    """Answer several calls, until the tokens of those to come are gone; see `bundle`."""
    folder, pid, mark = question["folder"], os.getpid(), question["mark"].encode()
    apart = False
    os.utime(folder, (0, 0))
    for number, (names, payload) in enumerate(question["calls"], question["id"]):
        try:
            if not os.read(tokens, 1):
                break
        except BlockingIOError:  # the agent has taken them back
            break
        except OSError:  # payload code has closed it
            apart = True
            break
        env = {**question["env"], **names}
        call = {"id": number, "env": env, "folder": folder, "payload": payload}
        began_s, cpu_s = time.perf_counter(), time.process_time()
        reply = _attempt(function, shared, call, describe=True)
        took_s = [time.perf_counter() - began_s, time.process_time() - cpu_s]
        _flush(pid)
        with suppress(OSError):  # payload code may have closed it
            os.write(2, mark)
        replies.write(f'{reply[:-1]},"took":{took_s}}}\n'.encode())
        replies.flush()
        if _is_used(folder):
            apart = True
            break
    if apart:
        with suppress(OSError):
            os.read(tokens, MOST_CALLS)
    replies.write(f'{{"over":{json.dumps(apart)}}}\n'.encode())
    replies.flush()


def _is_used(folder: str) -> bool:
    """Return whether something was made in a folder, or it was removed."""
    try:
        return os.stat(folder).st_mtime_ns != 0  # noqa: PTH116 - after each call
    except OSError:
        return True


def _attempt(function: Function, shared: Any, question: Dict[str, Any], *, describe: bool) -> str:
    number = question["id"]
    os.environ.update(question["env"])
    tempfile.tempdir = None  # it caches the folder of the previous task
    try:
        os.chdir(question["folder"])
        result = function(question["payload"], shared)
        small, large = results.written({} if result is None else result)
        if small is not None:
            return f'{{"id":{number},"result":{small}}}'
        with Path(question["env"]["TASKQ_RESULT"]).open("wb") as file:
            file.writelines(large)
        return f'{{"id":{number},"result_file":true}}'
    except results.BadResult as error:
        return _refusal(error, results.FAIL, "bad-result", number=number)
    except HandlerError as error:
        return _refusal(error, _verdict(error), number=number, describe=describe)
    except BaseException as error:  # noqa: BLE001 - payload code may raise anything
        print(calls.own_traceback(error), file=sys.stderr, end="")  # noqa: T201 - the attempt's log
        return _refusal(error, results.RETRY, number=number, describe=describe)


def _found(name: str) -> Function:
    module, _, path = name.partition(":")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        advice = "`--path` of the agent names the folder that has it"
        raise ModuleNotFoundError(f"{error}; {advice}", name=error.name) from None
    found = attrgetter(path)(imported)
    if not callable(found):
        raise TypeError(f"{name} is not callable")
    function: Function = found
    return function


def _verdict(error: HandlerError) -> str:
    if isinstance(error, FailForGood):
        return results.FAIL
    if isinstance(error, Continue):
        return results.CONTINUE
    return results.NODE_BROKEN if isinstance(error, NodeBroken) else results.RETRY


def _refusal(
    error: BaseException,
    verdict: str,
    error_class: Optional[str] = None,
    *,
    number: int = 0,
    describe: bool = False,
) -> str:
    name = _class_name(type(error))
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - __str__ may be payload code
        text = "(its text cannot be made)"
    if error_class not in (None, name) and not isinstance(error, _SPEAKING):
        text = f"{name}: {text}"
    reply: Dict[str, Any] = {
        "id": number,
        "error_class": error_class or name,
        "error": text[:MAX_ERROR_CHARS],
        "verdict": verdict,
    }
    if describe:
        reply["exception"] = calls.exception_record(error, calls.own_traceback(error))
    return json.dumps(reply)


def _class_name(kind: type) -> str:
    if kind.__module__ in ("builtins", HandlerError.__module__):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _flush(pid: int) -> None:
    """Write the buffered output; end this process unless it has this id."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # payload code may have closed or replaced it
            stream.flush()
    if os.getpid() != pid:
        os._exit(1)  # payload code has forked, and this is the child process
