"""Execution of payload code, each attempt in a process of its own.

    runner = make_runner(0, RunnerSettings())
    ended = runner.run(task, campaign)

`command` and `resident` document the kinds of handlers, and what each guarantees to payload code.
"""

from __future__ import annotations

import signal
from typing import Optional

from taskq_agent.handlers.base import Ended, Runner, RunnerSettings
from taskq_agent.handlers.definition import check_handler
from taskq_agent.handlers.limits import MemoryRoom
from taskq_agent.transport import TaskBlobs

__all__ = ["Ended", "MemoryRoom", "Runner", "RunnerSettings", "check_handler", "make_runner"]


def make_runner(
    slot: int,
    settings: RunnerSettings,
    blobs: Optional[TaskBlobs] = None,
    room: Optional[MemoryRoom] = None,
) -> Runner:
    """Return the runner of a slot; OSError if this node cannot start a process.

    blobs: source of inputs and store of large results: the transport of the agent. room: the memory
    of all slots together. Call it in the main thread.
    """
    from taskq_agent.handlers.slot import SlotRunner  # noqa: PLC0415  # children need none of it

    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # inherited from some launchers; the kernel would discard the exit codes of children
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return SlotRunner(slot, settings, blobs, room)
