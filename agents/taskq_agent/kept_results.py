"""Large results whose agent ended before they were uploaded, in files next to its spooled reports.

A report that refers to a result must not reach the queue before the result does. So the agent that
ends leaves both: the report in its spool, and the result in a file named by the attempt. The next
agent with this spool takes over the report, uploads the result, and reports then. The lease decides
whether it still counts, as for any late report; so the agent that ended does not close its session,
which would hand the task out at once.

A file that no report names goes after a week: its process was killed in between.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple

from taskq_agent.backoff import Backoff
from taskq_agent.core.events import ResultStored
from taskq_agent.core.reports import fence
from taskq_agent.errors import TransportError, TransportFailed
from taskq_agent.protocol import RESULT_REFERENCE, Held, Report
from taskq_agent.result_files import SUFFIX, path_of, read
from taskq_agent.transport import Blobs

log = logging.getLogger(__name__)

KEPT_S = 7 * 86_400.0

_FIRST_RETRY_S = 1.0
_LAST_RETRY_S = 60.0


class KeptResults:
    """Uploads the results that earlier agents have left, in a thread of its own.

    post: gets `ResultStored` for each, whatever came of it. Use `start` once, and `close`.
    """

    def __init__(self, folder: Path, blobs: Blobs, post: Callable[[ResultStored], object]) -> None:
        self._folder = folder
        self._blobs = blobs
        self._post = post
        self._waiting: Dict[Held, Tuple[str, int]] = {}
        self._closed = threading.Event()

    def look(self, reports: Iterable[Report]) -> Mapping[Held, str]:
        """Return which of these reports must wait for their results, and why; tidy the folder."""
        for report in reports:
            stored = _reference(report)
            if stored is not None and os.path.lexists(path_of(self._folder, fence(report))):
                self._waiting[fence(report)] = stored
        self._remove_old()
        return dict.fromkeys(self._waiting, "its result is not uploaded yet")

    def start(self) -> None:
        """Upload them."""
        if self._waiting:
            log.info("uploading %d results of earlier agents", len(self._waiting))
            threading.Thread(target=self._run, name="taskq-kept", daemon=True).start()

    def forget(self, reports: Iterable[Held]) -> None:
        """Remove the results of reports that have their verdicts."""
        for held in reports:
            if self._waiting.pop(held, None) is not None:
                with contextlib.suppress(OSError):
                    path_of(self._folder, held).unlink()

    def close(self) -> None:
        """Upload no more; what is left stays for a later agent."""
        self._closed.set()

    def _run(self) -> None:
        for held, (digest, size) in [*self._waiting.items()]:
            try:
                data = read(path_of(self._folder, held), digest, size)
                if not self._upload(digest, data):
                    return
                refusal = None
            except (OSError, ValueError, TransportError) as error:
                refusal = f"the result that an earlier agent has left is lost: {error}"
            self._post(ResultStored(held, refusal))

    def _upload(self, digest: str, data: bytes) -> bool:
        """Store a result, however long that takes; return False if the agent ends before."""
        backoff, is_said = Backoff(_FIRST_RETRY_S, _LAST_RETRY_S, random.random), False
        while (error := self._failure(digest, data)) is not None:
            level = logging.DEBUG if is_said else logging.INFO
            log.log(level, "a result of an earlier agent is not uploaded yet: %s", error)
            is_said = True
            if self._closed.wait(backoff.draw()):
                return False
        return True

    def _failure(self, digest: str, data: bytes) -> Optional[TransportFailed]:
        try:
            self._blobs.write_blob(digest, data)
        except TransportFailed as error:
            return error
        return None

    def _remove_old(self) -> None:
        ours = {path_of(self._folder, held).name for held in self._waiting}
        with contextlib.suppress(OSError):
            for path in self._folder.glob(f"*{SUFFIX}*"):
                with contextlib.suppress(OSError):
                    if path.name not in ours and time.time() - path.lstat().st_mtime > KEPT_S:
                        path.unlink()


def _reference(report: Report) -> Optional[Tuple[str, int]]:
    """Return the digest and the size of the result that a report refers to, if it does."""
    stored: Any = (report.result or {}).get(RESULT_REFERENCE)
    if not isinstance(stored, dict):
        return None
    digest, size = stored.get("digest"), stored.get("size")
    return (digest, size) if type(digest) is str and type(size) is int else None
