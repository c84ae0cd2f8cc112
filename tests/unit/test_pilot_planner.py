"""How many jobs a pilot submits, and from which facts that follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.pilots.plan_words import plan_of
from taskq.pilots.planner import (
    Decision,
    Filled,
    Misfit,
    PilotJobs,
    PilotState,
    PlanReason,
    WantedJobs,
)
from taskq_agent.resources import PROTOCOL_TAG
from tests.helpers.pilot_plans import HOUR_S, decided, settings, waiting


def wanted(made: Decision) -> WantedJobs:
    """Return how many jobs are wanted, and why; it must have mattered."""
    assert made.wanted is not None
    return made.wanted


def test_tasks_that_begin_together_fill_one_slot() -> None:
    """A program that takes 500 ligands at one start needs no 500 slots."""
    made = decided([waiting(5_000, usual_s=18_000.0, batch=500)], cores=1, backlog=20)
    assert (made.submit, made.work.waiting, made.work.starts) == (10, 5_000, 10)


def test_nothing_waits_nothing_is_submitted() -> None:
    """Not even where others work."""
    made = decided([waiting(0, working=50, unfinished=50)])
    assert (made.submit, made.cancel) == (0, 0)
    assert (made.work.waiting, made.work.working) == (0, 50)


def test_no_more_jobs_than_the_tasks_can_fill() -> None:
    """A core without a task is paid for in vain."""
    made = decided([waiting(45, usual_s=HOUR_S)], backlog=50)
    assert (made.submit, made.reason) == (5, PlanReason.NEEDED)
    assert wanted(made).filled == Filled(5)


def test_short_tasks_get_fewer_jobs_than_they_could_fill() -> None:
    """A thousand tasks of a second are no work for a hundred jobs."""
    made = decided([waiting(1_000, usual_s=1.0)], backlog=50, least_work=50.0)
    assert made.submit == 2
    assert (made.work.known, made.work.spent_s) == (1_000, 1_000.0)
    assert (wanted(made).filled.jobs, wanted(made).worth_it.jobs) == (100, 2)


def test_agents_at_work_count_for_short_tasks() -> None:
    """What they will soon have done needs no others."""
    fleet = PilotJobs(serving=(60.0, 60.0), slots=20)
    assert decided([waiting(1_000, usual_s=1.0)], fleet, least_work=50.0).submit == 0


def test_agents_that_will_end_before_another_task_do_not_count() -> None:
    """Their cores are taken up to the end."""
    old = PilotJobs(serving=(9 * HOUR_S,) * 3, slots=30)
    tasks = [waiting(10, usual_s=2 * HOUR_S)]
    made = decided(tasks, old, least_work=2 * HOUR_S)
    assert (made.submit, wanted(made).at_hand.ending) == (1, 3)
    young = PilotJobs(serving=(HOUR_S,), slots=10)
    assert decided(tasks, young, least_work=2 * HOUR_S).submit == 0


@pytest.mark.parametrize(
    ("tasks", "at_work", "submitted", "filled"),
    [
        (5, 0, 1, Filled(1, rest=5)),
        (5, 4, 1, Filled(1, rest=5)),
        (5, 5, 0, Filled(0, rest=5, left=True)),
        (39, 70, 0, Filled(0, rest=39, left=True)),
        (40, 70, 1, Filled(1)),
        (199, 0, 2, Filled(2, rest=39, left=True)),
        (200, 0, 3, Filled(3)),
        (160, 0, 2, Filled(2)),
    ],
)
def test_job_of_many_nodes_is_not_for_a_few_tasks(
    tasks: int, at_work: int, submitted: int, filled: Filled
) -> None:
    """Unless nobody else could soon run them: eighty slots are no waste for a campaign's end."""
    fleet = PilotJobs(slots=at_work)
    made = decided([waiting(tasks, usual_s=HOUR_S)], fleet, nodes=8, backlog=50)
    assert (made.submit, wanted(made).filled) == (submitted, filled)


