"""Files that are kept of an attempt: its checkpoint, and the output files of a successful one.

The checkpoint is the folder `CHECKPOINT_FOLDER` in the scratch folder of the task. It is restored
before the payload begins. It is uploaded every `checkpoint_every_s` of the campaign, in case this
agent is lost, and once more when the attempt is stopped or its handler says that another attempt
goes on.

The output files are those in `OUTPUT_FOLDER`. They form one archive, which is uploaded before the
attempt is reported: an accepted result has its files.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Callable, Optional, Tuple

from taskq_agent import archive
from taskq_agent.archive import ArchiveRefused, ArchiveTooLarge, ArchiveUnreadable
from taskq_agent.errors import Refused, TransportError, TransportFailed
from taskq_agent.handlers.base import AttemptOver, Ended, broken, failed, handed_back
from taskq_agent.handlers.exits import BY_ENDING_SIGNAL, EX_CONTINUE
from taskq_agent.protocol import (
    CONTINUED,
    DONE,
    MAX_ERROR_CHARS,
    OUTPUT_TOO_LARGE,
    RELEASED,
    CampaignTerms,
    Held,
    Input,
    Task,
)
from taskq_agent.scratch import CHECKPOINT_FOLDER, OUTPUT_FOLDER, remove
from taskq_agent.text import clean
from taskq_agent.transport import MAX_BLOB_BYTES, TaskBlobs

# The agent gives up tasks that do not stop within seconds.
_LAST_TRIES_S = 8.0
_RETRY_S = 0.5

log = logging.getLogger(__name__)

Retry = Callable[[Callable[[], Optional[bytes]]], Optional[bytes]]

_NOT_KEPT = "the output files are not kept: {}"


class TaskCheckpoint:
    """The checkpoint of one attempt. Its methods are called from the thread of the slot."""

    def __init__(self, blobs: TaskBlobs, task: Task, campaign: CampaignTerms, scratch: str) -> None:
        """scratch: the scratch folder of the task, with a folder for the checkpoint."""
        self._blobs = blobs
        self._task = task
        self._held = Held(task.campaign, task.task, task.lease)
        self._heading = archive.heading(archive.CHECKPOINT, task.campaign, task.task)
        self._most = min(campaign.checkpoint_bytes or 0, MAX_BLOB_BYTES)
        self._every_s = campaign.checkpoint_every_s
        self._folder = f"{scratch}/{CHECKPOINT_FOLDER}"
        self._saved_digest = ""
        self._saved_signature: archive.Signature = ()
        self._over = threading.Event()
        self._packing = threading.Lock()
        self._thread: Optional[threading.Thread] = None

    def restore(self, with_retries: Retry) -> None:
        """Fill the folder with the task's last checkpoint, if it has one; first attempts have none.

        A damaged or lost checkpoint is ignored: the attempt begins again. Raise AttemptOver if the
        queue cannot be reached or the disk is unusable: the task has not begun and goes back.
        """
        try:
            data = with_retries(self._fetched)
            if data is not None:
                archive.restore(data, self._folder, self._heading, MAX_BLOB_BYTES)
                self._saved_signature = archive.signature(self._folder)
        except (OSError, ArchiveUnreadable) as error:
            text = f"the checkpoint cannot be kept here: {error}"
            raise AttemptOver(replace(broken("scratch-unusable", text), started=False)) from error
        except (Refused, ArchiveRefused) as error:
            log.warning("task %s begins again without its checkpoint: %s", self._task.key, error)
            remove(self._folder)
            with suppress(OSError):
                Path(self._folder).mkdir(0o700)
        except TransportError as error:
            text = f"the checkpoint cannot be fetched: {error}"
            raise AttemptOver(handed_back("checkpoint-unreachable", text)) from error

    def begin(self) -> None:
        """Upload the folder from time to time, until `end`."""
        self._thread = threading.Thread(target=self._upload_often, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Upload no more."""
        self._over.set()

    def end(self, ended: Ended) -> Ended:
        """Upload the folder a last time if the task goes on elsewhere; return how it ended."""
        self._over.set()
        with self._packing:  # the folder is removed when the attempt ends
            pass
        goes_on = ended.continues or ended.exit_code == EX_CONTINUE
        stopped = ended.outcome == RELEASED and ended.started
        stopped = stopped and not (ended.refused or ended.node_broken)
        if not (goes_on or stopped or ended.error_class in BY_ENDING_SIGNAL):
            return ended
        try:
            self._save_at_last()
        except ArchiveRefused as error:
            if goes_on:
                retry = isinstance(error, ArchiveUnreadable)
                over = failed("checkpoint-refused", f"no checkpoint: {error}", retry=retry)
                return replace(over, phases=ended.phases, tail=ended.tail)
            ended = _with_text(ended, f"its checkpoint is not kept: {error}")
        except TransportError as error:
            ended = _with_text(ended, f"its last checkpoint is not kept: {error}")
        if not goes_on:
            return ended
        text = ended.error if ended.continues else "another attempt continues it"
        return Ended(
            RELEASED, error_class=CONTINUED, error=text, phases=ended.phases, tail=ended.tail
        )

    def _fetched(self) -> Optional[bytes]:
        found = self._blobs.find_checkpoint(self._held)
        if found is None:
            return None
        if found.size > MAX_BLOB_BYTES:
            raise ArchiveRefused(f"it has {found.size} bytes")
        data = bytearray()
        for chunk in self._blobs.read_blob(found.digest, 0):
            data += chunk
            if len(data) > found.size:
                break
        if len(data) < found.size:
            raise TransportFailed(f"{len(data)} of {found.size} bytes of a checkpoint came")
        if hashlib.sha256(data).hexdigest() != found.digest:
            raise ArchiveRefused("it is damaged where it is stored")
        self._saved_digest = found.digest
        return bytes(data)

    def _upload_often(self) -> None:
        while not self._over.wait(self._every_s):
            problem = self._problem_of_saving()
            if problem is not None:
                log.warning("a checkpoint of task %s is not kept: %s", self._task.key, problem)

    def _problem_of_saving(self) -> Optional[Exception]:
        try:
            with self._packing:
                packed = None if self._over.is_set() else self._packed()
            self._upload(packed)
        except (ArchiveRefused, TransportError, OSError, MemoryError) as error:
            return error
        return None

    def _save_at_last(self) -> None:
        until = time.monotonic() + _LAST_TRIES_S
        if self._thread is not None:
            self._thread.join(_LAST_TRIES_S)
            if self._thread.is_alive():  # its older upload would replace a newer one
                raise TransportFailed("an earlier one is still being uploaded")
        packed = self._packed()
        while True:
            try:
                self._upload(packed)
                return
            except TransportFailed:
                if time.monotonic() + _RETRY_S > until:
                    raise
            time.sleep(_RETRY_S)

    def _packed(self) -> Optional[Tuple[archive.Signature, bytes]]:
        """Return the folder as an archive; None if nothing has changed, or it contains no file."""
        signature = archive.signature(self._folder)
        if signature == self._saved_signature:
            return None
        data = archive.packed(self._folder, self._heading, self._most)
        return None if data is None else (signature, data)

    def _upload(self, packed: Optional[Tuple[archive.Signature, bytes]]) -> None:
        if packed is None:
            return
        signature, data = packed
        digest = hashlib.sha256(data).hexdigest()
        if digest != self._saved_digest:
            self._blobs.write_blob(digest, data)
            if not self._blobs.save_checkpoint(self._held, Input(digest, len(data))):
                raise Refused("the task belongs to another agent by now")
        self._saved_digest, self._saved_signature = digest, signature


