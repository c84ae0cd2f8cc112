"""Agent on a worker node: standard library only, Python 3.9 and later.

Payload code imports from here: four exceptions that say how an attempt ended, `input_path`,
`checkpoint_path`, `output_path` and `progress`.
"""

from __future__ import annotations

from taskq_agent.errors import Continue, FailForGood, HandlerError, NodeBroken, Retry
from taskq_agent.payload import checkpoint_path, input_path, output_path, progress

__all__ = [
    "Continue",
    "FailForGood",
    "HandlerError",
    "NodeBroken",
    "Retry",
    "checkpoint_path",
    "input_path",
    "output_path",
    "progress",
]
