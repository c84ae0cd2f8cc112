"""Messages, apart from exchanges, about one task that an agent holds: its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckpointRequest:
    """Asks for the checkpoint of a task that the session works on, or saves it or output files.

    digest, size: of the blob to be stored; empty and 0 to ask.
    """

    campaign: int
    task: int
    lease: str
    digest: str = ""
    size: int = 0


@dataclass(frozen=True)
class CheckpointAnswer:
    """The checkpoint of a task; digest empty and size 0 if there is none.

    held: whether the lease is the task's; if not, nothing was saved. memory_failures: how often the
    task has run out of memory.
    """

    held: bool
    digest: str = ""
    size: int = 0
    memory_failures: int = 0
