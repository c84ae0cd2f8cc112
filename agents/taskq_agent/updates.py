"""Updates of attempts for heartbeats: their progress, and output that somebody follows."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Callable, Container, FrozenSet, Optional, Sequence, Tuple

from taskq_agent.protocol import Heartbeat, Held
from taskq_agent.task_messages import MAX_OUTPUTS, MAX_UPDATES, Update, UpdatingHeartbeat
from taskq_agent.threads import Slot

log = logging.getLogger(__name__)

_PATIENCE_S = 0.5
#: Heartbeats with more held attempts than this are large enough without updates.
_MOST_HELD = 4_000


class UpdateCollector:
    """Collects updates in its own thread: a heartbeat must not wait for files of payloads.

    look: called there as well, before each heartbeat.
    """

    def __init__(self, slots: Sequence[Slot], look: Callable[[], object] = lambda: None) -> None:
        self._slots = slots
        self._look = look
        self._changed = threading.Condition()
        self._asked = self._closed = False
        self._followed: Container[Held] = ()
        self._found: Tuple[Update, ...] = ()
        threading.Thread(target=self._run, name="taskq-updates", daemon=True).start()

    def collect(self, followed: FrozenSet[Held]) -> Tuple[Update, ...]:
        """Return the updates, with the output of `followed`; empty if that takes too long."""
        with self._changed:
            if self._asked:  # a file system hangs since an earlier heartbeat
                return ()
            self._asked, self._followed = True, followed
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._asked, _PATIENCE_S)
            return self._found if done else ()

    def close(self) -> None:
        """Collect no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked or self._closed)
                followed = self._followed
            if self._closed:
                return
            found = self._collected(followed)
            with self._changed:
                self._asked, self._found = False, found
                self._changed.notify_all()

    def _collected(self, followed: Container[Held]) -> Tuple[Update, ...]:
        try:
            self._look()
            found = (slot.runner.update(followed) for slot in self._slots)
            return tuple(update for update in found if update is not None)
        except Exception:
            log.exception("the updates of attempts cannot be collected")
            return ()


def with_updates(heartbeat: Optional[Heartbeat], found: Sequence[Update]) -> Optional[Heartbeat]:
    """Return a heartbeat with updates of attempts that it names, as many as it may carry."""
    if heartbeat is None or len(heartbeat.held) > _MOST_HELD:
        return heartbeat
    held = frozenset(heartbeat.held)
    updates = sorted(
        (update for update in found if update.held in held),
        key=lambda update: update.output is None,
    )
    if not updates:
        return heartbeat
    silent = [
        replace(update, output=None, written=0) for update in updates[MAX_OUTPUTS:MAX_UPDATES]
    ]
    return UpdatingHeartbeat(**vars(heartbeat), updates=(*updates[:MAX_OUTPUTS], *silent))
