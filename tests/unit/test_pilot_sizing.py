"""Jobs that are as large as what waits needs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.model.requirements import missing
from taskq.pilots.drivers import DRIVERS_BY_NAME
from taskq.pilots.pilot_file import pilot_settings
from taskq.pilots.plan_words import plan_of
from taskq.pilots.planner import PilotJobs, PilotState, decide
from taskq.pilots.settings import PilotSettings
from taskq.pilots.sizing import Needs, chosen, needs_of, sized
from tests.helpers.pilot_plans import settings, waiting

GIBI = 1 << 30
FAR: dict[str, Any] = {"folder": "/jobs", "gateways": ["https://gw"], "token_file": "/t"}
NAME = "taskq-hpc-0a1b2c3d-7"


@pytest.mark.parametrize(
    ("slots", "each", "asked", "gpus"),
    [
        (8, "0.25", None, "2"),
        (4, "0.25", None, "1"),
        (8, "0.3", None, "3"),
        (3, "0.01", None, "1"),
        (8, "0.6", None, "8"),
        (4, "2", None, "8"),
        (8, "0.25", "a100:1", "a100:2"),
        (2, "0.5", "a100:4", "a100:4"),
        (8, "0", None, None),
        (8, "0", "1", "1"),
    ],
)
def test_job_has_whole_devices_which_its_slots_share(
    slots: int, each: str, asked: str | None, gpus: str | None
) -> None:
    """Neither none nor one for each; of the kind that the pilot names."""
    given_ = settings(slots=slots, gpus=asked)
    assert sized(given_, Needs(gpus=Fraction(each))).gpus == gpus


@pytest.mark.parametrize(
    ("slots", "needs", "asked", "memory"),
    [
        (4, Needs(memory=4 * GIBI), None, "16G"),
        (4, Needs(memory=19 * GIBI), None, "80G"),  # a tag counts in steps of 2 GiB there
        (8, Needs(memory=576 << 20), None, "5G"),
        (3, Needs(memory=100 << 20), None, "384M"),
        (2, Needs(memory=2 * GIBI, retried=9 * GIBI), None, "9G"),
        (8, Needs(memory=2 * GIBI, retried=9 * GIBI), None, "16G"),
        (2, Needs(memory=GIBI), "64G", "64G"),
        (2, Needs(memory=GIBI), "4000", "4000"),  # in a unit of the batch system
        (2, Needs(), None, None),
    ],
)
def test_job_has_memory_for_all_its_slots_and_for_a_task_that_is_tried_again(
    slots: int, needs: Needs, asked: str | None, memory: str | None
) -> None:
    """What 95 % need is what each start gets; one that needed more gets it of what is left."""
    assert sized(settings(slots=slots, memory=asked), needs).memory == memory


def test_slots_are_as_many_as_the_cores_are_enough_for() -> None:
    """Unless the pilot says how many: then the cores are."""
    made = sized(settings(cores=32), Needs(cores=4))
    assert (made.cores, made.slot_count) == (32, 8)
    made = sized(settings(cores=1, slots=8), Needs(cores=4))
    assert (made.cores, made.slot_count) == (32, 8)
    assert sized(settings(cores=32), Needs()) == settings(cores=32)


SIZES = st.integers(1, 1 << 42)


@given(
    slots=st.none() | st.integers(1, 64),
    cores=st.integers(1, 64),
    each=st.integers(1, 64),
    memory=SIZES,
    gpus=st.integers(10, 1000) | st.integers(1, 8).map(lambda n: 1000 * n),
    scratch=st.integers(1, 1 << 35),
)
def test_jobs_suit_the_tasks_for_which_they_are_sized(
    slots: int | None, cores: int, each: int, memory: int, gpus: int, scratch: int
) -> None:
    """Whatever these require of a slot, by the rules of the queue."""
    requires = (
        f"cores>={each}",
        f"mem>={memory / GIBI:.3f}",
        f"gpus>={gpus / 1000}",
        f"resource.scratch>={scratch}",
    )
    campaign = waiting(9, requires=requires, memory=memory)
    made = sized(settings(cores=cores, slots=slots), needs_of(campaign))
    assert missing(requires, made.all_offers) == []
    assert made.named_resources == {"scratch": made.slot_count * scratch}


def test_first_campaign_that_jobs_can_suit_decides() -> None:
    """Not one whose tags are others', whose time limit is too long, or of which nothing waits."""
    pilot = settings(slots=2, offers=("site=here",))
    campaigns = [
        waiting(0, path="/none", requires=("cores>=8",)),
        waiting(9, path="/long", requires=("cores>=8",), time_suits=False),
        waiting(8, path="/elsewhere", requires=("cores>=8", "site=there")),
        waiting(7, path="/huge", requires=("cores>=3000",)),
        waiting(6, path="/here", requires=("site=here", "gpus>=0.5", "resource.licence>=1")),
        waiting(5, path="/next"),
    ]
    made, campaign = chosen(pilot, campaigns)
    assert campaign is campaigns[4]
    assert (made.gpus, made.resources) == ("1", ("licence=2",))
    assert chosen(pilot, campaigns[:4]) == (pilot, None)
    plan = plan_of(decide(made, campaigns[4:], PilotJobs(), PilotState()), "/here")
    assert plan.settings == made
    assert plan.why[0] == "Jobs have what /here needs: cores 10; GPUs 1; licence 2."


def lines(driver: str, **table: Any) -> list[str]:
    """Return the script of a job, or what else a driver submits, by lines."""
    made: PilotSettings = pilot_settings(driver, {**FAR, **table})
    driver_ = DRIVERS_BY_NAME[driver](made, {"HOME": "/"})
    return driver_.script([NAME], "/demo", ["taskq"]).splitlines()


@pytest.mark.parametrize(
    ("driver", "options", "asked"),
    [
        (
            "slurm",
            ["scratch=--tmp={MiB}", "licence=--licenses=vina:{}"],
            ["#SBATCH --tmp=19074", "#SBATCH --licenses=vina:2"],
        ),
        ("slurm", ["scratch=--gres=lscratch:{GiB}G"], ["#SBATCH --gres=lscratch:19G"]),
        (
            "pbs",
            ["scratch=scratch={MiB}mb", "licence=-l vina={}"],
            ["#PBS -l select=1:ncpus=1:scratch=19074mb", "#PBS -l vina=2"],
        ),
        ("htcondor", ["scratch=request_disk = {KiB}"], ["request_disk = 19531250"]),
        ("kubernetes", [], []),
    ],
)
def test_named_resources_are_asked_for_as_the_pilot_says(
    driver: str, options: list[str], asked: list[str]
) -> None:
    """Whole units, rounded up; agents have them in any case. What is not there is not asked for."""
    table: dict[str, Any] = {"resources": ["scratch=20000000000", "licence=2"]}
    if driver == "kubernetes":
        table["image"] = "vina"
    else:
        table["resource_options"] = [*options, "other=" + (options[0].partition("=")[2])]
    text = lines(driver, **table)
    for line in asked:
        assert any(found.endswith(line) for found in text), text
    words = " ".join(text)
    assert "--resource scratch=20000000000" in words or "scratch=20000000000" in words
    assert "resource.scratch" not in words, "no agent takes such a tag"
