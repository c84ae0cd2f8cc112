"""Sender of a keeper: finds events, takes messages, delivers them, and stores their outcomes.

It has a connection and a thread of its own: whatever receivers do, upkeep continues. All senders
of a queue share its messages; each takes those that it can send. If a sender dies after it sent a
message and before it stored that, the message is sent again, with the same ids.
"""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from taskq.db.connections import Connection, Database, Statements
from taskq.model.errors import ServerUnsuitable, TaskqError
from taskq.model.loop_faults import LoopFaults
from taskq.model.words import counted
from taskq.upkeep.channels import Channels
from taskq.upkeep.delivery import MessageDelivery
from taskq.upkeep.keeper import in_background
from taskq.upkeep.looks import Looks
from taskq.upkeep.texts import harmless, message

#: Messages under way at a time.
MOST: Final = 8
#: Seconds between rounds; with messages under way; after an error; without the rights.
PERIOD_S: Final = 1.0
BUSY_S: Final = 0.1
TROUBLE_S: Final = 5.0
REFUSED_S: Final = 60.0
#: Seconds that messages under way get to end when the keeper ends.
END_S: Final = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a message, until it is stored. trouble: None if it was sent."""

    rule: str
    events: Sequence[str]
    trouble: str | None


class Sender:
    """The notifications of a keeper."""

    def __init__(self, database: Database, channels: Channels) -> None:
        self._connection: Connection = database.dedicated_connection()
        self._channels = channels
        self._looks = Looks(database)
        self._holder = str(uuid.uuid4())
        self._host = socket.gethostname()[:200]
        self._under_way: list[MessageDelivery] = []
        self._outcomes: list[_Outcome] = []

    def round(self) -> None:
        """Do one round: store outcomes, take and send messages, find events."""
        self._collect()
        with self._connection.connected() as statements:
            self._write_down(statements)
            taken = statements.rows(
                "take_messages",
                holder=self._holder,
                host=self._host,
                reaches=self._channels.reaches(),
                most=MOST - len(self._under_way),
            )
            for row in taken:
                self._start(row)
            self._looks.look(statements)

    def run(self, stop: threading.Event) -> None:
        """Do rounds until `stop` is set; messages under way then get 5 s to end."""
        faults = LoopFaults(log, "the sending of notifications")
        while not stop.is_set():
            pause_s = TROUBLE_S
            with faults.noted():
                try:
                    self.round()
                    pause_s = BUSY_S if self._under_way else PERIOD_S
                except ServerUnsuitable:  # the right is missing, and may be granted
                    pause_s = REFUSED_S
                    raise
            stop.wait(pause_s)
        self._end()

    def close(self) -> None:
        """End deliveries under way, which are repeated later, and close the connection."""
        for delivery in self._under_way:
            delivery.close()
        self._connection.close()

    def _start(self, row: dict[str, Any]) -> None:
        events = row["events"] or []
        if not events:  # they were given up, or removed, meanwhile
            return
        whole = message(row["rule"], row["path"], events, host=self._host)
        try:
            delivery = MessageDelivery(row["rule"], row["target"], whole, self._channels)
        except (TaskqError, OSError) as error:
            ids = [event["event_id"] for event in events]
            self._outcomes.append(_Outcome(row["rule"], ids, harmless(error)))
        else:
            self._under_way.append(delivery)

    def _collect(self) -> None:
        """Note the outcomes of the messages that have ended."""
        for delivery in [delivery for delivery in self._under_way if delivery.ended()]:
            self._under_way.remove(delivery)
            self._outcomes.append(_Outcome(delivery.rule, delivery.events, delivery.trouble()))
            delivery.close()

    def _write_down(self, statements: Statements) -> None:
        while self._outcomes:
            outcome = self._outcomes[0]
            gave_up = statements.value(
                "end_message",
                holder=self._holder,
                rule=outcome.rule,
                events=list(outcome.events),
                trouble=outcome.trouble,
                host=self._host,
            )
            self._outcomes.pop(0)
            _log_outcome(outcome, gave_up=gave_up)

    def _end(self) -> None:
        waiting, left_s = threading.Event(), END_S
        try:
            while self._under_way and left_s > 0:
                waiting.wait(BUSY_S)
                left_s -= BUSY_S
                self._collect()
            with self._connection.connected() as statements:
                self._write_down(statements)
        except TaskqError as error:
            log.warning("the last messages may be sent again: %s", error)
        finally:
            self.close()


def _log_outcome(outcome: _Outcome, *, gave_up: bool) -> None:
    """Log what operators should know of a message, without its receiver and text."""
    what = counted(len(outcome.events), "event")
    if outcome.trouble is None:
        log.info("%s of the rule %s sent", what, outcome.rule)
    elif gave_up:
        log.error("%s of the rule %s given up: %s", what, outcome.rule, outcome.trouble)
    else:
        log.warning("%s of the rule %s not sent yet: %s", what, outcome.rule, outcome.trouble)


def sending(database: Database, channels: Channels) -> AbstractContextManager[None]:
    """Send notifications in a thread for the duration of the block."""
    return in_background(Sender(database, channels).run, "taskq-sender", 2 * END_S)
