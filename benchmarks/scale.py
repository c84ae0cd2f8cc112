"""Sizes and durations of the cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes of all cases.

    seconds: of each measurement; rounds: measurements of each, in turn. tasks: the large backlog
    and the large history; few: the small backlog. prioritised: tasks whose priorities are changed.
    seeds: of a seeding; lives: tasks whose bytes are counted; counted, shapes: exchanges whose
    instructions are, and kinds of them. results: that are read. calls, cheap_calls, arrays: calls
    of functions. batches: tasks of a start, in the sizes that are compared.
    pairs: runs with and without a held snapshot, each held_s long. lookups: `ls` for each number of
    siblings. ended: campaigns that have ended. archived: tasks of a campaign that is archived.
    endured: campaigns that come and go, each of endured_tasks, on a disk of disk_bytes.
    agents...: of gateways; exchange_every_s: of each of `agents_all`, and its heartbeats.
    healthy_...: agents with a hostile client, and their exchanges a second; hostile: kinds of such
    clients.
    young: campaigns that have just begun.
    pool_s: how long a task stays leased ahead that no agent names. input_...: agents on nodes that
    fetch an input of this many bytes.
    """

    seconds: float = 5.0
    rounds: int = 5
    tasks: int = 10_000_000
    few: int = 10_000
    prioritised: int = 1_000_000
    seeds: int = 300_000
    lives: int = 100_000
    counted: int = 100
    shapes: int = 4
    results: int = 1_000_000
    calls: int = 2_000
    cheap_calls: int = 200_000
    arrays: int = 20
    batches: tuple[int, ...] = (1, 10, 500, 10_000)
    connections: int = 256
    campaigns: int = 1_000
    held_s: float = 60.0
    pairs: int = 5
    siblings: tuple[int, ...] = (1, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000)
    lookups: int = 10_000
    ended: int = 20_000
    archived: int = 1_000_000
    endured: int = 1_000
    endured_tasks: int = 100_000
    disk_bytes: int = 10_000_000_000
    agents: int = 512
    agents_few: int = 64
    healthy_agents: int = 256
    healthy_a_second: float = 3_000.0
    hostile: int = 12
    agents_all: int = 20_000
    agents_arriving: int = 10_000
    agents_far: int = 1_000
    agents_far_database: int = 2_000
    exchange_every_s: float = 30.0
    young: int = 20
    pool_s: float = 120.0
    input_agents: int = 100
    input_nodes: int = 10
    input_bytes: int = 20_000_000


SHORT: Final = Scale(
    seconds=0.3,
    rounds=1,
    tasks=2_000,
    few=100,
    prioritised=2_000,
    seeds=500,
    lives=500,
    counted=10,
    shapes=2,
    results=3_000,
    calls=100,
    cheap_calls=500,
    arrays=2,
    batches=(1, 20),
    connections=4,
    campaigns=8,
    held_s=1.2,
    pairs=1,
    siblings=(1, 8),
    lookups=20,
    ended=30,
    archived=2_000,
    endured=10,
    endured_tasks=300,
    disk_bytes=2_000_000_000,
    agents=16,
    agents_few=8,
    healthy_agents=16,
    healthy_a_second=100.0,
    hostile=1,
    agents_all=40,
    agents_arriving=40,
    agents_far=16,
    agents_far_database=16,
    exchange_every_s=1.0,
    young=1,
    pool_s=8.0,
    input_agents=8,
    input_nodes=2,
    input_bytes=1_500_000,
)
"""Takes seconds, to check that everything works; its figures mean nothing."""
