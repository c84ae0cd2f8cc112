"""What ends an agent's batch job, which the environment names; and its heartbeats."""

from __future__ import annotations

import time
from pathlib import Path
from queue import SimpleQueue

import pytest

from taskq_agent.batch_end import within_batch_job
from taskq_agent.core import events as ev
from taskq_agent.errors import TransportFailed
from taskq_agent.heartbeat import HeartbeatThread
from taskq_agent.protocol import Heartbeat, HeartbeatAnswer, Held, Orders, Welcome
from taskq_agent.settings import AgentSettings
from taskq_agent.threads import Watchdog
from tests.helpers.threaded_agent import MemoryTransport, queue_of
from tests.helpers.waiting import wait_until

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
def test_earliest_end_counts(environment: dict[str, str], expected: float | None) -> None:
    """Of all that the environment tells."""
    assert left_s(environment) == expected


def test_htcondor_gives_the_end_of_a_job_in_a_file(tmp_path: Path) -> None:
    """In the job's description, where only whole lines are numbers."""
    ad = tmp_path / ".job.ad"
    ad.write_text(AD)
    assert left_s({"_CONDOR_JOB_AD": str(ad)}) == 6_200
    assert left_s({"_CONDOR_JOB_AD": str(tmp_path / "gone")}) is None


def test_shorter_of_both_counts() -> None:
    """`--time-limit` is a limit of its own, and counts from the start of the process too."""
    environment = {"SLURM_JOB_END_TIME": "1800003600"}
    assert left_s({}, 60) == left_s(environment, 60) == 50
    assert left_s(environment, 7_200) == 3_600


def test_job_that_should_have_ended_has_no_time() -> None:
    """It is not taken for one without a limit."""
    ended = left_s({"SLURM_JOB_END_TIME": "1799999999"})
    assert ended is not None
    assert 0 < ended < 1


@pytest.mark.parametrize("value", ["", "soon", "-5", "0", "nan", "inf", "1e300", "4294967294000"])
def test_rubbish_is_no_end(value: str) -> None:
    """Nor is the end of time, which stands for no limit."""
    assert left_s({"SLURM_JOB_END_TIME": value, "PBS_WALLTIME": value}) is None


HELD = Held(1, 2, "lease")


class Busy(MemoryTransport):
    """Turns the first beats away, and notes when they come."""

    def __init__(self, busy: int, retry_after_s: float) -> None:
        super().__init__(queue_of(1))
        self.came: list[float] = []
        self._busy = busy
        self._retry_after_s = retry_after_s

    def heartbeat(self, _: Heartbeat) -> HeartbeatAnswer:
        """Answer, or say when to come back."""
        self.came.append(time.monotonic())
        if len(self.came) <= self._busy:
            raise TransportFailed("busy", self._retry_after_s)
        return HeartbeatAnswer((HELD,), Orders(drain=True))


def beats_to(transport: Busy, heartbeat_s: float) -> list[ev.Event]:
    """Beat until the transport has answered; return the events."""
    events: SimpleQueue[ev.Event] = SimpleQueue()
    heartbeats = HeartbeatThread(
        transport, lambda _: Heartbeat(7), events.put, lambda: None, watchdog=Watchdog(300.0)
    )
    heartbeats.keep(Welcome(7, heartbeat_s, 4 * heartbeat_s))
    wait_until(lambda: events.qsize() >= 2)
    heartbeats.close(10.0)
    return [events.get(), events.get()]


def test_heartbeat_is_repeated_when_the_queue_asks_for_it() -> None:
    """A beat without that would be repeated within a quarter of its interval."""
    transport = Busy(2, retry_after_s=0.4)
    beats_to(transport, heartbeat_s=1.0)
    first, second, third = transport.came[:3]
    assert second - first >= 0.4
    assert third - second >= 0.4


def test_heartbeat_comes_before_the_session_expires() -> None:
    """A queue may ask for more patience than a session has."""
    transport = Busy(1, retry_after_s=300.0)
    beats_to(transport, heartbeat_s=0.2)
    assert transport.came[1] - transport.came[0] < 0.8 * 2


def test_answer_to_a_heartbeat_gives_the_core_what_it_carried() -> None:
    events = beats_to(Busy(0, 0.0), heartbeat_s=30.0)
    assert events == [ev.HeartbeatAnswered(7, Orders(drain=True)), ev.StopOrdered(HELD)]
