"""Harness of one slot: a real runner, without an agent."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from taskq_agent.handlers import Ended, MemoryRoom, RunnerSettings, make_runner
from taskq_agent.protocol import CampaignTerms, Input, Task
from taskq_agent.resources import Resources
from taskq_agent.room import Grant, Room
from taskq_agent.transport import TaskBlobs
from tests.helpers.meanwhile import meanwhile
from tests.helpers.paths import PAYLOADS
from tests.helpers.waiting import wait_until

_VARIABLE = "SLOT_HARNESS"


class SlotHarness:
    """Runs tasks one after the other."""

    def __init__(
        self,
        folder: Path,
        *,
        grace_s: float,
        keep_scratch: bool,
        blobs: TaskBlobs | None = None,
        slot: int = 0,
        slots: int = 1,
        patience_s: float = 4.0,
        node: Resources | None = None,
        **settings: Any,
    ) -> None:
        self.scratch = folder / "scratch"
        self._keep = keep_scratch
        self._name = uuid.uuid4().hex
        os.environ[_VARIABLE] = self._name
        self.runner = make_runner(
            slot,
            RunnerSettings(
                scratch_root=self.scratch,
                python_path=(str(PAYLOADS),),
                grace_s=grace_s,
                keep_scratch=keep_scratch,
                cache_dir=folder / "cache",
                patience_s=patience_s,
                slots=slots,
                node=node or Resources(),
                **settings,
            ),
            blobs,
            None if node is None or node.memory is None else MemoryRoom(node.memory),
        )
        #: Of all starts together: what they get is not given back.
        self._room = Room(node or Resources())
        self._revision = 0
        #: What batches have said of tasks that have begun, each time; None: a start anew.
        self.begun: list[list[int] | None] = []
        self._last: tuple[Any, ...] = ()

    def run(
        self,
        handler: Mapping[str, Any],
        payload: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        limit_s: float | None = None,
        inputs: Mapping[str, Input] | None = None,
        key: str = "key",
        attempt: int = 1,
        checkpoint_bytes: int | None = None,
        checkpoint_every_s: float = 600.0,
        output_bytes: int | None = None,
        resources: Mapping[str, Any] | None = None,
    ) -> Ended:
        """Run one task; a campaign that differs from the last one gets a new revision."""
        campaign = (dict(handler), dict(params or {}), limit_s, dict(inputs or {}))
        kept: dict[str, Any] = {
            "checkpoint_bytes": checkpoint_bytes,
            "checkpoint_every_s": checkpoint_every_s,
            "output_bytes": output_bytes,
            **(resources or {}),
        }
        if (campaign, resources) != self._last:
            self._last = (campaign, resources)
            self._revision += 1
        terms = CampaignTerms(1, self._revision, "/tests", *campaign, **kept)
        self.runner.use(self._room.place(terms) or Grant())
        return self.runner.run(
            Task(1, self._revision, 7, key, attempt, "lease", payload or {}), terms
        )

    def run_batch(
        self,
        handler: Mapping[str, Any],
        payloads: Sequence[Mapping[str, Any]],
        *,
        limit_s: float | None = None,
        output_bytes: int | None = None,
        inputs: Mapping[str, Input] | None = None,
        memory: tuple[int, ...] = (),
    ) -> tuple[list[Ended], str | None]:
        """Run tasks together; return the end of each, in order, and `too_large_as`."""
        if (handler, limit_s) != self._last:
            self._last = (handler, limit_s)
            self._revision += 1
        tasks = [
            Task(1, self._revision, number, f"k{number}", 1, f"lease{number}", payload)
            for number, payload in enumerate(payloads, 1)
        ]
        terms = CampaignTerms(
            1,
            self._revision,
            "/tests",
            handler,
            {},
            limit_s,
            inputs=inputs or {},
            output_bytes=output_bytes,
            memory=memory,
        )
        ended: dict[int, Ended] = {}
        last: list[str | None] = []

        def tell(
            ends: Sequence[tuple[Task, Ended]],
            *,
            over: bool = False,
            too_large_as: str | None = None,
            begun: Sequence[Task] | None = (),
        ) -> None:
            assert not last
            self.begun += [None if begun is None else [task.task for task in begun]]
            for task, end in ends:
                assert task.task not in ended
                ended[task.task] = end
            last.extend([too_large_as] * over)

        self.runner.run_batch(tasks, terms, tell)
        return [ended[task.task] for task in tasks], last[0]

    def run_into_limit(
        self, handler: Mapping[str, Any], payload: Mapping[str, Any], ready: Path
    ) -> tuple[Ended, float]:
        """Run a task that makes the file `ready` and never ends; return also the time limit.

        On a busy host the limit is raised until the task gets so far.
        """
        for limit_s in (0.5, 2.0, 8.0, 32.0):
            ended = self.run(handler, payload, limit_s=limit_s)
            if ready.exists():
                return ended, limit_s
        raise AssertionError(f"{ready} was never made: {ended}")

    def stopped_once(self, is_ready: Callable[[], object]) -> AbstractContextManager[object]:
        """Stop the attempt that the block runs as soon as it is ready."""

        def stop(_: Event) -> None:
            wait_until(is_ready)
            self.runner.stop()

        return meanwhile(stop)

    def processes(self) -> list[int]:
        """Return the living processes that payloads have started."""
        return processes_with(_VARIABLE, self._name)

    def close(self) -> None:
        """End the slot; assert that all processes and folders are gone."""
        self.runner.close()
        del os.environ[_VARIABLE]
        self.wait_until_alone()
        if not self._keep and self.scratch.is_dir():
            assert list(self.scratch.iterdir()) == []

    def wait_until_alone(self) -> None:
        """Wait until no process that payloads have started is left."""
        wait_until(lambda: not self.processes(), on_timeout=lambda: str(self.processes()))


@contextmanager
def slot_in(
    folder: Path,
    *,
    grace_s: float = 5.0,
    keep_scratch: bool = False,
    blobs: TaskBlobs | None = None,
    **more: Any,
) -> Iterator[SlotHarness]:
    """Provide a slot, and close it."""
    harness = SlotHarness(folder, grace_s=grace_s, keep_scratch=keep_scratch, blobs=blobs, **more)
    try:
        yield harness
    finally:
        harness.close()


def command(*argv: str) -> dict[str, Any]:
    return {"kind": "command", "argv": list(argv)}


def shell(script: str, *arguments: str) -> dict[str, Any]:
    """Return a command that runs a script, with its braces escaped."""
    return command("sh", "-c", script.replace("{", "{{").replace("}", "}}"), "sh", *arguments)


def python(target: str, prepare: str | None = None) -> dict[str, Any]:
    handler = {"kind": "python", "target": f"jobs:{target}"}
    return handler if prepare is None else {**handler, "prepare": f"jobs:{prepare}"}


def process(program: Path) -> dict[str, Any]:
    return {"kind": "process", "argv": [sys.executable, str(program)]}


def talker() -> dict[str, Any]:
    return process(PAYLOADS / "talker.py")


def wait_for_exit(pid: int) -> None:
    """Wait until a process has exited, whether or not its parent has reaped it."""
    wait_until(lambda: _state(pid) in ("Z", ""))


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def processes_with(variable: str, value: str, *, reapers: bool = False) -> list[int]:
    """Return the living processes with this variable in their initial environment.

    reapers: also those of `taskq_agent.reaper`; ours lives as long as the tests do.
    """
    wanted = f"\0{variable}={value}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = b"\0" + (entry / "environ").read_bytes()
                is_reaper = b"taskq_agent.reaper" in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if (
                wanted in environment
                and (reapers or not is_reaper)
                and int(entry.name) != os.getpid()
            ):
                found.append(int(entry.name))
    return found
