"""Agents of this machine work while a block runs, leave with it, and say why if they die."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import taskq
from taskq import AgentsDied, CampaignSpec, Client, Handler, UsageError
from taskq.compute import agent_process
from taskq.compute.futures import WOKEN_PAUSE_S, TaskFuture, Watcher
from taskq.compute.local_agents import END_S, LocalAgents
from taskq.compute.runs import FIRST_BATCH
from taskq.compute.tracker import Pauses
from taskq.compute.trust import ResultReader
from taskq.dispatch.direct import DirectTransport
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import (
    ACCEPTED,
    DONE,
    FAILED,
    SUPERSEDED,
    Ack,
    Answer,
    Hello,
    Report,
    Request,
)
from tests.helpers.waiting import wait_until
from tests.payloads import called

WAIT_S = 120.0


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.thorough
def test_they_leave_with_the_block_and_hand_back_what_they_have(queue: Client) -> None:
    """What ran at its end is not lost: it waits again."""
    run = queue.map(called.sleep, [60, 60], name="/sleep")
    with LocalAgents(queue, slots=1, grace_s=0.0) as agents:
        assert "at work" in repr(agents)
        wait_until(lambda: run.status().working > 0, timeout_s=WAIT_S)
    assert "ended" in repr(agents)
    assert queue.local_agents == []
    assert queue.agents() == []
    status = run.status()
    assert (status.working, status.waiting, status.failures) == (0, 2, 0)


@contextmanager
def forked(first: Callable[[], object]) -> Iterator[None]:
    """Have a forked child, which has all that was open, for the duration of the block.

    first: what it does; then it waits.
    """
    ready, started = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(int(WAIT_S))
        with suppress(BaseException):
            first()
            os.write(started, b".")
            signal.pause()
        os._exit(0)
    os.close(started)
    assert os.read(ready, 1) == b"."
    os.close(ready)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # since Python 3.12
def test_local_agents_stop_in_good_order_while_a_forked_child_lives(queue: Client) -> None:
    """The child keeps their pipe open and need not end first. A second stop does no harm."""
    agents = taskq.local_agents(queue, 1, "/")
    agents.start()
    with forked(agents.stop):  # which is not the child's to say
        assert queue.submit(called.square, 7).result(WAIT_S) == 49
        agents.stop()
        assert "ended" in repr(agents)
        agents.stop()
    assert [agent.exit_code for agent in queue.left_agents()] == [0]


@pytest.mark.thorough
def test_waiting_for_a_result_raises_when_the_local_agents_have_died(queue: Client) -> None:
    """Their tasks stay as they were."""
    run = queue.map(called.sleep, [60], name="/sleep")
    future = queue.submit(called.sleep, 61)
    agents = taskq.local_agents(queue, 2, "/")
    agents.start()
    wait_until(lambda: run.status().working > 0, timeout_s=WAIT_S)
    os.kill(agents.pid, signal.SIGKILL)
    with pytest.raises(AgentsDied, match="signal 9"):
        run.wait(WAIT_S)
    with pytest.raises(AgentsDied):
        future.result(WAIT_S)
    assert run.status().unfinished == 1
    agents.stop()


@pytest.mark.thorough
def test_they_say_why_they_cannot_start(queue: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the last lines that they have written."""
    run = queue.map(called.square, [1], name="/square")
    agents = taskq.local_agents(queue, slots=1)
    monkeypatch.setattr(queue.database, "dsn", "postgresql:///taskq?host=/nowhere")
    with pytest.raises(AgentsDied, match="/nowhere"), agents:
        run.wait(WAIT_S)


def test_wrong_slots_or_campaign_raise_before_any_local_agent_starts(queue: Client) -> None:
    """Before any process is started."""
    for slots in (0, -1, 2.5, True):
        with pytest.raises(UsageError, match="slots must be"):
            taskq.local_agents(queue, slots)  # type: ignore[arg-type]
    with pytest.raises(taskq.NotFound):
        taskq.local_agents(queue, 1, "/nowhere")


def test_without_a_campaign_they_serve_no_one_else(queue: Client) -> None:
    """They would run others' code, and refuse others' tasks; one's own server is served whole."""
    queue.create_campaign("/others")
    stranger = Client(queue.database)
    with pytest.raises(UsageError, match="has begun none"):
        taskq.local_agents(stranger, 1)
    future = stranger.submit(called.square, 3)
    assert future.task  # it is stored before its campaign goes
    assert taskq.local_agents(stranger, 1).path == future.campaign.path
    future.campaign.remove()
    run = stranger.map(called.square, [1], name="/mine")
    stranger.map(called.square, [2], name="/mine/next")
    assert taskq.local_agents(stranger, 1).path == run.path
    stranger.create_campaign("/mine-too")
    with pytest.raises(UsageError, match="has begun /mine, /mine-too"):
        taskq.local_agents(stranger, 1)
    assert taskq.local_agents(Client(queue.database, embedded=True), 1).path == "/"


