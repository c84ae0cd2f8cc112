"""Interfaces of runners and handler kinds, and the ways in which an attempt ends."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import (
    Any,
    Callable,
    Container,
    Dict,
    Iterator,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Tuple,
)

from taskq_agent.binds import Bind
from taskq_agent.inputs import CACHE_BYTES
from taskq_agent.protocol import FAILED, MAX_ERROR_CHARS, RELEASED, CampaignTerms, Held, Task
from taskq_agent.resources import Resources
from taskq_agent.room import Grant
from taskq_agent.task_messages import Update
from taskq_agent.text import clean

#: Most calls for one message to a child: a pipe surely takes as many tokens.
MOST_CALLS = 256


@dataclass(frozen=True)
class RunnerSettings:
    """Settings for the runners of all slots of one agent.

    scratch_root: each slot makes its own folder below it; None: the system's temporary folder.
    python_path: folders put in front of `sys.path` of the children that run Python callables.
    grace_s: seconds between SIGTERM and SIGKILL for a payload that has to stop.
    keep_scratch: do not remove the folders of the tasks, for debugging.
    cache_dir: folder for the shared inputs of campaigns; None: `inputs.default_cache`.
    cache_bytes: its largest size, see `inputs.InputCache`.
    spool_dir: where a result stays that is not uploaded when the agent ends; None: nowhere.
    patience_s: for how many seconds a broken transfer of an input or a large result is retried.
    container_runtime: for campaigns with a container; None: an installed one, see `containers`.
    binds: what all containers see of the node. allow_binds, allow_env: what campaigns may have of
    it, and which variables of the agent.
    slots, node: each slot has an equal share of the node's cores and memory.
    mps: whether the agent runs the service of `mps` for its devices.
    """

    scratch_root: Optional[Path] = None
    python_path: Tuple[str, ...] = ()
    grace_s: float = 5.0
    keep_scratch: bool = False
    cache_dir: Optional[Path] = None
    cache_bytes: int = CACHE_BYTES
    spool_dir: Optional[Path] = None
    patience_s: float = 300.0
    container_runtime: Optional[str] = None
    binds: Tuple[Bind, ...] = ()
    allow_binds: Tuple[Bind, ...] = ()
    allow_env: Tuple[str, ...] = ()
    slots: int = 1
    node: Resources = field(default_factory=Resources)
    mps: bool = False


@dataclass(frozen=True)
class Ended:
    """The end of an attempt, before it becomes a report; the fields are those of `Report`.

    tail: the end of the output of the payload, at most `MAX_TAIL_BYTES` of UTF-8, without NUL and
    terminal escapes; None if there was no output.
    phases: `run_s`; `fetch_s`, `prepare_s` and `upload_s` if this attempt had to do that; also
    `cpu_s`, `peak_bytes` and `gpu_peak_bytes`, its use of resources.
    node_broken: this node or this agent is at fault: it should take no more tasks.
    refused: tasks of this campaign cannot run here, which says nothing about other campaigns.
    started: whether the handler had begun, if the task is handed back.
    raised: the payload itself reports that it failed, by an exception or an error in its answer.
    continues: the handler asks for another attempt that goes on from the checkpoint.
    large: in place of `result`, a large one as its blob, see `results`; output: the archive of the
    files that it leaves with its result. A runner never returns these.
    kept: why a large result is not uploaded but kept in the spool, for the next agent; or empty.
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
    continues: bool = False
    raised: bool = False
    large: Optional[bytes] = None
    output: Optional[bytes] = None
    kept: str = ""


#: Called with the ends of the first calls of several, in order; with how many of the last ones
#: have not begun and never will; and with whether calls of this campaign should run one by one.
Tell = Callable[[Sequence[Ended], int, bool], None]


class TellBatch(Protocol):
    """Takes the ends of tasks that began together, in any order."""

    def __call__(
        self,
        ends: Sequence[Tuple[Task, Ended]],
        *,
        over: bool = False,
        too_large_as: Optional[str] = None,
        begun: Optional[Sequence[Task]] = (),
    ) -> None:
        """Take ends. over: the last call. too_large_as, begun: as of `BatchMoved`."""
        ...


