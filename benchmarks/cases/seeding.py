"""Seeding next to a bare COPY."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Final

from benchmarks.findings import Finding, Goal
from benchmarks.stage import Bench
from benchmarks.turns import compare
from taskq.planning.trial import CAMPAIGN, sample_seeds

BEHIND: Final = f"{CAMPAIGN}/behind"


def with_keys(bench: Bench) -> Iterator[Finding]:
    """Seed by COPY with keys, next to a bare COPY into the same indexed tables."""
    count = bench.scale.seeds
    first = itertools.count(1 << 40, count)
    with bench.stage() as stage:
        bare = stage.client.create_campaign(f"{CAMPAIGN}/bare").campaign_id
        campaign = stage.client.campaign(CAMPAIGN)
        # A campaign behind both, so that neither has the end of the indexes, where inserts are
        # cheaper.
        stage.add(BEHIND)
        stage.seed(1, BEHIND)

        def bare_copies() -> float:
            rows = [(bare, *seed.encoded()) for seed in sample_seeds(count)]
            ids = range(start := next(first), start + count)
            began = time.perf_counter()
            with stage.database.transaction() as statements:
                statements.copy("seed_copy", rows)
                statements.copy("benchmarks.sql/copy_task", ((bare, task_id, 0) for task_id in ids))
            return count / (time.perf_counter() - began)

        def our_seed() -> float:
            tasks = list(sample_seeds(count))
            began = time.perf_counter()
            campaign.seed(tasks)
            return count / (time.perf_counter() - began)

        compared = compare(our_seed, bare_copies, bench.scale.rounds)
    yield compared.finding("seeding, with keys", "tasks/s", "bare COPY", Goal(0.7))
