"""Handler `{"kind": "python", "target": "module:function", "prepare": "module:function"}`.

`shared = prepare(params)` runs once in a resident child, `function(payload, shared)` for each task;
without `prepare`, `shared` is the parameters themselves. The function returns the result as a dict
(None counts as an empty one), or raises: `Retry`, `FailForGood` and `NodeBroken` of `taskq_agent`
decide what follows, anything else is a transient failure. If `prepare` fails with any other
exception, or the module cannot be imported, no task of the campaign can run here, and the node
refuses it, as for `NodeBroken`. The time for preparing counts towards the time limit of the task
that waits for it. The working folder is the scratch folder of the task; during `prepare` it is a
folder that lasts as long as the child.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List

import taskq_agent
from taskq_agent.handlers import answers, environment, exits
from taskq_agent.handlers.base import AttemptOver, refused
from taskq_agent.handlers.channel import Channel, ChildExited
from taskq_agent.handlers.resident import ResidentKind
from taskq_agent.protocol import DONE, Task

_ROOT = str(Path(taskq_agent.__file__).absolute().parents[1])

# Not -m, which searches the working folder before the standard library. The package's own root
# may be a site-packages, so it comes first only while the package is imported.
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); import taskq_agent; "
    "sys.path[:] = [*filter(None, sys.path[1:]), sys.argv[1]]; "
    "from taskq_agent.handlers import child; child.main()"
)


class PythonKind(ResidentKind):
    """Runs tasks in a resident child with the same Python interpreter as the agent."""

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
            ended = answers.ended(child.ask(question), 0, self._context.folder)
        except answers.BadAnswer as error:
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
