from __future__ import annotations

import logging
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from taskq_agent.errors import SessionLost, TransportFailed
from taskq_agent.handlers.base import Ended
from taskq_agent.loop import Agent, AgentSummary
from taskq_agent.protocol import (
    DONE,
    FAILED,
    RELEASED,
    Answer,
    Heartbeat,
    HeartbeatAnswer,
    Request,
    Task,
)
from taskq_agent.settings import AgentSettings
from taskq_agent.threads import Watchdog
from tests.helpers.memory_queue import ANSWER_LOST, REQUEST_LOST, TWICE, MemoryQueue
from tests.helpers.threaded_agent import (
    FunctionRunner,
    MemoryTransport,
    ThreadedAgent,
    done,
    queue_of,
    until_stopped,
)
from tests.helpers.waiting import wait_until


def test_agent_works_off_a_campaign() -> None:
    """Each task runs once, and its result is the payload's."""
    agent_thread = ThreadedAgent(queue_of(500), slots=2, until_empty=True)
    summary = agent_thread.work()
    assert summary == AgentSummary(500, 0, 0, 0, 0, "nothing is left to do", 0)
    assert agent_thread.queue.counts() == {DONE: 500}
    assert set(agent_thread.runs.values()) == {1}
    assert [report.result for report in agent_thread.queue.tasks[7].accepted] == [{"echo": 6}]
    assert agent_thread.queue.opened == set()


def test_failures_are_reported_as_such() -> None:
    """One payload's failure is its own: the agent goes on."""

    def odd_ones_fail(task: Task, bench: FunctionRunner) -> Ended:
        if task.task % 2:
            return Ended(FAILED, error_class="Odd", error="odd", retry=False)
        return done(task, bench)

    agent_thread = ThreadedAgent(queue_of(20), odd_ones_fail, slots=3, until_empty=True)
    summary = agent_thread.work()
    assert (summary.done, summary.failed, summary.exit_code) == (10, 10, 0)
    assert agent_thread.queue.counts() == {DONE: 10, FAILED: 10}


@pytest.mark.thorough
def test_lost_and_repeated_messages_cost_time_only() -> None:
    """Whatever the network does to a call, each task runs once and counts once."""
    lock = threading.Lock()
    calls: Counter[str] = Counter()
    fates = {3: REQUEST_LOST, 6: ANSWER_LOST, 9: TWICE, 12: ANSWER_LOST}

    def trouble(call: str) -> str | None:
        with lock:
            calls[call] += 1
            return fates.get(calls[call])

    queue = queue_of(60, trouble=trouble, heartbeat_s=0.05)
    agent_thread = ThreadedAgent(queue, slots=2, until_empty=True, ahead_s=0)
    summary = agent_thread.work()
    assert queue.counts() == {DONE: 60}
    assert set(agent_thread.runs.values()) == {1}
    assert summary.done == 60
    assert queue.given_away == []
    assert queue.verdicts["duplicate"] >= 1, "an answer was lost and its reports came again"


def test_lost_session_costs_a_second_run_at_most() -> None:
    """After its session has expired the agent opens another, and every task counts once."""
    queue = queue_of(40, heartbeat_s=0.05)

    def work(task: Task, bench: FunctionRunner) -> Ended:
        if task.task == 20 and task.attempt == 1:
            queue.expire(1)
        return done(task, bench)

    agent_thread = ThreadedAgent(queue, work, slots=2, until_empty=True, ahead_s=0)
    agent_thread.work()
    assert queue.counts() == {DONE: 40}
    assert len(queue.sessions) == 2
    assert sum(agent_thread.runs.values()) <= 42, "only what was in hand runs again"


def test_heartbeats_continue_while_a_call_is_in_flight() -> None:
    """A queue that is slow to answer does not find the session expired meanwhile."""
    queue = queue_of(2, heartbeat_s=0.02)
    answer_now = threading.Event()

    class Slow(MemoryTransport):
        def exchange(self, request: Request) -> Answer:
            if request.reports:
                assert answer_now.wait(60)
            return super().exchange(request)

    with ThreadedAgent(
        queue, transport=Slow(queue), slots=1, until_empty=True, ahead_s=0
    ).open() as agent_thread:
        wait_until(lambda: agent_thread.runs[1])
        seen = len(queue.beats)
        wait_until(lambda: len(queue.beats) > seen + 5)
        beat = queue.beats[-1]
        assert [held.task for held in beat.held] == [1]
        assert len(beat.pending) == 1
        answer_now.set()
    assert queue.counts() == {DONE: 2}