def test_agents_that_have_left_their_job_do_not_count() -> None:
    """Seven of its eight nodes stand idle, though it runs."""
    tasks = [waiting(40, usual_s=600.0)]
    whole = PilotJobs(serving=(HOUR_S,), slots=80)
    assert decided(tasks, whole, nodes=8).submit == 0
    assert decided(tasks, replace(whole, slots=10), nodes=8).submit == 1


def test_jobs_on_their_way_are_not_submitted_again() -> None:
    """Jobs that wait or start will take tasks soon."""
    fleet = PilotJobs(queued=(5.0, 5.0), starting=2, submitting=1)
    assert decided([waiting(50)], fleet, backlog=50).submit == 0
    assert decided([waiting(51)], fleet, backlog=50).submit == 1


def test_slow_queue_gets_a_few_jobs_at_a_time() -> None:
    """Others use it too."""
    made = decided([waiting(1_000)], backlog=2)
    assert (made.submit, made.reason) == (2, PlanReason.BACKLOG)
    made = decided([waiting(1_000)], PilotJobs(queued=(60.0, 60.0)), backlog=2)
    assert (made.submit, made.reason) == (0, PlanReason.BACKLOG)


def test_fast_queue_gets_twice_what_it_let_through() -> None:
    """So that a thousand agents do not take a thousand rounds."""
    fleet = PilotJobs(starting=8, started_lately=8)
    assert decided([waiting(1_000)], fleet, backlog=2).submit == 16


def test_never_more_than_allowed() -> None:
    """However much waits."""
    fleet = PilotJobs(serving=(60.0,) * 99, started_lately=99, slots=990)
    made = decided([waiting(100_000)], fleet)
    assert (made.submit, made.reason) == (1, PlanReason.MAX_JOBS)
    full = PilotJobs(serving=(60.0,) * 100, started_lately=100, slots=1_000)
    made = decided([waiting(100_000)], full)
    assert (made.submit, made.reason) == (0, PlanReason.MAX_JOBS)


def test_hosts_limit_the_jobs() -> None:
    """Two on each of three are six."""
    hosts = {"hosts": ("a", "b", "c"), "jobs_per_host": 2, "backlog": 50}
    assert decided([waiting(1_000)], **hosts).submit == 6


def test_unknown_run_times_are_found_out_by_a_few_jobs() -> None:
    """Nobody submits a hundred jobs for tasks that may take a second."""
    made = decided([waiting(1_000, usual_s=None)], backlog=3)
    assert (made.submit, made.work.known) == (3, 0)
    assert wanted(made).worth_it.assumed_s == 0


def test_tasks_last_at_least_as_long_as_agents_have_been_at_them() -> None:
    """Long tasks do not leave a campaign with two jobs until the first has ended."""
    fleet = PilotJobs(serving=(HOUR_S, 60.0), slots=20)
    made = decided([waiting(1_000, usual_s=None)], fleet, backlog=50)
    assert (made.submit, wanted(made).worth_it.assumed_s) == (50, HOUR_S)


@pytest.mark.parametrize(
    ("values", "misfit"),
    [
        ({"tags_suit": False, "requires": ("gpu", "mem>=64")}, Misfit.TAGS),
        ({"time_suits": False, "time_limit_s": 12 * HOUR_S}, Misfit.TIME_LIMIT),
        ({"usual_s": 11 * HOUR_S}, Misfit.RUN_TIME),
    ],
)
def test_tasks_that_its_agents_could_not_serve_are_not_counted(
    values: dict[str, Any], misfit: Misfit
) -> None:
    campaign = waiting(300, **values)
    made = decided([campaign])
    assert (made.submit, made.work.waiting) == (0, 0)
    assert made.work.left_out == ((campaign, misfit),)


def test_tasks_that_fit_into_a_slot_fill_the_slots_of_jobs() -> None:
    """Four to a job of 32 cores."""
    job = {"cores": 32, "memory": "128G", "gpus": "a100:4", "slots": 4}
    made = decided([waiting(100, requires=("cores>=8", "mem>=16"))], **job)
    assert (made.submit > 0, wanted(made).filled) == (True, Filled(25))


