"""Cases of the benchmarks: each measures figures, compares them, and has goals.

claims     one-row, batches, connections, pooler, kept-open: next to the limit
seeding    next to a bare COPY
sizes      backlog, history, campaigns: next to many, against next to few
snapshot   under a held snapshot, against without
reading    monitor, latency: status, ls and top while tasks are claimed
watched    claims while all look on who may, next to claims while nobody does
changes    claims while others seed without end, or remove millions of tasks
priorities claims while those of a million tasks are changed, next to claims while none is
results    as Arrow, next to COPY
functions  calls of functions, next to executors of processes
starts     of programs for many tasks, next to one by one
siblings   ls while the tree grows
archives   a campaign archived and restored, alone and while others claim
ended      claims and explain in a queue whose campaigns have nearly all ended
endurance  campaigns that come and go for hours: what grows
counters   counts next to a recount
instructions    of an exchange, whatever the load
wal        bytes of log and disk
touched    rows and pages, whatever the machine
crowds     gateway-...: agents of gateways, as fast as they can
multitudes gateway-...: thousands of agents, connected, arriving, leaving, waiting
hostile    gateway-hostile: agents next to a hostile client with a token
strangers  gateway-...: agents next to hostile clients without a token
distance   gateway-...: a wide-area network between agents, gateway and database
inputs     savings of a node's cache of inputs
beginnings gateway-new: calls one after the other in campaigns that have just begun
doors      gateway-...: the ways that the study of AMGA compares
front      two gateways of one queue, one with a front, for the cases front-...
front_latency   front-...: how long claims take
front_claims    front-...: what they cost, and next to what
front_outages   front-...: when PostgreSQL or Redis goes away
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from benchmarks.cases import (
    archives,
    beginnings,
    changes,
    claims,
    counters,
    crowds,
    distance,
    doors,
    ended,
    endurance,
    front_claims,
    front_latency,
    front_outages,
    functions,
    hostile,
    inputs,
    instructions,
    multitudes,
    priorities,
    reading,
    results,
    seeding,
    siblings,
    sizes,
    snapshot,
    starts,
    strangers,
    touched,
    wal,
    watched,
)
from benchmarks.findings import Finding
from benchmarks.stage import Bench

Case: TypeAlias = Callable[[Bench], Iterator[Finding]]

CASES: Final[Mapping[str, Case]] = {
    "one-row": claims.one_row,
    "batches": claims.batches,
    "connections": claims.connections,
    "pooler": claims.through_pooler,
    "kept-open": claims.kept_open,
    "backlog": sizes.backlog,
    "history": sizes.history,
    "campaigns": sizes.campaigns,
    "snapshot": snapshot.held,
    "monitor": reading.monitor,
    "watched": watched.by_all,
    "changes": changes.changed,
    "priorities": priorities.changed,
    "seeding": seeding.with_keys,
    "latency": reading.latency,
    "arrow": results.arrow,
    "functions": functions.called,
    "starts": starts.of_many,
    "siblings": siblings.listed,
    "ended": ended.beneath,
    "archives": archives.life,
    "counters": counters.exact,
    "instructions": instructions.counted,
    "wal": wal.life,
    "touched": touched.rows,
    "inputs": inputs.shared,
    "gateway-crowd": crowds.many,
    "gateway-few": crowds.few,
    "gateway-tls": crowds.encrypted,
    "gateway-batches": crowds.batches,
    "gateway-several": crowds.several,
    "gateway-hostile": hostile.together,
    "gateway-connected": multitudes.connected,
    "gateway-arriving": multitudes.arriving,
    "gateway-leaving": multitudes.leaving,
    "gateway-idle": multitudes.idle,
    "gateway-strangers": strangers.poured,
    "gateway-wan": distance.agents,
    "gateway-far-database": distance.database,
    "gateway-new": beginnings.sequential,
    "gateway-amga": doors.amga,
    "front-latency": front_latency.near,
    "front-far-latency": front_latency.far,
    "front-statements": front_claims.statements,
    "front-exchanges": front_claims.exchanges,
    "front-unrest": front_claims.unrested,
    "front-restart": front_outages.restarted,
    "front-flush": front_outages.flushed,
    "front-kill": front_outages.killed,
    "endurance": endurance.turned_over,
}

HOURS: Final = ("endurance",)
"""Cases that take hours each, so they run only by name."""

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    group: tuple(name for name in CASES if name.startswith(f"{group}-"))
    for group in ("gateway", "front")
}
"""Names for several cases."""


def chosen(names: Sequence[str]) -> list[str]:
    """Return the cases that some names of cases and groups stand for, each once.

    No name stands for all but those that take hours.
    """
    if not names:
        return [name for name in CASES if name not in HOURS]
    return list(dict.fromkeys(case for name in names for case in GROUPS.get(name, (name,))))


def run(bench: Bench, names: list[str]) -> Iterator[Finding]:
    """Run cases, each in scratch databases of its own; yield what is found as it is found."""
    for name in names:
        bench.tell(name)
        for found in CASES[name](bench):
            yield replace(found, case=name)


def summary(name: str) -> str:
    """Return what a case does, in one line."""
    return (CASES[name].__doc__ or "").partition("\n")[0]