def without_checkpoint(ended: Ended) -> Ended:
    """Return the end of an attempt in a campaign that keeps no checkpoints."""
    if not ended.continues:
        return ended
    text = "it asked to continue in another attempt, but the campaign keeps no checkpoints"
    over = failed("no-checkpoint", text, retry=False)
    return replace(over, phases=ended.phases, tail=ended.tail)


def _with_text(ended: Ended, text: str) -> Ended:
    before = f"{ended.error}; " if ended.error else ""
    return replace(ended, error=clean(before + text)[:MAX_ERROR_CHARS])


def with_output_files(ended: Ended, scratch: str, task: Task, most: int) -> Ended:
    """Return the end of an attempt with its output files, or a failure if they are refused."""
    if ended.outcome != DONE:
        return ended
    folder = f"{scratch}/{OUTPUT_FOLDER}"
    head = archive.heading(archive.OUTPUT, task.campaign, task.task)
    try:
        for name, *_ in archive.signature(folder):
            check_name(name)
        data: Optional[bytes] = archive.packed(folder, head, min(most, MAX_BLOB_BYTES))
    except ArchiveTooLarge as error:
        over = failed(OUTPUT_TOO_LARGE, _NOT_KEPT.format(error), retry=False)
    except ArchiveRefused as error:
        retry = isinstance(error, ArchiveUnreadable)
        over = failed("output-refused", _NOT_KEPT.format(error), retry=retry)
    else:
        return replace(ended, output=data)
    return replace(over, phases=ended.phases, tail=ended.tail)


def check_name(name: str) -> None:
    """Raise `ArchiveRefused` if a name has characters that no terminal should show."""
    if not name.isprintable():
        raise ArchiveRefused(f"it holds the name {name!a:.100}")
