"""Handler kinds whose child stays for many tasks: `process`, `python` and `function`."""

from __future__ import annotations

import logging
import sys
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import taskq_agent
from taskq_agent.handlers import containers, environment, exits, renewal, results
from taskq_agent.handlers.base import AttemptOver, Ended, Tell, broken, failed, refused, timed
from taskq_agent.handlers.bundle import Bundle, CallTokens
from taskq_agent.handlers.containers import Container
from taskq_agent.handlers.definition import PlaceholderMissing, fill
from taskq_agent.handlers.environment import KindContext
from taskq_agent.handlers.processes import Channel, ChildExited
from taskq_agent.handlers.renewal import Renewal
from taskq_agent.protocol import DONE, Task

#: Seconds that a child which is replaced has to end.
_FAREWELL_S = 1.0

log = logging.getLogger(__name__)

_ROOT = str(Path(taskq_agent.__file__).absolute().parents[1])

# Not -m, which searches the working folder before the standard library. The package's own root
# may be a site-packages, so it comes first only while the package is imported.
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); import taskq_agent; "
    "sys.path[:] = [*filter(None, sys.path[1:]), sys.argv[1]]; "
    "from taskq_agent.import_path import put_own_first; path = put_own_first(); "
    "from taskq_agent.handlers import child; sys.path[:] = path; child.main()"
)

ARCHIVE = "taskq-function.zip"


