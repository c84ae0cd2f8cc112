"""Processes of payloads: a child with all that it starts, and JSON messages to and from it."""

from __future__ import annotations

import errno
import json
import math
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from taskq_agent import reaper, strays
from taskq_agent.handlers import results
from taskq_agent.handlers.limits import ChildWatch
from taskq_agent.handlers.live import Tail
from taskq_agent.handlers.results import BadAnswer
from taskq_agent.protocol import MAX_RESULT_BYTES, MAX_TAIL_BYTES

Sink = Callable[[bytes], None]

_CHUNK = 65_536  # what a pipe holds by default, so one read empties it
_DRAIN_S = 0.2
_MAX_WAIT_S = 3_600.0
_ALONE = 2  # the reaper, and one group

MAX_LINE_BYTES = 4 * MAX_RESULT_BYTES  # a result may come with spaces and \u escapes

_EXIT_S = 1.0
_SHOWN_BYTES = 200


class Group:
    """A child that leads its own session and process group, with our ends of its pipes.

    Its output goes to the sinks only while a method of this class waits: the pipes apply back
    pressure to a child that writes too much. Not thread-safe. The child is not reaped before `end`;
    until then no other process can get its process id, so no signal can hit another process.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        watch: ChildWatch,
        on_stdout: Sink,
        on_stderr: Sink,
        with_stdin: bool = False,
        pass_fds: Sequence[int] = (),
        is_client: bool = False,
    ) -> None:
        """Start the child; OSError, ValueError or RuntimeError if that fails.

        with_stdin: its standard input takes the bytes of `send`; otherwise it is empty. pass_fds:
        descriptors that it gets too. is_client: whether it asks a service to do its work, so that
        processes which it leaves belong to the service.
        """
        self._watch = watch
        self._reaper = reaper.shared()
        variable, value = self._reaper.new_mark()
        self._mark = f"{variable}={value}"
        self._folder = cwd
        self._is_client = is_client
        self.program = _executable(os.fsdecode(_bytes(argv[0])), env)
        self._process = subprocess.Popen(
            [_bytes(argument) for argument in argv],
            executable=self.program,
            cwd=cwd,
            env={_bytes(name): _bytes(text) for name, text in {**env, variable: value}.items()},
            stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        self.pid = self._process.pid
        self.exited = False
        #: Whether the child has closed its standard input, and something for it is lost.
        self.stdin_closed = False
        self._watcher = threading.Thread(target=self._await_exit, daemon=True)
        self._kill_strays = False
        self._unsent = bytearray()
        self._sinks: Dict[int, Sink] = {}
        self._poll = select.poll()
        self._poll.register(watch.fd, select.POLLIN)
        self._stdin, self._stdout, stderr = (
            -1 if pipe is None else pipe.fileno()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        if with_stdin:
            os.set_blocking(self._stdin, False)
        for fd, sink in ((self._stdout, on_stdout), (stderr, on_stderr)):
            os.set_blocking(fd, False)
            self._sinks[fd] = sink
            self._poll.register(fd, select.POLLIN)
        watch.meter.started(self.pid)
        try:
            self._reaper.add("group", self.pid)
            self._watcher.start()
        except BaseException:
            self.end()
            raise

    @property
    def stdout_closed(self) -> bool:
        """Whether nobody can write to the standard output any more."""
        return self._stdout not in self._sinks

    def send(self, data: bytes) -> None:
        """Queue bytes for the standard input of the child; lost silently if the child is gone."""
        self._unsent += data
        self._flush()
        if self._unsent:
            self._poll.register(self._stdin, select.POLLOUT)

    def wait_until(self, condition: Callable[[], bool], limit_s: float = math.inf) -> bool:
        """Transfer data until the condition holds; AttemptOver when the attempt must end.

        Returns False after `limit_s` seconds, or if the watch asks to give calls back.
        """
        end = time.monotonic() + limit_s
        while not condition():
            self._watch.check()
            left_s = end - time.monotonic()
            if left_s <= 0 or (self._watch.give_back and limit_s < math.inf):
                return False
            self._move(min(left_s, self._watch.remaining_s()))
        return True

    def read_available(self) -> None:
        """Transfer the data that is in the pipes now."""
        self._move(0)

    def terminate(self, grace_s: float) -> None:
        """Send SIGTERM to the group, and wait up to `grace_s` seconds for the child to exit."""
        self._kill_strays = True
        self._signal(signal.SIGTERM)
        self.wait_for_exit(grace_s)

    def close_stdin(self) -> None:
        """Close the child's standard input."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with suppress(KeyError):
                self._poll.unregister(self._stdin)
            self._process.stdin.close()

    def wait_for_exit(self, limit_s: float) -> None:
        """Transfer data until the child exits, for `limit_s` seconds at most."""
        end = time.monotonic() + limit_s
        while not self.exited and (remaining := end - time.monotonic()) > 0:
            self._move(remaining)

    def end(self) -> int:
        """Kill what is left of the group, read its last output; return the exit code.

        If a signal killed the child, the code is the negative signal number. May be called again.
        """
        if self._process.returncode is None:
            kill_strays = self._kill_strays or not self.exited
            self._signal(signal.SIGKILL)
            if kill_strays:
                strays.kill_marked(self._mark)
            if self._watcher.ident is not None:  # it must see the exit before the child is reaped
                self._watcher.join()
            if not self._is_client:
                known = self._reaper.children()
                alone = len(known) <= _ALONE
                strays.end_strays(self._mark, self._folder, known, alone=alone)
            self._drain()
            if self._sinks:  # held open by a process that has left the group
                strays.kill_marked(self._mark)
                self._drain()
            self.close_stdin()
            self._reaper.drop("group", self.pid)
            with suppress(ChildProcessError):  # the system has reaped it: its exit code is unknown
                _, status, used = os.wait4(self.pid, 0)
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._watch.meter.ended(used)
            self._process.wait()
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
        return self._process.wait()

    def _await_exit(self) -> None:
        # WNOWAIT leaves the child unreaped
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self.exited = True
        self._watch.wake()

    def _signal(self, number: int) -> None:
        if self._process.returncode is None:
            with suppress(PermissionError):  # it has changed its user
                os.killpg(self.pid, number)

    def _drain(self) -> None:
        end = time.monotonic() + _DRAIN_S
        while self._sinks and (remaining := end - time.monotonic()) > 0:
            self._move(remaining)

    def _move(self, limit_s: float) -> None:
        limit_ms = math.ceil(min(max(limit_s, 0), _MAX_WAIT_S) * 1000)
        for fd, _ in self._poll.poll(limit_ms):
            if fd == self._watch.fd:
                self._watch.clear_wake()
            elif fd == self._stdin:
                self._flush()
                if not self._unsent:
                    self._poll.unregister(fd)
            elif chunk := os.read(fd, _CHUNK):
                self._sinks[fd](chunk)
            else:
                self._poll.unregister(fd)
                del self._sinks[fd]

    def _flush(self) -> None:
        try:
            del self._unsent[: os.write(self._stdin, self._unsent)]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # if it is exiting, that is noticed separately
            self.stdin_closed = True
            self._unsent.clear()


