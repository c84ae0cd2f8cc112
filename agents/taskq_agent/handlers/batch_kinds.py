"""How each kind of handler gives many tasks to one start of its program; see `batch`.

A task is the message that a resident process gets for it:

    {"id": 1, "task": {"key": "a", "attempt": 1, "campaign": "/path", "scratch": "/folder/1",
     "progress": "/folder/1/file"}, "payload": {...}}

A command finds all messages in a file, `{tasks}`, and appends its lines to the file that
`$TASKQ_OUTCOMES` names. A resident process gets all of them at once, and writes its lines to its
standard output. A Python callable gets the list of payloads; it returns a list of results, or
yields them in the same order. An exception in place of a result is how that task ended.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from taskq_agent.handlers import containers, environment, exits, results
from taskq_agent.handlers.base import AttemptOver, failed
from taskq_agent.handlers.batch import LOOK_S, StartEnd
from taskq_agent.handlers.command import CommandKind, run_program
from taskq_agent.handlers.definition import PlaceholderMissing, fill
from taskq_agent.handlers.live import Tail
from taskq_agent.handlers.outcomes import Outcomes
from taskq_agent.handlers.processes import MAX_LINE_BYTES, ChildExited, Group
from taskq_agent.handlers.resident import FunctionKind, ProcessKind, PythonKind, ResidentKind
from taskq_agent.protocol import MAX_TAIL_BYTES, Task
from taskq_agent.scratch import READ_SAFELY, opened

_TASKS_FILE = "taskq-tasks.jsonl"
_LIST_FILE = "taskq-list.txt"
_OUTCOMES_FILE = "taskq-outcomes.jsonl"
#: Bytes that are read at a time, and how often for one look: a program may write without end.
_READ_BYTES = 1_048_576
_READS = 8
#: The first bytes of the file of outcomes, which change if the program overwrites it.
_HEAD_BYTES = 4_096
#: More than a file system keeps of a file in its last block.
_GROWTH_BYTES = 65_536

_NOTHING: Mapping[str, Any] = {}


class CommandBatches(CommandKind):
    """Runs a program once for many tasks."""

    def start(self, said: Outcomes) -> StartEnd:
        """Run the program to its end."""
        context, handler, folder = self._context, self._context.campaign.handler, said.folder
        files = {
            "tasks": f"{folder}/{_TASKS_FILE}",
            "list": f"{folder}/{_LIST_FILE}",
            "scratch": folder,
        }
        try:
            argv = fill(
                handler["argv"],
                params=context.campaign.params,
                inputs=context.inputs,
                task=files,
            )
        except PlaceholderMissing as error:
            return StartEnd(error.ended())
        self._write_tasks(said, files)
        if not said.unanswered():
            return StartEnd(None)
        appended = AppendedLines(f"{folder}/{_OUTCOMES_FILE}")
        env = {
            **environment.of_start(folder),
            "TASKQ_TASKS": files["tasks"],
            "TASKQ_OUTCOMES": appended.path,
        }
        output = Tail(MAX_TAIL_BYTES)
        context.live.writes_to(output)
        said.output = output

        def wait(group: Group) -> None:
            while not group.wait_until(lambda: group.exited, LOOK_S):
                context.watch.give_back = False
                appended.give_some(said)
                said.check()

        try:
            ended = run_program(
                context, argv, folder, env, on_stdout=output.add, output=output, wait=wait
            )
            while appended.give_some(said):
                said.check_lines()
            if ended is None and said.unanswered() and appended.is_disk_full():
                text = "the disk of its scratch folder is full: outcomes may be lost"
                ended = failed("disk-full", text, retry=True)
        except AttemptOver as over:
            return StartEnd(over.ended)
        finally:
            appended.close()
        return StartEnd(ended, output.text())

    def _write_tasks(self, said: Outcomes, files: Mapping[str, str]) -> None:
        """Write what the program gets; a task that lacks a value has ended."""
        path, template = self._context.campaign.path, self._context.campaign.handler.get("line")
        lines: List[str] = []
        ends = []
        with Path(files["tasks"]).open("x", encoding="utf-8", errors="surrogateescape") as tasks:
            for number, task in said.tasks.items():
                try:
                    line = "" if template is None else self._line(template, number, task, said)
                except PlaceholderMissing as error:
                    ends.append((number, error.ended()))
                    continue
                if "\n" in line or "\r" in line:
                    text = f"its line in {{list}} would be several: {line!r:.200}"
                    ends.append((number, failed("bad-argument", text, retry=False)))
                    continue
                lines.append(f"{line}\n")
                question = environment.question_of(task, path, said.place(number))
                tasks.write(json.dumps({"id": number, **question}, separators=(",", ":")) + "\n")
        if template is not None:
            Path(files["list"]).write_text("".join(lines), "utf-8", "surrogateescape")
        said.end(ends)

    def _line(self, template: str, number: int, task: Task, said: Outcomes) -> str:
        of_task = {
            "task.n": str(number),
            "task.key": task.key,
            "task.attempt": str(task.attempt),
            "scratch": said.place(number),
        }
        context = self._context
        (line,) = fill(
            [template],
            params=context.campaign.params,
            inputs=context.inputs,
            payload=task.payload,
            task=of_task,
        )
        return line


class AppendedLines:
    """Whole lines that a program has appended to a file since the last look.

    If the program has overwritten the file, or moved another one to its place, reading begins anew.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self._unread = b""
        self._skips = False
        # The line end is missing once the program has overwritten the file, however soon.
        self._head = b"\n"
        self._read = os.write(self._fd, self._head)

    def give_some(self, said: Outcomes) -> bool:
        """Give as many of them as one look may read; return whether there may be more.

        A line that is too long for an answer is left out.
        """
        if self._is_overwritten():
            os.lseek(self._fd, 0, os.SEEK_SET)
            self._begin_anew(said)
        for _ in range(_READS):
            chunk = os.read(self._fd, _READ_BYTES)
            if not chunk:
                if not self._is_replaced():
                    return False
                self._begin_anew(said)
                continue
            self._read += len(chunk)
            self._head += chunk[: _HEAD_BYTES - len(self._head)]
            *whole, self._unread = (self._unread + chunk).split(b"\n")
            if whole and self._skips:
                said.ignore(whole[0])
                whole, self._skips = whole[1:], False
            said.take(whole)
            if len(self._unread) > MAX_LINE_BYTES:
                said.ignored_bytes += len(self._unread)
                self._unread, self._skips = b"", True
        return True

    def is_disk_full(self) -> bool:
        """Return whether the file cannot grow any more; call it last, for it grows."""
        try:
            os.posix_fallocate(self._fd, os.fstat(self._fd).st_size, _GROWTH_BYTES)
        except OSError as error:
            return error.errno in (errno.ENOSPC, errno.EDQUOT)
        return False

    def _is_overwritten(self) -> bool:
        head = os.pread(self._fd, len(self._head), 0)
        return head != self._head or os.fstat(self._fd).st_size < self._read

    def _is_replaced(self) -> bool:
        """Return whether another file is in place of the one that is read; then that one is open.

        Only a regular file that can be opened is read.
        """
        try:
            if os.path.samestat(os.lstat(self.path), os.fstat(self._fd)):
                return False
            folder, name = os.path.split(self.path)
            with opened(folder) as inside:
                other = os.open(name, READ_SAFELY, dir_fd=inside)
        except OSError:
            return False
        if not stat.S_ISREG(os.fstat(other).st_mode):
            os.close(other)
            return False
        os.close(self._fd)
        self._fd = other
        return True

    def _begin_anew(self, said: Outcomes) -> None:
        said.read_anew()
        self._unread, self._skips, self._head, self._read = b"", False, b"", 0

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class _ResidentBatches(ResidentKind):
    """Gives many tasks to a child that stays for more."""

    def start(self, said: Outcomes) -> StartEnd:
        """Give the tasks to the child, and wait until all have an outcome or it has ended."""
        self._renew(1)
        phases: Dict[str, float] = {}
        said.first = self._asked
        self._asked += max(said.tasks)
        try:
            child = self._ready(phases)
            said.output = child.output
            for message in self._messages(said):
                child.send(message)
            over = None
            while over is None:
                child.wait(LOOK_S)
                self._context.watch.give_back = False
                over = self._taken(child.lines(), said)
                if over is None:
                    self._context.watch.check()  # `wait` does not while there are lines
                    child.check()
                    said.check()
        except AttemptOver as over:
            if self._child is not None:
                self._child.group.terminate(self._context.settings.grace_s)
                self._taken(self._child.lines(), said)
            return StartEnd(over.ended, self._last_words()[1])
        except results.BadAnswer as error:
            ended = failed("bad-answer", f"the handler's process {error}", retry=True)
            return StartEnd(ended, self._last_words()[1])
        except ChildExited:
            box = self._box
            code, tail = self._last_words()
            end = containers.of_end(box, code, tail) if box is not None else None
            return StartEnd(end or exits.without_answer(code), tail)
        why = self._renewal.several_ended(len(said.tasks), **self._said(over))
        if why is not None:
            self._replace(child, why)
        failure = results.ended_by(over, over["id"], said.folder) if "error" in over else None
        return StartEnd(failure, child.output.text())

    def _taken(self, lines: List[bytes], said: Outcomes) -> Optional[Mapping[str, Any]]:
        """Take what the child has said; return its last word once no other can come."""
        said.take(lines)
        return None if said.unanswered() else _NOTHING

    def _messages(self, said: Outcomes) -> List[Dict[str, Any]]:
        """Return what the child gets, in order."""
        return [
            {"id": said.first + number, **self._question(task, said.place(number))}
            for number, task in said.tasks.items()
        ]


class ProcessBatches(_ResidentBatches, ProcessKind):
    """Gives a resident program many tasks at once."""


class PythonBatches(_ResidentBatches, PythonKind):
    """Calls a Python callable with the payloads of many tasks."""

    def _messages(self, said: Outcomes) -> List[Dict[str, Any]]:
        folder = said.folder
        tasks = [
            [said.first + number, said.place(number), task.payload]
            for number, task in said.tasks.items()
        ]
        env = environment.of_start(folder)
        return [{"id": said.first, "env": env, "folder": folder, "tasks": tasks}]

    def _taken(self, lines: List[bytes], said: Outcomes) -> Optional[Mapping[str, Any]]:
        over: Optional[Mapping[str, Any]] = None
        for line in lines:
            with suppress(ValueError):
                answer = results.parsed(line) if b'"over"' in line else None
                if isinstance(answer, dict) and answer.get("over") is True:
                    over = answer
        said.take(line for line in lines if over is None or line is not lines[-1])
        return over


class FunctionBatches(PythonBatches, FunctionKind):
    """Calls a function as its user has written it with a list of arguments."""

    bundles = False

    def _preparation(self) -> Dict[str, Any]:
        return {**super()._preparation(), "target": "taskq_agent.handlers.calls_together:call"}