class ResidentKind(ABC):
    """Starts a child for the first task, keeps it while it is usable, then starts another.

    is_ours: whether the child is a program of the agent, which says how its process is. bundles:
    whether it can run several tasks for one message.
    """

    is_ours = False
    bundles = False

    def __init__(self, context: KindContext) -> None:
        self._context = context
        self._campaign = context.campaign
        self._asked = 0
        self._renewal = Renewal(self._campaign.handler.get("tasks_per_child"))
        self._child: Optional[Channel] = None
        #: A folder that the child may write to, and no other child ever.
        self._place: Optional[str] = None
        self._box: Optional[Container] = None
        self._tokens: Optional[CallTokens] = None

    def take_folder(self, name: str, *parts: str) -> str:
        """Return a new scratch folder; see `Kind`.

        What runs in a container sees its own folder only, so those of its tasks are in there. If it
        has made that folder unusable, it has to go.
        """
        if "container" not in self._campaign.handler:
            return self._context.folders.take(name, *parts)
        if self._child is None:
            self._leave_place()
        try:
            return self._context.folders.take(name, *parts, within=self._taken_place())
        except OSError:
            self.close()
            return self._context.folders.take(name, *parts, within=self._taken_place())

    def run(self, task: Task, folder: str) -> Ended:
        """Run one attempt."""
        phases: Dict[str, float] = {}
        self._renew(task.attempt)
        try:
            child = self._ready(phases)
            with timed(phases, "run_s"):
                answer = self._asked_for(child, self._question(task, folder))
                while self.bundles and answer.get("rest") is True:
                    self._replace(child, str(answer.get("end")))
                    said, child = child.output.bytes(), self._ready(phases)
                    child.output.add(said)
                    answer = self._asked_for(child, {**self._question(task, folder), "rest": True})
                ended = results.ended_by(answer, self._asked, folder)
        except AttemptOver as over:
            if self._child is not None:
                self._child.group.terminate(self._context.settings.grace_s)
            ended, tail = over.ended, self._last_words()[1]
        except results.BadAnswer as error:
            ended = failed("bad-answer", f"the handler's process {error}", retry=True)
            tail = self._last_words()[1]
        except ChildExited:
            box = self._box
            code, tail = self._last_words()
            end = containers.of_end(box, code, tail) if box is not None else None
            ended = end or exits.without_answer(code)
        else:
            is_failed, run_s = ended.outcome != DONE, phases["run_s"]
            why = self._renewal.ended(failed=is_failed, run_s=run_s, **self._said(answer))
            if why is not None:
                self._replace(child, why)
            tail = child.output.text()
        return replace(ended, phases=phases, tail=tail)

    def _renew(self, attempt: int) -> None:
        """End a child that is not for this attempt."""
        if self._child is None:
            return
        if not self._child.reset():
            self._say_farewell()  # it has ended between two tasks, not by the fault of this one
        elif self._renewal.is_due(attempt):
            self._replace(self._child, "the next attempt is a retry")

    def _last_words(self) -> Tuple[int, Optional[str]]:
        """End the child; return its exit code and the end of its output."""
        child = self._child
        code = self._end()
        return code, child.output.text() if child is not None else None

    def _ready(self, phases: Dict[str, float]) -> Channel:
        """Return the child, started and prepared if there was none."""
        child = self._child
        if child is None:
            took: Dict[str, float] = {}
            try:
                with timed(took, "prepare_s"):
                    child = self._child = self._start()
                    self._context.live.writes_to(child.output)
                    self._prepare(child)
            finally:
                phases["prepare_s"] = phases.get("prepare_s", 0.0) + took["prepare_s"]
            self._renewal.started(took["prepare_s"])
        self._context.live.writes_to(child.output)
        return child

    def _asked_for(self, child: Channel, question: Dict[str, Any]) -> Dict[str, Any]:
        self._asked += 1
        return child.ask({"id": self._asked, **question})

    def _said(self, answer: Mapping[str, Any]) -> Dict[str, Any]:
        """Return what the child says of its own state, for `Renewal.ended`."""
        return renewal.said(answer) if self.is_ours else {}

    def _replace(self, child: Channel, why: str) -> None:
        """End the child, which has answered, so that the next task gets a new one."""
        log.info("the process of %s ends: %s", self._campaign.path, why)
        child.output.add(f"taskq: the next task gets a new process: {why}\n".encode())
        child.group.close_stdin()
        child.group.wait_for_exit(min(self._context.settings.grace_s, _FAREWELL_S))
        self._end()

    def is_ready_for_several(self) -> bool:
        """Return whether a child is there that can run several tasks for one message."""
        if self._child is not None and not self._child.reset():
            self._end()
        return self._child is not None and self._tokens is not None

    def run_several(
        self,
        tasks: Sequence[Task],
        folder: str,
        tell: Tell,
        finish: Callable[[Task, Ended], Ended],
    ) -> Optional[Ended]:
        """Run attempts; see `Runner`. The child must be ready for them."""
        child, tokens = self._child, self._tokens
        if child is None or tokens is None:
            raise RuntimeError("the child is not ready for several tasks")
        room = self._renewal.room()
        if room is not None and room < len(tasks):
            tell((), len(tasks) - room, False)
            tasks = tasks[:room]
        first, limit_s = self._asked + 1, self._campaign.time_limit_s
        self._asked += len(tasks)
        bundle = Bundle(
            self._context,
            child,
            tokens,
            tasks,
            folder,
            first=first,
            time_limit_s=limit_s,
            tell=tell,
            finish=finish,
        )
        ended = bundle.run()
        why = self._renewal.several_ended(bundle.answered, **self._said(bundle.last))
        if not bundle.is_whole:
            self._end()
        elif why is not None:
            self._replace(child, why)
        return ended

    def close(self) -> None:
        """End the child: close its input; after the grace, SIGKILL."""
        self._say_farewell()
        self._leave_place()

    def _say_farewell(self) -> None:
        if self._child is not None:
            self._child.group.close_stdin()
            self._child.group.wait_for_exit(self._context.settings.grace_s)
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
        except PlaceholderMissing as error:
            raise AttemptOver(error.ended()) from None
        context = self._context
        if "container" not in self._campaign.handler:
            self._leave_place()
        try:
            place = self._taken_place()
        except OSError as error:
            text = f"no scratch folder can be made: {error}"
            raise AttemptOver(broken("scratch-unusable", text)) from error
        own_env = {**context.own_env, "TMPDIR": place}
        self._box = containers.contained(context, argv, place, own_env)
        env = {**context.env, **own_env}
        if self._box is not None:
            argv, env = self._box.argv, {**context.env, **self._box.env}
            self._box.begin()
        try:
            if self.bundles:
                self._tokens = CallTokens()
            fds = (self._tokens.fd,) if self._tokens is not None else ()
            return Channel(
                argv,
                cwd=place,
                env=env,
                watch=context.watch,
                pass_fds=fds,
                is_client=self._box is not None and self._box.is_client,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise AttemptOver(exits.of_start(argv[0], error)) from error

    def _taken_place(self) -> str:
        if self._place is None:
            self._place = self._context.folders.take("child")
        return self._place

    def _leave_place(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            self._context.folders.give_back(place)

    def _end(self) -> int:
        if self._tokens is not None:
            self._tokens.close()
            self._tokens = None
        child, self._child = self._child, None
        box, self._box = self._box, None
        try:
            return child.group.end() if child is not None else 0
        finally:
            if box is not None:
                box.remove()


class ProcessKind(ResidentKind):
    """Handler `{"kind": "process", "argv": [...]}`: a resident program that runs many tasks.

    It starts once per slot and exchanges lines of JSON. It reads them from its standard input, and
    for each task writes one line, and nothing else, to its standard output. First comes
        {"prepare": <parameters of the campaign>, "campaign": "/path", "inputs": {"name": "/file"}}

    which needs no answer, then for one task after the other

        {"id": 1, "task": {"key": "a", "attempt": 1, "campaign": "/path", "scratch": "/folder",
         "progress": "/folder/file"}, "payload": {...}}

    with an answer as `results` describes it. It must exit at the end of its input. Standard error
    is kept as output. If it exits instead of answering, its exit code counts like a command's. If
    it writes anything else, the attempt fails with the class `bad-answer`. In both cases the next
    task gets a new process. Its arguments may contain parameters and inputs of the campaign,
    `{params.name}` and `{inputs.name}`, but nothing of a task.
    """

    def _argv(self) -> List[str]:
        campaign = self._campaign
        return fill(campaign.handler["argv"], params=campaign.params, inputs=self._context.inputs)

    def _prepare(self, child: Channel) -> None:
        campaign, inputs = self._campaign, self._context.inputs
        child.send({"prepare": campaign.params, "campaign": campaign.path, "inputs": inputs})

    def _question(self, task: Task, folder: str) -> Dict[str, Any]:
        return environment.question_of(task, self._campaign.path, folder)


class PythonKind(ResidentKind):
    """Handler `{"kind": "python", "target": "module:function", "prepare": "module:function"}`.

    `shared = prepare(params)` runs once in a resident child with the agent's own interpreter,
    `function(payload, shared)` for each task; without `prepare`, `shared` is the parameters
    themselves. The function returns the result as a dict (None counts as an empty one), or raises:
    `Retry`, `FailForGood` and `NodeBroken` of `taskq_agent` decide what follows, anything else is a
    transient failure. If `prepare` fails with any other exception, or the module cannot be
    imported, no task of the campaign can run here, and the node refuses it, as for `NodeBroken`.
    The time for preparing counts towards the time limit of the task that waits for it. The working
    folder is the scratch folder of the task; during `prepare` it is a folder that lasts as long as
    the child.
    """

    is_ours = True

    def _argv(self) -> List[str]:
        # -u also keeps compiled code from holding output back until a later task
        return [sys.executable, "-u", "-c", _BOOT, _ROOT]

    def _preparation(self) -> Dict[str, Any]:
        """Return what to call, and with what; describe: whether exceptions are kept whole."""
        handler = self._campaign.handler
        return {
            "target": handler["target"],
            "prepare": handler.get("prepare"),
            "params": self._campaign.params,
            "describe": False,
        }

    def _prepare(self, child: Channel) -> None:
        path = [str(Path(folder).absolute()) for folder in self._context.settings.python_path]
        question = {"id": 0, "python_path": path, **self._renewal.order(), **self._preparation()}
        try:
            ended = results.ended_by(child.ask(question), 0, self._taken_place())
        except results.BadAnswer as error:
            raise AttemptOver(refused("prepare-failed", f"the child {error}")) from None
        except ChildExited:
            how = exits.of_code(child.group.end())
            text = f"while preparing: {how.error if how else 'exited with 0'}"
            raise AttemptOver(refused("prepare-failed", text)) from None
        if ended.outcome != DONE:
            raise AttemptOver(ended)

    def _question(self, task: Task, folder: str) -> Dict[str, Any]:
        return {
            "env": environment.of_task(task, folder),
            "folder": folder,
            "payload": task.payload,
        }


class FunctionKind(PythonKind):
    """Handler `{"kind": "function", ...}`: a function that its user passes to the queue unchanged.

        {"kind": "function", "name": "dock.dock", "target": "dock:dock"}
        {"kind": "function", "name": "dock", "archive": "<SHA-256>", "python": "3.11",
         "seal": "<hex>"}

    With a target alone it is called by name, and only JSON and the types of `taskq_agent.typed` go
    in and out. An archive is an input of the campaign, `ARCHIVE`: the pickled function, the module
    that reads it, and the source text for tracebacks. The child unpickles it after checking its
    digest, and also unpickles arguments that carry a seal: an HMAC under the campaign's own key.

    The function is called as `function(argument, **params)`; `calls` says how its result or
    exception is stored. If this node cannot get the function, since a module is missing or Python
    differs, no task of the campaign can run here, and the node refuses it, as with `prepare` of a
    Python handler.
    """

    bundles = True

    def _preparation(self) -> Dict[str, Any]:
        return {
            "tokens": self._tokens.fd if self._tokens is not None else None,
            "target": "taskq_agent.handlers.calls:call",
            "prepare": "taskq_agent.handlers.calls:prepare",
            "params": {"handler": self._campaign.handler, "params": self._campaign.params},
            "describe": True,
        }
