"""Work of the agents of a load, and the totals that they count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, NamedTuple

from typing_extensions import Self


class LoadTarget(NamedTuple):
    """Address of a gateway."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of an agent: the id of its session, and the session token."""

    session: int
    token: str


@dataclass(frozen=True, slots=True)
class LoadWork:
    """Work of each agent.

    agents: of all processes together. want: tasks in an exchange. rate: exchanges a second of all
    agents together, measured from when they were due; None: each agent asks again as soon as it is
    answered. random: whether they are due at random, and for any free agent; else evenly spread,
    and for the agents in turn. spooled: whether exchanges only claim, and all is reported at the
    end. wait_s: how long the gateway may keep a claim that finds nothing.
    beat_s: a heartbeat of each agent so often; None: none. content: whether an agent that has a
    task goes on working on it and asks no more. spread_s: over how long the first exchanges are
    spread. enrol: the enrolment token of agents that come without a session and connect only when
    they first speak; empty: they have sessions, and all are connected before the work begins.
    authority: the certificates to trust, for TLS. kept: whether the connection is kept between
    exchanges. resumed: whether a new one resumes the TLS session of the last. leaving: whether
    agents that have nothing left to report, at the end, end their sessions. remembered: whether all
    attempts are kept in mind, to see what is claimed twice.
    """

    agents: int
    processes: int = 1
    want: int = 1
    rate: float | None = None
    random: bool = False
    spooled: bool = False
    wait_s: float = 0.0
    beat_s: float | None = None
    content: bool = False
    spread_s: float = 0.0
    enrol: str = ""
    campaign: str = "/"
    authority: Path | None = None
    kept: bool = True
    resumed: bool = False
    leaving: bool = False
    remembered: bool = True

    def numbers(self, process: int) -> range:
        """Return which of the agents are those of a process."""
        return range(process, self.agents, self.processes)


@dataclass(slots=True)
class LoadTotals:
    """Totals of all agents so far.

    connected: agents that have had a connection. asked: exchanges begun. reported: tasks whose
    report was accepted; known: had been accepted before, so that its first answer was lost.
    claimed: tasks; served: agents that have had one; empty: claims that found nothing. delivered:
    agents that have nothing left to report, at the end; left: that have ended their sessions.
    beats: heartbeats answered. resumed: connections that resumed a TLS session. reopened: kept
    connections that the gateway had closed. late: exchanges left out since the one before was not
    answered when they were due. busy: answers that say when to try again. What must not be:
    refused: requests that the gateway will not take; failed: other answers that are none; broken:
    connections lost or not had; rejected: reports with another verdict; twice: attempts claimed a
    second time.
    """

    connected: int = 0
    asked: int = 0
    reported: int = 0
    known: int = 0
    claimed: int = 0
    served: int = 0
    empty: int = 0
    delivered: int = 0
    left: int = 0
    beats: int = 0
    resumed: int = 0
    reopened: int = 0
    late: int = 0
    busy: int = 0
    refused: int = 0
    failed: int = 0
    broken: int = 0
    rejected: int = 0
    twice: int = 0

    @property
    def errors(self) -> dict[str, int]:
        """What went wrong, by kind; empty if nothing did."""
        return {kind: count for kind in KINDS if (count := getattr(self, kind))}

    def values(self) -> list[int]:
        """Return the counts, in the order of `NAMES`."""
        return [getattr(self, name) for name in NAMES]

    def since(self, before: LoadTotals) -> LoadTotals:
        """Return what has happened since."""
        return LoadTotals(
            *(now - then for now, then in zip(self.values(), before.values(), strict=True))
        )

    @classmethod
    def total(cls, rows: Iterable[Iterable[int]]) -> Self:
        """Return the sum of some, each as its `values`."""
        return cls(*map(sum, zip(*rows, strict=True)))


NAMES: Final = tuple(counted.name for counted in fields(LoadTotals))
KINDS: Final = ("late", "busy", "refused", "failed", "broken", "rejected", "twice")