def is_batched(campaign: CampaignTerms) -> bool:
    """Return whether the tasks of a campaign begin together."""
    return campaign.handler.get("batch") is not None


@dataclass(frozen=True)
class TransferFailure:
    """Why a transfer fails, and since when, by the monotonic clock."""

    why: str
    since: float


class Runner(Protocol):
    """Runs the tasks of one slot, one after the other, for as long as the slot exists.

    `run`, `run_several` and `close` are called from one thread, the others from any.
    """

    def run(self, task: Task, campaign: CampaignTerms) -> Ended:
        """Run one attempt to its end. It raises nothing, whatever the payload does."""
        ...

    def run_several(
        self, tasks: Sequence[Task], campaign: CampaignTerms, tell: Tell
    ) -> Optional[Ended]:
        """Run attempts at short calls of functions, one after the other; `tell` gets their ends.

        Returns the end of the attempt after which the slot runs no more of them, if there is one.
        """
        ...

    def run_batch(self, tasks: Sequence[Task], campaign: CampaignTerms, tell: TellBatch) -> None:
        """Run tasks that begin together; `tell` gets the end of each."""
        ...

    def use(self, grant: Grant) -> None:
        """Let the next starts use this of the node; called before them, from the same thread."""
        ...

    def take_back(self) -> None:
        """Make `run_several` soon give back the calls that have not begun."""
        ...

    def stop(self) -> None:
        """End the running attempt: SIGTERM to its processes, SIGKILL after the grace.

        The attempt ends as released, unless it has ended before. Does nothing between attempts.
        """
        ...

    def update(self, followed: Container[Held]) -> Optional[Update]:
        """Return the update of the running attempt, with its output if `followed` contains it.

        None if there is no update, or no attempt runs. May wait for the scratch folder's file
        system.
        """
        ...

    @property
    def transfer_failure(self) -> Optional[TransferFailure]:
        """The failure of the transfer of an input or a large result, if one fails now."""
        ...

    @property
    def scratch_moves(self) -> int:
        """How often new folders of tasks came to be elsewhere than those before."""
        ...

    def close(self) -> None:
        """End the children that outlive a task, and remove the scratch folder of the slot."""
        ...


class Kind(Protocol):
    """Runs the tasks of one revision of one campaign in one slot."""

    def take_folder(self, name: str, *parts: str) -> str:
        """Return a new scratch folder for `run`, with these folders in it; OSError as `take`."""
        ...

    def run(self, task: Task, folder: str) -> Ended:
        """Run one attempt, with `folder` as its scratch folder."""
        ...

    def close(self) -> None:
        """End children kept for a next task."""
        ...


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
    """Return a fault of the node, independent of the campaign: the task goes back uncounted."""
    return Ended(
        RELEASED,
        error_class=error_class,
        error=clean(error)[:MAX_ERROR_CHARS],
        exit_code=exit_code,
        node_broken=True,
    )


def handed_back(error_class: str, error: str) -> Ended:
    """Return that the task goes back before its handler has begun, which is nobody's fault."""
    text = clean(error)[:MAX_ERROR_CHARS]
    return Ended(RELEASED, error_class=error_class, error=text, started=False)


def refused(error_class: str, error: str, *, exit_code: Optional[int] = None) -> Ended:
    """Return that no task of this campaign can run here: it goes back and costs no attempt."""
    return replace(broken(error_class, error, exit_code=exit_code), node_broken=False, refused=True)


class AttemptOver(Exception):
    """The attempt was ended before the payload reported its end."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.error)
        self.ended = ended


@contextmanager
def timed(phases: Dict[str, float], name: str) -> Iterator[None]:
    """Record how many seconds the block takes, even if it raises."""
    began = time.monotonic()
    try:
        yield
    finally:
        phases[name] = round(time.monotonic() - began, 6)
