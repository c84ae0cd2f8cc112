"""What attempts use, and what they may: memory, cores, GPUs."""

from __future__ import annotations

import errno
import os
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskq_agent import procfs
from taskq_agent.errors import TransportFailed
from taskq_agent.handlers import Ended
from taskq_agent.handlers.base import AttemptOver
from taskq_agent.handlers.limits import ChildWatch, MemoryRoom
from taskq_agent.protocol import DONE, FAILED, OUT_OF_MEMORY, RELEASED, Held
from taskq_agent.resources import Resources
from taskq_agent.try_command import LocalBlobs
from tests.helpers.meanwhile import meanwhile
from tests.helpers.slot_harness import SlotHarness, command, python, shell, slot_in
from tests.helpers.waiting import wait_until

MIB = 1 << 20
OCCUPY = "import sys, time; x = b'x' * (int(sys.argv[1]) << 20); time.sleep(float(sys.argv[2]))"
CORES = tuple(sorted(os.sched_getaffinity(0)))


class MemoryNotes(LocalBlobs):
    """A queue that knows how often the task has run out of memory; -1: it cannot be reached."""

    times = 0

    def memory_failures(self, held: Held) -> int:
        """Tell."""
        assert held == Held(1, 7, "lease")
        if self.times < 0:
            raise TransportFailed("away")
        return self.times


@pytest.fixture
def notes() -> MemoryNotes:
    """Give a queue."""
    return MemoryNotes()


@pytest.fixture
def limited(tmp_path: Path, notes: MemoryNotes) -> Iterator[SlotHarness]:
    """Give the second of two slots of an agent with 800 MiB, and two GPUs that are made up."""
    node = Resources(len(CORES), CORES, 800 * MIB, ("0", "GPU-b"))
    with slot_in(tmp_path, grace_s=1, blobs=notes, slot=1, slots=2, node=node) as harness:
        yield harness


def occupy(mebibytes: int, seconds: float = 0) -> dict[str, Any]:
    return command(sys.executable, "-c", OCCUPY, str(mebibytes), str(seconds))


