"""Handler `{"kind": "process", "argv": [...]}`: a resident program that runs many tasks.

It starts once per slot and exchanges lines of JSON. It reads them from its standard input, and for
each task writes one line, and nothing else, to its standard output. First comes
    {"prepare": <parameters of the campaign>, "campaign": "/path", "inputs": {"name": "/file"}}

which needs no answer, then for one task after the other

    {"id": 1, "task": {"key": "a", "attempt": 1, "campaign": "/path", "scratch": "/folder",
     "progress": "/folder/file"}, "payload": {...}}

with an answer as `answers` describes it. It must exit at the end of its input. Standard error is
kept as output. If it exits instead of answering, its exit code counts like a command's. If it
writes anything else, the attempt fails with the class `bad-answer`. In both cases the next task
gets a new process. Its arguments may contain parameters and inputs of the campaign, `{params.name}`
and `{inputs.name}`, but nothing of a task.
"""

from __future__ import annotations

from typing import Any, Dict, List

from taskq_agent.handlers import environment, placeholders
from taskq_agent.handlers.channel import Channel
from taskq_agent.handlers.resident import ResidentKind
from taskq_agent.protocol import Task

#: Members of a task's message, and the equivalent variables of other kinds of handlers.
_PLACES = {"checkpoint": "TASKQ_CHECKPOINT", "out": "TASKQ_OUT", "progress": "TASKQ_PROGRESS"}


class ProcessKind(ResidentKind):
    """Runs tasks in a resident process of any program."""

    def _argv(self) -> List[str]:
        return placeholders.fill(
            self._campaign.handler["argv"],
            params=self._campaign.params,
            inputs=self._context.inputs,
        )

    def _prepare(self, child: Channel) -> None:
        campaign, inputs = self._campaign, self._context.inputs
        child.send({"prepare": campaign.params, "campaign": campaign.path, "inputs": inputs})

    def _question(self, task: Task, folder: str) -> Dict[str, Any]:
        about = {
            "key": task.key,
            "attempt": task.attempt,
            "campaign": self._campaign.path,
            "scratch": folder,
        }
        variables = environment.of_task(task, folder)
        for name, variable in _PLACES.items():
            if variable in variables:
                about[name] = variables[variable]
        return {"task": about, "payload": task.payload}
