"""History: all that the clients of a farm have seen, written down outside the database.

Each process appends to a file of its own, a line of JSON for each event, in one write: what a
killed process has written stays. Times are those of CLOCK_MONOTONIC, which all processes of a
machine share and which nobody sets.

    seeding, seeded     keys: are about to be sent, are acknowledged
    claimed             agent, task, key, attempt, lease: an answer gave this attempt to the agent
    began, ended        execution, agent, key, attempt, outcome: of payload code
    restored, kept      execution, step: of payload code that keeps a checkpoint, what it found, and
                        left in its folder; kept_by: the execution that had left what it found
    saved               task, lease, execution, step: the queue has what an execution had kept
    answered            task, lease, outcome, execution, verdict: a report has its verdict
    ordering, ordered   verb, key: a cancel or a retry; moved: whether it did something
    sweeping, swept     verb, word: the same of all whose keys contain a word
    withdrawing, withdrew  key: the result of a task; moved: whether it was there
    read                gone, given: pairs of key and attempt that a cursor gave in one look:
                        results that were withdrawn, then new ones
    opening, opened     session, host, site: an agent asked to be let in under this key, and was
    banned, lifting     kind, name: a ban is acknowledged, is about to be lifted
    fault               kind, target, seen: see nemesis.py
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

SUFFIX = ".history"


class Writer:
    """Appends events to a file. Safe to use from several threads.

    piped: through a process of its own, which outlives this one and no limit of this one hinders.
    """

    def __init__(self, folder: str | Path, name: str, *, piped: bool = False) -> None:
        path = Path(folder) / f"{name}{SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._process: subprocess.Popen[bytes] | None = None
        if piped:
            self._process = appending(self._file)
            assert self._process.stdin is not None
            os.close(self._file)
            self._file = self._process.stdin.fileno()

    def note(self, event: str, **facts: object) -> None:
        """Write one event down; it is there when this returns."""
        line = json.dumps({"event": event, "at": time.monotonic(), **facts})
        os.write(self._file, line.encode() + b"\n")

    def close(self) -> None:
        """Wait until all is in the file."""
        if self._process is None:
            os.close(self._file)
        else:
            self._process.communicate()


def appending(file: int) -> subprocess.Popen[bytes]:
    """Start a process that writes to a file what comes to its standard input, until that ends.

    Its files may grow, although those of a process whose disk is full by then may not.
    """
    process = subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, stdout=file, start_new_session=True, bufsize=0
    )
    _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
    return process


@dataclass(frozen=True)
class Execution:
    """One time that payload code began. outcome: None if it came to no end."""

    agent: str
    key: str
    attempt: int
    began: float
    outcome: str | None = None


@dataclass(frozen=True)
class Checkpoint:
    """What an execution has kept; step 0 of no execution: nothing. lease: under which it is."""

    execution: str
    step: int
    task: int = 0
    lease: str = ""


@dataclass(frozen=True)
class Answer:
    """The verdict on a report, as an agent got it. execution: the one that was reported, if any.

    at: when it was there.
    """

    task: int
    lease: str
    outcome: str
    verdict: str
    execution: str | None
    at: float = 0.0


@dataclass(frozen=True)
class Order:
    """A cancel or a retry of one key. moved: whether it did something; None: never acknowledged."""

    verb: str
    key: str
    began: float
    moved: bool | None
    ended: float = math.inf


@dataclass(frozen=True)
class Sweep:
    """A cancel, or a retry of failed tasks, of all whose keys contain a word.

    ended: when it was acknowledged; infinite: never, so it may have been done in part, or be yet.
    """

    verb: str
    word: str
    began: float
    ended: float = math.inf


@dataclass(frozen=True)
class Withdrawal:
    """A withdrawal of the result of one key. moved, ended: as of an order."""

    key: str
    began: float
    moved: bool | None = None
    ended: float = math.inf


@dataclass(frozen=True)
class Look:
    """What a reader with a cursor learned in one look: keys and attempts."""

    gone: list[tuple[str, int]]
    given: list[tuple[str, int]]


@dataclass(frozen=True)
class Ban:
    """A ban of a host or site, from when it was acknowledged until it was about to be lifted."""

    kind: str
    name: str
    since: float
    until: float = math.inf


@dataclass
class Session:
    """A session of an agent. asked: when it did so first; opened: when it knew; infinite: never."""

    host: str
    site: str
    asked: float
    opened: float = math.inf


@dataclass(frozen=True)
class Task:
    """A task as PostgreSQL has it at the end."""

    task: int
    key: str
    status: str
    attempt: int


@dataclass(frozen=True)
class Attempt:
    """An attempt as PostgreSQL has it. Times are of CLOCK_MONOTONIC, as in all other events.

    salvaged: it was lost, and its success came in time all the same; it `ended` then.
    """

    task: int
    attempt: int
    lease: str
    outcome: str
    claimed: float
    ended: float
    execution: str | None
    salvaged: bool = False

    @property
    def reported(self) -> str:
        """Its outcome before an operator withdrew it."""
        return "done" if self.outcome == "withdrawn" else self.outcome


@dataclass
class History:
    """All that is known of one run. Lists are in the order of time."""

    seeding: dict[str, float] = field(default_factory=dict)
    """When each key was first about to be sent."""
    seeded: dict[str, float] = field(default_factory=dict)
    """When the seeding of each key was acknowledged."""
    leases: dict[tuple[str, int, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    """By agent, task and number of the attempt."""
    executions: dict[str, Execution] = field(default_factory=dict)
    restored: dict[str, Checkpoint] = field(default_factory=dict)
    """What each execution has found, if it keeps checkpoints."""
    kept: dict[str, int] = field(default_factory=dict)
    """The last step that each execution has kept."""
    saved: list[Checkpoint] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)
    withdrawals: list[Withdrawal] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    bans: list[Ban] = field(default_factory=list)
    sessions: dict[str, Session] = field(default_factory=dict)
    """By the key that the agent has drawn."""
    tasks: list[Task] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)


def read(folder: Path) -> History:
    """Return the clients' part of a history; ValueError if it is damaged.

    A line without an end is being written: its client has not gone on.
    """
    whole = (path.read_text().rpartition("\n")[0] for path in folder.glob(f"*{SUFFIX}"))
    lines = (line for text in whole for line in text.splitlines())
    history = History()
    pending: dict[tuple[str, str], float] = {}
    for event in sorted(map(json.loads, lines), key=lambda event: event["at"]):
        _take[event["event"]](history, event, pending)
    history.orders += [Order(*order, began, None) for order, began in pending.items()]
    return history


Event = dict[str, Any]
Pending = dict[tuple[str, str], float]


def _seeding(history: History, event: Event, _: Pending) -> None:
    for key in event["keys"]:
        history.seeding.setdefault(key, event["at"])


def _seeded(history: History, event: Event, _: Pending) -> None:
    for key in event["keys"]:
        history.seeded.setdefault(key, event["at"])


def _claimed(history: History, event: Event, _: Pending) -> None:
    history.leases[event["agent"], event["task"], event["attempt"]].add(event["lease"])


def _began(history: History, event: Event, _: Pending) -> None:
    history.executions[event["execution"]] = Execution(
        event["agent"], event["key"], event["attempt"], event["at"]
    )


def _ended(history: History, event: Event, _: Pending) -> None:
    begun = history.executions[event["execution"]]
    history.executions[event["execution"]] = Execution(
        begun.agent, begun.key, begun.attempt, begun.began, event["outcome"]
    )


def _restored(history: History, event: Event, _: Pending) -> None:
    found = Checkpoint(event["kept_by"], event["step"])
    history.restored[event["execution"]] = found


def _kept(history: History, event: Event, _: Pending) -> None:
    history.kept[event["execution"]] = event["step"]


def _saved(history: History, event: Event, _: Pending) -> None:
    history.saved.append(
        Checkpoint(event["execution"], event["step"], event["task"], event["lease"])
    )


def _answered(history: History, event: Event, _: Pending) -> None:
    history.answers.append(
        Answer(
            event["task"],
            event["lease"],
            event["outcome"],
            event["verdict"],
            event["execution"],
            event["at"],
        )
    )


def _ordering(_: History, event: Event, pending: Pending) -> None:
    pending.setdefault((event["verb"], event["key"]), event["at"])


def _ordered(history: History, event: Event, pending: Pending) -> None:
    order = event["verb"], event["key"]
    history.orders.append(Order(*order, pending.pop(order), bool(event["moved"]), event["at"]))


def _sweeping(history: History, event: Event, _: Pending) -> None:
    history.sweeps.append(Sweep(event["verb"], event["word"], event["at"]))


def _swept(history: History, event: Event, _: Pending) -> None:
    history.sweeps[-1] = replace(history.sweeps[-1], ended=event["at"])  # one at a time


def _withdrawing(history: History, event: Event, _: Pending) -> None:
    history.withdrawals.append(Withdrawal(event["key"], event["at"]))


def _withdrew(history: History, event: Event, _: Pending) -> None:
    known = history.withdrawals[-1]  # one at a time
    history.withdrawals[-1] = replace(known, moved=bool(event["moved"]), ended=event["at"])


def _read(history: History, event: Event, _: Pending) -> None:
    pairs = ([(key, attempt) for key, attempt in event[name]] for name in ("gone", "given"))
    history.looks.append(Look(*pairs))


def _opening(history: History, event: Event, _: Pending) -> None:
    history.sessions.setdefault(
        event["session"], Session(event["host"], event["site"], event["at"])
    )


def _opened(history: History, event: Event, _: Pending) -> None:
    session = history.sessions[event["session"]]
    session.opened = min(session.opened, event["at"])


def _banned(history: History, event: Event, _: Pending) -> None:
    history.bans.append(Ban(event["kind"], event["name"], event["at"]))


def _lifting(history: History, event: Event, _: Pending) -> None:
    history.bans[-1] = replace(history.bans[-1], until=event["at"])  # one at a time


_take = {
    "seeding": _seeding,
    "seeded": _seeded,
    "claimed": _claimed,
    "began": _began,
    "ended": _ended,
    "restored": _restored,
    "kept": _kept,
    "saved": _saved,
    "answered": _answered,
    "ordering": _ordering,
    "ordered": _ordered,
    "sweeping": _sweeping,
    "swept": _swept,
    "withdrawing": _withdrawing,
    "withdrew": _withdrew,
    "read": _read,
    "opening": _opening,
    "opened": _opened,
    "banned": _banned,
    "lifting": _lifting,
    "fault": lambda *_: None,
}
