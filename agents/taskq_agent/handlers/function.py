"""Handler `{"kind": "function", ...}`: a function given to the queue as it is written.

    {"kind": "function", "name": "dock.dock", "target": "dock:dock"}
    {"kind": "function", "name": "dock", "archive": "<SHA-256>", "python": "3.11", "seal": "<hex>"}

With a target alone it is called by name, and only JSON and the types of `taskq_agent.typed` go in
and out. An archive is an input of the campaign, `taskq-function.zip`: the pickled function, the
module that reads it, and the source text for tracebacks. The child unpickles it after checking its
digest, and also unpickles arguments that carry a seal: an HMAC under the campaign's own key.

The function is called as `function(argument, **params)`; `calls` says how its result or exception
is stored. If this node cannot get the function, since a module is missing or Python differs, no
task of the campaign can run here, and the node refuses it, as with `prepare` of a Python handler.
"""

from __future__ import annotations

from typing import Any, Dict

from taskq_agent.handlers.python import PythonKind

ARCHIVE = "taskq-function.zip"


class FunctionKind(PythonKind):
    """Calls functions in a resident child with the same Python interpreter as the agent."""

    def _preparation(self) -> Dict[str, Any]:
        return {
            "target": "taskq_agent.handlers.calls:call",
            "prepare": "taskq_agent.handlers.calls:prepare",
            "params": {"handler": self._campaign.handler, "params": self._campaign.params},
            "describe": True,
        }