PROGRAM = """
import dataclasses, os, time
import taskq

FACTOR = 3

@dataclasses.dataclass
class Pose:
    n: int

def dock(ligand, exhaustiveness):
    return Pose(ligand.n * FACTOR * exhaustiveness)

def rank(pose):
    return {"best": pose}

if __name__ == "__main__":
    queue = taskq.connect()
    run = queue.map(dock, map(Pose, range(5)), name="/dock", params={"exhaustiveness": 2})
    assert run.campaign.tasks().__next__().payload == {
        "args": [{"$dataclass": ["__main__:Pose", {"n": 0}]}]}
    best = queue.map(rank, [Pose(7)], name="/dock/best")  # its code does not name the class
    with taskq.local_agents(queue, slots=2) as agents:
        assert agents.path == "/dock"
        print([one.n for one in run.results()])
        assert best.result() == [{"best": Pose(7)}]
        {then}
"""


def start(dsn: str, folder: Path, then: str = "pass") -> subprocess.Popen[str]:
    """Start a program of somebody who writes functions."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(PROGRAM).replace("{then}", then))
    environment = os.environ | {"TASKQ_DSN": dsn}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, str(program)], env=environment, cwd=folder, **pipes)


@pytest.mark.thorough
def test_script_computes_with_functions_and_classes_of_its_own(dsn: str, tmp_path: Path) -> None:
    """And again, with nothing to compute, since nothing has changed."""
    for _ in range(2):
        with start(dsn, tmp_path) as program:
            said, errors = program.communicate(timeout=WAIT_S)
        assert (said, errors, program.returncode) == ("[0, 6, 12, 18, 24]\n", "", 0)


@pytest.mark.thorough
def test_nobody_is_left_when_the_program_is_killed(dsn: str, queue: Client, tmp_path: Path) -> None:
    """Its agents leave in good order."""
    with start(dsn, tmp_path, "time.sleep(600)") as program:
        wait_until(
            lambda: bool(queue.agents()) and queue.campaign("/").status().done == 6,
            timeout_s=WAIT_S,
        )
        program.kill()
    wait_until(lambda: queue.agents() == [], timeout_s=WAIT_S)


@pytest.mark.thorough
def test_second_ctrl_c_ends_the_program_at_once(dsn: str, queue: Client, tmp_path: Path) -> None:
    """Whatever its agents do: they have their order, and leave without it."""
    with start(dsn, tmp_path, "print(agents.pid, flush=True); time.sleep(600)") as program:
        assert program.stdout is not None
        _, agents = program.stdout.readline(), int(program.stdout.readline())
        os.kill(agents, signal.SIGSTOP)
        try:
            threads = Path(f"/proc/{program.pid}/task")
            before = len(list(threads.iterdir()))
            program.send_signal(signal.SIGINT)
            wait_until(lambda: len(list(threads.iterdir())) > before)  # it waits for the agents
            program.send_signal(signal.SIGINT)
            program.wait(END_S / 2)
        finally:
            program.kill()
            os.kill(agents, signal.SIGCONT)
    wait_until(lambda: queue.agents() == [], timeout_s=WAIT_S)


@pytest.mark.thorough
def test_nobody_is_left_when_the_program_is_killed_but_not_its_child(
    dsn: str, queue: Client, tmp_path: Path
) -> None:
    """It has the other end of the pipe that the agents read, and is not who started them."""
    then = "child = os.fork(); child and print(child, flush=True); time.sleep(600)"
    with start(dsn, tmp_path, then) as program:
        assert program.stdout is not None
        _, child = program.stdout.readline(), int(program.stdout.readline())
        try:
            assert queue.agents() != []
            program.kill()
            wait_until(lambda: queue.agents() == [], timeout_s=WAIT_S)
        finally:
            os.kill(child, signal.SIGKILL)


def test_submitting_wakes_the_agents_of_this_machine(
    queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single call, a call of an executor, and each chunk of a run: a byte in a pipe for each."""
    woken: list[str] = []
    agents = LocalAgents(queue, 1, "/")
    monkeypatch.setattr(agents, "wake", lambda: woken.append("agents"))
    monkeypatch.setattr(agents, "check", lambda: None)
    queue.local_agents.append(agents)
    assert queue.submit(abs, -1).task
    wait_until(lambda: len(woken) == 1, timeout_s=WAIT_S)
    run = queue.map(abs, range(FIRST_BATCH + 1), name="/abs")
    assert len(woken) == 3
    run.cancel()
    queue.local_agents.remove(agents)


