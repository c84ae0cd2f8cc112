"""Results that cannot be ranked: which places and times are named, and when none is."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from taskq.diagnosis.odd_results import HostResults
from taskq.diagnosis.result_shapes import OddShapes, odd_shapes

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)

#: Of a task's number, host and release: its shape.
Shape = Callable[[int, str, str], str]


def judged(shape: Shape, *, tasks: int = 600, hosts: int = 12, seed: int = 1) -> list[OddShapes]:
    """Judge results that some hosts have had one after the other, two releases of agents."""
    draw = random.Random(seed)
    done: dict[str, list[int]] = defaultdict(list)
    for task in range(tasks):
        done[f"n{draw.randrange(hosts)}"].append(task)
    release = {host: f"1.{int(host[1:]) % 4 == 0:d}" for host in done}
    groups = []
    for host, some in done.items():
        shapes = [shape(task, host, release[host]) for task in some]
        groups.append(
            HostResults(
                "/c",
                host,
                some,
                some,
                [
                    float(task) if it == "number" else None
                    for task, it in zip(some, shapes, strict=True)
                ],
                ["score"],
                shapes=shapes,
                claims=[BEGIN + timedelta(minutes=task) for task in some],
                releases=[release[host]] * len(some),
                ranks=True,
            )
        )
    return odd_shapes(groups)


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.01, 0.05, 0.4])
def test_nulls_that_lie_anywhere_accuse_no_place_and_no_time(share: float) -> None:
    """They are counted. A molecule that cannot be embedded has none, on whatever host."""
    placed = 0
    for seed in range(100):
        draw = random.Random(seed).random
        shapes = ["null" if draw() < share else "number" for _ in range(600)]
        for it in judged(lambda task, *_, of=shapes: of[task], seed=seed):
            assert " cannot be ranked by score: " in it.text
            placed += it.placed
    assert placed == 0


def test_release_whose_results_cannot_be_ranked_is_named() -> None:
    """Its hosts, a quarter of all, have it in common."""
    (found,) = judged(lambda _, __, release: "missing" if release == "1.1" else "number")
    assert "100 % of them are of release 1.1, where 100 % are so, elsewhere 0 %" in found.text


def test_half_of_the_hosts_is_shown_as_a_split() -> None:
    (found,) = judged(lambda _, host, __: "null" if int(host[1:]) % 2 else "number")
    assert re.search(r"; 6 of 12 hosts \(\w+, \w+, \w+ and 3 more\) have 100 % of them", found.text)
    assert "on host" not in found.text


def test_host_and_time_that_change_together_are_both_shown() -> None:
    """Of a host that is bad since noon neither is the whole truth."""
    (found,) = judged(
        lambda task, host, _: "null" if host == "n3" and task >= 300 else "number", tasks=1_200
    )
    assert "100 % of them are on host n3" in found.text
    assert "since tasks claimed at 2026-01-01T05:" in found.text


def test_results_that_are_all_odd_have_no_place() -> None:
    (found,) = judged(lambda *_: "none")
    assert found.text == (
        "600 of the latest 600 results of /c (100 %) cannot be ranked by score: "
        "600 without any result"
    )
    assert found.is_trouble
    assert not found.placed
