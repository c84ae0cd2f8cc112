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
import stat
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Optional, Tuple

from taskq_agent import payload as payload_code
from taskq_agent import scratch
from taskq_agent.errors import Continue, FailForGood, HandlerError, NodeBroken
from taskq_agent.handlers import calls, process_state, results
from taskq_agent.handlers.base import MOST_CALLS
from taskq_agent.handlers.call_guard import CallGuard
from taskq_agent.handlers.child_streams import OutputStream, copied_up
from taskq_agent.handlers.raised import exception_record, own_traceback
from taskq_agent.handlers.sent_function import CannotPrepare
from taskq_agent.protocol import MAX_ERROR_CHARS

Function = Callable[..., Any]

#: Exceptions of taskq whose texts need no class name.
_SPEAKING = (CannotPrepare, results.BadResult)

#: This process; a copy that payload code has forked has another number.
_PID = os.getpid()


def main() -> None:
    """Prepare as the first line orders, then answer each further line."""
    questions, replies, error = _take_channels()
    child: Optional[_Child] = None
    for line in questions:
        question = json.loads(line)
        if child is None:
            child, reply = _prepare(question, replies, error)
        elif "calls" in question:
            child.attempt_all(question)
            continue
        elif "tasks" in question:
            child.attempt_together(question)
            continue
        else:
            reply = child.attempt(question)
        _flush()
        replies.write(reply.encode() + b"\n")
        replies.flush()


