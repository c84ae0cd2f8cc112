"""Judgement of places by campaign and class: what other failures hide, and what is chance."""

from __future__ import annotations

import random

import pytest

from taskq.diagnosis.ends import EndSum, windows
from taskq.diagnosis.judging import Judgement, is_failing
from taskq.diagnosis.sample import AttemptGroup, by_place
from taskq.diagnosis.usual import UsualEnds
from tests.helpers.attempt_groups import group


def of_class(host: str, attempts: int, error_class: str, campaign: str = "/c") -> AttemptGroup:
    """Return attempts that failed."""
    return group(host, "failed", attempts, campaign=campaign, error_class=error_class)


def hidden(campaign: str = "/c") -> list[AttemptGroup]:
    """Return a host where one class fails, which all failures do not show."""
    sample = []
    for number in range(9):
        host = f"n{number}"
        sample += [group(host, "done", 40), of_class(host, 40, "Boom")]
        sample += [group(host, "done", 40, campaign=campaign)] if campaign != "/c" else []
    sample += [group("bad", "done", 30), of_class("bad", 40, "Boom")]
    sample += [of_class("bad", 10, "exit-127", campaign)]
    return sample


@pytest.mark.parametrize("campaign", ["/c", "/d"])
def test_class_that_fails_at_one_host_is_found_among_other_failures(campaign: str) -> None:
    """In the campaign of the other failures, or in another one."""
    judged = Judgement(by_place(hidden(campaign), "host"))
    assert judged.failing == {"bad"}
    found = judged.comparison("bad")
    assert found is not None
    assert (found.campaign, found.error_class) == (campaign, "exit-127")
    assert found.elsewhere.share == 0


def test_host_is_named_by_what_is_unusual_there() -> None:
    """Boom fails more often, and fails everywhere."""
    places = by_place(hidden(), "host")
    usual = UsualEnds(places, {"bad"})
    assert usual.worst("bad", places["bad"]) == ("/c", "exit-127")
    assert usual.worst("n1", places["n1"]) == ("/c", "Boom")
    assert usual.worst("n1", []) is None


def test_honest_hosts_with_many_classes_are_hardly_ever_accused() -> None:
    """Two hundred hosts and eight classes are 1,600 comparisons in each look."""
    draw = random.Random(3)
    accused = 0
    for _ in range(5):
        sample = []
        for host in (f"n{number}" for number in range(200)):
            ends = [draw.random() for _ in range(60)]
            failed = [int(it * 80) for it in ends if it < 0.1]
            sample.append(group(host, "done", 60 - len(failed)))
            sample += [of_class(host, failed.count(it), f"E{it}") for it in {*failed}]
        accused += len(Judgement(by_place(sample, "host")).failing)
    assert accused <= 1


def test_large_farm_needs_more_evidence_than_a_small_one() -> None:
    """The same host stands out among ten, and is chance among ten thousand comparisons."""
    sample = [group(f"n{number}", "done", 20) for number in range(10)]
    sample += [of_class("n0", 1, "E"), of_class("bad", 5, "E"), group("bad", "done", 2)]
    few, many = (Judgement(by_place(sample, "host"), looks) for looks in (1, 1_000))
    assert is_failing(few.comparison("bad"))
    assert not is_failing(many.comparison("bad"))


def test_sums_without_a_time_show_no_beginning() -> None:
    """Those that were not kept apart by it."""
    values = {"campaign": "/c", "host": None, "site": None, "release": None, "starts": None}
    numbers = dict.fromkeys(("run_s", "core_s", "logs", "squares", "number_sum"), 0.0)
    rest = {"outcome": "failed", "sort": "E", "attempts": 3, "numbers": 0, "number_squares": 0.0}
    ids = dict.fromkeys(("first_task", "last_task", "first_at", "last_at"))
    assert windows([EndSum(**{**values, **numbers, **rest, **ids})], "E") == []  # type: ignore[arg-type]
