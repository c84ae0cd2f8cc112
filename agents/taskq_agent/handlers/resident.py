"""Handler kinds whose child stays for many tasks: `process`, `python` and `function`."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

import taskq_agent
from taskq_agent.handlers import containers, environment, exits, results
from taskq_agent.handlers.base import AttemptOver, Ended, Tell, failed, refused, timed
from taskq_agent.handlers.bundle import Bundle, CallTokens
from taskq_agent.handlers.containers import Container
from taskq_agent.handlers.definition import PlaceholderMissing, fill
from taskq_agent.handlers.environment import KindContext
from taskq_agent.handlers.processes import Channel, ChildExited
from taskq_agent.protocol import DONE, Task


class ResidentKind(ABC):
    """Starts a child for the first task, keeps it while it is usable, then starts another.

    bundles: whether the child can run several tasks for one message.
    """

    bundles = False

    def __init__(self, context: KindContext) -> None:
        self._context = context
        self._campaign = context.campaign
        self._asked = 0
        self._child: Optional[Channel] = None
        self._box: Optional[Container] = None
        self._tokens: Optional[CallTokens] = None

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
                ended = results.ended_by(child.ask(question), self._asked, folder)
        except AttemptOver as over:
            if child is not None:
                child.group.terminate(self._context.grace_s)
            ended = over.ended
            self._end()
        except results.BadAnswer as error:
            self._end()
            ended = failed("bad-answer", f"the handler's process {error}", retry=True)
        except ChildExited:
            box, code = self._box, self._end()
            tail = child.output.text() if child is not None else None
            end = containers.of_end(box, code, tail) if box is not None else None
            ended = end or exits.without_answer(code)
        tail = child.output.text() if child is not None else None
        return replace(ended, phases=phases, tail=tail)

    def is_ready_for_several(self) -> bool:
        """Return whether a child is there that can run several tasks for one message."""
        if self._child is not None and not self._child.reset():
            self.close()
        return self._child is not None and self._tokens is not None

    def run_several(
        self, tasks: Sequence[Task], folder: str, tell: Tell, finish: Callable[[Ended], Ended]
    ) -> Optional[Ended]:
        """Run attempts; see `Runner`. The child must be ready for them."""
        child, tokens = self._child, self._tokens
        if child is None or tokens is None:
            raise RuntimeError("the child is not ready for several tasks")
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
        if not bundle.is_whole:
            self._end()
        return ended

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
        except PlaceholderMissing as error:
            raise AttemptOver(error.ended()) from None
        context = self._context
        own_env = {**context.own_env, "TMPDIR": context.folder}
        self._box = containers.contained(context, argv, context.folder, own_env)
        env = {**context.env, **own_env}
        if self._box is not None:
            argv, env = self._box.argv, {**context.env, **self._box.env}
            self._box.begin()
        try:
            if self.bundles:
                self._tokens = CallTokens()
            fds = (self._tokens.fd,) if self._tokens is not None else ()
            return Channel(argv, cwd=context.folder, env=env, watch=context.watch, pass_fds=fds)
        except (OSError, ValueError, RuntimeError) as error:
            raise AttemptOver(exits.of_start(argv[0], error)) from error

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


#: Members of a task's message, and the equivalent variables of other kinds of handlers.
_PLACES = {"checkpoint": "TASKQ_CHECKPOINT", "out": "TASKQ_OUT", "progress": "TASKQ_PROGRESS"}


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
        variables = environment.of_task(task, folder)
        places = {name: variables[its] for name, its in _PLACES.items() if its in variables}
        about = {"key": task.key, "attempt": task.attempt, "campaign": self._campaign.path}
        return {"task": {**about, "scratch": folder, **places}, "payload": task.payload}


_ROOT = str(Path(taskq_agent.__file__).absolute().parents[1])

# Not -m, which searches the working folder before the standard library. The package's own root
# may be a site-packages, so it comes first only while the package is imported.
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); import taskq_agent; "
    "sys.path[:] = [*filter(None, sys.path[1:]), sys.argv[1]]; "
    "from taskq_agent.handlers import child; child.main()"
)


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
        path = [str(Path(folder).absolute()) for folder in self._context.python_path]
        question = {"id": 0, "python_path": path, **self._preparation()}
        try:
            ended = results.ended_by(child.ask(question), 0, self._context.folder)
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


ARCHIVE = "taskq-function.zip"


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
