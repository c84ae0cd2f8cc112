from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import taskq_agent
from taskq_agent import reaper, strays
from tests.helpers.slot_harness import (
    PAYLOADS,
    processes_with,
    python,
    shell,
    slot_in,
    talker,
    wait_for_exit,
)
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import wait_until

VARIABLE = "REAPER_TEST"

# all in the background, each beyond the reach of a different simple way to end it
SPREAD = """
(trap '' TERM HUP; while true; do :; done) &
setsid sleep 600 > /dev/null 2>&1 < /dev/null &
env -i sleep 600 > /dev/null 2>&1 < /dev/null &
echo $! > "$1.pid"
nohup sleep 600 > /dev/null 2>&1 &
echo started > "$1"
wait
"""


class Agent:
    """A process that runs one payload, as an agent does."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.name = uuid.uuid4().hex
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, handler: dict[str, Any], payload: dict[str, Any]) -> subprocess.Popen[bytes]:
        """Let it begin with this task."""
        root = str(Path(taskq_agent.__file__).parents[1])
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "taskq_agent", "try"),
                *("--handler", json.dumps(handler), "--payload", json.dumps(payload)),
                *("--scratch", str(self.scratch), "--path", str(PAYLOADS), "--grace", "0.5"),
            ],
            env={**os.environ, VARIABLE: self.name, "PYTHONPATH": root},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self.process

    def processes(self) -> list[int]:
        """Return what lives of the agent, its reaper and its payload."""
        return processes_with(VARIABLE, self.name, reapers=True)

    def end_as_a_batch_system(self) -> None:
        """Send SIGTERM to everything that belongs to the job, then SIGKILL to the agent."""
        assert self.process is not None
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self.process.kill()

    def nothing_is_left(self) -> bool:
        """Return whether all processes and folders are gone."""
        return not self.processes() and list(self.scratch.iterdir()) == []


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path / "scratch")
    yield agent
    assert agent.process is not None
    agent.process.kill()
    agent.process.wait()
    wait_until(lambda: not agent.processes(), on_timeout=lambda: str(agent.processes()))


def handlers(ready: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [
        (shell(SPREAD, ready), {}),
        (python("hold"), {"ready": ready}),
        (python("ignore_sigterm"), {"ready": ready}),
        (talker(), {"ready": ready, "sleep": 600}),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "index", rest_thorough(range(4), 2), ids=["command", "python", "deaf python", "process"]
)
@pytest.mark.parametrize(
    "end",
    rest_thorough(
        [
            lambda agent: agent.process.kill(),
            lambda agent: agent.process.terminate(),
            lambda agent: os.killpg(agent.process.pid, signal.SIGINT),
            Agent.end_as_a_batch_system,
        ],
        2,
    ),
    ids=["SIGKILL", "SIGTERM", "Ctrl-C", "batch system"],
)
def test_dead_agent_leaves_no_process_and_no_folder(
    agent: Agent, tmp_path: Path, index: int, end: Callable[[Agent], object]
) -> None:
    """Whatever ends the agent, and also while compiled code holds its child's interpreter."""
    ready = tmp_path / "ready"
    process = agent.start(*handlers(str(ready))[index])
    wait_until(ready.exists)
    assert agent.processes()
    assert list(agent.scratch.iterdir())
    end(agent)
    process.wait()
    wait_until(agent.nothing_is_left, on_timeout=lambda: str(agent.processes()))
    for file in tmp_path.glob("ready.pid"):
        wait_for_exit(int(file.read_text()))


def test_mark_leads_to_sessions_and_to_those_who_left_them(tmp_path: Path) -> None:
    """One descendant has lost its environment, another its session; a third is a stranger."""
    script = "setsid sleep 600 & echo $! > a; env -i sleep 600 & echo $! > b; sleep 600"
    environment = {**os.environ, "MARK": "abc:1:"}
    leader = subprocess.Popen(
        ["sh", "-c", script], env=environment, cwd=tmp_path, start_new_session=True
    )
    stranger = subprocess.Popen(["sleep", "600"], env={**environment, "MARK": "abcd:1:"})
    try:
        wait_until(lambda: (tmp_path / "b").exists() and (tmp_path / "b").read_text())
        strays.kill_marked("MARK=abc:")
        assert leader.wait(timeout=60) == -signal.SIGKILL
        for name in ("a", "b"):
            wait_for_exit(int((tmp_path / name).read_text()))
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_replacement_of_a_killed_reaper_knows_everything_to_reap(tmp_path: Path) -> None:
    """Somebody may kill the small process; the next child that starts brings another one."""
    folder = tmp_path / "folder"
    folder.mkdir()
    own = reaper.Reaper()
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    own.add("group", sleeper.pid)
    own.add("folder", str(folder))
    own._process.kill()  # noqa: SLF001 - there is no public way to do it harm
    own._process.wait()  # noqa: SLF001 - see above
    own.add("folder", str(tmp_path / "another"))
    own.close()
    assert sleeper.wait(timeout=60) == -signal.SIGKILL
    assert not folder.exists()


def test_reaper_spares_entries_that_were_taken_back(tmp_path: Path) -> None:
    own = reaper.Reaper()
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    for kind, thing in (("group", sleeper.pid), ("folder", str(tmp_path))):
        own.add(kind, thing)
        own.drop(kind, thing)
    own.close()
    assert sleeper.poll() is None
    assert tmp_path.exists()
    sleeper.kill()
    sleeper.wait()


def test_number_with_a_new_owner_is_spared() -> None:
    """A process number may be given away; the time of its start tells the two apart."""
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    reaper._clear_away({sleeper.pid: 1}, set(), set(), "TASKQ_AGENT=nobody:")  # noqa: SLF001 - exact case
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


def test_reaper_knows_processes_and_folders_as_long_as_they_exist(tmp_path: Path) -> None:
    entries = reaper.shared()._entries  # noqa: SLF001 - what it knows is the point
    with slot_in(tmp_path) as slot:
        slot.run(shell("true"))
        ended = slot.run(python("add"), {"x": 1}, params={"offset": 1})
        assert ended.result is not None
        (folder,) = slot.scratch.iterdir()
        assert entries == {("group", ended.result["pid"]), ("folder", str(folder))}
    assert not entries
