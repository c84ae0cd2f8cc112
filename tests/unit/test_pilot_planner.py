"""How many jobs a pilot submits, and what it says about it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.pilots.planner import PilotJobs, PilotState, Plan, Waiting, plan
from taskq.pilots.settings import PilotSettings
from taskq_agent.resources import PROTOCOL_TAG

HOUR_S = 3_600.0


def settings(**values: Any) -> PilotSettings:
    """Return settings of jobs of ten cores and ten hours."""
    return PilotSettings(
        folder="/jobs", **{"cores": 10, "time_limit": 10 * HOUR_S, "max_jobs": 100, **values}
    )


def waiting(claimable: int, usual_s: float | None = 600.0, **values: Any) -> Waiting:
    """Return a campaign in which so many tasks can be claimed."""
    known: dict[str, Any] = {
        "campaign_id": 1,
        "path": "/demo",
        "working": 0,
        "unfinished": claimable,
        "time_limit_s": None,
        "requires": (),
        "tags_suit": True,
        "time_suits": True,
    }
    return Waiting(claimable=claimable, usual_s=usual_s, **{**known, **values})


def planned(
    campaigns: list[Waiting],
    fleet: PilotJobs | None = None,
    state: PilotState | None = None,
    **values: Any,
) -> Plan:
    """Return the plan for these campaigns."""
    return plan(settings(**values), campaigns, fleet or PilotJobs(), state or PilotState())


def said(made: Plan) -> str:
    """Return all sentences as one text."""
    return " ".join(made.why)


def test_words_of_the_queue_are_shown() -> None:
    """As the batch system has them: why jobs wait, such as for a drained node."""
    drained = "PENDING, ReqNodeNotAvail, UnavailableNodes:node7"
    waits = ("PENDING, Resources", drained, drained)
    made = planned([waiting(900)], PilotJobs(queued=(5.0,) * 3, waits=waits))
    assert f"The queue says: {drained} (2 jobs); PENDING, Resources (1 job)." in made.why


def test_nothing_waits_nothing_is_submitted() -> None:
    """Not even where others work."""
    made = planned([waiting(0, working=50, unfinished=50)])
    assert (made.submit, made.cancel) == (0, 0)
    assert "0 tasks waiting for agents like these, 50 are worked on." in made.why


def test_no_more_jobs_than_the_tasks_can_fill() -> None:
    """A core without a task is paid for in vain."""
    made = planned([waiting(45, usual_s=HOUR_S)], backlog=50)
    assert made.submit == 5
    assert "5 could be filled" in said(made)


def test_short_tasks_get_fewer_jobs_than_they_could_fill() -> None:
    """A thousand tasks of a second are no work for a hundred jobs."""
    made = planned([waiting(1_000, usual_s=1.0)], backlog=50, least_work=50.0)
    assert made.submit == 2
    assert "They take 1 s each, as the latest did." in made.why


def test_agents_at_work_count_for_short_tasks() -> None:
    """What they will soon have done needs no others."""
    fleet = PilotJobs(serving=(60.0, 60.0), slots=20)
    assert planned([waiting(1_000, usual_s=1.0)], fleet, least_work=50.0).submit == 0


def test_agents_that_will_end_before_another_task_do_not_count() -> None:
    """Their cores are taken up to the end."""
    old = PilotJobs(serving=(9 * HOUR_S,) * 3, slots=30)
    tasks = [waiting(10, usual_s=2 * HOUR_S)]
    assert planned(tasks, old, least_work=2 * HOUR_S).submit == 1
    young = PilotJobs(serving=(HOUR_S,), slots=10)
    assert planned(tasks, young, least_work=2 * HOUR_S).submit == 0


@pytest.mark.parametrize(
    ("tasks", "at_work", "submitted", "words"),
    [
        (5, 0, 1, "The last 5 tasks would fill 1 of the 8 nodes of a job: the others will idle."),
        (5, 4, 1, "The last 5 tasks would fill 1 of the 8 nodes of a job: the others will idle."),
        (5, 5, 0, "The last 5 tasks would fill 1 of the 8 nodes of a job: left to other agents."),
        (39, 70, 0, "The last 39 tasks would fill 4 of the 8 nodes of a job: left to other agents"),
        (40, 70, 1, "1 could be filled"),
        (199, 0, 2, "The last 39 tasks would fill 4 of the 8 nodes of a job: left to other agents"),
        (200, 0, 3, "3 could be filled"),
        (160, 0, 2, "2 could be filled"),
    ],
)
def test_a_job_of_many_nodes_is_not_for_a_few_tasks(
    tasks: int, at_work: int, submitted: int, words: str
) -> None:
    """Unless nobody else could soon run them: eighty slots are no waste for a campaign's end."""
    fleet = PilotJobs(slots=at_work)
    made = planned([waiting(tasks, usual_s=HOUR_S)], fleet, nodes=8, backlog=50)
    assert (made.submit, words in said(made)) == (submitted, True), made.why
    assert "Live jobs of 8 nodes, each of 10 cores: none, of 100 at most" in said(made)


