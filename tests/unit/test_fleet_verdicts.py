"""Whose fault failures are: which verdict, and when there is none."""

from __future__ import annotations

import math
import random

import pytest

from tests.helpers.attempt_groups import failed, group, ran, verdict


def test_fault_is_found_on_each_side() -> None:
    """Of a node, a site, the campaign, the tasks, nobody; or it is not known."""
    good = [group(f"h{n}", attempts=100, site=f"s{n % 3}") for n in range(9)]
    node = verdict([*good, failed("n17", 300, site="s1")], then_done=200)
    assert (node.side, node.places) == ("node", ["n17"])
    assert node.why.startswith("100 % of 300 attempts on n17 (9")
    assert node.share.share == pytest.approx(0.25)
    bad_site = [failed(f"g{n}", 50, site="gamma") for n in range(4)]
    site = verdict([*good, *bad_site], then_done=100)
    assert (site.side, site.places) == ("site", ["gamma"])
    # Of each of its hosts too little is known.
    many = [group(f"d{n}", site="delta") for n in range(80)]
    thin = [failed(f"d{n}", 1, site="delta") for n in range(40)]
    assert verdict([*good, *many, *thin]).side == "site"
    everywhere = [failed(f"h{n}", 60) for n in range(9)]
    assert verdict(everywhere).side == "campaign"
    now_and_then = [*good, *(failed(f"h{n}", 3, site=f"s{n % 3}") for n in range(9))]
    assert verdict(now_and_then, again=14).side == "task"
    assert verdict(now_and_then, then_done=14).side == "chance"
    assert verdict(now_and_then, again=1, then_done=1).side == "unclear"
    assert verdict([failed("h1", 60)]).side == "unclear"


def test_frequent_chance_is_nobodys_fault_and_takes_more_attempts() -> None:
    """A task that has failed fails no more often than any other, however often that is."""
    half = [group(f"h{n}", attempts=30) for n in range(8)]
    half += [failed(f"h{n}", 24) for n in range(8)]
    found = verdict(half, again=30, then_done=38, last_tries=60, last_done=36)
    assert (found.side, found.remedy) == ("chance", None)
    assert found.proposal == "taskq campaign change /c --max-attempts 9"
    assert "; with 9 attempts, one task in 1,000 fails for good: of 60 last" in found.why
    # Where few attempts fail, and those of the same tasks, it is their fault.
    rare = [group(f"h{n}", attempts=200) for n in range(8)]
    rare += [failed(f"h{n}", 9) for n in range(8)]
    assert verdict(rare, again=30, then_done=5).side == "task"
    assert verdict(rare, then_done=30).raised == ()


@pytest.mark.parametrize(("tries", "done"), [(0, 0), (4, 3), (40, 0), (60, 2)])
def test_more_attempts_are_proposed_only_if_the_last_ones_show_that_they_help(
    tries: int, done: int
) -> None:
    """Not if few came so far, nor if those fail that did."""
    half = [group(f"h{n}", attempts=30) for n in range(8)]
    half += [failed(f"h{n}", 24) for n in range(8)]
    found = verdict(half, again=30, then_done=38, last_tries=tries, last_done=done)
    assert (found.side, found.proposal) == ("chance", None)


@pytest.mark.parametrize(("again", "then_done"), [(1, 4), (0, 3), (2, 8)])
def test_few_tasks_give_no_verdict(again: int, then_done: int) -> None:
    """An interval as wide as 0 % to 90 % says nothing."""
    sample = [group(f"h{n}", attempts=20) for n in range(4)]
    sample += [failed(f"h{n}", 3) for n in range(4)]
    assert verdict(sample, again, then_done).side == "unclear"


@pytest.mark.parametrize(("bad", "good"), [(4, 4), (3, 4), (10, 12)])
def test_hosts_that_split_in_halves_are_shown_and_none_is_accused(bad: int, good: int) -> None:
    """No ban of half of a farm: something makes them differ."""
    sample = [group(f"g{n}", attempts=60) for n in range(good)]
    sample += [failed(f"b{n}", 50) for n in range(bad)]
    found = verdict(sample, then_done=40)
    assert (found.side, found.proposal) == ("unclear", None)
    assert "on b0" in found.why
    assert f"so many of {bad + good} hosts are no exception" in found.why
    few = [group(f"g{n}", attempts=60) for n in range(12)]
    assert verdict([*few, failed("b0", 50)], then_done=40).side == "node"


def test_limit_that_is_too_short_is_proposed_from_the_times_of_those_that_end() -> None:
    """Neither chance nor the fault of hosts that are slow; attempts that were cut are censored."""
    draw = random.Random(5)
    times: dict[str, list[float]] = {f"h{n}": [] for n in range(6)}
    for _ in range(3_000):
        host = draw.choice(list(times))
        times[host].append(draw.lognormvariate(math.log(20 if host < "h4" else 32), 0.5))
    sample = []
    for host, some in times.items():
        ended = [it for it in some if it <= 40]
        sample += [
            group(host, attempts=len(ended), times=ran(ended)),
            failed(host, len(some) - len(ended), "time-limit"),
        ]
    found = verdict(sample, 50, 300, "time-limit", time_limit_s=40.0, last_tries=60, last_done=30)
    assert (found.side, found.places) == ("campaign", [])
    option, value = found.raised
    assert option == "--time-limit"
    assert 80 < float(value.removesuffix("s")) < 240  # 999 of 1,000 end within 128 s
    assert "how long the others would have taken is unknown" in found.why
    # A host where all is cut hangs.
    hangs = [group(f"h{n}", attempts=99) for n in range(6)]
    hangs.append(failed("hung", 80, "time-limit"))
    assert verdict(hangs, 0, 60, "time-limit", time_limit_s=40.0).side == "node"


def test_other_faults_of_a_host_are_no_evidence() -> None:
    """Where everything else fails, this class may still be the tasks'."""
    sample = [
        *(group(f"h{n}", attempts=100) for n in range(9)),
        *(failed(f"h{n}", 2) for n in range(9)),
        failed("h3", 500, "exit-127"),
    ]
    assert verdict(sample, again=15).side == "task"
