"""Plans: every verb reaches tasks by a key or a fitting index, whatever the statistics say.

Most rows of `task` change their status minutes after they were analysed. So the plans are looked
at as the server executes them inside the shipped functions, next to 20,000 working and 5,000
waiting tasks, with statistics that are true, out of date, or missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Campaign
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres
from tests.helpers.spoken_verbs import Load

pytestmark = pytest.mark.thorough


@dataclass(frozen=True)
class Verb:
    """What is done; how it may reach the hot tables; rows one access meets and pages all touch.

    A claim meets all attempts of its task; on a slow machine one task is claimed again and again.
    """

    act: Callable[[Load], None]
    access_paths: set[str]
    rows: int = 16
    pages: int = 160


# A row that is locked is changed by its place.
ROW = {"task by task_pkey", "task by ctid"}

CLAIM = ROW | {
    "task by task_waiting",
    "task by task_waiting_again",
    "task by task_working",
    "spec by spec_pkey",
    "span by span_waiting",
    "span by span_pkey",
    "span by ctid",
    "bundle by bundle_pkey",
    "bundle by bundle_task",
}

# What gives bundles and spans up, for what is no plain claim or report.
UNPACK = {
    "bundle by bundle_pkey",
    "bundle by bundle_task",
    "span by span_pkey",
    "spec by spec_pkey",
}

REPORT = CLAIM | {"attempt by attempt_pkey"}
#: What reaches a single task, wherever it is kept.
SINGLE = UNPACK | ROW

VERBS = {
    "report done": Verb(lambda load: load.exchange("done"), CLAIM),
    "report failed": Verb(lambda load: load.exchange("failed"), REPORT),
    "report released": Verb(lambda load: load.exchange("released"), REPORT),
    "report refused": Verb(Load.refuse, REPORT),
    "report 100": Verb(lambda load: load.exchange("done", 100), REPORT, rows=100, pages=4_000),
    "report again": Verb(Load.repeat_report, REPORT),
    "report for another": Verb(Load.report_for_another, REPORT, pages=200),
    "report on several campaigns": Verb(Load.settle_many, REPORT, pages=250),
    "identify": Verb(Load.identify, set(), pages=20),
    "claim again": Verb(Load.repeat_claim, CLAIM),
    "claim at a site": Verb(Load.claim_at_a_site, REPORT, rows=1_000, pages=12_000),
    "claim elsewhere": Verb(Load.claim_elsewhere, REPORT, rows=40, pages=1_500),
    "beat": Verb(Load.beat, SINGLE | {"task by task_working"}),
    "salvage": Verb(Load.salvage, REPORT, pages=400),
    "poison": Verb(
        Load.poison,
        SINGLE | {"task by task_working", "task by task_failed", "attempt by attempt_pkey"},
    ),
    "hedge": Verb(
        Load.hedge,
        SINGLE | {"task by task_working", "attempt by attempt_pkey"},
        rows=64,
        pages=1_000,
    ),
    "run out of time": Verb(Load.run_out_of_time, REPORT),
    "keep a checkpoint": Verb(Load.keep_a_checkpoint, SINGLE | {"attempt by attempt_pkey"}),
    "keep output files": Verb(Load.keep_output_files, REPORT),
    "leave": Verb(Load.leave, SINGLE | {"task by task_working"}),
    "cancel": Verb(Load.cancel, SINGLE),
    "retry": Verb(Load.retry_failed, ROW | {"task by task_failed", "attempt by attempt_pkey"}),
    "keep": Verb(
        Load.keep, SINGLE | {"task by task_working", "task by task_delayed"}, rows=200, pages=1_000
    ),
    "seed": Verb(Load.seed, {"spec by spec_pkey", "spec by spec_key_key"}),
    "keep both": Verb(
        Load.keep_both, {"spec by spec_pkey", "spec by spec_key_key"}, rows=100, pages=1_000
    ),
    "count": Verb(Load.count, set(), rows=200, pages=200),
}


@pytest.fixture
def load(campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str) -> Iterator[Load]:
    """Give a load without tasks yet."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as connection:
        yield Load(connection, postgres, campaign.campaign_id, hire)


def check_usual(load: Load, name: str, verb: Verb) -> None:
    """Check what a verb reads in the usual case."""
    # Changes of other tests' catalogues may empty the caches, which are read again then.
    for _ in range(3):
        load.be_usual()
        with watched(load.connection) as seen:
            verb.act(load)
        hot = seen.to("task", "spec", "attempt", "span", "bundle")
        assert hot.access_paths <= verb.access_paths, name
        assert hot.widest is None or hot.widest.rows <= verb.rows, (name, hot.widest)
        if seen.buffers <= verb.pages:
            break
    assert seen.buffers <= verb.pages, (name, seen.buffers, verb.pages)


@pytest.mark.parametrize("unpacked", [False, True], ids=["packed", "unpacked"])
@pytest.mark.parametrize("statistics", ["true", "all waiting", "absent", "empty", "few", "cached"])
def test_every_verb_goes_by_key_whatever_the_statistics_say(
    statistics: str, unpacked: bool, load: Load, postgres: Postgres
) -> None:
    """No verb walks a table, nor an index over working tasks beyond those that it is about.

    true         analysed as the tables are
    all waiting  analysed when the last task was seeded and none claimed: the ordinary case
    absent       never analysed
    empty        analysed before the first task
    few          analysed when the campaign was a small one
    cached       as `few`, with plans that were made then
    """
    if statistics == "empty":
        postgres.execute("analyze")
    elif statistics in {"few", "cached"}:
        load.grow(1_500, 1_500)
        for outcome in ("done", "failed", "released"):
            load.exchange(outcome, 8)
        postgres.execute("analyze")
    if statistics == "cached":
        # After the fifth time a plan may be kept that serves all values.
        for verb in VERBS.values():
            for _ in range(6):
                verb.act(load)
    analyze = {"true": "claimed", "all waiting": "seeded"}.get(statistics, "")
    load.grow(20_000, 5_000, unpacked=unpacked, analyze=analyze)

    for name, verb in VERBS.items():
        for _ in range(2):  # planning reads the catalogues, for either way to claim
            verb.act(load)
        check_usual(load, name, verb)
