"""Settings of an agent."""

from __future__ import annotations

import math
import os
import socket
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional, Tuple

from taskq_agent.protocol import Hello


@dataclass(frozen=True)
class AgentSettings:
    """Settings of one agent. All times are in seconds; ValueError for invalid values."""

    campaign: str
    """Path of the campaign to serve, with everything below it."""

    name: str = "agent"
    """Name of the agent for people; need not be unique."""

    host: str = field(default_factory=socket.gethostname)

    site: str = ""
    """The place it runs at, such as a cluster."""

    release: str = ""
    """Release of the program, shown with the session."""

    offers: Tuple[str, ...] = ()
    """Tags that this node offers, such as `gpu` or `mem=64`: campaigns that require tags go to
    agents that offer them. The server checks their form."""

    slots: int = 1
    """Tasks that run at the same time."""

    max_tasks: Optional[int] = None
    """Shut down after this many attempts. None means no limit."""

    max_seconds: Optional[float] = None
    """Wall-clock limit of the batch job, counted from the start of the agent. Everything has
    been handed back by then. None means no limit."""

    idle_timeout_s: Optional[float] = None
    """Shut down after so long without a task. None means never."""

    until_empty: bool = False
    """Shut down when the campaign has nothing left that could ever be claimed."""

    ahead_s: float = 1.0
    """How much work to claim ahead of free slots, while tasks take less than half of it.
    0: never claim ahead."""

    longest_wait_s: float = 0.0
    """Longest time of a long poll, in which the queue keeps a claim waiting for tasks. Needs a
    transport that supports it; over HTTP `taskq_agent.protocol.LONGEST_WAIT_S` is the
    maximum. 0: claim again after a backoff."""

    poll_s: float = 5.0
    """Longest pause before the next claim, when claims find nothing and are answered at once."""

    campaign_backoff_s: float = 10.0
    """For how long to leave out a campaign that cannot run here, the first time; doubles each
    time, up to sixty times as long."""

    grace_s: float = 20.0
    """After SIGTERM: how long running tasks may go on, in order to end normally."""

    stop_s: float = 10.0
    """How long a task may take to stop before it is given up. Must exceed the grace that the
    runners give to their payloads."""

    farewell_s: float = 10.0
    """How long to try delivering the last reports before leaving them to the spool."""

    watchdog_s: float = 300.0
    """Shut down with an error when the loop, a heartbeat or a request makes no progress for this
    long. Must exceed the timeouts of the transport."""

    spool_dir: Optional[Path] = None
    """Folder that keeps reports until they are acknowledged. It may be shared by many agents,
    but only by agents of one queue: to another queue the reports mean nothing. None: reports
    are kept in memory only, and die with the process."""

    spool_patience_s: float = 0.0
    """How long reports are in memory only, before they go to the spool; at the end, what is left
    goes there at once. 0: they are written as they come, so a killed process loses none."""

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"slots is {self.slots}; an agent needs at least 1")
        if self.max_tasks is not None and self.max_tasks < 1:
            raise ValueError(f"max_tasks is {self.max_tasks}; it must be at least 1, or None")
        if self.max_seconds is not None:
            _check_seconds("max_seconds", self.max_seconds, above_zero=True)
        if self.idle_timeout_s is not None:
            _check_seconds("idle_timeout_s", self.idle_timeout_s, above_zero=True)
        _check_seconds("watchdog_s", self.watchdog_s, above_zero=True)
        _check_seconds("campaign_backoff_s", self.campaign_backoff_s, above_zero=True)
        _check_seconds("poll_s", self.poll_s, above_zero=True)
        for name in ("ahead_s", "longest_wait_s", "grace_s", "stop_s", "farewell_s"):
            _check_seconds(name, getattr(self, name))

    def draw_hello(self, *, offers: Tuple[str, ...] = (), unfit: str = "") -> Hello:
        """Return a request for a new session of this process. unfit: why it will not work."""
        return Hello(
            key=str(uuid.uuid4()),
            campaign=self.campaign,
            name=self.name,
            host=self.host,
            pid=os.getpid(),
            site=self.site,
            slots=self.slots,
            release=self.release,
            offers=offers,
            unfit=unfit,
        )


def _check_seconds(name: str, value: float, *, above_zero: bool = False) -> None:
    if not math.isfinite(value) or value < 0 or (above_zero and value == 0):
        least = "over 0" if above_zero else "0 or more"
        raise ValueError(f"{name} is {value}; it must be a number of seconds, {least}")
