"""Messages to and from a child in lines of JSON: one answer per question."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Sequence

from taskq_agent.handlers import results
from taskq_agent.handlers.answers import BadAnswer
from taskq_agent.handlers.group import Group
from taskq_agent.handlers.live import Tail
from taskq_agent.handlers.watch import ChildWatch
from taskq_agent.protocol import MAX_RESULT_BYTES, MAX_TAIL_BYTES

MAX_LINE_BYTES = 4 * MAX_RESULT_BYTES  # a result may come with spaces and \u escapes

_EXIT_S = 1.0
_SHOWN_BYTES = 200


class ChildExited(Exception):
    """The child has exited while a question waits for its answer."""


class Channel:
    """Sends questions to the standard input of a child; answers come from its standard output.

    Its standard error is kept as output. After an exception the channel is unusable; end its
    `group`.
    """

    def __init__(
        self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], watch: ChildWatch
    ) -> None:
        """Start the child; raises what `Group` raises."""
        self.output = Tail(MAX_TAIL_BYTES)
        self._received = bytearray()
        self.group = Group(
            argv,
            cwd=cwd,
            env=env,
            watch=watch,
            on_stdout=self._receive,
            on_stderr=self.output.add,
            with_stdin=True,
        )

    def reset(self) -> bool:
        """Discard the output so far; return whether the child can take another question."""
        self.group.read_available()
        self.output.clear()
        return not (self.group.exited or self.group.stdout_closed)

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
        try:
            answer = results.parsed(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise BadAnswer(f"did not answer with a JSON object but with {self._shown()}")
        del self._received[: len(line) + 1]
        return answer

    def _receive(self, chunk: bytes) -> None:
        if len(self._received) <= MAX_LINE_BYTES:
            self._received += chunk

    def _is_answered_or_ended(self) -> bool:
        return (
            b"\n" in self._received
            or len(self._received) > MAX_LINE_BYTES
            or self.group.exited
            or self.group.stdout_closed
        )

    def _raise_no_answer(self) -> None:
        if len(self._received) > MAX_LINE_BYTES:
            raise BadAnswer(f"wrote a line of more than {MAX_LINE_BYTES} bytes")
        self.group.wait_for_exit(_EXIT_S)  # the end of its output is seen before its exit
        if self.group.exited:
            raise ChildExited
        raise BadAnswer("closed its standard output")

    def _shown(self) -> str:
        line = bytes(self._received.partition(b"\n")[0][:_SHOWN_BYTES])
        return repr(line.decode("utf-8", "replace"))
