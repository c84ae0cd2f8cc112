"""Updates that an agent makes of its attempts: what payloads say, what is followed, how much."""

from __future__ import annotations

import base64
import math
import os
import threading
import time
from collections.abc import Container, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event

import pytest

import taskq_agent
from taskq_agent.core import events as ev
from taskq_agent.errors import LostOnTheWay
from taskq_agent.handlers.live import LiveAttempt, Tail, parsed
from taskq_agent.heartbeat import HeartbeatThread, needed_every_s
from taskq_agent.held_claims import HeldClaim
from taskq_agent.protocol import Heartbeat, HeartbeatAnswer, Held, Trouble, Welcome
from taskq_agent.task_messages import (
    MAX_NOTE_CHARS,
    MAX_OUTPUTS,
    MAX_UPDATES,
    FollowingAnswer,
    Update,
    UpdatingHeartbeat,
)
from taskq_agent.threads import CHECK_S, Watchdog
from taskq_agent.updates import UpdateCollector, with_updates
from taskq_agent.wire import dumps
from tests.helpers.meanwhile import meanwhile
from tests.helpers.slot_harness import SlotHarness, python, shell, slot_in
from tests.helpers.waiting import wait_until

HELD = Held(1, 7, "lease")


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[SlotHarness]:
    """Give a slot."""
    with slot_in(tmp_path) as harness:
        yield harness


@pytest.mark.parametrize(
    ("line", "fraction", "note"),
    [
        ("0.4 sweep 40 of 100", 0.4, "sweep 40 of 100"),
        ("40% sweep", 0.4, "sweep"),
        ("1", 1.0, ""),
        ("1e-05 early", 1e-05, "early"),
        ("- loading", None, "loading"),
        ("loading", None, "loading"),
        ("12 molecules", None, "12 molecules"),
        ("nan", None, "nan"),
        ("-0.1 x", None, "-0.1 x"),
        ("", None, ""),
        ("0.5 \x1b[31mred\x07\x00", 0.5, "red"),
        ("x" * 5_000, None, "x" * MAX_NOTE_CHARS),
    ],
)
def test_line_says_how_far_an_attempt_is(line: str, fraction: float | None, note: str) -> None:
    """A fraction or percentage first, then a note; anything else is all note."""
    assert parsed(line) == (fraction, note)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("0.1 a\n0.2 b\n", (0.2, "b")),
        ("0.1 a\n0.25", (0.1, "a")),  # which is being written
        ("0.3 alone", (0.3, "alone")),
        ("0.1 a\n\n\n", (0.1, "a")),
        ("x" * 9_999 + "\n0.6\n", (0.6, "")),
    ],
)
def test_last_whole_line_of_the_file_counts(
    content: str, wanted: tuple[float, str], tmp_path: Path
) -> None:
    live = LiveAttempt()
    live.begin(HELD, str(tmp_path))
    assert live.update(()) is None
    (tmp_path / "taskq-progress").write_text(content)
    update = live.update(())
    assert update is not None
    assert (update.fraction, update.note, update.held) == (*wanted, HELD)
    live.end()
    assert live.update(()) is None


def test_nothing_but_a_file_of_its_own_is_read(tmp_path: Path) -> None:
    """No link, which could show a file of the node's; no FIFO, which would block; no folder."""
    live = LiveAttempt()
    live.begin(HELD, str(tmp_path))
    place = tmp_path / "taskq-progress"
    secret = tmp_path / "secret"
    secret.write_text("0.5 secret\n")
    place.symlink_to(secret)
    assert live.update(()) is None
    place.unlink()
    os.mkfifo(place)
    assert live.update(()) is None
    place.unlink()
    place.mkdir()
    assert live.update(()) is None
    place.rmdir()
    place.write_text("0.5 fine\n")
    (tmp_path / "link").symlink_to(tmp_path)
    live.begin(HELD, str(tmp_path / "link"))
    assert live.update(()) is None


def test_only_the_followed_attempt_sends_its_output() -> None:
    """Its last bytes, and how many there were."""
    live, output = LiveAttempt(), Tail(8)
    live.begin(HELD, "/nowhere")
    assert live.update([HELD]) is None
    live.writes_to(output)
    output.add(b"hello")
    output.add(b" and bye\xff")
    assert live.update([Held(1, 8, "lease")]) is None
    update = live.update([HELD])
    assert update is not None
    assert update.output is not None
    assert (base64.b64decode(update.output), update.written) == (b"and bye\xff", 14)
    other = Held(1, 8, "other")
    live.begin(other, "/nowhere")
    assert live.update([HELD, other]) is None


