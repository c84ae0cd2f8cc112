"""Whatever a program for many tasks does: each task has one end, and nobody innocent is charged."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_agent.handlers.division import Division
from tests.helpers.simulated_program import SimulatedProgram, run_program, terms_of

NUMBERS = st.integers(1, 90)
SOME = st.sets(NUMBERS, max_size=12)
CRASH = "signal-SIGSEGV"


def most_starts(tasks: int) -> int:
    """Return how many starts a batch takes at most."""
    return 1 + 3 * max(1, math.ceil(math.log2(tasks)))


@given(
    tasks=NUMBERS,
    guilty=SOME,
    together=SOME,
    most=st.integers(1, 90) | st.just(1_000),
    skipped=SOME,
    order=st.none() | st.randoms(use_true_random=False),
    at_once=st.booleans(),
    begins=SOME,
    marks=st.booleans(),
    noise=st.booleans(),
    ordered=st.booleans(),
)
def test_each_task_ends_once_and_only_those_are_charged_that_crash_alone_or_got_no_answer(
    tasks: int, ordered: bool, **how: object
) -> None:
    """Also if the program lies about what has begun, and about its order."""
    program = SimulatedProgram(**how)  # type: ignore[arg-type]
    ends = run_program(program, tasks, terms_of(tasks, ordered=ordered))
    # A batch is one start and those that divide it.
    assert len(program.starts) <= most_starts(tasks)
    for number, why in ends.charged.items():
        assert number in {CRASH: program.guilty, "no-outcome": program.skipped}[str(why)]
        assert why != CRASH or [number] in program.starts
    assert ends.too_large_as in ("", CRASH)
    assert not ends.back or ends.too_large_as


@given(st.data(), st.integers(2, 400), st.booleans(), st.booleans())
def test_one_that_crashes_is_found_by_few_starts_whatever_the_order(
    data: st.DataObject, tasks: int, ordered: bool, at_once: bool
) -> None:
    guilty = data.draw(st.integers(1, tasks))
    order = None if ordered else data.draw(st.none() | st.randoms(use_true_random=False))
    program = SimulatedProgram({guilty}, order=order, at_once=at_once and not ordered)
    ends = run_program(program, tasks, terms_of(tasks, ordered=ordered))
    assert (ends.charged, ends.back, ends.too_large_as) == ({guilty: CRASH}, [], "")
    assert len(program.starts) - 1 <= (2 if ordered else math.log2(tasks) + 3)


@given(st.data(), st.integers(2, 400))
def test_one_that_says_what_it_begins_costs_two_starts(data: st.DataObject, tasks: int) -> None:
    guilty = data.draw(st.integers(1, tasks))
    order = data.draw(st.none() | st.randoms(use_true_random=False))
    program = SimulatedProgram({guilty}, order=order, marks=True)
    ends = run_program(program, tasks, terms_of(tasks))
    assert ends.charged == {guilty: CRASH}
    assert len(program.starts) - 1 <= 2


@pytest.mark.parametrize(
    ("culprits", "ordered", "starts"),
    [(1, False, 13), (2, False, 25), (10, False, 120), (1, True, 2), (2, True, 4), (10, True, 20)],
)
def test_those_among_two_thousand_are_found_by_so_many_starts(
    culprits: int, ordered: bool, starts: int
) -> None:
    """On the average; each costs log2(n) + 3 at most, after the start that shows that there is one.

    Here the number of starts has no bound of its own.
    """
    chance, took = random.Random(45), []
    for _ in range(10):
        guilty = {*chance.sample(range(1, 2_001), culprits)}
        division, alone = Division(range(1, 2_001), ordered=ordered), set[int]()
        division.most_starts = 10**6
        while (started := division.next()) is not None:
            bad = [place for place, task in enumerate(started) if task in guilty]
            if not bad:
                division.passed()
            elif (number := division.failed(started[bad[0] if ordered else 0 :])) is not None:
                alone.add(number)
        assert alone == guilty
        took.append(division.starts - 1)
    assert fmean(took) <= starts
    assert max(took) <= culprits * (2 if ordered else math.log2(2_000) + 3)


@given(st.integers(2, 90), SOME)
def test_search_that_may_take_no_time_charges_nobody(tasks: int, guilty: set[int]) -> None:
    program = SimulatedProgram(guilty, at_once=True)
    ends = run_program(program, tasks, terms_of(tasks, divide_s=0.0))
    assert len(program.starts) == 1
    assert not ends.charged
    assert (len(ends.done), len(ends.back)) in ((tasks, 0), (0, tasks))
    assert bool(ends.too_large_as) is bool(ends.back)


@given(st.integers(2, 90), st.integers(1, 89), st.booleans())
def test_nobody_is_charged_where_only_many_together_crash(
    tasks: int, most: int, marks: bool
) -> None:
    """Then smaller batches end well, and the agent makes them smaller."""
    program = SimulatedProgram(most=most, marks=marks)
    ends = run_program(program, tasks, terms_of(tasks))
    assert not ends.charged
    assert bool(ends.too_large_as) is (tasks > most)


@given(st.integers(2, 90), st.sets(NUMBERS, min_size=2, max_size=4))
def test_nobody_is_charged_for_a_crash_in_company(tasks: int, together: set[int]) -> None:
    program = SimulatedProgram(together=together)
    ends = run_program(program, tasks, terms_of(tasks))
    assert not ends.charged
    assert bool(ends.too_large_as) is (len({number for number in together if number <= tasks}) > 1)
