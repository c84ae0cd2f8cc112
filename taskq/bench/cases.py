"""The cases: what is measured, beside what, and what is to be reached."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from taskq import migrations
from taskq.bench import ours
from taskq.bench.ours import Load
from taskq.bench.raw import Raw
from taskq.bench.turns import Compared, compare
from taskq.campaign import CampaignSpec, Handler
from taskq.client import Client
from taskq.database import Database
from taskq.model import Seed

CAMPAIGN: Final = "/bench"
NO_OP: Final = Handler("command", argv=("true",))  # never executed
SEED_TASKS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. goal: the ratio to be reached at least."""

    case: str
    unit: str
    beside: str
    compared: Compared
    goal: float


@dataclass(frozen=True, slots=True)
class Bench:
    """A scratch database with a campaign and a bare table."""

    database: Database
    client: Client
    raw: Raw
    seconds: float
    rounds: int

    def fill(self, ours_rate: float, raw_rate: float) -> None:
        """Add waiting tasks and rows for all rounds at such rates (tasks a second)."""
        spare = 1.5 * self.seconds * self.rounds
        self.client.campaign(CAMPAIGN).seed(seeds(int(ours_rate * spare)))
        self.raw.fill(int(raw_rate * spare))
        self.database.execute("analyze", folder="bench")


Case: TypeAlias = Callable[[Bench], Finding]


def seeds(count: int) -> Iterator[Seed]:
    """Yield seeds with a payload of about 100 bytes, each with a key of its own."""
    start = time.time_ns()
    for number in range(start, start + count):
        yield Seed(
            {
                "ligand": f"ZINC{number}",
                "receptor": "1sme",
                "seed": 7,
                "library": "lead-like, in stock",
            },
            key=f"ZINC{number}",
        )


def one_row(bench: Bench) -> Finding:
    """Report the last task and claim the next in one exchange, 8 clients."""
    return _one_at_a_time(bench, Load(2, 4, 1, CAMPAIGN))


def connections(bench: Bench) -> Finding:
    """Do the same on 256 connections."""
    return _one_at_a_time(bench, Load(4, 64, 1, CAMPAIGN))


def _one_at_a_time(bench: Bench, load: Load) -> Finding:
    clients = load.processes * load.clients
    bench.fill(9_000, 9_000)
    compared = compare(
        lambda: ours.rate(bench.database, load, bench.seconds),
        lambda: bench.raw.rate("one", clients, bench.seconds),
        bench.rounds,
    )
    case = f"one task at a time, {clients} clients"
    return Finding(case, "tasks/s", f"raw one-row, {clients}", compared, 1.0)


def batches(bench: Bench) -> Finding:
    """Report and claim a hundred tasks in an exchange, 2 processes."""
    bench.fill(60_000, 150_000)
    compared = compare(
        lambda: ours.rate(bench.database, Load(2, 1, 100, CAMPAIGN), bench.seconds),
        lambda: max(bench.raw.rate("batch", clients, bench.seconds) for clients in (1, 8)),
        bench.rounds,
    )
    return Finding("batches of 100, 2 processes", "tasks/s", "raw batch", compared, 0.6)


def seeding(bench: Bench) -> Finding:
    """Seed by COPY with keys, beside a bare COPY into the same indexed tables."""
    campaign = bench.client.campaign(CAMPAIGN)
    bare = bench.client.create_campaign(f"{CAMPAIGN}/bare").campaign_id
    first = iter(range(1 << 40, 1 << 62, SEED_TASKS))

    def bare_copies() -> float:
        rows = [(bare, *one.encoded()) for one in seeds(SEED_TASKS)]
        ids = range(start := next(first), start + SEED_TASKS)
        began = time.perf_counter()
        with bench.database.transaction() as statements:
            statements.copy("seed_copy", rows)
            statements.copy("copy_task", ((bare, one, 0) for one in ids), folder="bench")
        return SEED_TASKS / (time.perf_counter() - began)

    def ours_seed() -> float:
        tasks = list(seeds(SEED_TASKS))
        began = time.perf_counter()
        campaign.seed(tasks)
        return SEED_TASKS / (time.perf_counter() - began)

    compared = compare(ours_seed, bare_copies, bench.rounds)
    return Finding("seeding, with keys", "tasks/s", "bare COPY", compared, 0.6)


CASES: Final[Mapping[str, Case]] = {
    "one-row": one_row,
    "batches": batches,
    "connections": connections,
    "seeding": seeding,
}


def run(server: Database, names: list[str], seconds: float, rounds: int) -> Iterator[Finding]:
    """Run cases, each in a scratch database of its own; yield what was found."""
    for name in names:
        with server.scratch() as database, tempfile.TemporaryDirectory() as folder:
            migrations.migrate(database)
            client = Client(database)
            client.create_campaign(CampaignSpec(CAMPAIGN, handler=NO_OP))
            yield CASES[name](Bench(database, client, Raw(database, Path(folder)), seconds, rounds))
