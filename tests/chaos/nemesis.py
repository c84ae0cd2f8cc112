"""Does to a farm what a plan says, and looks each time whether it has hit something.

A fault counts only if its target held a lease or had a transaction open, as PostgreSQL says right
before the blow. What was seen is written into the history. Where no such target is found for a
while, one is struck all the same, and that does not count. Of a way some answer must have been
withheld too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import psycopg

from tests.chaos.eyes import Eyes, Seen
from tests.chaos.farm import Ground
from tests.chaos.faulty_relay import FaultyRelay
from tests.chaos.history import Writer
from tests.chaos.parts import AgentPart, Part
from tests.chaos.plan import Fault

_LOOK_S = 1.5
_WITHHELD_S = 1.0
_PAUSE_S = 0.002
_RECENTLY_S = 0.5


@dataclass(frozen=True)
class Target:
    """Something that can be struck. evidence: what it holds now, None if nothing."""

    name: str
    evidence: Callable[[], Seen | None]
    strike: Callable[[], None]
    mend: Callable[[], None]
    way: FaultyRelay | None = None


@dataclass(frozen=True)
class _Blow:
    """A fault that lasts. due: when it ends. withheld_before: of its target, if that is a way."""

    fault: Fault
    target: Target
    seen: Seen | None
    due: float
    withheld_before: int

    @property
    def has_hit(self) -> bool:
        """Whether it has kept something from its way; of a way, that takes an answer to pass."""
        way = self.target.way
        return way is None or way.withheld > self.withheld_before


class Nemesis:
    """Strikes a farm. counted: the faults that count, by kind; others: those that do not."""

    def __init__(self, farm: Ground, eyes: Eyes) -> None:
        self._farm = farm
        self._eyes = eyes
        self._history = Writer(farm.history, "nemesis")
        self._blows: dict[str, _Blow] = {}
        self.counted: Counter[str] = Counter()
        self.others: Counter[str] = Counter()

    def run(self, faults: Sequence[Fault], seconds: float) -> None:
        """Do the faults, each when it is time or as soon as may be, then mend what is broken.

        seconds: when to end, even if some faults are left: to find targets takes time.
        """
        begun = time.monotonic()
        for fault in faults:
            if time.monotonic() > begun + seconds:
                break
            while time.monotonic() < begun + fault.at:
                self._look_after()
                time.sleep(_PAUSE_S)
            self._do(fault)
        for blow in [*self._blows.values()]:
            self._mend(blow)

    def _look_after(self) -> None:
        now = time.monotonic()
        for blow in [*self._blows.values()]:
            if now >= blow.due and (blow.has_hit or now >= blow.due + _WITHHELD_S):
                self._mend(blow)
        for part in self._farm.parts:
            if part.name not in self._blows:
                part.look_after()

    def _do(self, fault: Fault) -> None:
        targets = [target for target in self._targets(fault) if target.name not in self._blows]
        if not targets:
            self.others[fault.kind] += 1
            return
        first = int(fault.which * len(targets))
        targets = targets[first:] + targets[:first]
        target, seen = self._found(targets)
        before = target.way.withheld if target.way else 0
        target.strike()
        blow = _Blow(fault, target, seen, time.monotonic() + fault.lasts_s, before)
        self._blows[target.name] = blow

    def _mend(self, blow: _Blow) -> None:
        """Undo a fault, and write it down."""
        fault, target, seen = blow.fault, blow.target, blow.seen
        del self._blows[target.name]
        if not blow.has_hit:
            seen = None
        target.mend()
        (self.others if seen is None else self.counted)[fault.kind] += 1
        self._history.note(
            "fault", kind=fault.kind, target=target.name, seen=seen, lasts_s=fault.lasts_s
        )

    def _found(self, targets: Sequence[Target]) -> tuple[Target, Seen | None]:
        """Return the first target that holds something, and what that is."""
        deadline = time.monotonic() + _LOOK_S
        while time.monotonic() < deadline:
            for target in targets:
                try:
                    seen = target.evidence()
                except psycopg.OperationalError:
                    seen = None
                if seen is not None:
                    return target, seen
            self._look_after()  # nothing holds anything while the server is down, say
            time.sleep(_PAUSE_S)
        return targets[0], None

    # What can be struck

    def _targets(self, fault: Fault) -> list[Target]:
        what, _, whom = fault.kind.partition("-")
        farm, eyes = self._farm, self._eyes
        if whom == "agent":
            return [self._process(agent, what, self._leases(agent)) for agent in farm.agents]
        if whom in {"gateway", "feeder"}:
            return [
                self._process(part, what, partial(eyes.transaction, part.name))
                for part in (farm.gateways if whom == "gateway" else farm.feeders)
            ]
        if whom == "keeper":
            return [self._process(farm.keeper, what, partial(eyes.transaction, "keeper"))]
        if whom == "redis":
            strike = farm.redis.kill if what == "kill" else farm.redis.freeze
            return [Target("redis", eyes.pool, strike, farm.redis.thaw)]
        if whom == "backend":
            return [self._backend()]
        if whom == "postgresql":
            return [Target("postgresql", eyes.all_leases, self._stop_server, self._start_server)]
        if fault.kind == "full-spool":
            return [
                Target(agent.name, self._leases(agent), agent.fill_disk, agent.empty_disk)
                for agent in farm.agents
            ]
        if fault.kind == "jump-clock":
            return [
                self._clock(agent, fault.jump_s) for agent in farm.agents if agent.clock is not None
            ]
        return self._ways(fault.kind)

    def _leases(self, agent: AgentPart) -> Callable[[], Seen | None]:
        return partial(self._eyes.leases, agent.instance)

    @staticmethod
    def _process(part: Part, what: str, evidence: Callable[[], Seen | None]) -> Target:
        return Target(part.name, evidence, part.kill if what == "kill" else part.freeze, part.thaw)

    def _backend(self) -> Target:
        names = [*(part.name for part in self._farm.parts), "clients"]
        # It looks and strikes in one statement.
        return Target("backend", partial(self._eyes.terminate, *names), _nothing, _nothing)

    def _clock(self, agent: AgentPart, jump_s: float) -> Target:
        clock = agent.clock
        assert clock is not None
        return Target(
            agent.name, self._leases(agent), lambda: clock.set(jump_s), lambda: clock.set(0.0)
        )

    def _ways(self, kind: str) -> list[Target]:
        """Return the ways that are in use: agents keep to the gateway that has served them."""
        farm, eyes = self._farm, self._eyes
        targets = []
        for number, way in enumerate(farm.agent_ways):
            strike = way.cut if kind == "cut" else way.silence
            if way.answered_at > time.monotonic() - _RECENTLY_S:
                name = f"way-to-gateway-{number}"
                evidence = partial(eyes.leases, "http-%")
                targets.append(Target(name, evidence, strike, way.heal, way))
        for name, way in farm.database_ways.items():
            strike = way.cut if kind == "cut" else way.silence
            evidence = partial(eyes.transaction, name)
            targets.append(Target(f"way-of-{name}", evidence, strike, way.heal, way))
        return targets

    def _stop_server(self) -> None:
        self._farm.server.down(immediate=True)

    def _start_server(self) -> None:
        self._farm.server.up()


def _nothing() -> None:
    """Do nothing."""