LISTENER = """
import os, sys
from taskq.compute import agent_process

agent_process._listen(os.getppid(), [lambda: print("awake", flush=True)])
sys.exit(0)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("word", [b"end", b"now", b""])
def test_agent_process_wakes_at_a_byte_and_leaves_at_a_word(word: bytes) -> None:
    """Also when both come together; calls submitted together wake once."""
    with subprocess.Popen(
        [sys.executable, "-c", LISTENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        os.write(process.stdin.fileno(), agent_process.WAKE * 100)
        assert process.stdout.readline() == b"awake\n"
        os.write(process.stdin.fileno(), agent_process.WAKE)
        assert process.stdout.readline() == b"awake\n"
        process.stdin.write(word and agent_process.WAKE + word)
        process.stdin.close()
        process.stdout.read()
        assert process.wait(WAIT_S) == -signal.SIGTERM


def test_look_after_a_wake_finds_what_came_since(
    queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of campaigns, which says for a second that there is nothing, is drawn anew."""
    monkeypatch.setattr("taskq.dispatch.exchange.FRESH_S", 1e9)
    spec, leases = CampaignSpec("/c", handler=Handler("command", argv=("true",))), LeaseIds()
    campaign = queue.create_campaign(spec)
    transport = DirectTransport(queue.database)
    session = transport.open(Hello(str(uuid.uuid4()), "/c", "a", "h", 1, "", 1, "0")).session

    def claim() -> list[str]:
        answer = transport.exchange(Request(session, (), 1, leases()))
        return [task.key for task in answer.tasks]

    try:
        assert claim() == []
        campaign.submit({"n": 1}, "one")
        assert claim() == []
        transport.look_again()
        assert claim() == ["one"]
    finally:
        transport.close(session)


def test_reports_of_agents_wake_the_futures_that_wait(
    queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, also long ones, and exceptions, though no second look is due for an hour."""
    asked = set[Pauses]()

    def next_s(pauses: Pauses, *, found: bool) -> float:
        first = found or pauses not in asked
        asked.add(pauses)
        return WOKEN_PAUSE_S if first else 3_600.0

    with taskq.local_agents(queue, 2, "/"):
        assert queue.submit(called.square, 0).result(WAIT_S) == 0
        monkeypatch.setattr(Pauses, "next_s", next_s)
        monkeypatch.setattr("taskq.compute.futures.LAST_PAUSE_S", 3_600.0)
        long = "x" * select.PIPE_BUF
        assert queue.submit(called.same, long).result(WAIT_S) == long
        futures = [queue.submit(called.square, n) for n in range(1, 50)]
        assert [future.result(WAIT_S) for future in futures] == [n * n for n in range(1, 50)]
        assert isinstance(queue.submit(called.refuse, 1).exception(WAIT_S), called.BadLigand)
        assert queue.submit(called.square, 7).result(WAIT_S) == 49  # known already


def test_reported_results_need_no_statement(queue: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that are reported before their futures are known."""
    campaign = queue.create_campaign("/c")
    campaign.seed([{"n": 0}, {"n": 1}])
    tasks = [task.task_id for task in campaign.tasks()]
    futures = [TaskFuture[int](campaign, str(task)) for task in tasks]
    for future, task in zip(futures, tasks, strict=True):
        future.note_stored(campaign, task)
    watcher, number = Watcher(queue.queries, [LocalAgents(queue, 1, "/c")]), campaign.campaign_id
    monkeypatch.setattr(queue.queries, "rows", lambda *_, **__: [])
    watcher.watch(campaign, ResultReader(()), futures[:1], new=True)
    early = [(number, task, {"value": 8}) for task in (tasks[1], 10**9)]
    watcher.hear([*early, (number, tasks[0], {"value": 7})], others=False)
    assert futures[0].result(WAIT_S) == 7
    watcher.watch(campaign, ResultReader(()), futures[1:], new=True)
    assert futures[1].result(WAIT_S) == 8


def test_agents_write_what_a_pipe_takes_at_once() -> None:
    """Short results together, and for all else an empty line."""
    reports = [
        Report(1, task, "f0", DONE, {"value": "x" * size})
        for task, size in enumerate([1_500, 1_500, 1_500, 5_000, 0])
    ]
    reports += [Report(1, 5, "f0", FAILED), Report(1, 6, "f0", DONE, {"value": 0})]
    verdicts = [ACCEPTED] * 6 + [SUPERSEDED]
    acks = tuple(Ack(1, task, "f0", verdict) for task, verdict in enumerate(verdicts))
    texts = [*agent_process.ends(reports, Answer(acks))]
    assert all(len(text) <= select.PIPE_BUF and text.endswith(b"\n") for text in texts)
    lines = b"".join(texts).split(b"\n")[:-1]
    assert [json.loads(line)[1] for line in lines if line] == [0, 1, 2, 4]
    assert lines.count(b"") == 1