def _take_channels() -> Tuple[BinaryIO, BinaryIO, int]:
    questions = os.fdopen(copied_up(0), "rb")
    replies = os.fdopen(copied_up(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout, sys.stderr = OutputStream(1), OutputStream(2)
    faulthandler.enable()
    return questions, replies, copied_up(2)


def _prepare(order: Dict[str, Any], replies: BinaryIO, stderr: int) -> Tuple[Optional[_Child], str]:
    sys.path[:0] = order["python_path"]
    try:
        function = _found(order["target"])
        prepare = _found(order["prepare"]) if order["prepare"] else None
    except BaseException as error:  # noqa: BLE001 - importing runs payload code
        traceback.print_exc()
        return None, _refusal(error, results.NODE_BROKEN, "handler-not-found")
    try:
        shared = order["params"] if prepare is None else prepare(order["params"])
        child = _Child(function, shared, order, replies, stderr)
        return child, f'{{"id":{order["id"]},"result":{{}}}}'
    except HandlerError as error:
        return None, _refusal(error, _verdict(error))
    except BaseException as error:  # noqa: BLE001 - payload code may raise anything
        traceback.print_exc()
        return None, _refusal(error, results.NODE_BROKEN, "prepare-failed")


class _Child:
    """A function that is ready to be called, and what guards its process."""

    def __init__(
        self, function: Function, shared: Any, order: Dict[str, Any], replies: BinaryIO, stderr: int
    ) -> None:
        state = process_state.ProcessState(replies.fileno(), stderr)
        ended, failed, hopeful = order["before"]
        self._guard = CallGuard(state, stderr, order["own"], (ended, failed, hopeful))
        self._function = function
        self._calls_functions = isinstance(shared, calls.Prepared)
        self._shared = shared
        if isinstance(shared, calls.Prepared):
            self._shared = replace(shared, guard=self._guard)
        self._describe: bool = order["describe"]
        self._replies = replies
        self._tokens = -1
        if (tokens := order.get("tokens")) is not None:
            self._tokens = copied_up(tokens)
            os.close(tokens)

    def attempt(self, question: Dict[str, Any]) -> str:
        """Run a task; return the answer."""
        guard, number = self._guard, question["id"]
        guard.begin(question["folder"], question["env"])
        reply, raised = self._called(question)
        if isinstance(raised, calls.ChunkCut):
            with _rest_of(question["folder"]).open("wb") as file:
                file.writelines(calls.written_ends(raised.ends))
            reply = f'{{"id":{number},"rest":true}}'
        else:
            self._is_victim(question["payload"], raised)
            if raised is not None:
                reply = self._refused(raised, number)
        guard.end()
        if guard.why is None and not guard.lasting:
            return reply
        return f"{reply[:-1]},{self._state()}}}"

    def attempt_all(self, question: Dict[str, Any]) -> None:
        """Answer several calls, until the tokens of those to come are gone; see `bundle`."""
        folder, mark = question["folder"], question["mark"].encode()
        guard, replies, apart = self._guard, self._replies, False
        guard.begin(folder, question["env"])
        os.utime(folder, (0, 0))
        for number, (names, payload) in enumerate(question["calls"], question["id"]):
            try:
                if not os.read(self._tokens, 1):
                    break
            except BlockingIOError:  # the agent has taken them back
                break
            except OSError:  # payload code has closed it
                apart = True
                break
            guard.begin_call(names)
            call = {"id": number, "env": question["env"], "folder": folder, "payload": payload}
            began_s, cpu_s = time.perf_counter(), time.process_time()
            reply, raised = self._called(call)
            if isinstance(raised, calls.ChunkCut) or self._is_victim(payload, raised):
                break  # it goes back, and runs again
            if raised is not None:
                reply = self._refused(raised, number)
            took_s = [time.perf_counter() - began_s, time.process_time() - cpu_s]
            _flush()
            with suppress(OSError):
                os.write(2, mark)
            replies.write(f'{reply[:-1]},"took":{took_s}}}\n'.encode())
            replies.flush()
            if _is_used(folder):
                apart = True
                break
            if guard.why is not None or guard.lasting:
                break
        guard.end()
        with suppress(OSError):
            os.read(self._tokens, MOST_CALLS)
        replies.write(f'{{"over":{json.dumps(apart)},{self._state()}}}\n'.encode())
        replies.flush()

    def attempt_together(self, question: Dict[str, Any]) -> None:
        """Give the function many payloads at once, and answer its results one by one."""
        guard, tasks, replies, end = self._guard, question["tasks"], self._replies, ""
        unanswered = tasks[::-1]
        guard.begin(question["folder"], question["env"])
        try:
            os.chdir(question["folder"])
            payload_code.together = [folder for _, folder, _ in tasks]
            found = self._function([payload for *_, payload in tasks], self._shared)
            if isinstance(found, (list, tuple)) and len(found) != len(tasks):
                counts = f"{len(found)} results for {len(tasks)} tasks"
                print(f"taskq: the function has returned {counts}", file=sys.stderr)  # noqa: T201
                found = ()
            for result in found:
                if not unanswered:
                    break
                number, folder, _ = unanswered.pop()
                reply = self._result(result, number, folder)
                _flush()
                replies.write(reply.encode() + b"\n")
                replies.flush()
            guard.quiet()
        except BaseException as error:  # noqa: BLE001 - payload code may raise anything
            guard.quiet()
            end = f"{self._refused(error, question['id'])[1:-1]},"
        payload_code.together = ()
        _flush()
        guard.after_call(failed=bool(end))
        guard.end()
        replies.write(f'{{{end}"over":true,{self._state()}}}\n'.encode())
        replies.flush()

    def _result(self, result: Any, number: int, folder: str) -> str:
        """Return the answer for a result of one task of many, or for an exception in its place."""
        if isinstance(result, Exception):
            return self._refused(result, number)
        try:
            small, large = results.written({} if result is None else result)
        except results.BadResult as error:
            return self._refused(error, number)
        if small is not None:
            return f'{{"id":{number},"result":{small}}}'
        with Path(folder, scratch.RESULT_FILE).open("wb") as file:
            file.writelines(large)
        return f'{{"id":{number},"result_file":true}}'

    def _state(self) -> str:
        """Return what the agent needs to know of this process, as members of an object."""
        about = {"end": self._guard.why, "lasting": self._guard.lasting}
        return json.dumps(about)[1:-1]

    def _called(self, question: Dict[str, Any]) -> Tuple[str, Optional[BaseException]]:
        """Run a task; return the answer, or what it raised."""
        tempfile.tempdir = None  # it caches the folder of the previous task
        reply, raised = "", None
        try:
            os.chdir(question["folder"])
            try:
                reply = self._answer(question)
            finally:
                self._guard.quiet()
        except BaseException as error:  # noqa: BLE001 - payload code may raise anything
            self._guard.quiet()
            raised = error
        if os.getpid() != _PID:
            _flush()
        return reply, raised

    def _refused(self, raised: BaseException, number: int) -> str:
        """Return the answer of a task that has raised."""
        if isinstance(raised, results.BadResult):
            return _refusal(raised, results.FAIL, "bad-result", number=number)
        if isinstance(raised, HandlerError):
            return _refusal(raised, _verdict(raised), number=number, describe=self._describe)
        print(own_traceback(raised), file=sys.stderr, end="")  # noqa: T201 - its log
        return _refusal(raised, results.RETRY, number=number, describe=self._describe)

    def _is_victim(self, payload: Dict[str, Any], raised: Optional[BaseException]) -> bool:
        """Look after a task; return whether it may have failed by what others have changed."""
        guard, failed = self._guard, raised is not None
        if guard.after_call(failed=failed):
            return True
        if not self._calls_functions or calls.calls_of(payload) is None:  # a chunk notes its own
            guard.ends_after(failed=failed)
        return False

    def _answer(self, question: Dict[str, Any]) -> str:
        more: Dict[str, Any] = {}
        if self._calls_functions:
            has_rest = question.get("rest") is True
            more["cut"] = not has_rest
            if has_rest:
                more["ends"] = calls.read_ends(_rest_of(question["folder"]).read_bytes())
        result = self._function(question["payload"], self._shared, **more)
        small, large = results.written({} if result is None else result)
        if small is not None:
            return f'{{"id":{question["id"]},"result":{small}}}'
        with Path(question["env"]["TASKQ_RESULT"]).open("wb") as file:
            file.writelines(large)
        return f'{{"id":{question["id"]},"result_file":true}}'


def _is_used(folder: str) -> bool:
    """Return whether something was made in a folder, or it was removed or closed to others."""
    try:
        about = os.stat(folder)  # noqa: PTH116 - after each call
        return about.st_mtime_ns != 0 or stat.S_IMODE(about.st_mode) != scratch.OWNER_ONLY
    except OSError:
        return True


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
        reply["exception"] = exception_record(error, own_traceback(error))
    return json.dumps(reply)


def _class_name(kind: type) -> str:
    if kind.__module__ in ("builtins", HandlerError.__module__):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _rest_of(folder: str) -> Path:
    """Return the file with the ends of the calls of a chunk whose rest another process runs."""
    return Path(folder, "taskq-ended-calls")


def _flush() -> None:
    """Write the buffered output; end this process if it is a copy."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # payload code may have closed or replaced it
            stream.flush()
    if os.getpid() != _PID:
        os._exit(1)