SAYS = """
echo "0.5 half" >> "$TASKQ_PROGRESS"
echo out; echo err >&2
until [ -e "$1" ]; do sleep 0.05; done
"""


def test_program_is_seen_while_it_runs(slot: SlotHarness, tmp_path: Path) -> None:
    """How far it is, and both streams of its output; nothing of it afterwards."""
    go_on = tmp_path / "go"
    seen: list[Update] = []

    def has_said_all() -> bool:
        update = slot.runner.update([HELD])
        if update is None or update.written < 8 or update.fraction is None:
            return False
        seen.append(update)
        return True

    def look(_: Event) -> None:
        try:
            wait_until(has_said_all)
        finally:
            go_on.touch()

    with meanwhile(look):
        ended = slot.run(shell(SAYS, str(go_on)))
    assert ended.outcome == "done", ended
    (update,) = seen
    assert (update.fraction, update.note, update.held) == (0.5, "half", HELD)
    assert sorted(base64.b64decode(update.output or "").split()) == [b"err", b"out"]
    assert slot.runner.update([HELD]) is None


def test_python_says_how_far_it_is(
    slot: SlotHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a function, which is never an error; a value out of range is the nearest in it."""
    place = tmp_path / "taskq-progress"
    monkeypatch.delenv("TASKQ_PROGRESS", raising=False)
    taskq_agent.progress(0.5)
    monkeypatch.setenv("TASKQ_PROGRESS", str(place))
    for said, wanted in (
        ((0.25, "a\nb\x1b[1m"), (0.25, "a b")),
        ((7,), (1.0, "")),
        ((float("nan"), "n"), (None, "n")),
        ((None, "0.5 Å"), (None, "0.5 Å")),
        ((1e-9, "x" * 10_000), (1e-9, "x" * MAX_NOTE_CHARS)),
    ):
        taskq_agent.progress(*said)
        assert parsed(place.read_text()) == wanted
    monkeypatch.setenv("TASKQ_PROGRESS", str(tmp_path / "no" / "folder"))
    taskq_agent.progress(0.5)
    ended = slot.run(python("tells_progress"))
    assert ended.result == {"said": "0.5 half\n"}


def update(number: int, output: str | None = None) -> Update:
    return Update(1, number, "lease", 0.5, "", output, 1)


def test_heartbeat_carries_a_bounded_number_of_updates() -> None:
    """Of what it names; those with output first, and few of them with it."""
    assert with_updates(None, [update(1)]) is None
    bare = Heartbeat(7, held=tuple(Held(1, n, "lease") for n in range(1_000)))
    assert with_updates(bare, []) is bare
    assert with_updates(bare, [update(5_000)]) is bare
    heartbeat = with_updates(bare, [update(n, "eA==" if n >= 900 else None) for n in range(1_000)])
    assert isinstance(heartbeat, UpdatingHeartbeat)
    assert (heartbeat.session, heartbeat.held) == (bare.session, bare.held)
    assert len(heartbeat.updates) == MAX_UPDATES
    assert [value.output is not None for value in heartbeat.updates] == [
        n < MAX_OUTPUTS for n in range(MAX_UPDATES)
    ]
    assert heartbeat.updates[0].task == 900
    many = Heartbeat(7, held=tuple(Held(1, n, "lease") for n in range(5_000)))
    assert with_updates(many, [update(1)]) is many


def test_heartbeat_without_updates_is_the_same_to_the_byte() -> None:
    """Neither a name nor a bracket more."""
    assert "updates" not in dumps(Heartbeat(7, (HELD,)))
    assert '"updates":[{' in dumps(UpdatingHeartbeat(7, (HELD,), updates=(update(7),)))


class HungSlot:
    """A slot, and its runner, whose scratch folder hangs. asked: how often it was looked at."""

    def __init__(self) -> None:
        self.runner = self
        self.free = threading.Event()
        self.asked = 0

    def update(self, followed: Container[Held]) -> Update:
        """Hang until freed."""
        assert HELD in followed
        self.asked += 1
        assert self.free.wait(30)
        return update(7)


def test_hung_file_system_delays_no_heartbeat() -> None:
    """For half a second once; afterwards it repeats what it has."""
    slot = HungSlot()
    collector = UpdateCollector([slot])  # type: ignore[list-item]  # as much of one as it needs
    followed = frozenset([HELD])
    assert collector.collect(followed) == ()
    assert collector.collect(followed) == ()
    assert slot.asked == 1
    slot.free.set()
    wait_until(lambda: collector.collect(followed) == (update(7),))
    collector.close()


class Following:
    """A queue that follows the attempt for two beats."""

    def __init__(self) -> None:
        self.beats = 0

    def heartbeat(self, _: Heartbeat) -> HeartbeatAnswer:
        """Answer."""
        self.beats += 1
        return FollowingAnswer(follow=(HELD,)) if self.beats <= 2 else HeartbeatAnswer()


@pytest.mark.thorough
def test_agent_sends_heartbeats_more_often_while_its_output_is_followed() -> None:
    """Every few seconds, with the output; at the usual interval when nobody follows any more."""
    asked: SimpleQueue[frozenset[Held]] = SimpleQueue()
    events: SimpleQueue[ev.Event] = SimpleQueue()

    def snapshot(followed: frozenset[Held]) -> Heartbeat:
        asked.put(followed)
        return Heartbeat(7)

    heartbeats = HeartbeatThread(
        Following(),  # type: ignore[arg-type]  # as much of a transport as it needs
        snapshot,
        events.put,
        lambda: None,
        watchdog=Watchdog(300.0),
    )
    heartbeats.keep(Welcome(7, 3_000.0, 12_000.0))
    wait_until(lambda: events.qsize() >= 3)
    heartbeats.close(10.0)
    assert [asked.get() for _ in range(3)] == [frozenset(), frozenset([HELD]), frozenset([HELD])]
    assert asked.empty()


def test_heartbeat_that_is_called_for_comes_before_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twenty seconds after the last one at the latest; not once nothing calls for it."""
    clock, sent = time.monotonic, SimpleQueue[float]()
    ahead, calls = 0.0, True

    class Prompt:
        def heartbeat(self, _: Heartbeat) -> HeartbeatAnswer:
            sent.put(ahead)
            return HeartbeatAnswer()

    monkeypatch.setattr(time, "monotonic", lambda: clock() + ahead)
    heartbeats = HeartbeatThread(
        Prompt(),  # type: ignore[arg-type]  # as much of a transport as it needs
        lambda _: Heartbeat(7),
        lambda _: None,
        lambda: None,
        is_called_for=lambda: calls,
        watchdog=Watchdog(30_000.0),
    )
    heartbeats.keep(Welcome(7, 3_000.0, 12_000.0))
    assert sent.get(timeout=60) == 0.0
    ahead = 21.0
    assert sent.get(timeout=60) == 21.0
    calls, ahead = False, 60.0
    with pytest.raises(Empty):
        sent.get(timeout=3 * CHECK_S)
    heartbeats.close(10.0)


@pytest.mark.parametrize(
    ("begun", "every_s"),
    [(None, math.inf), (0, math.inf), (1, 5.0), (100, 5.0), (500, 25.0), (1_000, 50.0)],
)
def test_heartbeats_that_name_more_begun_tasks_come_less_often(
    begun: int | None, every_s: float
) -> None:
    """Each costs the server more; one with a hundred costs little more than one with none."""
    marks = None if begun is None else tuple(range(begun))
    claims = (HeldClaim(1, HELD.lease, 1_000, marks),)
    assert needed_every_s(Heartbeat(7, claims=claims), frozenset()) == every_s
    assert needed_every_s(Heartbeat(7, claims=claims), frozenset([HELD])) == 2.0


class Filtered:
    """Behind a filter that lets no heartbeat with texts through."""

    def __init__(self) -> None:
        self.lost: list[Heartbeat] = []
        self.came: list[Heartbeat] = []

    def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Answer, unless it holds a text."""
        if "<script>" in dumps(heartbeat):
            self.lost.append(heartbeat)
            raise LostOnTheWay("403 from something else, not from a gateway")
        self.came.append(heartbeat)
        return HeartbeatAnswer()


def test_filter_that_dislikes_a_text_ends_no_session() -> None:
    """A heartbeat without what payloads have written follows soon, with all that it holds."""
    queue = Filtered()
    trouble = Trouble(3, "<script>", 1.0, ("disk",), "<script>")
    updates = (Update(HELD.campaign, HELD.task, HELD.lease, note="<script>"),)
    full = UpdatingHeartbeat(7, (HELD,), trouble=trouble, updates=updates)
    heartbeats = HeartbeatThread(
        queue,  # type: ignore[arg-type]  # as much of a transport as it needs
        lambda _: full,
        lambda _: None,
        lambda: None,
        watchdog=Watchdog(300.0),
    )
    heartbeats.keep(Welcome(7, 0.4, 1.6))
    wait_until(lambda: len(queue.came) >= 2)
    heartbeats.close(10.0)
    assert len(queue.lost) >= 2, "the next one has the texts again"
    assert queue.came[0] == Heartbeat(7, (HELD,), trouble=Trouble(3, "", 1.0, ("disk",)))
