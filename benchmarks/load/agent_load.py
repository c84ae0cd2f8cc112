"""Load of many agents in child processes, started and observed from their parent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.latencies import BUCKETS, quantile_s
from benchmarks.load.process_group import ProcessGroup, run_process
from benchmarks.load.shared_state import LoadStage, SharedState
from benchmarks.load.work import NAMES, Credentials, LoadTarget, LoadTotals, LoadWork
from taskq.model.errors import Conflict

READY_S: Final = 180.0
WARM_S: Final = 0.5
POLL_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class Seen:
    """Totals and latencies of a load within some seconds.

    totals: in that time only. latencies: of the exchanges, as counts by bucket.
    """

    seconds: float
    totals: LoadTotals
    latencies: tuple[int, ...]

    @property
    def rate(self) -> float:
        """Tasks reported a second."""
        return self.totals.reported / self.seconds

    @property
    def claim_rate(self) -> float:
        """Tasks claimed a second."""
        return self.totals.claimed / self.seconds

    @property
    def p50_s(self) -> float:
        """The median latency of the exchanges."""
        return quantile_s(self.latencies, 0.5)

    @property
    def p99_s(self) -> float:
        """The 99th percentile of the latency of the exchanges."""
        return quantile_s(self.latencies, 0.99)


class AgentLoad(ProcessGroup):
    """Agents; the block begins when all are connected, or about to arrive."""

    who = "agents"

    def __init__(
        self,
        work: LoadWork,
        gateways: Sequence[LoadTarget],
        credentials: Sequence[Credentials] = (),
    ) -> None:
        """credentials: one for each agent, unless they enroll. Each agent has one gateway."""
        super().__init__(work.processes, READY_S)
        context = self.context
        self._work = work
        self._stage = context.RawValue("b", LoadStage.WORK)
        self._states = [
            SharedState(
                context.RawArray("q", len(NAMES)),
                context.RawArray("q", BUCKETS),
                self._stage,
                self.ready,
                self.troubles,
            )
            for _ in range(work.processes)
        ]
        for number, shared_state in enumerate(self._states):
            self.add(_process, work, tuple(gateways), tuple(credentials), number, shared_state)

    def totals(self) -> LoadTotals:
        """Return what has happened so far."""
        return LoadTotals.total(list(state.counts) for state in self._states)

    def wait(self, done: Callable[[LoadTotals], bool], at_most_s: float) -> float:
        """Wait for something to happen; return after how many seconds it had.

        Raise `Conflict` if it has not within `at_most_s`.
        """
        began = time.perf_counter()
        while not done(totals := self.totals()):
            self.check()
            if time.perf_counter() > began + at_most_s:
                raise Conflict(f"not within {at_most_s:g} s; the agents tell of {totals}")
            time.sleep(POLL_S)
        return time.perf_counter() - began

    def warm(self, seconds: float = WARM_S) -> None:
        """Wait until each agent has had a task and all has run for a while."""
        self.wait(lambda totals: totals.served == self._work.agents, READY_S)
        time.sleep(seconds)

    def watch(self, seconds: float) -> Seen:
        """Return what happens within some seconds."""
        before, counts, began = self.totals(), self._latencies(), time.perf_counter()
        time.sleep(seconds)
        after, ended = self.totals(), time.perf_counter()
        self.check()
        latencies = tuple(now - then for now, then in zip(self._latencies(), counts, strict=True))
        return Seen(ended - began, after.since(before), latencies)

    def deliver(self, at_most_s: float = READY_S) -> LoadTotals:
        """Let the agents claim no more and report all that they hold; return what they counted.

        Raise `Conflict` if they have not had all verdicts within `at_most_s`.
        """
        self._stage.value = LoadStage.DELIVER
        self.wait(lambda totals: totals.delivered == self._work.agents, at_most_s)
        return self.totals()

    def leave(self, at_most_s: float = READY_S) -> float:
        """Let the agents report what they hold and end their sessions; return when all have, in s.

        Raise `Conflict` if they have not within `at_most_s`.
        """
        self._stage.value = LoadStage.DELIVER
        return self.wait(lambda totals: totals.left == self._work.agents, at_most_s)

    def _latencies(self) -> list[int]:
        return [
            sum(column) for column in zip(*(state.latencies for state in self._states), strict=True)
        ]

    def stop(self) -> None:
        """Tell the agents to stop."""
        self._stage.value = LoadStage.END


def _process(
    work: LoadWork,
    gateways: Sequence[LoadTarget],
    credentials: Sequence[Credentials],
    number: int,
    shared_state: SharedState,
) -> None:
    def begin() -> None:
        # Here, since it needs the extra `gateway`, which other cases do without.
        from benchmarks.load import process  # noqa: PLC0415

        process.run(work, gateways, credentials, number, shared_state)

    run_process(begin, shared_state.ready, shared_state.troubles)
