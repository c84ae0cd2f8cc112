"""Runner of one slot: scratch folders, transfers, limits and the handler of the campaign."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Callable, Container, Dict, Iterator, Mapping, Optional, Sequence, Tuple

from taskq_agent import reaper, scratch
from taskq_agent.batches import BatchTerms
from taskq_agent.devices import CUDA
from taskq_agent.folders import SlotFolders
from taskq_agent.handlers import environment, exits
from taskq_agent.handlers.base import (
    AttemptOver,
    Ended,
    Kind,
    RunnerSettings,
    Tell,
    TellBatch,
    TransferFailure,
    broken,
    is_batched,
    refused,
    timed,
)
from taskq_agent.handlers.batch import Batch, BatchKind
from taskq_agent.handlers.batch_kinds import (
    CommandBatches,
    FunctionBatches,
    ProcessBatches,
    PythonBatches,
)
from taskq_agent.handlers.calls import has_large
from taskq_agent.handlers.command import CommandKind
from taskq_agent.handlers.completeness import with_all_required
from taskq_agent.handlers.definition import COMMAND, FUNCTION, PROCESS, PYTHON, check_handler
from taskq_agent.handlers.environment import KindContext
from taskq_agent.handlers.kept_files import without_checkpoint
from taskq_agent.handlers.limits import ChildWatch, MemoryRoom, own_cores
from taskq_agent.handlers.live import LiveAttempt
from taskq_agent.handlers.resident import FunctionKind, ProcessKind, PythonKind, ResidentKind
from taskq_agent.handlers.transfers import FetchedInput, Transfers
from taskq_agent.protocol import RELEASED, CampaignTerms, Held, Task
from taskq_agent.room import Grant
from taskq_agent.task_messages import Update
from taskq_agent.transport import TaskBlobs
from taskq_agent.units import in_bytes

_SHOWN_WAIT_S = 0.05

_KINDS: Dict[str, Callable[[KindContext], Kind]] = {
    COMMAND: CommandKind,
    PROCESS: ProcessKind,
    PYTHON: PythonKind,
    FUNCTION: FunctionKind,
}
_BATCH_KINDS: Dict[str, Callable[[KindContext], Kind]] = {
    COMMAND: CommandBatches,
    PROCESS: ProcessBatches,
    PYTHON: PythonBatches,
    FUNCTION: FunctionBatches,
}

log = logging.getLogger(__name__)


class SlotRunner:
    """Runs tasks of any campaigns; a resident child is kept until the campaign changes.

    When the campaign or its revision changes, the old child is ended first: two children may need
    more memory than the slot has.
    """

    def __init__(
        self,
        slot: int,
        settings: RunnerSettings,
        blobs: Optional[TaskBlobs],
        room: Optional[MemoryRoom],
    ) -> None:
        self._slot = slot
        self._settings = settings
        self._share = settings.node.share(slot, settings.slots)
        self._room = room
        self._reaper = reaper.shared()
        self._watch = ChildWatch()
        self._live = LiveAttempt()
        self._folders = SlotFolders(
            settings.scratch_root, slot, keep=settings.keep_scratch, register=self._reaper
        )
        self._transfers = Transfers(blobs, settings, self._watch, self._folders)
        #: The folder of the links to inputs.
        self._links: Optional[str] = None
        self._grant = Grant()
        self._current: Optional[Tuple[int, int]] = None
        self._kind: Optional[Kind] = None

    def run(self, task: Task, campaign: CampaignTerms) -> Ended:
        """Run one attempt to its end."""
        self._watch.begin()
        phases: Dict[str, float] = {}
        try:
            limit = self._transfers.memory_limit(task, campaign, self._room)
            with self._memory(limit, phases), own_cores(self._share, campaign.cores):
                return self._run_within(task, campaign, limit, phases)
        except AttemptOver as over:
            return replace(over.ended, phases=phases)
        except Exception as error:
            log.exception("the attempt of task %s ends by an error of this agent", task.key)
            with suppress(Exception):  # its child may be in the middle of the task
                self._drop_kind()
            self._kind = None
            return replace(exits.of_error(error), phases=phases)

    def _run_within(
        self, task: Task, campaign: CampaignTerms, limit: Optional[int], phases: Dict[str, float]
    ) -> Ended:
        try:
            kind = self._kind_for(campaign, phases)
            folder = kind.take_folder(f"task{task.task}", *self._kept_folders(campaign))
        except ValueError as error:
            return refused("handler-invalid", str(error))
        except OSError as error:
            return broken("scratch-unusable", f"no scratch folder can be made: {error}")
        self._live.begin(Held(task.campaign, task.task, task.lease), folder)
        self._watch.meter.begin(limit)
        try:
            if isinstance(kind, FunctionKind):
                task = self._transfers.arguments(task, phases)
            ended = self._run(kind, task, campaign, folder, phases)
        finally:
            self._live.end()
            self._transfers.release_arguments()
            phases.update(self._watch.meter.end())
            self._folders.give_back(folder)
        self._watch.limit(None)
        ended = self._transfers.upload_output(task, exits.of_memory(ended, limit))
        ended = self._transfers.upload_result(task, ended)
        return replace(ended, phases={**phases, **ended.phases})

    @contextmanager
    def _memory(self, limit: Optional[int], phases: Dict[str, float]) -> Iterator[None]:
        """Reserve the memory that an attempt may occupy, or a slot's share of it."""
        if self._room is None:
            yield
            return
        wanted = limit or self._share.memory or 0
        if wanted > self._room.size:
            text = f"it may need {in_bytes(wanted)} of memory; this agent has "
            raise AttemptOver(refused("too-little-memory", text + in_bytes(self._room.size)))
        waited: Dict[str, float] = {}
        with ExitStack() as stack:
            with timed(waited, "room_s"):
                stack.enter_context(self._room.taken(wanted, self._watch))
            if waited["room_s"] > _SHOWN_WAIT_S:
                phases.update(waited)
            yield

    def _run(
        self, kind: Kind, task: Task, campaign: CampaignTerms, folder: str, phases: Dict[str, float]
    ) -> Ended:
        """Run the payload, from the task's checkpoint if the campaign keeps some."""
        checkpoint = None
        if campaign.checkpoint_bytes is not None:
            try:
                checkpoint = self._transfers.checkpoint(task, campaign, folder, phases)
            except AttemptOver as over:
                return replace(over.ended, started=False)
        self._watch.limit(campaign.time_limit_s)
        try:
            ended = kind.run(task, folder)
        except Exception:
            if checkpoint is not None:
                checkpoint.leave()
            raise
        ended = with_all_required(ended, folder, task, campaign)
        return without_checkpoint(ended) if checkpoint is None else checkpoint.end(ended)

    def run_several(
        self, tasks: Sequence[Task], campaign: CampaignTerms, tell: Tell
    ) -> Optional[Ended]:
        """Run attempts at short calls of functions; the first one prepares the child, if needed."""
        same = self._current == (campaign.campaign, campaign.revision)
        kind = self._kind if same and self._transfers.are_there() else None
        if not (isinstance(kind, ResidentKind) and kind.is_ready_for_several()):
            tell([self.run(tasks[0], campaign)], 0, False)
            kind, tasks = self._kind, tasks[1:]
            if not (isinstance(kind, ResidentKind) and kind.is_ready_for_several()):
                tell((), len(tasks), False)
                return None
        # Large arguments are fetched before a call, not together: the others go to other slots.
        small = list(takewhile(lambda task: not has_large(task.payload), tasks))
        if not small:
            tell([self.run(task, campaign) for task in tasks[:1]], len(tasks[1:]), False)
            return None
        if len(small) < len(tasks):
            tell((), len(tasks) - len(small), False)
            tasks = small
        self._watch.begin()
        untold = len(tasks)

        def count(ends: Sequence[Ended], unbegun: int, apart: bool) -> None:
            nonlocal untold
            untold -= len(ends) + unbegun
            tell(ends, unbegun, apart)

        try:
            with self._memory(None, {}), ExitStack() as stack:
                folder = kind.take_folder("calls")
                stack.callback(self._folders.give_back, folder)
                stack.callback(self._live.end)
                return kind.run_several(tasks, folder, count, self._transfers.upload_result)
        except AttemptOver:  # while it waited for memory
            pass
        except Exception as error:
            log.exception("calls of %s end by an error of this agent", campaign.path)
            with suppress(Exception):
                self._drop_kind()
            self._kind = None
            if untold and not isinstance(error, OSError):
                return exits.of_error(error)
        tell((), untold, True)
        return None

    def run_batch(self, tasks: Sequence[Task], campaign: CampaignTerms, tell: TellBatch) -> None:
        """Run tasks that begin together."""
        self._watch.begin()
        left = {task.task: task for task in tasks}
        is_over, limit = False, None

        def count(
            ends: Sequence[Tuple[Task, Ended]],
            *,
            over: bool = False,
            too_large_as: Optional[str] = None,
            begun: Optional[Sequence[Task]] = (),
        ) -> None:
            nonlocal is_over
            for task, _ in ends:
                del left[task.task]
            is_over = over
            named = [(task, exits.of_memory(ended, limit)) for task, ended in ends]
            tell(named, over=over, too_large_as=too_large_as, begun=begun)

        try:
            limit = self._transfers.memory_limit(tasks[0], campaign, self._room)
            with self._memory(limit, {}), own_cores(self._share, campaign.cores):
                self._run_batch(tasks, campaign, limit, count)
            end = Ended(RELEASED, started=False)
        except AttemptOver as over:
            end = over.ended
        except Exception as error:
            log.exception("a batch of %s ends by an error of this agent", campaign.path)
            with suppress(Exception):  # its child may be in the middle of it
                self._drop_kind()
            self._kind = None
            end = exits.of_error(error)
        if not is_over:
            back = Ended(RELEASED, started=False)
            ends = [(task, back if at else end) for at, task in enumerate(left.values())]
            tell(ends, over=True)

    def _run_batch(
        self,
        tasks: Sequence[Task],
        campaign: CampaignTerms,
        limit: Optional[int],
        tell: TellBatch,
    ) -> None:
        """Run tasks that begin together, within what the slot has. AttemptOver: none can run."""
        try:
            kind = self._kind_for(campaign, {})
        except ValueError as error:
            raise AttemptOver(refused("handler-invalid", str(error))) from error
        terms = BatchTerms.of(campaign.handler)
        if terms is None or not isinstance(kind, BatchKind):
            raise AttemptOver(refused("handler-invalid", "this handler runs no batches"))
        if isinstance(kind, FunctionKind):
            tasks = [self._transfers.arguments(task, {}) for task in tasks]
        held = Held(tasks[0].campaign, tasks[0].task, tasks[0].lease)
        batch = Batch(
            kind,
            terms,
            tasks,
            limit_s=campaign.time_limit_s,
            tell=tell,
            finish=partial(self._finished, campaign),
            begin=partial(self._begin, held, limit),
            give_back=self._folders.give_back,
            parts=tuple(self._kept_folders(campaign)),
            used=self._watch.meter.used,
        )
        try:
            batch.run()
        except OSError as error:
            text = f"no scratch folder can be made: {error}"
            raise AttemptOver(broken("scratch-unusable", text)) from error
        finally:
            self._live.end()
            self._transfers.release_arguments()
            self._watch.meter.end()

    def _begin(self, held: Held, limit: Optional[int], folder: str) -> None:
        self._live.begin(held, folder)
        self._watch.begin_start(limit)

    def _finished(self, campaign: CampaignTerms, task: Task, ended: Ended, folder: str) -> Ended:
        """Return the end of a task of a batch, its files uploaded."""
        ended = without_checkpoint(with_all_required(ended, folder, task, campaign))
        return self._transfers.upload_result(task, self._transfers.upload_output(task, ended))

    def use(self, grant: Grant) -> None:
        """Let the next starts use this of the node; a child with other devices ends."""
        if grant != self._grant:
            self._grant, self._current = grant, None
        self._watch.meter.has_devices = bool(grant.devices) and self._share.gpu_variable == CUDA

    def take_back(self) -> None:
        """Make `run_several` soon give back the calls that have not begun."""
        self._watch.give_back = True
        self._watch.wake()

    def stop(self) -> None:
        """End the running attempt."""
        self._watch.stop()

    @property
    def transfer_failure(self) -> Optional[TransferFailure]:
        """The failure of the transfer that goes on; see `Runner`."""
        return self._transfers.failure

    @property
    def scratch_moves(self) -> int:
        """How often new folders came to be in another root; see `Runner`."""
        return self._folders.moves

    def update(self, followed: Container[Held]) -> Optional[Update]:
        """Return the update of the running attempt."""
        return self._live.update(followed)

    def close(self) -> None:
        """End the resident child and remove the scratch folder."""
        self._drop_kind()
        self._watch.close()
        self._folders.close()

    def _kept_folders(self, campaign: CampaignTerms) -> Iterator[str]:
        if campaign.checkpoint_bytes is not None and self._transfers.can_upload:
            yield scratch.CHECKPOINT_FOLDER
        if campaign.output_bytes is not None:
            yield scratch.OUTPUT_FOLDER

    def _kind_for(self, campaign: CampaignTerms, phases: Dict[str, float]) -> Kind:
        current = (campaign.campaign, campaign.revision)
        if self._kind is None or self._current != current or not self._transfers.are_there():
            self._drop_kind()
            check_handler(campaign.handler, campaign.params)
            inputs: Dict[str, FetchedInput] = {}
            if campaign.inputs:
                self._links = self._folders.take("inputs")
                with timed(phases, "fetch_s"):
                    inputs = self._transfers.fetch(campaign, self._links)
            self._kind = self._make_kind(campaign, inputs)
            self._current = current
        return self._kind

    def _make_kind(self, campaign: CampaignTerms, fetched: Mapping[str, FetchedInput]) -> Kind:
        inputs = {name: staged.path for name, staged in fetched.items()}
        given = environment.of_handler(campaign, inputs, self._settings.allow_env)
        own_env = environment.of_slot(
            self._slot, self._share, campaign, inputs, given=given, grant=self._grant
        )
        context = KindContext(
            campaign=campaign,
            inputs=inputs,
            input_files=tuple(staged.file for staged in fetched.values()),
            folders=self._folders,
            watch=self._watch,
            live=self._live,
            env=environment.of_children(campaign, own_env, given),
            own_env=own_env,
            given_env=given,
            cores=self._share.cores[: campaign.cores] if campaign.cores else (),
            settings=self._settings,
        )
        kinds = _BATCH_KINDS if is_batched(campaign) else _KINDS
        return kinds[campaign.handler["kind"]](context)

    def _drop_kind(self) -> None:
        if self._kind is not None:
            self._kind.close()
            self._kind = None
        self._transfers.release()
        links, self._links = self._links, None
        if links is not None:
            self._folders.give_back(links)