def test_plan_counts_unfinished_tasks_that_cannot_be_claimed_now() -> None:
    """Delayed, of a paused campaign, or beyond its limit."""
    made = decided([waiting(0, unfinished=7)], PilotJobs(queued=(300.0,)))
    assert (made.submit, made.cancel) == (0, 0)
    assert (made.reason, made.to_come) == (PlanReason.TO_COME, 7)


def test_jobs_that_wait_for_nothing_are_cancelled() -> None:
    """Once they have waited for a while: a retry may want them."""
    made = decided([], PilotJobs(queued=(30.0, 90.0)))
    assert (made.cancel, made.reason) == (1, PlanReason.NOTHING_LEFT)


def test_paused_pilot_submits_nothing_and_leaves_what_is_queued() -> None:
    made = decided([waiting(100)], PilotJobs(queued=(900.0,)), PilotState("paused"))
    assert (made.submit, made.cancel, made.reason) == (0, 0, PlanReason.PAUSED)


def test_removed_pilot_cancels_what_is_queued() -> None:
    """At once."""
    made = decided([waiting(100)], PilotJobs(queued=(1.0, 1.0)), PilotState("removed"))
    assert (made.submit, made.cancel) == (0, 2)


def test_after_a_failure_nothing_is_submitted_for_a_while() -> None:
    made = decided([waiting(100)], state=PilotState(failures=2, retry_in_s=30.0))
    assert (made.submit, made.reason) == (0, PlanReason.FAILED_LATELY)
    assert wanted(made).jobs > 0


@given(
    claimable=st.integers(0, 10_000_000),
    usual_s=st.none() | st.floats(0, 1e7),
    serving=st.lists(st.floats(0, 1e6), max_size=120),
    queued=st.lists(st.floats(0, 1e6), max_size=20),
    starting=st.integers(0, 20),
    lately=st.integers(0, 200),
    slots=st.integers(0, 100_000),
    cores=st.integers(1, 4_096),
    nodes=st.integers(1, 1_000),
)
def test_plan_keeps_its_limits_whatever_is_the_case(
    claimable: int,
    usual_s: float | None,
    serving: list[float],
    queued: list[float],
    starting: int,
    lately: int,
    slots: int,
    cores: int,
    nodes: int,
) -> None:
    """Never more than allowed, never for nothing, never both submitting and cancelling."""
    fleet = PilotJobs(
        queued=tuple(queued),
        starting=starting,
        serving=tuple(serving),
        started_lately=lately,
        slots=slots,
    )
    made = decided([waiting(claimable, usual_s)], fleet, cores=cores, nodes=nodes)
    assert 0 <= made.submit <= max(0, 100 - fleet.live)
    assert made.submit <= claimable
    assert 0 <= made.cancel <= len(queued)
    assert not (made.submit and made.cancel)
    assert all(sentence[-1] == "." for sentence in plan_of(made).why)


@pytest.mark.parametrize(
    ("job", "offers"),
    [
        ({}, ("cores=1",)),
        ({"cores": 4}, ("cores=1",)),
        ({"cores": 4, "slots": 1, "memory": "64Gi", "gpus": "2"}, ("cores=4", "mem=64", "gpus=2")),
        ({"cores": 4, "slots": 2, "memory": "3G"}, ("cores=2", "mem=1")),
        ({"cores": 4, "memory": "2GB"}, ("cores=1", "mem=0.5")),
        ({"memory": "4000"}, ("cores=1",)),  # megabytes to some, bytes to others
        ({"cores": 2, "slots": 4}, ()),
        ({"offers": ("mem=9", "ssd"), "memory": "64G"}, ("mem=9", "ssd", "cores=1")),
    ],
)
def test_agents_offer_what_a_slot_has_of_the_job(
    job: dict[str, Any], offers: tuple[str, ...]
) -> None:
    """What an operator says goes first."""
    assert settings(**job).all_offers == (*offers, PROTOCOL_TAG)
