"""Two hundred drawn farms in which nothing is wrong give no beginning, size or release."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta, timezone

from taskq.diagnosis.ends import EndSum
from taskq.diagnosis.odd_results import HostResults, odd_results
from taskq.diagnosis.onset import risen
from taskq.diagnosis.releases import by_release
from taskq.diagnosis.sizes import Sizes, with_sizes
from tests.helpers.attempt_groups import failed, group, verdict

NOON = datetime(2026, 11, 29, 12, tzinfo=timezone.utc)
FARMS = 200


def test_run_times_that_vary_have_not_risen() -> None:
    """Nor where they are drawn of few, or of very different ones."""
    found = 0
    for seed in range(FARMS):
        chance = random.Random(seed)
        spread = chance.choice((0.05, 0.5, 1.5))
        times = [
            (NOON + timedelta(seconds=n), chance.gauss(1.0, spread))
            for n in range(chance.randrange(10, 300))
        ]
        found += risen(times, math.log(1.5)) is not None
    assert found == 0


def test_failures_by_chance_have_no_size() -> None:
    """Of four numbers, some of them whole, on five hosts."""
    texts = []
    for seed in range(FARMS):
        chance = random.Random(seed)
        number, share = chance.randrange(40, 400), chance.choice((0.05, 0.3, 0.6))
        hosts = [f"n{chance.randrange(5)}" for _ in range(number)]
        classes = ["exit-1" if chance.random() < share else None for _ in range(number)]
        draws = [lambda: chance.randrange(4), lambda: chance.randrange(50)]  # noqa: B023
        draws += [chance.random, lambda: chance.lognormvariate(8.0, 1.0)]  # noqa: B023
        sizes = [
            Sizes("/c", name, hosts, classes, [float(draw()) for _ in range(number)])
            for name, draw in zip("abcd", draws, strict=True)
        ]
        bad = sum(it is not None for it in classes)
        given = verdict([group("n0", "done", number - bad), failed("n0", bad)])
        (judged,) = with_sizes([given], sizes, {})
        texts += [judged.why] if judged != given else []
    assert texts == []


def test_failures_by_chance_have_no_release() -> None:
    """Of three releases that come and go, while the share of failures changes with time."""
    texts = []
    for seed in range(FARMS):
        chance = random.Random(seed)
        sums = []
        for window in range(12):
            share = chance.choice((0.02, 0.1, 0.5))
            for release in ("1", "2", "3"):
                done = chance.randrange(60) * (chance.random() < 0.7)
                bad = sum(chance.random() < share for _ in range(done))
                ends = (("failed", "Boom", bad), ("done", "number", done - bad))
                sums += [ended(window, release, *end) for end in ends if end[2]]
        texts += [text] if (text := by_release(sums, "Boom", 3)) else []
    assert texts == []


def ended(window: int, release: str, outcome: str, sort: str, attempts: int) -> EndSum:
    """Return attempts that ended in ten minutes."""
    starts = NOON + timedelta(minutes=10 * window)
    return EndSum(
        *("/c", None, None, release, starts, outcome, sort, attempts),
        *(1.0, 1.0, 0.0, 0.0, 0, 0.0, 0.0, None, None, None, None),
    )


def test_results_that_vary_are_not_odd_since_a_time() -> None:
    """Of six hosts; some results are whole numbers, and often equal."""
    found = []
    for seed in range(FARMS):
        chance = random.Random(seed)
        values = chance.choice((2, 8, 1_000))
        places = [*range(240)]
        hosts = [chance.randrange(6) for _ in places]
        numbers = [float(chance.randrange(values)) for _ in places]
        groups = []
        for host in range(6):
            its = [place for place in places if hosts[place] == host]
            groups.append(
                HostResults(
                    "/c",
                    f"n{host}",
                    its,
                    [int(numbers[place]) for place in its],
                    [numbers[place] for place in its],
                    ["energy"] * len(its),
                    claims=[NOON + timedelta(seconds=place) for place in its],
                )
            )
        found += odd_results(groups)
    assert found == []