def test_agents_that_have_left_their_job_do_not_count() -> None:
    """Seven of its eight nodes stand idle, though it runs."""
    tasks = [waiting(40, usual_s=600.0)]
    whole = PilotJobs(serving=(HOUR_S,), slots=80)
    assert planned(tasks, whole, nodes=8).submit == 0
    assert planned(tasks, replace(whole, slots=10), nodes=8).submit == 1


def test_what_is_coming_is_not_submitted_again() -> None:
    """Jobs that wait or start will take tasks soon."""
    fleet = PilotJobs(queued=(5.0, 5.0), starting=2, submitting=1)
    assert planned([waiting(50)], fleet, backlog=50).submit == 0
    assert planned([waiting(51)], fleet, backlog=50).submit == 1


def test_a_slow_queue_gets_a_few_jobs_at_a_time() -> None:
    """Others use it too."""
    made = planned([waiting(1_000)], backlog=2)
    assert made.submit == 2
    made = planned([waiting(1_000)], PilotJobs(queued=(60.0, 60.0)), backlog=2)
    assert made.submit == 0
    assert "2 wait in the batch system already (backlog 2; 0 began within a minute)" in said(made)


def test_a_fast_queue_gets_twice_what_it_let_through() -> None:
    """So that a thousand agents do not take a thousand rounds."""
    fleet = PilotJobs(starting=8, started_lately=8)
    assert planned([waiting(1_000)], fleet, backlog=2).submit == 16


def test_never_more_than_allowed() -> None:
    """However much waits."""
    fleet = PilotJobs(serving=(60.0,) * 99, started_lately=99, slots=990)
    made = planned([waiting(100_000)], fleet)
    assert made.submit == 1
    full = PilotJobs(serving=(60.0,) * 100, started_lately=100, slots=1_000)
    assert "there may be 100 at most (max_jobs)" in said(planned([waiting(100_000)], full))


def test_hosts_limit_the_jobs() -> None:
    """Two on each of three are six."""
    hosts = {"hosts": ("a", "b", "c"), "jobs_per_host": 2, "backlog": 50}
    assert planned([waiting(1_000)], **hosts).submit == 6


def test_unknown_run_times_are_found_out_by_a_few_jobs() -> None:
    """Nobody submits a hundred jobs for tasks that may take a second."""
    made = planned([waiting(1_000, usual_s=None)], backlog=3)
    assert made.submit == 3
    assert "How long 1,000 tasks take is not known yet: a few jobs find out." in made.why


