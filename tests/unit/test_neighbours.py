"""Hosts that got long tasks are not slow: attempts are compared with those claimed next to them."""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import pytest

from taskq.diagnosis.bad_tasks import neighbours_fail
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.blame import blame
from taskq.diagnosis.neighbours import times_near, unless_as_others
from taskq.diagnosis.odd_results import HostResults
from taskq.diagnosis.places import Place, compare_places
from taskq.diagnosis.sample import AttemptGroup
from taskq.diagnosis.sizes import Sizes

#: By host: the site, how many times as long everything takes, and when it begins to claim.
Farm = Mapping[str, tuple[str, float, float]]
#: By host, in order of claims: the place of the claim, how long the attempt ran, whether it failed.
Runs = Mapping[str, list[tuple[int, float, bool]]]

ORDERS: dict[str, Callable[[random.Random, float], float]] = {
    "sorted": lambda draw, part: math.exp(3 * part + draw.gauss(0, 0.1)),
    "largest first": lambda draw, part: math.exp(3 - 3 * part + draw.gauss(0, 0.1)),
    "in two groups": lambda draw, part: (1 if part < 0.6 else 12) * math.exp(draw.gauss(0, 0.3)),
    "few are large": lambda draw, _: (
        math.exp(draw.gauss(0, 0.4)) * (40 if draw.random() < 0.05 else 1)
    ),
    "mixed": lambda draw, _: math.exp(draw.gauss(0, 1)),
}


def worked(
    draw: random.Random, farm: Farm, order: str, *, tasks: int = 600, failing: Mapping[str, float]
) -> Runs:
    """Return what each host ran: it claims the next task whenever it has ended one."""
    free = [(begins + draw.random(), host) for host, (_, _, begins) in farm.items()]
    heapq.heapify(free)
    runs: dict[str, list[tuple[int, float, bool]]] = defaultdict(list)
    for place in range(tasks):
        at, host = heapq.heappop(free)
        run_s = farm[host][1] * ORDERS[order](draw, place / tasks)
        runs[host].append((place, run_s, draw.random() < failing.get(host, 0.01)))
        heapq.heappush(free, (at + run_s, host))
    return runs


def judged(farm: Farm, runs: Runs, kind: PlaceKind) -> list[Place]:
    """Return the places of a farm, compared."""
    groups: list[AttemptGroup] = []
    results: list[HostResults] = []
    for number, (host, some) in enumerate(runs.items()):
        for outcome in ("done", "failed"):
            times = [run_s for _, run_s, failed in some if failed is (outcome == "failed")]
            if times:
                groups.append(group(number, host, farm[host][0], outcome, times))
        done = [(place, run_s) for place, run_s, failed in some if not failed]
        results.append(
            HostResults(
                campaign="/c",
                host=host,
                site=farm[host][0],
                places=[place for place, _ in done],
                digests=[place for place, _ in done],
                numbers=[None] * len(done),
                fields=[None],
                runs=[run_s for _, run_s in done],
            )
        )
    near_by = times_near(results, kind)
    return [unless_as_others(it, near_by) for it in compare_places(kind, [], groups, [])]


def group(number: int, host: str, site: str, outcome: str, times: Sequence[float]) -> AttemptGroup:
    """Return attempts of a host that ended alike."""
    logs = [math.log(run_s) for run_s in times]
    return AttemptGroup(
        campaign="/c",
        session_id=number,
        host=host,
        site=site,
        slots=1,
        within=True,
        outcome=outcome,
        error_class="exit-1" if outcome == "failed" else None,
        outdated=False,
        attempts=len(times),
        tasks=len(times),
        run_s=sum(times),
        logs=sum(logs),
        squares=sum(it * it for it in logs),
        payload_s=None,
        first_at=None,
        last_at=None,
    )


def drawn_farm(draw: random.Random, *, late: bool = False) -> Farm:
    """Return some hosts at some sites, nearly as fast as each other, some of which come late."""
    sites = [f"s{number}" for number in range(draw.randint(1, 4))]
    hosts = [(site, f"{site}n{number}") for site in sites for number in range(draw.randint(2, 5))]
    begins = [draw.uniform(0, 60) * (number > 0 and late) for number in range(len(hosts))]
    return {
        name: (site, draw.uniform(0.95, 1.05), at)
        for (site, name), at in zip(hosts, begins, strict=True)
    }