def _bytes(text: str) -> bytes:
    """Encode text for a program: as the locale says, or as UTF-8 where the locale cannot."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")


def _executable(program: str, env: Mapping[str, str]) -> str:
    """Return the file that a program's name stands for.

    Popen would search too, but it blames any failure on a folder on PATH that it may not read.
    """
    if "/" in program:
        return program
    folders = env.get("PATH", os.defpath)
    path = shutil.which(program, path=folders)
    if path is None:
        path = shutil.which(program, os.F_OK, path=folders)
        code = errno.ENOENT if path is None else errno.EACCES
        raise OSError(code, os.strerror(code), path or program)
    return path


class ChildExited(Exception):
    """The child has exited while a question waits for its answer."""


class Channel:
    """Sends questions to the standard input of a child; answers come from its standard output.

    Its standard error is kept as output. After an exception the channel is unusable; end its
    `group`.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        watch: ChildWatch,
        pass_fds: Sequence[int] = (),
        is_client: bool = False,
    ) -> None:
        """Start the child; raises what `Group` raises."""
        self.output = Tail(MAX_TAIL_BYTES)
        self._on_stderr: Sink = self.output.add
        self._received = bytearray()
        self.group = Group(
            argv,
            cwd=cwd,
            env=env,
            watch=watch,
            on_stdout=self._receive,
            on_stderr=self._keep,
            with_stdin=True,
            pass_fds=pass_fds,
            is_client=is_client,
        )

    def reset(self) -> bool:
        """Discard the output so far; return whether the child can take another question."""
        self.group.read_available()
        self.output.clear()
        closed = self.group.stdout_closed or self.group.stdin_closed
        return not (self.group.exited or closed)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message that has no answer."""
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        # Bytes of a path that are not UTF-8 become the JSON escapes of the same characters.
        self.group.send(text.encode(errors="backslashreplace") + b"\n")

    def ask(self, message: Mapping[str, Any]) -> Dict[str, Any]:
        """Send a message and return the answer.

        Raises BadAnswer for anything but a JSON object on a line of bounded length, ChildExited
        when the child exits instead, AttemptOver when the attempt must end.
        """
        self.send(message)
        self.group.wait_until(self._is_answered_or_ended)
        self.group.read_available()  # also the output from before the answer
        line, newline, _ = self._received.partition(b"\n")
        if not newline:
            self._raise_no_answer()
        answer = _answer(bytes(line))
        del self._received[: len(line) + 1]
        return answer

    def send_output_to(self, sink: Optional[Sink]) -> None:
        """Send what the child writes to its standard error to a sink; None: keep it as output."""
        self._on_stderr = sink or self.output.add

    def wait(self, limit_s: float) -> bool:
        """Wait for answers; return False if none came within so many seconds.

        Raises AttemptOver when the attempt must end.
        """
        return self.group.wait_until(self._is_answered_or_ended, limit_s)

    def lines(self) -> List[bytes]:
        """Return the lines that have come, without their ends."""
        self.group.read_available()
        whole, newline, rest = bytes(self._received).rpartition(b"\n")
        self._received[:] = rest
        return whole.split(b"\n") if newline else []

    def answers(self) -> Iterator[Dict[str, Any]]:
        """Yield the answers that have come; raises BadAnswer as `ask`."""
        yield from map(_answer, self.lines())

    def check(self) -> None:
        """Raise as `ask` if no further answer can come."""
        if b"\n" not in self._received and self._is_answered_or_ended():
            self._raise_no_answer()

    def _keep(self, chunk: bytes) -> None:
        self._on_stderr(chunk)

    def _receive(self, chunk: bytes) -> None:
        if len(self._received) <= MAX_LINE_BYTES:
            self._received += chunk

    def _is_answered_or_ended(self) -> bool:
        return (
            b"\n" in self._received
            or len(self._received) > MAX_LINE_BYTES
            or self.group.exited
            or self.group.stdout_closed
            or self.group.stdin_closed
        )

    def _raise_no_answer(self) -> None:
        if len(self._received) > MAX_LINE_BYTES:
            raise BadAnswer(f"wrote a line of more than {MAX_LINE_BYTES} bytes")
        self.group.wait_for_exit(_EXIT_S)  # the end of its output is seen before its exit
        if self.group.exited:
            raise ChildExited
        stream = "output" if self.group.stdout_closed else "input"
        raise BadAnswer(f"closed its standard {stream}")


def _answer(line: bytes) -> Dict[str, Any]:
    try:
        answer = results.parsed(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        shown = repr(line[:_SHOWN_BYTES].decode("utf-8", "replace"))
        raise BadAnswer(f"did not answer with a JSON object but with {shown}")
    return answer
