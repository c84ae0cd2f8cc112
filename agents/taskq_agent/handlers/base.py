"""What a slot of an agent runs tasks with, and how it learns how an attempt ended."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Protocol, Tuple

from taskq_agent.inputs import CACHE_BYTES
from taskq_agent.protocol import DONE, FAILED, MAX_ERROR_CHARS, RELEASED, CampaignTerms, Task
from taskq_agent.text import clean


@dataclass(frozen=True)
class RunnerSettings:
    """How all slots of one agent run their tasks.

    scratch_root: under it each slot makes a folder of its own; None: the system's temporary
    folder.
    python_path: folders put in front of `sys.path` of the children that run Python callables.
    grace_s: seconds between SIGTERM and SIGKILL for a payload that has to stop.
    keep_scratch: leave the folders of the tasks behind, for debugging.
    cache_dir: folder for the shared inputs of campaigns; None: `inputs.default_cache`.
    cache_bytes: what it may hold, see `inputs.InputCache`.
    patience_s: seconds for which an input or a large result is tried again whose transfer breaks.
    """

    scratch_root: Optional[Path] = None
    python_path: Tuple[str, ...] = ()
    grace_s: float = 5.0
    keep_scratch: bool = False
    cache_dir: Optional[Path] = None
    cache_bytes: int = CACHE_BYTES
    patience_s: float = 300.0


@dataclass(frozen=True)
class Ended:
    """How an attempt ended, before it becomes a report; the fields are those of `Report`.

    tail: the end of what the payload wrote, at most `MAX_TAIL_BYTES` of UTF-8, without NUL
    and terminal escapes; None if it wrote nothing.
    phases: `run_s`; `fetch_s`, `prepare_s` and `upload_s` if this attempt had to do that.
    node_broken: the fault is this machine's or this agent's: it should take no more tasks.
    refused: tasks of this campaign cannot be run here, which says nothing about others.
    started: whether the handler had begun, if the task is handed back.
    large: in place of `result`, one above `MAX_RESULT_BYTES`, as JSON; what a runner returns has
    none any more.
    """

    outcome: str
    result: Optional[Mapping[str, Any]] = None
    retry: bool = True
    error_class: Optional[str] = None
    error: Optional[str] = None
    exit_code: Optional[int] = None
    tail: Optional[str] = None
    phases: Mapping[str, float] = field(default_factory=dict)
    node_broken: bool = False
    refused: bool = False
    started: bool = True
    large: Optional[bytes] = None


class Runner(Protocol):
    """Runs the tasks of one slot, one after the other, and lives as long as the slot.

    `run` and `close` are called from one thread, `stop` from any.
    """

    def run(self, task: Task, campaign: CampaignTerms) -> Ended:
        """Run one attempt to its end. Whatever the payload does, this raises nothing."""
        ...

    def stop(self) -> None:
        """End the attempt in hand: SIGTERM to its processes, SIGKILL after the grace.

        It comes back as released, unless it has ended by itself before. Does nothing
        between attempts.
        """
        ...

    def close(self) -> None:
        """End the children that outlive a task and remove the slot's scratch folder."""
        ...


class Kind(Protocol):
    """What runs the tasks of one revision of one campaign in one slot."""

    def run(self, task: Task, folder: str) -> Ended:
        """Run one attempt, with `folder` as its scratch folder."""
        ...

    def close(self) -> None:
        """End children that have stayed for a next task."""
        ...


def done(result: Mapping[str, Any]) -> Ended:
    """Return a success."""
    return Ended(DONE, result=result)


def failed(error_class: str, error: str, *, retry: bool, exit_code: Optional[int] = None) -> Ended:
    """Return a failure of the payload; `retry`: whether a further attempt may help."""
    return Ended(
        FAILED,
        retry=retry,
        error_class=error_class,
        error=clean(error)[:MAX_ERROR_CHARS],
        exit_code=exit_code,
    )


def broken(error_class: str, error: str, *, exit_code: Optional[int] = None) -> Ended:
    """Return a fault of the node, whatever the campaign: the task goes back uncounted."""
    return Ended(
        RELEASED,
        error_class=error_class,
        error=clean(error)[:MAX_ERROR_CHARS],
        exit_code=exit_code,
        node_broken=True,
    )


def refused(error_class: str, error: str, *, exit_code: Optional[int] = None) -> Ended:
    """Return that no task of this campaign can be run here: it goes back and costs no attempt."""
    return replace(broken(error_class, error, exit_code=exit_code), node_broken=False, refused=True)


class AttemptOver(Exception):
    """The attempt has ended before the payload has said how."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.error)
        self.ended = ended


@contextmanager
def timed(phases: Dict[str, float], name: str) -> Iterator[None]:
    """Note how many seconds the block takes, also when it raises."""
    began = time.monotonic()
    try:
        yield
    finally:
        phases[name] = round(time.monotonic() - began, 6)
