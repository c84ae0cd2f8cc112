"""Tasks of a size that fail at some places only: neither tasks nor other places are accused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection

from taskq.diagnosis.blame import FailureVerdict
from taskq.diagnosis.sizes import Sizes, with_sizes
from tests.helpers.attempt_groups import failed, group, verdict

SITES = {f"n{n}": f"s{n // 3}" for n in range(9)}
FARMS = 100


def drawn(seed: int, bad_hosts: Collection[str]) -> FailureVerdict:
    """Judge a farm in which large tasks, a third of all, fail on some hosts."""
    chance = random.Random(seed)
    number = chance.randrange(40, 200)
    hosts = [chance.choice([*SITES]) for _ in range(number)]
    sizes = [float(chance.randrange(6)) for _ in range(number)]
    classes = [
        "exit-1" if host in bad_hosts and size >= 4 else None
        for host, size in zip(hosts, sizes, strict=True)
    ]
    bad, whole = Counter(h for h, c in zip(hosts, classes, strict=True) if c), Counter(hosts)
    groups = [failed(host, bad[host], site=SITES[host]) for host in bad]
    groups += [group(host, "done", whole[host] - bad[host], site=SITES[host]) for host in whole]
    if not bad:
        return verdict([*groups, failed("n0", 1)])
    (found,) = with_sizes([verdict(groups)], [Sizes("/c", "size", hosts, classes, sizes)], SITES)
    return found


def test_large_tasks_that_fail_at_one_site_are_not_at_fault() -> None:
    """The site is, or it is unclear as long as little is known."""
    found = [drawn(seed, {"n3", "n4", "n5"}) for seed in range(FARMS)]
    sides = Counter(it.side for it in found)
    assert sides["task"] == 0, sides
    assert sides["site"] > FARMS / 2, sides
    assert {name for it in found for name in it.places} <= {"s1", "n3", "n4", "n5"}


def test_large_tasks_that_fail_on_one_host_are_not_at_fault() -> None:
    """The host is, or it is unclear."""
    found = [drawn(seed, {"n4"}) for seed in range(FARMS)]
    sides = Counter(it.side for it in found)
    assert sides["task"] == sides["site"] == 0, sides
    assert {name for it in found for name in it.places} <= {"n4"}


def test_large_tasks_that_fail_everywhere_are_at_fault() -> None:
    """No place is accused, nor is it often unclear."""
    found = [drawn(seed, SITES) for seed in range(FARMS)]
    sides = Counter(it.side for it in found)
    assert sides["task"] > 0.9 * FARMS, sides
    assert not {name for it in found for name in it.places}