def test_tasks_last_at_least_as_long_as_agents_have_been_at_them() -> None:
    """Long tasks do not leave a campaign with two jobs until the first has ended."""
    fleet = PilotJobs(serving=(HOUR_S, 60.0), slots=20)
    made = planned([waiting(1_000, usual_s=None)], fleet, backlog=50)
    assert made.submit == 50
    assert "at least 1 h is assumed" in said(made)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"tags_suit": False, "requires": ("gpu", "mem>=64")}, "requires gpu mem>=64, which --off"),
        ({"time_suits": False, "time_limit_s": 12 * HOUR_S}, "limit of 12 h does not fit into a j"),
        ({"usual_s": 11 * HOUR_S}, "its tasks take 11 h on average, longer than a job (9.99 h)"),
    ],
)
def test_tasks_that_its_agents_could_not_serve_are_not_counted(
    values: dict[str, Any], reason: str
) -> None:
    """And the reason is reported."""
    made = planned([waiting(300, **values)])
    assert made.submit == 0
    assert "300 tasks of /demo not counted: it" in said(made)
    assert reason in said(made)
    assert made.why[-1] == "Nothing is submitted; agents leave when they have been idle."


def test_tasks_that_cannot_be_claimed_now_are_said() -> None:
    """Delayed, of a paused campaign, or beyond its limit."""
    made = planned([waiting(0, unfinished=7)], PilotJobs(queued=(300.0,)))
    assert (made.submit, made.cancel) == (0, 0)
    assert "7 tasks unfinished, but not to be claimed now" in said(made)


def test_jobs_that_wait_for_nothing_are_cancelled() -> None:
    """Once they have waited for a while: a retry may want them."""
    made = planned([], PilotJobs(queued=(30.0, 90.0)))
    assert made.cancel == 1
    assert "Nothing is left for 1 job that wait: cancelled." not in said(made)
    assert "Nothing is left for 1 queued job: cancelled." in made.why


def test_paused_pilot_says_why() -> None:
    """And submits nothing; what is queued stays."""
    made = planned(
        [waiting(100)], PilotJobs(queued=(900.0,)), PilotState("paused", "5 submissions failed")
    )
    assert (made.submit, made.cancel) == (0, 0)
    assert "It is paused, so nothing is submitted: 5 submissions failed." in made.why


def test_removed_pilot_cancels_what_is_queued() -> None:
    """At once."""
    made = planned([waiting(100)], PilotJobs(queued=(1.0, 1.0)), PilotState("removed"))
    assert (made.submit, made.cancel) == (0, 2)


def test_after_a_failure_nothing_is_submitted_for_a_while() -> None:
    """In the batch system's own words."""
    state = PilotState(failures=2, trouble="sbatch: invalid partition", retry_in_s=30.0)
    made = planned([waiting(100)], state=state)
    assert made.submit == 0
    assert "for 30 s, after 2 failures in a row; the last: sbatch: invalid partition" in said(made)


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
def test_a_plan_keeps_its_limits_whatever_is_the_case(
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
    made = planned([waiting(claimable, usual_s)], fleet, cores=cores, nodes=nodes)
    assert 0 <= made.submit <= max(0, 100 - fleet.live)
    assert made.submit <= claimable
    assert 0 <= made.cancel <= len(queued)
    assert not (made.submit and made.cancel)
    assert all(sentence[-1] == "." for sentence in made.why)


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        (("cores>=8", "mem>=16"), None),
        (("cores>=16", "mem>=64"), "requires cores>=16 mem>=64, and .* cores=8 mem=32 gpus=1; .*"),
        (("cores>=16",), "give fewer --slots"),
        (("mem>=256",), "give more --memory, or say by --offer"),
        (("gpus>=2", "cores>=64"), "give more --cores and --gpus"),
        (("licence", "cores>=16"), "requires licence cores>=16, which --offer does not name"),
    ],
)
def test_a_task_must_fit_into_a_slot_of_the_job(
    requires: tuple[str, ...], words: str | None
) -> None:
    """Otherwise the text says what would help: larger slots, or larger jobs."""
    job = {"cores": 32, "memory": "128G", "gpus": "a100:4", "slots": 4}
    campaign = waiting(100, requires=requires, tags_suit=words is None)
    made = planned([campaign], **job)
    if words is None:
        assert made.submit > 0
        assert "25 could be filled" in said(made)
    else:
        assert made.submit == 0
        assert re.search(f"100 tasks of /demo not counted: it .*{words}", said(made))


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
