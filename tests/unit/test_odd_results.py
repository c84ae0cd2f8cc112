"""Hosts whose results cannot be right: who is named, and who never is."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from taskq.diagnosis.odd_results import HostResults, OddResults, odd_results

Value = Callable[[int, random.Random], float]


def iid(_: int, chance: random.Random) -> float:
    return chance.gauss(-7, 1)


def sorted_by_size(task: int, chance: random.Random) -> float:
    return -task / 50 + chance.gauss(0, 1)


def in_groups(task: int, chance: random.Random) -> float:
    return random.Random(task // 100).gauss(0, 5) + chance.gauss(0, 1)


def growing_in_groups(task: int, _: random.Random) -> float:
    return float(task // 128)


def mostly_zero(task: int, _: random.Random) -> float:
    return 0.0 if task % 20 else task


def heavy_tailed(_: int, chance: random.Random) -> float:
    return chance.gauss(0, 1) / chance.gauss(0, 1)


ORDERS = (iid, sorted_by_size, in_groups, growing_in_groups, heavy_tailed, mostly_zero)


def handed_out(tasks: int, hosts: int, at_once: int, chance: random.Random) -> list[str]:
    """Return on which host each task was done; a tenth of the hosts join in the second half."""
    found: list[str] = []
    while len(found) < tasks:
        late = len(found) < tasks / 2
        host = chance.randrange(hosts * 9 // 10 if late else hosts)
        found += [f"n{host}"] * at_once
    return found[:tasks]


def results(
    where: Sequence[str],
    values: Sequence[float],
    field: str | None = "score",
    site: Callable[[str], str] = lambda _: "",
    campaign: str = "/c",
) -> list[HostResults]:
    """Return the sample of a campaign. site: of a host."""
    tasks = defaultdict(list)
    for task, host in enumerate(where):
        tasks[host].append(task)
    return [
        HostResults(
            *(campaign, host, some, [hash(values[n]) for n in some], [values[n] for n in some]),
            fields=[field],
            site=site(host),
        )
        for host, some in tasks.items()
    ]


def named(found: Sequence[OddResults]) -> list[tuple[str, bool]]:
    return [(odd.name, odd.constant) for odd in found]


@pytest.mark.thorough
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("at_once", [1, 16, 128])
def test_honest_hosts_are_not_accused(order: Value, at_once: int) -> None:
    """None of 1,000 is, in any order of tasks and for claims of any size."""
    chance = random.Random(at_once)
    for _ in range(20):
        where = handed_out(2_000, 50, at_once, chance)
        values = [order(task, chance) for task in range(2_000)]
        assert odd_results(results(where, values)) == []


@pytest.mark.parametrize("order", [iid, sorted_by_size, in_groups])
@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize(
    ("wrong", "constant"), [(lambda value: 0 * value, True), (lambda value: value + 900.5, False)]
)
def test_wrong_host_is_named(
    order: Value, at_once: int, wrong: Callable[[float], float], constant: bool
) -> None:
    """It alone of eight is named, with its number of results."""
    chance = random.Random(7)
    where = handed_out(1_000, 8, at_once, chance)
    values = [order(task, chance) for task in range(1_000)]
    values = [wrong(it) if host == "n3" else it for it, host in zip(values, where, strict=True)]
    (odd,) = odd_results(results(where, values))
    assert (odd.name, odd.constant, odd.results) == ("n3", constant, where.count("n3"))
    assert "score" in odd.evidence
    assert odd.remedy == "taskq retry /c --no-below --where 'host = \"n3\" and status = done'"


@pytest.mark.parametrize("order", ORDERS[:-2])
@pytest.mark.parametrize("part", [0.2, 0.5])
def test_host_of_which_a_part_of_the_results_is_far_off_is_named(order: Value, part: float) -> None:
    """As where one of two programs there gives kJ/mol; it alone of eight is named."""
    chance = random.Random(3)
    where = handed_out(600, 8, 1, chance)
    values = [order(task, chance) for task in range(600)]
    values = [
        it - 40 if host == "n3" and chance.random() < part else it
        for it, host in zip(values, where, strict=True)
    ]
    (odd,) = odd_results(results(where, values))
    assert (odd.name, odd.in_part, odd.results) == ("n3", True, where.count("n3"))
    assert "far outside the range of other hosts' results" in odd.evidence


def test_site_of_which_a_part_of_the_results_is_far_off_is_named() -> None:
    """With its hosts."""
    chance = random.Random(4)
    where = handed_out(600, 8, 2, chance)
    values = [
        iid(task, chance) * (4.184 if host in {"n0", "n1"} and chance.random() < 0.5 else 1)
        for task, host in enumerate(where)
    ]
    (odd,) = odd_results(results(where, values, site=lambda host: f"s{int(host[1:]) // 2}"))
    assert (odd.kind, odd.name, sorted(odd.hosts)) == ("site", "s0", ["n0", "n1"])
    assert odd.in_part


def test_host_that_claims_many_at_once_is_not_named_for_groups_of_the_file() -> None:
    """A whole group of like tasks may be its own, so that no other shows how they are."""
    named_hosts = []
    for seed in range(20):
        chance = random.Random(seed)
        where: list[str] = []
        while len(where) < 1_500:
            host = f"n{chance.randrange(13)}"
            where += [host] * (64 if host == "n0" else 1)
        levels = [chance.gauss(0, 5) for _ in range(200)]
        values = [levels[task // 10] + chance.gauss(0, 0.1) for task in range(len(where))]
        named_hosts += [odd.name for odd in odd_results(results(where, values))]
    assert named_hosts == []


def test_of_two_hosts_none_is_named() -> None:
    """Nobody knows which is right."""
    chance = random.Random(8)
    where = handed_out(400, 2, 1, chance)
    values = [
        iid(task, chance) - 50 * (task % 7 == 0 and where[task] == "n1") for task in range(400)
    ]
    assert odd_results(results(where, values)) == []


def test_fifteen_results_of_a_small_campaign_suffice() -> None:
    """The campaign has 120 tasks on eight hosts."""
    chance = random.Random(1)
    where = [f"n{task % 8}" for task in range(120)]
    values = [iid(task, chance) + 900 * (where[task] == "n5") for task in range(120)]
    assert named(odd_results(results(where, values))) == [("n5", False)]
    values = [0.0 if where[task] == "n5" else value for task, value in enumerate(values)]
    assert named(odd_results(results(where, values))) == [("n5", True)]


def test_results_that_may_be_right_are_not_accused() -> None:
    """Small shifts, times, results that vary as a whole, and many hosts alike are not."""
    chance = random.Random(2)
    where = handed_out(2_000, 8, 1, chance)
    values = [iid(task, chance) for task in range(2_000)]
    shifted = [it + (host == "n3") for it, host in zip(values, where, strict=True)]
    assert odd_results(results(where, shifted)) == []
    far = [it + 90 * (host == "n3") for it, host in zip(values, where, strict=True)]
    assert named(odd_results(results(where, far))) == [("n3", False)]
    for field in ("run_s", "time.total_seconds", "cpu", None):
        assert odd_results(results(where, far, field)) == []
    half = [it + 90 * (host < "n4") for it, host in zip(values, where, strict=True)]
    assert odd_results(results(where, half)) == []
    zeros = [0.0 if host < "n4" else it for it, host in zip(values, where, strict=True)]
    assert odd_results(results(where, zeros)) == []


def test_constant_without_a_number_is_known_by_the_whole_result() -> None:
    """Others hardly have that result. An empty result that all have is not a sign."""
    chance = random.Random(3)
    where = handed_out(400, 4, 1, chance)
    same = [7.0 if host == "n2" else chance.random() for host in where]
    (odd,) = odd_results(results(where, same, None))
    assert (odd.name, odd.constant, odd.field) == ("n2", True, "")
    assert odd_results(results(where, [1.0] * 400, None)) == []
    often = [7.0 if host == "n2" or chance.random() < 0.9 else chance.random() for host in where]
    assert odd_results(results(where[:80], often[:80], None)) == []


def pairs(host: str) -> str:
    """Return the site of a host: each has two."""
    return f"s{int(host[1:]) // 2}"


@pytest.mark.parametrize("order", [iid, sorted_by_size, in_groups])
@pytest.mark.parametrize(
    ("wrong", "constant"), [(lambda _: 7.25, True), (lambda value: value + 900.5, False)]
)
def test_site_is_named_if_all_its_hosts_are_odd_in_one_way(
    order: Value, wrong: Callable[[float], float], constant: bool
) -> None:
    """Once, with its hosts and all their results."""
    chance = random.Random(5)
    where = handed_out(400, 8, 1, chance)
    values = [order(task, chance) for task in range(400)]
    values = [
        wrong(it) if pairs(host) == "s1" else it for it, host in zip(values, where, strict=True)
    ]
    (odd,) = odd_results(results(where, values, site=pairs))
    assert (odd.kind, odd.name, sorted(odd.hosts)) == ("site", "s1", ["n2", "n3"])
    assert (odd.constant, odd.results) == (constant, where.count("n2") + where.count("n3"))
    assert odd.remedy == "taskq retry /c --no-below --where 'site = \"s1\" and status = done'"


@pytest.mark.thorough
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(5))
def test_site_is_not_named_for_one_of_its_hosts(order: Value, seed: int) -> None:
    """Its other host is as elsewhere, even where most results are alike."""
    chance = random.Random(seed)
    where = handed_out(600, 8, 1, chance)
    values = [order(task, chance) for task in range(600)]
    for wrong in (lambda value: value + 900.5, lambda _: 0.0):
        spoiled = [
            wrong(it) if host == "n3" else it for it, host in zip(values, where, strict=True)
        ]
        found = odd_results(results(where, spoiled, site=pairs))
        assert [it.kind for it in found if it.name != "n3"] == []


@pytest.mark.parametrize(
    ("others", "only"),
    [
        (lambda value, _: value, True),  # the program
        (lambda value, host: value + 900 * (host == "n3"), False),  # the host
        (None, False),  # nobody knows: without numbers
    ],
)
def test_other_campaigns_show_whether_a_host_or_a_program_is_at_fault(
    others: Callable[[float, str], float] | None, only: bool
) -> None:
    """A ban for one campaign lets those go on whose results are known to be right."""
    chance = random.Random(6)
    where = handed_out(300, 8, 1, chance)
    values = [iid(task, chance) for task in range(300)]
    far = [it + 900 * (host == "n3") for it, host in zip(values, where, strict=True)]
    its = results(where, far)
    (odd,) = odd_results(its)
    assert odd.only
    more = values if others is None else [*map(others, values, where)]
    its += results(where, more, None if others is None else "score", campaign="/d")
    assert [(it.name, it.only) for it in odd_results(its) if it.campaign == "/c"] == [("n3", only)]


@pytest.mark.parametrize("site", ["east", ""])
@pytest.mark.parametrize("wrong", [lambda value: 0 * value, lambda value: value + 900.5])
def test_of_two_machines_of_one_name_the_wrong_one_is_named(
    wrong: Callable[[float], float], site: str
) -> None:
    """The retry leaves the results of the other one alone."""
    chance = random.Random(5)
    where = handed_out(1_000, 8, 1, chance)
    values = [
        wrong(iid(task, chance)) if where[task] == "n3" else iid(task, chance)
        for task in range(1_000)
    ]
    machines = [
        replace(it, host="n4") if it.host == "n3" else it
        for it in results(where, values, site=lambda host: site if host == "n3" else "west")
    ]
    (odd,) = odd_results(machines)
    assert (odd.kind, odd.name, odd.site, odd.hosts) == ("host", "n4", site, ["n4"])
    chosen = f'host = "n4" and site = "{site}" and status = done'
    assert odd.remedy == f"taskq retry /c --no-below --where '{chosen}'"