@pytest.mark.parametrize("order", ORDERS)
def test_hundreds_of_calm_farms_have_no_slow_or_failing_place(order: str) -> None:
    """Whatever the order of their tasks, and however late hosts come."""
    accused = []
    for seed in range(60):
        draw = random.Random(f"{order} {seed}")
        farm = drawn_farm(draw, late=True)
        runs = worked(draw, farm, order, tasks=300, failing={})
        places = [*judged(farm, runs, "host"), *judged(farm, runs, "site")]
        accused += [(seed, it.name) for it in places if it.is_slow or it.is_failing]
    assert accused == []


@pytest.mark.parametrize("order", ["sorted", "in two groups", "mixed"])
def test_host_that_is_slow_is_found_whatever_the_order_of_tasks(order: str) -> None:
    """It takes three times as long for the same tasks; nobody else is accused."""
    found = 0
    for seed in range(12):
        draw = random.Random(seed)
        farm = {f"n{number}": ("", 3.0 if number == 3 else 1.0, 0.0) for number in range(8)}
        runs = worked(draw, farm, order, tasks=900, failing={})
        slow = [it.name for it in judged(farm, runs, "host") if it.is_slow]
        assert slow in ([], ["n3"])
        found += slow == ["n3"]
    assert found >= 11


def test_two_failing_hosts_of_a_site_are_named_and_the_site_is_not() -> None:
    """Both in one verdict, with one ban of both; of sites with three hosts to eight."""
    for seed in range(40):
        draw = random.Random(seed)
        hosts = {
            f"s{site}n{number}": (f"s{site}", 1.0, 0.0)
            for site in range(draw.randint(2, 4))
            for number in range(draw.randint(3, 8))
        }
        runs = worked(draw, hosts, "mixed", failing={"s0n0": 0.7, "s0n1": 0.9})
        places = [*judged(hosts, runs, "host"), *judged(hosts, runs, "site")]
        assert sorted(it.name for it in places if it.is_failing) == ["s0n0", "s0n1"]
        groups = [
            group(number, host, hosts[host][0], "failed" if failed else "done", [run_s])
            for number, (host, some) in enumerate(runs.items())
            for _, run_s, failed in some
        ]
        (verdict,) = blame(groups, [], limit=5)
        assert (verdict.side, sorted(verdict.places)) == ("node", ["s0n0", "s0n1"])
        assert verdict.proposal is not None
        assert verdict.proposal.startswith("taskq host ban ")


def failing(farm: Farm, runs: Runs, kind: PlaceKind = "host") -> list[str]:
    """Return the places that fail, also compared with their neighbours."""
    tasks = sorted((place, host, failed) for host in runs for place, _, failed in runs[host])
    sizes = Sizes(
        campaign="/c",
        field="",
        hosts=[host for _, host, _ in tasks],
        classes=["exit-1" if failed else None for _, _, failed in tasks],
        sizes=[7.0 for _ in tasks],
    )
    sites = {host: site for host, (site, _, _) in farm.items()}
    found = [it for it in judged(farm, runs, kind) if it.is_failing]
    names = {it.name for it in found}
    rest = (it for it in found if not neighbours_fail(it, [sizes], sites, names - {it.name}))
    return [it.name for it in rest]


@pytest.mark.parametrize("seed", range(30))
def test_late_host_is_not_blamed_for_the_broken_end_of_a_file(seed: int) -> None:
    """Others fail with the tasks next to its own; nor is it where the file fails now and then."""
    draw = random.Random(seed)
    farm = {f"n{number}": ("s0", 1.0, 0.0) for number in range(draw.randint(4, 8))}
    farm |= {name: ("s1", 1.0, draw.uniform(70, 90)) for name in ("late", "later")}
    runs = worked(draw, farm, "mixed", tasks=600, failing={})
    broken, share = draw.uniform(400, 550), draw.uniform(0.4, 1)
    runs = {
        host: [(place, run_s, place > broken and draw.random() < share) for place, run_s, _ in some]
        for host, some in runs.items()
    }
    assert failing(farm, runs) == failing(farm, runs, "site") == []


@pytest.mark.parametrize("seed", range(20))
def test_bad_host_is_blamed_among_bad_tasks(seed: int) -> None:
    """Also if it comes late, and whatever fails elsewhere."""
    draw = random.Random(seed)
    farm = {f"n{number}": ("", 1.0, 0.0) for number in range(6)} | {"bad": ("", 1.0, 30.0)}
    usual = dict.fromkeys(farm, draw.uniform(0, 0.2))
    runs = worked(draw, farm, "mixed", tasks=900, failing=usual | {"bad": 0.9})
    assert failing(farm, runs) == ["bad"]
