"""Transfers before and after a task: shared inputs, large arguments and results, output files."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import random
import re
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    TypeVar,
)

from taskq_agent import result_files
from taskq_agent.backoff import Backoff
from taskq_agent.buffers import json_of
from taskq_agent.errors import Refused, TransportError, TransportFailed
from taskq_agent.folders import SlotFolders
from taskq_agent.handlers import calls, results
from taskq_agent.handlers.base import (
    AttemptOver,
    Ended,
    RunnerSettings,
    TransferFailure,
    broken,
    failed,
    handed_back,
    refused,
    timed,
)
from taskq_agent.handlers.kept_files import TaskCheckpoint
from taskq_agent.handlers.limits import ChildWatch, MemoryRoom
from taskq_agent.inputs import InputCache, default_cache
from taskq_agent.protocol import MAX_ERROR_CHARS, RELEASED, CampaignTerms, Held, Input, Task
from taskq_agent.transport import MAX_BLOB_BYTES, TaskBlobs

_FIRST_RETRY_S = 0.1
_LAST_RETRY_S = 30.0
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._+@=,-]*")

T = TypeVar("T")

log = logging.getLogger(__name__)


class FetchedInput(NamedTuple):
    """An input: its path for payloads (a link with its name), and the file in the cache."""

    path: str
    file: str


class Transfers:
    """The transfers of one slot, made in its thread; they end soon when the attempt is stopped.

    A fetch that breaks is retried with backoff, for `patience_s` of the settings; an upload for as
    long as the agent lives, since what was computed must not be lost by a fault of the way.
    """

    def __init__(
        self,
        blobs: Optional[TaskBlobs],
        settings: RunnerSettings,
        watch: ChildWatch,
        folders: SlotFolders,
    ) -> None:
        """blobs: None without a queue: then there are no inputs, and results are not uploaded.

        folders: of the slot, for inputs if the cache of this machine cannot be used.
        """
        self._blobs = blobs
        self._folders = folders
        self._cache_bytes = settings.cache_bytes
        self._own_cache: Optional[InputCache] = None
        self._watch = watch
        self._patience_s = settings.patience_s
        self._spool_dir = settings.spool_dir
        #: The failure of the transfer that goes on; None if none fails.
        self.failure: Optional[TransferFailure] = None
        self._held_inputs: List[Tuple[Path, int]] = []
        self._held_arguments: List[int] = []
        self._cache: Optional[InputCache] = None
        if blobs is not None:
            folder = settings.cache_dir or default_cache()
            self._cache = InputCache(folder, blobs, max_bytes=settings.cache_bytes)

    def fetch(self, campaign: CampaignTerms, folder: str) -> Dict[str, FetchedInput]:
        """Make the inputs of a campaign available by links in `folder`; return them by name.

        They stay until `release`. Raises AttemptOver: the task has not begun and goes back.
        """
        fetched: Dict[str, FetchedInput] = {}
        for name, wanted in campaign.inputs.items():
            what = f"the input {name} of {campaign.path}"
            with self._fetching(what, lambda text: refused("inputs-missing", text)):
                path, held = self._hold(wanted, name)
                link = Path(folder, name)
                self._held_inputs.append((link, held))
                link.symlink_to(path)
                fetched[name] = FetchedInput(str(link), str(path.resolve()))
        return fetched

    def arguments(self, task: Task, phases: Dict[str, float]) -> Task:
        """Fetch the large arguments of a call; return the call with their files in their places.

        They stay until `release_arguments`. Raises AttemptOver as `fetch` does, and if the queue
        lacks an argument, which costs the attempt.
        """
        if not calls.has_large(task.payload):
            return task

        def file_of(stored: Any) -> Mapping[str, str]:
            path, held = self._hold(_argument(stored))
            self._held_arguments.append(held)
            return {calls.LARGE: str(path)}

        def missing(text: str) -> Ended:
            return failed("argument-missing", text, retry=True)

        with self._fetching("an argument", missing), timed(phases, "fetch_s"):
            return replace(task, payload=calls.with_large(task.payload, file_of))

    def release_arguments(self) -> None:
        """Release the large arguments."""
        while self._held_arguments:
            os.close(self._held_arguments.pop())

    @contextmanager
    def _fetching(self, what: str, missing: Callable[[str], Ended]) -> Iterator[None]:
        """Turn errors of a fetch into the end of the attempt.

        missing: makes the end if the queue has no such blob, or a damaged one.
        """
        try:
            yield
        except Refused as error:  # there is no such blob, or a damaged one; a retry cannot help
            text = f"{what} cannot be fetched: {error}"
            raise AttemptOver(missing(text)) from error
        except TransportError as error:
            text = f"{what} cannot be fetched: {error}"
            log.warning("%s; its task is handed back", text)
            with suppress(AttemptOver):  # it is handed back in any case
                self._watch.pause(self._patience_s / 10)  # this slot may get it again
            raise AttemptOver(handed_back("inputs-missing", text)) from error
        except OSError as error:
            text = f"{what} cannot be kept here: {error}"
            raise AttemptOver(replace(broken("inputs-unusable", text), started=False)) from error
        except AttemptOver as over:
            raise AttemptOver(replace(over.ended, started=False)) from None

    def checkpoint(
        self, task: Task, campaign: CampaignTerms, scratch: str, phases: Dict[str, float]
    ) -> Optional[TaskCheckpoint]:
        """Restore the checkpoint of a task, and upload it from now on; None without a queue.

        Raises AttemptOver: the task has not begun and goes back.
        """
        if self._blobs is None:
            return None
        checkpoint = TaskCheckpoint(self._blobs, task, campaign, scratch)
        if task.attempt > 1:
            with timed(phases, "restore_s"):
                checkpoint.restore(self._with_retries)
        checkpoint.begin()
        return checkpoint

    def memory_limit(
        self, task: Task, campaign: CampaignTerms, room: Optional[MemoryRoom]
    ) -> Optional[int]:
        """Return how many bytes an attempt may occupy; None means any number.

        room: what the agent has; None if unknown. Of learnt sizes the first is what most tasks
        need. The others are no reason to refuse: such a task gets all that there is.

        Raises AttemptOver if the queue cannot say how often the task has run out of memory: the
        task has not begun and goes back.
        """
        sizes, blobs = campaign.memory, self._blobs
        if len(sizes) < 2 or task.attempt == 1 or blobs is None:  # noqa: PLR2004
            return sizes[0] if sizes else None
        held = Held(task.campaign, task.task, task.lease)
        try:
            times = self._with_retries(lambda: blobs.memory_failures(held))
        except TransportError as error:
            text = f"cannot ask the queue how often the task has run out of memory: {error}"
            raise AttemptOver(handed_back("queue-unreachable", text)) from error
        except AttemptOver as over:
            raise AttemptOver(replace(over.ended, started=False)) from None
        size = sizes[min(times, len(sizes) - 1)]
        if campaign.memory_learnt and room is not None:
            size = min(size, max(sizes[0], room.size))
        return size

    def release(self) -> None:
        """Release the fetched inputs."""
        while self._held_inputs:
            os.close(self._held_inputs.pop()[1])

    def are_there(self) -> bool:
        """Return whether the links to the fetched inputs still lead to what was fetched.

        A cleaner of temporary files, or a payload without a container, may have removed them.
        """
        try:
            return all(
                os.path.samestat(link.stat(), os.fstat(it)) for link, it in self._held_inputs
            )
        except OSError:
            return False

    @property
    def can_upload(self) -> bool:
        """Whether there is a queue that takes checkpoints."""
        return self._blobs is not None

    def upload_result(self, task: Task, ended: Ended) -> Ended:
        """Upload a large result; return the end of the attempt with a reference in its place.

        If the agent ends before, the result is kept for the next one, where there is a spool.
        """
        text, blobs = ended.large, self._blobs
        if text is None:
            return ended
        ended = replace(ended, large=None)
        if blobs is None:
            return replace(ended, result=json_of(text))
        digest = hashlib.sha256(text).hexdigest()
        stored = replace(ended, result=results.reference(digest, len(text)))

        def upload() -> Ended:
            try:
                self._with_retries(lambda: blobs.write_blob(digest, text), patience_s=math.inf)
            except AttemptOver as over:
                if over.ended.outcome != RELEASED or not self._keep(task, text):
                    raise
                return replace(stored, kept=over.ended.error or "its agent ends")
            return stored

        return _uploaded(upload, ended, "result")

    def _keep(self, task: Task, text: bytes) -> bool:
        """Keep a result for the next agent of the spool; return whether that is possible."""
        if self._spool_dir is None:
            return False
        try:
            result_files.keep(self._spool_dir, Held(task.campaign, task.task, task.lease), text)
        except OSError as error:
            log.warning("a result cannot be kept: %s", error)
            return False
        log.warning("a result is kept in %s for the next agent with this spool", self._spool_dir)
        return True

    def upload_output(self, task: Task, ended: Ended) -> Ended:
        """Upload the archive of the output files, and register it for the attempt.

        If the queue has no room for it, no task of the campaign can run on this node.
        """
        data, blobs = ended.output, self._blobs
        ended = replace(ended, output=None)
        if data is None or blobs is None:
            return ended
        saved = Input(hashlib.sha256(data).hexdigest(), len(data))
        held = Held(task.campaign, task.task, task.lease)

        def upload() -> Ended:
            try:
                self._with_retries(
                    lambda: blobs.write_blob(saved.digest, data), patience_s=math.inf
                )
                self._with_retries(lambda: blobs.save_output(held, saved), patience_s=math.inf)
            except Refused as error:
                return refused("output-full", f"the output files are not kept: {error}")
            return ended

        return _uploaded(upload, ended, "output")

    def _hold(self, wanted: Input, name: str = "argument") -> Tuple[Path, int]:
        """Return the path of a blob, and a file descriptor that keeps it in the cache."""
        cache = self._cache
        if cache is None or not _NAME.fullmatch(name):
            raise Refused(f"there is no way to get the input {name!r}")
        try:
            return self._with_retries(lambda: cache.hold(wanted, self._watch.pause))
        except OSError as error:
            own = self._own_cache = self._own_cache or self._cache_of_slot(error)
            return self._with_retries(lambda: own.hold(wanted, self._watch.pause))

    def _cache_of_slot(self, error: OSError) -> InputCache:
        """Return a cache for this slot alone: the shared one cannot be used."""
        if self._blobs is None:
            raise error
        log.warning("inputs are kept for this slot alone: %s", error)
        folder = Path(self._folders.take("cache"))
        return InputCache(folder, self._blobs, max_bytes=self._cache_bytes)

    def _with_retries(self, transfer: Callable[[], T], patience_s: Optional[float] = None) -> T:
        patience_s = self._patience_s if patience_s is None else patience_s
        end = time.monotonic() + patience_s
        backoff = Backoff(_FIRST_RETRY_S, _LAST_RETRY_S, random.random)
        try:
            while True:
                try:
                    return transfer()
                except TransportFailed as error:
                    if self.failure is None:
                        span = "" if patience_s == math.inf else f" for {patience_s:.0f} s"
                        text = "an input or result is not transferred, retrying%s: %s"
                        log.warning(text, span, error)
                    since = self.failure.since if self.failure else time.monotonic()
                    self.failure = TransferFailure(str(error), since)
                    pause_s = max(backoff.draw(), error.retry_after_s or 0.0)
                    if time.monotonic() + pause_s > end:
                        raise
                try:
                    self._watch.pause(pause_s)
                except AttemptOver as over:
                    text = f"{over.ended.error}; until then: {self.failure.why}"
                    raise AttemptOver(replace(over.ended, error=text[:MAX_ERROR_CHARS])) from None
        finally:
            self.failure = None


def _argument(stored: Any) -> Input:
    """Return the blob that a payload names as an argument; Refused if it names none."""
    if not isinstance(stored, dict) or stored.keys() != {"digest", "size"}:
        raise Refused(f"{stored!r:.80} names no blob")
    digest, size = stored["digest"], stored["size"]
    if type(digest) is not str or type(size) is not int or not 0 <= size <= MAX_BLOB_BYTES:
        raise Refused(f"{stored!r:.200} is not a blob of at most {MAX_BLOB_BYTES} bytes")
    return Input(digest, size)


def _uploaded(upload: Callable[[], Ended], ended: Ended, what: str) -> Ended:
    """Return the end of an attempt after an upload: another end if the upload fails."""
    phases = dict(ended.phases)
    try:
        with timed(phases, "upload_s"):
            after = upload()
    except TransportError as error:
        after = failed("result-upload", f"the {what} cannot be uploaded: {error}", retry=True)
    except AttemptOver as over:
        after = over.ended
        if after.outcome == RELEASED:
            log.warning("the %s is lost, and its task runs again: %s", what, after.error)
    return replace(after, phases=phases, tail=ended.tail)
