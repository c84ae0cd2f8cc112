"""A short measurement of a server: clients work through a campaign in a scratch database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from taskq.client import Client
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.planning import clients
from taskq.planning.clients import Load
from taskq.spec.model import Seed
from taskq.spec.spec import CampaignSpec, Handler

CAMPAIGN: Final = "/bench"
BATCHED: Final = Load(1, 8, 1, CAMPAIGN, batched=True)
"""8 clients, one task at a time, whose exchanges share statements."""

MEASURED_S: Final = 3.0
MOST_PER_S: Final = 50_000
"""More than any server is expected to do; this many tasks are seeded for each second."""


def measured_rate(server: Database, batch: int) -> float:
    """Return the tasks that a server completes a second, `batch` in each exchange.

    In a scratch database, which is dropped afterwards: the login must be allowed to create one.
    Takes some ten seconds. Raise `Conflict` if the clients ran out of tasks.
    """
    load = Load(2, 1, batch, CAMPAIGN) if batch > 1 else BATCHED
    with server.scratch() as database:
        migrations.migrate(database)
        handler = Handler("command", argv=("true",))  # nothing is ever executed
        campaign = Client(database).create_campaign(CampaignSpec(CAMPAIGN, handler=handler))
        campaign.seed(sample_seeds(round(MEASURED_S * MOST_PER_S)))
        return clients.rate(database, load, MEASURED_S)


def sample_seeds(count: int) -> Iterator[Seed]:
    """Yield seeds with a payload of about 100 bytes, each with a key that was never used."""
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
