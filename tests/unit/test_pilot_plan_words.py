"""What a pilot says of its jobs: each thing that can be decided, in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from taskq.pilots.plan_words import plan_of
from taskq.pilots.planner import PilotJobs, PilotState, Waiting
from tests.helpers.pilot_plans import HOUR_S, decided, waiting


def said(
    campaigns: list[Waiting],
    fleet: PilotJobs | None = None,
    state: PilotState | None = None,
    **values: Any,
) -> list[str]:
    """Return the sentences for a case."""
    return plan_of(decided(campaigns, fleet, state, **values)).why


def test_plan_says_what_waits_what_is_there_and_what_is_submitted() -> None:
    why = said([waiting(45, usual_s=HOUR_S, working=1)], backlog=50)
    assert why == [
        "45 tasks waiting for agents like these, 1 is worked on.",
        "Live jobs of 10 cores: none, of 100 at most; all agents like these have 0 slots.",
        "They take 1 h each, as the latest did.",
        (
            "In addition to the 0 at work, 5 jobs wanted: 5 could be filled, and 54 in all would "
            "each have 5 min of work a core."
        ),
        "So 5 jobs submitted now.",
    ]


def test_words_of_the_queue_are_shown() -> None:
    """As the batch system has them: why jobs wait, such as for a drained node."""
    drained = "PENDING, ReqNodeNotAvail, UnavailableNodes:node7"
    waits = ("PENDING, Resources", drained, drained)
    why = said([waiting(900)], PilotJobs(queued=(5.0,) * 3, waits=waits))
    assert f"The queue says: {drained} (2 jobs); PENDING, Resources (1 job)." in why


@pytest.mark.parametrize(
    ("campaigns", "fleet", "values", "sentence"),
    [
        ([waiting(5_000, batch=500)], {}, {}, "Many begin together: they fill 10 slots."),
        (
            [waiting(9, usual_s=None)],
            {},
            {},
            "How long 9 tasks take is not known yet: a few jobs find out.",
        ),
        (
            [waiting(9, usual_s=None)],
            {"serving": (HOUR_S, 60.0)},
            {},
            "How long 9 tasks take is not known yet: at least 1 h is assumed.",
        ),
        (
            [waiting(10, usual_s=2 * HOUR_S)],
            {"serving": (9 * HOUR_S,) * 3, "slots": 30},
            {},
            "3 jobs at work will end before another task could.",
        ),
        (
            [waiting(5)],
            {},
            {"nodes": 8},
            "The last 5 tasks would fill 1 of the 8 nodes of a job: the others will idle.",
        ),
        (
            [waiting(39)],
            {"slots": 70},
            {"nodes": 8},
            "The last 39 tasks would fill 4 of the 8 nodes of a job: left to other agents.",
        ),
        (
            [waiting(1)],
            {"missing": 2},
            {},
            (
                "2 jobs not in the batch system's latest answer: still counted, until several "
                "answers in a row lack them."
            ),
        ),
    ],
)
def test_plan_names_the_facts_behind_a_decision(
    campaigns: list[Waiting], fleet: dict[str, Any], values: dict[str, Any], sentence: str
) -> None:
    assert sentence in said(campaigns, PilotJobs(**fleet), **values)


@pytest.mark.parametrize(
    ("campaigns", "fleet", "state", "last"),
    [
        ([], {}, {}, "Nothing is submitted; agents leave when they have been idle."),
        (
            [waiting(0, unfinished=7)],
            {},
            {},
            (
                "Nothing is submitted: 7 tasks unfinished, but not to be claimed now (delayed, "
                "paused, or at a limit of running tasks)."
            ),
        ),
        ([], {"queued": (90.0,)}, {}, "Nothing is left for 1 queued job: cancelled."),
        (
            [waiting(100)],
            {},
            {"status": "paused", "paused_why": "5 submissions failed"},
            "It is paused, so nothing is submitted: 5 submissions failed.",
        ),
        (
            [waiting(100)],
            {},
            {"status": "removed"},
            "It is being removed: nothing is submitted, what is queued is cancelled.",
        ),
        (
            [waiting(100)],
            {},
            {"failures": 2, "trouble": "sbatch: invalid partition.", "retry_in_s": 30.0},
            (
                "Nothing is submitted for 30 s, after 2 failures in a row; the last: sbatch: "
                "invalid partition."
            ),
        ),
        ([waiting(9)], {"starting": 2}, {}, "So none is submitted: 2 jobs to come."),
        (
            [waiting(100_000)],
            {"serving": (60.0,) * 100, "slots": 1_000},
            {},
            "So none is submitted: there may be 100 at most (max_jobs).",
        ),
        (
            [waiting(100_000)],
            {"queued": (60.0,) * 2},
            {},
            (
                "So none is submitted: 2 wait in the batch system already (backlog 2; 0 began "
                "within a minute)."
            ),
        ),
        ([waiting(100_000)], {}, {}, "So 2 jobs submitted now (backlog)."),
        (
            [waiting(100_000)],
            {"serving": (60.0,) * 99, "slots": 990},
            {},
            "So 1 job submitted now (max_jobs).",
        ),
    ],
)
def test_each_outcome_is_the_last_sentence(
    campaigns: list[Waiting], fleet: dict[str, Any], state: dict[str, Any], last: str
) -> None:
    assert said(campaigns, PilotJobs(**fleet), PilotState(**state), backlog=2)[-1] == last


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            {"tags_suit": False, "requires": ("gpu", "mem>=64")},
            "it requires gpu mem>=64, which --offer does not name",
        ),
        (
            {"time_suits": False, "time_limit_s": 12 * HOUR_S},
            "its time limit of 12 h does not fit into a job (9.99 h)",
        ),
        (
            {"usual_s": 11 * HOUR_S},
            "its tasks take 11 h on average, longer than a job (9.99 h)",
        ),
    ],
)
def test_campaigns_that_do_not_count_are_named_with_the_reason(
    values: dict[str, Any], reason: str
) -> None:
    assert f"300 tasks of /demo not counted: {reason}." in said([waiting(300, **values)])
    many = said([waiting(300, **values)] * 5)
    assert "2 more campaigns are not counted either." in many


@pytest.mark.parametrize(
    ("requires", "help_"),
    [
        (
            ("cores>=16", "mem>=64"),
            (
                "it requires cores>=16 mem>=64, and a slot of these agents has cores=8 mem=32 "
                "gpus=4; give fewer --slots"
            ),
        ),
        (("mem>=256",), "give more --memory, or say by --offer what they have"),
        (("gpus>=5", "cores>=64"), "give more --cores and --gpus, or say"),
        (("licence", "cores>=16"), "it requires licence cores>=16, which --offer does not name"),
    ],
)
def test_reason_of_tasks_that_fit_no_slot_says_what_would_help(
    requires: tuple[str, ...], help_: str
) -> None:
    """Larger slots, or larger jobs."""
    job = {"cores": 32, "memory": "128G", "gpus": "a100:4", "slots": 4}
    why = said([waiting(100, requires=requires, tags_suit=False)], **job)
    assert any("100 tasks of /demo not counted: " in name and help_ in name for name in why), why