@pytest.mark.thorough
def test_time_and_largest_size_of_a_command_are_kept(slot: SlotHarness) -> None:
    # A child begins with the size of anyone who forks it.
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 + 100
    ended = slot.run(occupy(size))
    assert size * MIB < ended.phases["peak_bytes"] < (size + 100) * MIB
    busy = slot.run(
        command(sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: 1")
    )
    assert busy.phases["cpu_s"] >= 0.5


@pytest.mark.thorough
def test_processes_of_a_child_count_as_its_use(slot: SlotHarness) -> None:
    """Its time when it was waited for, its size while it was there."""
    nested = '"$1" -c "$2" 200 1000 & "$1" -c "$2" 200 1000 & wait'
    limit = {"memory": (300 * MIB,)}
    ended = slot.run(shell(nested, sys.executable, OCCUPY), resources=limit, limit_s=60.0)
    assert (ended.outcome, ended.error_class) == (FAILED, OUT_OF_MEMORY)
    assert ended.phases["peak_bytes"] > 300 * MIB
    busy = "import time\nwhile time.process_time() < 0.3: 1"
    ended = slot.run(shell('"$1" -c "$2"; "$1" -c "$2"', sys.executable, busy))
    assert ended.phases["cpu_s"] >= 0.6


def test_memory_that_processes_share_counts_once(slot: SlotHarness, tmp_path: Path) -> None:
    """Four processes with 200 MiB in common have no more than that, until they write to it."""
    forks = (
        "import os, time; x = b'x' * (200 << 20)\n"
        "[os.fork() for _ in range(2)]; open('there-%d' % os.getpid(), 'w').close()\n"
        "while not os.path.exists('seen'): time.sleep(0.02)"
    )

    def see(_: threading.Event) -> None:
        # All four: a fork while they are looked at would move shares from one to another.
        wait_until(lambda: len([*tmp_path.glob("scratch/*/*/there-*")]) == 4)
        slot.runner._watch.meter.look()  # type: ignore[attr-defined]  # noqa: SLF001 - now
        next(tmp_path.glob("scratch/*/*/there-*")).with_name("seen").touch()

    program = command(sys.executable, "-c", forks)
    with meanwhile(see):
        ended = slot.run(program, resources={"memory": (400 * MIB,)})
    assert ended.outcome == DONE
    assert 200 * MIB < ended.phases["peak_bytes"] < 400 * MIB


@pytest.mark.thorough
def test_attempt_in_a_resident_child_has_its_own_figures(slot: SlotHarness) -> None:
    """The child stays; what an earlier task had is not the later one's."""
    large = slot.run(python("occupy"), {"mebibytes": 300, "busy_s": 0.3})
    small = slot.run(python("occupy"), {"mebibytes": 1, "busy_s": 0})
    assert large.result == small.result
    assert large.phases["peak_bytes"] > 300 * MIB > 2 * small.phases["peak_bytes"]
    assert large.phases["cpu_s"] >= 0.3 > small.phases["cpu_s"]


@pytest.mark.parametrize(
    "handler", [occupy(200, 1000), python("occupy")], ids=["command", "python"]
)
def test_attempt_that_takes_more_memory_than_it_may_is_ended(
    slot: SlotHarness, handler: dict[str, Any]
) -> None:
    payload = {"mebibytes": 200, "busy_s": 1000}
    ended = slot.run(handler, payload, resources={"memory": (100 * MIB,)})
    assert (ended.outcome, ended.error_class, ended.retry) == (FAILED, OUT_OF_MEMORY, True)
    assert "its limit is 100 MiB" in str(ended.error)
    assert slot.run(shell("exit 0"), resources={"memory": (100 * MIB,)}).outcome == DONE


def test_memory_is_measured_again_after_a_look_at_it_has_failed(
    slot: SlotHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise no attempt of the agent would have a limit from then on."""
    failures, family = [OSError(errno.EMFILE, "no descriptor")] * 2, procfs.family

    def frail(pid: int) -> list[int]:
        if failures:
            raise failures.pop()
        return family(pid)

    monkeypatch.setattr(procfs, "family", frail)
    ended = slot.run(occupy(200, 1000), resources={"memory": (100 * MIB,)})
    assert (ended.outcome, ended.error_class, failures) == (FAILED, OUT_OF_MEMORY, [])


def test_ends_for_want_of_memory_count_as_such_where_there_is_a_limit(slot: SlotHarness) -> None:
    """What the kernel kills, and MemoryError."""
    limit = {"memory": (500 * MIB,)}
    for handler in (shell("kill -KILL $$"), python("no_memory")):
        assert slot.run(handler, resources=limit).error_class == OUT_OF_MEMORY
    assert slot.run(shell("kill -KILL $$")).error_class == "signal-SIGKILL"
    assert slot.run(python("no_memory")).error_class == "MemoryError"


@pytest.mark.thorough
def test_next_size_is_for_tasks_that_have_run_out_of_memory(
    limited: SlotHarness, notes: MemoryNotes
) -> None:
    """The last one also for later attempts; what the first attempt may have is not asked."""
    sizes = {"memory": (100 * MIB, 350 * MIB)}

    def run(attempt: int, times: int, seconds: float = 0) -> Ended:
        notes.times = times
        return limited.run(occupy(200, seconds), attempt=attempt, resources=sizes)

    ends = [run(1, -1, 1_000), run(2, 0, 1_000), run(3, 1), run(9, 7)]
    classes = [end.error_class for end in ends]
    assert classes == [OUT_OF_MEMORY, OUT_OF_MEMORY, None, None]


@pytest.mark.thorough
def test_attempt_goes_back_when_the_queue_cannot_be_asked(
    limited: SlotHarness, notes: MemoryNotes
) -> None:
    notes.times = -1
    sizes = {"memory": (100 * MIB, 350 * MIB)}
    ended = limited.run(shell("exit 0"), attempt=2, resources=sizes)
    assert (ended.outcome, ended.started, ended.refused) == (RELEASED, False, False)


def test_more_memory_than_the_agent_has_is_refused(limited: SlotHarness) -> None:
    ended = limited.run(shell("exit 0"), resources={"memory": (900 * MIB,)})
    assert (ended.outcome, ended.error_class) == (RELEASED, "too-little-memory")
    assert ended.refused
    assert ended.error == "it may need 900 MiB of memory; this agent has 800 MiB"


def test_task_has_its_own_cores_and_gpus(limited: SlotHarness) -> None:
    """GPUs are made up; the kernel counts the cores. Threads of the agent keep theirs."""
    show = (
        "import json, os; cores = sorted(os.sched_getaffinity(0)); "
        "print(json.dumps({'cores': cores, **os.environ}))"
    )
    program = command(sys.executable, "-c", show.replace("{", "{{").replace("}", "}}"))
    result = limited.run(program, resources={"cores": 1, "gpus": 1}).result
    assert result is not None
    mine = CORES[len(CORES) // 2 :][:1]
    assert result["cores"] == list(mine if len(CORES) > 1 else CORES)
    names = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TASKQ_SLOT")
    assert [result[name] for name in names] == ["1", "0", "1"]
    assert os.sched_getaffinity(0) == set(CORES)
    result = limited.run(program).result
    assert result is not None
    assert result["cores"] == list(CORES)
    assert "OMP_NUM_THREADS" not in result or "OMP_NUM_THREADS" in os.environ


def test_memory_is_granted_in_order() -> None:
    """A large part is not passed over for ever by small ones; who is stopped leaves the queue."""
    room, granted = MemoryRoom(10), []
    watches = [ChildWatch() for _ in range(4)]
    goes = [threading.Event() for _ in range(4)]

    def take(number: int, wanted: int) -> None:
        try:
            with room.taken(wanted, watches[number]):
                granted.append(number)
                goes[number].wait()
        except AttemptOver:
            granted.append(-number)

    threads = []
    for number, wanted in enumerate((6, 8, 3, 3)):
        threads.append(threading.Thread(target=take, args=(number, wanted), daemon=True))
        threads[-1].start()
        wait_until(lambda: len(granted) == 1)
    assert granted == [0]
    watches[1].stop()
    wait_until(lambda: -1 in granted)
    wait_until(lambda: len(granted) == 3)  # the next one fits next to the first
    for go in goes:
        go.set()
    for thread in threads:
        thread.join()
    assert sorted(granted) == [-1, 0, 2, 3]
    for watch in watches:
        watch.close()
