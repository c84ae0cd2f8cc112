"""The agent learns the end of its batch job from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq_agent.resources import within_batch_job
from taskq_agent.settings import AgentSettings

NOW = 1_800_000_000.0
AD = """\
AllowedJobDuration = 7200
Args = "JobCurrentStartDate = 12"
JobCurrentStartDate = 1799999000
"""


def left_s(environment: dict[str, str], max_seconds: float | None = None) -> float | None:
    """Return what the agent takes for the time left, ten seconds after its start."""
    agent = AgentSettings(campaign="/test", max_seconds=max_seconds)
    return within_batch_job(agent, environment, begun=NOW - 10, now=NOW).max_seconds


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"SLURM_JOB_END_TIME": "1800003600"}, 3_600),
        ({"TASKQ_END_TIME": "1800000060"}, 60),
        ({"PBS_WALLTIME": "3600"}, 3_590),
        ({"TASKQ_END_TIME": "1800000060", "SLURM_JOB_END_TIME": "1800003600"}, 60),
    ],
)
def test_the_earliest_end_counts(environment: dict[str, str], expected: float | None) -> None:
    """Of all that the environment tells."""
    assert left_s(environment) == expected


def test_htcondor_tells_it_in_a_file(tmp_path: Path) -> None:
    """In the job's description, where only whole lines are numbers."""
    ad = tmp_path / ".job.ad"
    ad.write_text(AD)
    assert left_s({"_CONDOR_JOB_AD": str(ad)}) == 6_200
    assert left_s({"_CONDOR_JOB_AD": str(tmp_path / "gone")}) is None


def test_the_shorter_of_both_counts() -> None:
    """`--max-seconds` is a limit of its own."""
    environment = {"SLURM_JOB_END_TIME": "1800003600"}
    assert left_s(environment, 60) == 60
    assert left_s(environment, 7_200) == 3_600


def test_a_job_that_should_have_ended_has_no_time() -> None:
    """It is not taken for one without a limit."""
    ended = left_s({"SLURM_JOB_END_TIME": "1799999999"})
    assert ended is not None
    assert 0 < ended < 1


@pytest.mark.parametrize("value", ["", "soon", "-5", "0", "nan", "inf", "1e300", "4294967294000"])
def test_rubbish_is_no_end(value: str) -> None:
    """Nor is the end of time, which stands for no limit."""
    assert left_s({"SLURM_JOB_END_TIME": value, "PBS_WALLTIME": value}) is None