def test_work_continues_while_a_heartbeat_is_in_flight() -> None:
    """A beat that hangs does not keep tasks waiting."""
    queue = queue_of(20, heartbeat_s=0.02)
    all_done = threading.Event()

    class Slow(MemoryTransport):
        def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
            assert all_done.wait(60)
            return super().heartbeat(beat)

    with ThreadedAgent(queue, transport=Slow(queue), slots=2).open() as agent_thread:
        wait_until(lambda: queue.counts() == {DONE: 20})
        all_done.set()
        agent_thread.agent.terminate()


@pytest.mark.parametrize("error", [SessionLost("gone"), TransportFailed("hung up")])
def test_agent_that_leaves_logs_nothing_about_a_heartbeat_in_flight(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """The session ends, so the beat may find none, or no connection; nothing is wrong."""
    queue, leaving = queue_of(0, heartbeat_s=0.02), threading.Event()

    class Slow(MemoryTransport):
        def __init__(self, queue: MemoryQueue) -> None:
            super().__init__(queue)
            self.close = self.close_slowly  # type: ignore[assignment]  # same arguments

        def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
            assert beat
            assert leaving.wait(60)
            raise error

        def close_slowly(self, *words: Any) -> None:
            leaving.set()
            wait_until(lambda: "while the session ended" in caplog.text)
            queue.close(*words)

    caplog.set_level(logging.DEBUG)
    ThreadedAgent(queue, transport=Slow(queue), slots=1, idle_timeout_s=0.1).work()
    assert [record.message for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.thorough
def test_heartbeat_without_answer_is_repeated_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost beat does not cost a whole interval of the session's life."""
    monkeypatch.setattr("taskq_agent.heartbeat._LONGEST_RETRY_S", 0.05)
    beats = iter([REQUEST_LOST, REQUEST_LOST])
    trouble = {"beat": lambda: next(beats, None)}
    queue = queue_of(1, heartbeat_s=240.0, trouble=lambda call: trouble.get(call, lambda: None)())
    with ThreadedAgent(queue, until_stopped, slots=1).open() as agent_thread:
        wait_until(lambda: queue.beats)
        agent_thread.agent.terminate()
        agent_thread.agent.terminate()


def test_order_to_stop_reaches_the_payload() -> None:
    """An attempt whose lease is void is stopped, and nothing is reported of it."""
    queue = queue_of(1, heartbeat_s=0.05)
    with ThreadedAgent(queue, until_stopped, slots=1, until_empty=True).open() as agent_thread:
        wait_until(lambda: agent_thread.runs[1])
        queue.cancel(1)
    assert agent_thread.runners[0].stopped.is_set()
    assert queue.verdicts == {}


def test_signal_lets_the_running_task_end_and_starts_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SIGTERM loses nothing, and afterwards signals mean what they meant before."""
    caplog.set_level(logging.INFO)
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    queue, runs = queue_of(10), Counter[int]()

    def work(task: Task, bench: FunctionRunner) -> Ended:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: "the agent leaves" in caplog.text)
        return done(task, bench)

    agent = Agent(queue, AgentSettings(campaign="/test"), lambda _: FunctionRunner(work, runs))
    summary = agent.run()
    assert summary == AgentSummary(1, 0, 0, 0, 0, "it got a signal to stop", 0)
    assert queue.counts() == {DONE: 1, "open": 9}
    assert all(entry.lease is None for entry in queue.tasks.values())
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_second_signal_stops_the_payload() -> None:
    """Ctrl-C twice ends an agent in the middle of a long task, which goes back."""
    queue = queue_of(1)
    with ThreadedAgent(queue, until_stopped, slots=1, grace_s=3600).open() as agent_thread:
        wait_until(lambda: agent_thread.runs[1])
        agent_thread.agent.terminate()
        agent_thread.agent.terminate()
    assert queue.outcomes(1) == [RELEASED]
    assert agent_thread.summary == AgentSummary(0, 0, 1, 0, 0, "it got a signal to stop", 0)


def test_time_limit_of_the_batch_job_is_kept() -> None:
    """When the job's time is up all has been handed back."""
    queue = queue_of(1)
    summary = ThreadedAgent(queue, until_stopped, slots=1, max_seconds=1.0).work()
    assert (summary.reason, summary.exit_code) == ("its time is up", 0)
    assert queue.outcomes(1) == [RELEASED]


def test_undelivered_reports_reach_the_queue_through_the_next_agent(tmp_path: Path) -> None:
    """What could not be delivered is on disk, and the next agent of the node delivers it."""
    down = threading.Event()
    queue = queue_of(3, trouble=lambda _: REQUEST_LOST if down.is_set() else None)

    def work(task: Task, bench: FunctionRunner) -> Ended:
        down.set()
        return done(task, bench)

    first = ThreadedAgent(queue, work, slots=3, spool_dir=tmp_path, farewell_s=0.5)
    with first.open():
        wait_until(lambda: len(first.runs) == 3)
        first.agent.terminate()
    assert first.summary is not None
    assert (first.summary.exit_code, first.summary.undelivered) == (75, 3)
    down.clear()
    second = ThreadedAgent(queue, slots=1, spool_dir=tmp_path, until_empty=True)
    second.work()
    assert queue.counts() == {DONE: 3}
    assert second.runs == {}
    assert list(tmp_path.iterdir()) == []


def test_runner_that_cannot_be_made_ends_the_agent_before_it_claims() -> None:
    """A handler that does not exist is an error at once, and the runners made before are closed."""
    queue, made = queue_of(1), []

    def make_runner(slot: int) -> FunctionRunner:
        if slot == 1:
            raise OSError("no scratch folder")
        made.append(FunctionRunner(done, Counter()))
        return made[-1]

    with pytest.raises(OSError, match="no scratch folder"):
        Agent(queue, AgentSettings(campaign="/test", slots=2), make_runner).run()
    assert [bench.closed for bench in made] == [True]
    assert queue.hellos == []


def fail_in_run(_: Task, __: FunctionRunner) -> Ended:
    raise RuntimeError("a fault of the runner")


def test_runner_that_fails_ends_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    """A slot that has died is not passed over in silence, and its task goes back."""
    queue = queue_of(1)
    summary = ThreadedAgent(queue, fail_in_run, slots=1, stop_s=0.1).work()
    assert (summary.reason, summary.exit_code) == ("slot 0 has failed", 70)
    assert queue.tasks[1].lease is None
    assert "a fault of the runner" in caplog.text


def test_dead_heartbeat_thread_ends_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    """An agent that no longer beats would work on what others are given."""
    queue = queue_of(1)

    class Faulty(MemoryTransport):
        def heartbeat(self, _: Heartbeat) -> HeartbeatAnswer:
            raise RuntimeError("a fault of the transport")

    summary = ThreadedAgent(queue, until_stopped, transport=Faulty(queue), slots=1).work()
    assert (summary.reason, summary.exit_code) == ("its heartbeats have failed", 70)
    assert queue.outcomes(1) == [RELEASED]
    assert "a fault of the transport" in caplog.text


@pytest.mark.thorough
def test_call_that_never_comes_back_ends_the_agent() -> None:
    """An agent that waits for an answer for ever only looks alive."""
    queue, end_of_test = queue_of(1), threading.Event()

    class Hanging(MemoryTransport):
        def exchange(self, request: Request) -> Answer:
            if request.reports:
                end_of_test.wait(30)
            return super().exchange(request)

    with ThreadedAgent(
        queue, transport=Hanging(queue), slots=1, watchdog_s=1.0, farewell_s=0.1, until_empty=True
    ).open() as agent_thread:
        wait_until(lambda: agent_thread.runners and agent_thread.runners[0].closed)
        end_of_test.set()
    assert agent_thread.summary is not None
    assert agent_thread.summary.reason == "a call to the queue does not return"
    assert agent_thread.summary.exit_code == 70


@pytest.mark.thorough
def test_loop_that_hangs_is_abandoned(capfd: pytest.CaptureFixture[str]) -> None:
    """If the loop itself does not come round, the beats end the process."""
    queue, end_of_test = queue_of(1), threading.Event()

    class Stuck(FunctionRunner):
        def stop(self) -> None:
            end_of_test.wait(30)
            super().stop()

    agent_thread = ThreadedAgent(queue, until_stopped, slots=1, watchdog_s=1.0)
    agent_thread.runner_class = Stuck
    with agent_thread.open():
        wait_until(lambda: agent_thread.runs[1])
        agent_thread.agent.terminate()
        agent_thread.agent.terminate()
        wait_until(lambda: agent_thread.abandoned)
        end_of_test.set()
    assert agent_thread.abandoned[0] == 70
    assert "in stop" in capfd.readouterr().err, "the place where it hangs is shown"


def test_stopped_process_is_not_taken_for_a_hung_one() -> None:
    """After SIGCONT an agent goes on: by the clock all its parts are late, and none is hung."""
    watchdog = Watchdog(patience_s=300.0)
    assert not watchdog.is_hung(1_000.0)
    assert not watchdog.is_hung(90_000.0)
    assert any(watchdog.is_hung(90_000.0 + second) for second in range(1, 302))
    watchdog.reset()
    assert not watchdog.is_hung(100_000.0)
