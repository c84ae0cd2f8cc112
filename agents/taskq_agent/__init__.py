"""The worker-node agent: standard library only, Python 3.9 and later.

Payload code imports its three exceptions from here to say how an attempt ended.
"""

from __future__ import annotations

from taskq_agent.errors import FailForGood, HandlerError, NodeBroken, Retry

__all__ = ["FailForGood", "HandlerError", "NodeBroken", "Retry"]
