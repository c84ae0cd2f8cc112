"""Agent on a worker node: standard library only, Python 3.9 and later.

Payload code imports from here: three exceptions that say how an attempt ended, and `input_path`.
"""

from __future__ import annotations

from taskq_agent.errors import FailForGood, HandlerError, NodeBroken, Retry
from taskq_agent.payload import input_path

__all__ = ["FailForGood", "HandlerError", "NodeBroken", "Retry", "input_path"]
