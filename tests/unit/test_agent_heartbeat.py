from __future__ import annotations

import time
from queue import SimpleQueue

from taskq_agent.core import events as ev
from taskq_agent.errors import TransportFailed
from taskq_agent.heartbeat import HeartbeatThread
from taskq_agent.protocol import Heartbeat, HeartbeatAnswer, Held, Orders, Welcome
from taskq_agent.threads import Watchdog
from tests.helpers.threaded_agent import MemoryTransport, queue_of
from tests.helpers.waiting import wait_until

HELD = Held(1, 2, "lease")


class Busy(MemoryTransport):
    """Turns the first beats away, and notes when they come."""

    def __init__(self, busy: int, retry_after_s: float) -> None:
        super().__init__(queue_of(1))
        self.came: list[float] = []
        self._busy = busy
        self._retry_after_s = retry_after_s

    def heartbeat(self, _: Heartbeat) -> HeartbeatAnswer:
        """Answer, or say when to come back."""
        self.came.append(time.monotonic())
        if len(self.came) <= self._busy:
            raise TransportFailed("busy", self._retry_after_s)
        return HeartbeatAnswer((HELD,), Orders(drain=True))


def beats_to(transport: Busy, heartbeat_s: float) -> list[ev.Event]:
    """Beat until the transport has answered; return the events."""
    events: SimpleQueue[ev.Event] = SimpleQueue()
    heartbeats = HeartbeatThread(
        transport, lambda _: Heartbeat(7), events.put, lambda: None, watchdog=Watchdog(300.0)
    )
    heartbeats.keep(Welcome(7, heartbeat_s, 4 * heartbeat_s))
    wait_until(lambda: events.qsize() >= 2)
    heartbeats.close(10.0)
    return [events.get(), events.get()]


def test_beat_comes_back_when_the_queue_says() -> None:
    """A beat without that would be repeated within a quarter of its interval."""
    transport = Busy(2, retry_after_s=0.4)
    beats_to(transport, heartbeat_s=1.0)
    first, second, third = transport.came[:3]
    assert second - first >= 0.4
    assert third - second >= 0.4


def test_beat_does_not_stay_away_until_the_session_expires() -> None:
    """A queue that asks for more patience than a session has is asked in time nevertheless."""
    transport = Busy(1, retry_after_s=300.0)
    beats_to(transport, heartbeat_s=0.2)
    assert transport.came[1] - transport.came[0] < 0.8 * 2


def test_answered_beat_tells_the_core_what_it_carried() -> None:
    events = beats_to(Busy(0, 0.0), heartbeat_s=30.0)
    assert events == [ev.HeartbeatAnswered(7, Orders(drain=True)), ev.StopOrdered(HELD)]
