"""Base of the handler kinds whose child stays for many tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Dict, List, Optional

from taskq_agent.handlers import answers, containers, exits, placeholders
from taskq_agent.handlers.base import AttemptOver, Ended, failed, timed
from taskq_agent.handlers.channel import Channel, ChildExited
from taskq_agent.handlers.containers import Container
from taskq_agent.handlers.context import KindContext
from taskq_agent.protocol import Task


class ResidentKind(ABC):
    """Starts a child for the first task, keeps it while it is usable, then starts another."""

    def __init__(self, context: KindContext) -> None:
        self._context = context
        self._campaign = context.campaign
        self._asked = 0
        self._child: Optional[Channel] = None
        self._box: Optional[Container] = None

    def run(self, task: Task, folder: str) -> Ended:
        """Run one attempt."""
        phases: Dict[str, float] = {}
        if self._child is not None and not self._child.reset():
            self.close()  # it has ended between two tasks, which is not this task's fault
        child = self._child
        try:
            if child is None:
                with timed(phases, "prepare_s"):
                    child = self._child = self._start()
                    self._context.live.writes_to(child.output)
                    self._prepare(child)
            else:
                self._context.live.writes_to(child.output)
            with timed(phases, "run_s"):
                self._asked += 1
                question = {"id": self._asked, **self._question(task, folder)}
                ended = answers.ended(child.ask(question), self._asked, folder)
        except AttemptOver as over:
            if child is not None:
                child.group.terminate(self._context.grace_s)
            ended = over.ended
            self._end()
        except answers.BadAnswer as error:
            self._end()
            ended = failed("bad-answer", f"the handler's process {error}", retry=True)
        except ChildExited:
            text = "the handler's process exited without an answer"
            box, code = self._box, self._end()
            tail = child.output.text() if child is not None else None
            end = containers.of_end(box, code, tail) if box is not None else None
            end = end or exits.of_code(code)
            ended = end or failed("no-answer", text, retry=True, exit_code=0)
        tail = child.output.text() if child is not None else None
        return replace(ended, phases=phases, tail=tail)

    def close(self) -> None:
        """End the child: close its input; after the grace, SIGKILL."""
        if self._child is not None:
            self._child.group.close_stdin()
            self._child.group.wait_for_exit(self._context.grace_s)
            self._end()

    @abstractmethod
    def _argv(self) -> List[str]:
        """Return the program to start, with its arguments."""

    @abstractmethod
    def _prepare(self, child: Channel) -> None:
        """Send what comes before the first task; AttemptOver if the child cannot run such tasks."""

    @abstractmethod
    def _question(self, task: Task, folder: str) -> Dict[str, Any]:
        """Return the message with a task."""

    def _start(self) -> Channel:
        try:
            argv = self._argv()
        except placeholders.PlaceholderMissing as error:
            raise AttemptOver(error.ended()) from None
        context = self._context
        own_env = {**context.own_env, "TMPDIR": context.folder}
        self._box = containers.contained(context, argv, context.folder, own_env)
        env = {**context.env, **own_env}
        if self._box is not None:
            argv, env = self._box.argv, {**context.env, **self._box.env}
            self._box.begin()
        try:
            return Channel(argv, cwd=context.folder, env=env, watch=context.watch)
        except (OSError, ValueError, RuntimeError) as error:
            raise AttemptOver(exits.of_start(argv[0], error)) from error

    def _end(self) -> int:
        child, self._child = self._child, None
        box, self._box = self._box, None
        try:
            return child.group.end() if child is not None else 0
        finally:
            if box is not None:
                box.remove()
