"""A slot runs several calls for one message to its child; each has its own end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from taskq_agent import typed
from taskq_agent.handlers import bundle
from taskq_agent.handlers.base import Ended
from taskq_agent.handlers.processes import Channel
from taskq_agent.protocol import DONE, FAILED, RELEASED, CampaignTerms, Task
from tests.helpers.slot_harness import SlotHarness

HANDLER = {"kind": "function", "name": "called.act", "target": "called:act"}
TERMS = CampaignTerms(1, 1, "/calls", HANDLER, {}, None)


class CallEnds:
    """What a slot tells about several calls. on_unbegun: called when some go back."""

    def __init__(self, on_unbegun: Callable[[], object] = lambda: None) -> None:
        self.ends: list[Ended] = []
        self.unbegun = 0
        self.apart = False
        self._on_unbegun = on_unbegun

    def __call__(self, ends: Sequence[Ended], unbegun: int, apart: bool) -> None:
        """Note it; see `Tell`."""
        self.ends += ends
        self.unbegun += unbegun
        self.apart = self.apart or apart
        if unbegun:
            self._on_unbegun()

    def values(self) -> list[str]:
        """Return the values of the calls that have ended well."""
        return [end.result["value"] for end in self.ends if end.result and end.outcome == DONE]


def tasks_of(*calls: Sequence[str]) -> list[Task]:
    """Return a task for each call of `called.act`."""
    return [
        Task(1, 1, number, f"key {number}", 1, "lease", typed.encode_call(call, {}, None))
        for number, call in enumerate(calls, 1)
    ]


def ask(slot: SlotHarness, begun: Path, seen: CallEnds) -> None:
    """Ask for what has not begun, when the first call has, until it comes."""
    while not seen.unbegun:
        if begun.exists():
            slot.runner.take_back()
        time.sleep(0.01)


def run(slot: SlotHarness, seen: CallEnds, *calls: Sequence[str]) -> Ended | None:
    """Run calls in a child that is ready for them."""
    assert slot.runner.run(tasks_of(("begin",))[0], TERMS).outcome == DONE
    return slot.runner.run_several(tasks_of(*calls), TERMS, seen)


def test_many_calls_are_one_message(slot: SlotHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own value, its own output, and the seconds of its own execution."""
    messages: list[int] = []
    send = Channel.send
    monkeypatch.setattr(Channel, "send", lambda it, value: (messages.append(1), send(it, value)))
    seen = CallEnds()
    calls = [("print", f"line {n}") if n % 3 else (f"quiet {n}",) for n in range(200)]
    assert run(slot, seen, *calls) is None
    assert len(messages) == 3  # to prepare, the first call, and all the others
    assert seen.values() == [call[0] for call in calls]
    tails = [f"line {n}\n" if n % 3 else None for n in range(200)]
    assert [end.tail for end in seen.ends] == tails
    assert all({"run_s", "cpu_s"} == set(end.phases) for end in seen.ends)
    assert (seen.unbegun, seen.apart) == (0, False)


def test_first_of_several_prepares_the_child(slot: SlotHarness) -> None:
    """As a single one does."""
    seen = CallEnds()
    assert slot.runner.run_several(tasks_of(("a",), ("b",), ("c",)), TERMS, seen) is None
    assert seen.values() == ["a", "b", "c"]
    assert "prepare_s" in seen.ends[0].phases


def test_exceptions_end_their_own_call_only(slot: SlotHarness) -> None:
    """With their parts, as those of single calls."""
    seen = CallEnds()
    assert run(slot, seen, ("a",), ("raise", "no"), ("b",)) is None
    assert [end.outcome for end in seen.ends] == [DONE, FAILED, DONE]
    failed = seen.ends[1]
    assert (failed.error_class, failed.error, failed.raised) == ("ValueError", "no", True)
    assert failed.result is not None
    assert failed.result["exception"]["class"] == "builtins:ValueError"


def test_calls_behind_a_slow_one_go_back(slot: SlotHarness, tmp_path: Path) -> None:
    """The calls before it are reported at once; those behind it go back."""
    released = tmp_path / "released"
    seen = CallEnds(released.touch)
    assert run(slot, seen, ("a",), ("wait", str(released)), ("b",), ("c",)) is None
    assert seen.values() == ["a", "wait"]
    assert (seen.unbegun, seen.apart) == (2, False)


def test_agent_may_ask_for_what_has_not_begun(
    slot: SlotHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without waiting for a call to be slow, and without harm to the one at work."""
    monkeypatch.setattr(bundle, "SLOW_S", 1e6)
    begun, released = tmp_path / "begun", tmp_path / "released"
    seen = CallEnds(released.touch)
    asking = threading.Thread(target=ask, args=(slot, begun, seen), daemon=True)
    asking.start()
    calls = [("write", str(begun)), ("wait", str(released)), ("b",), ("c",)]
    assert run(slot, seen, *calls) is None
    asking.join()
    assert seen.values() in (["write"], ["write", "wait"])
    assert (len(seen.ends) + seen.unbegun, seen.apart) == (4, False)


def test_next_call_does_not_see_what_a_call_leaves(slot: SlotHarness) -> None:
    """The others go back, and the campaign's calls run one by one from then on."""
    seen = CallEnds()
    assert run(slot, seen, ("a",), ("write", "left.txt"), ("b",), ("c",)) is None
    assert seen.values() == ["a", "write"]
    assert (seen.unbegun, seen.apart) == (2, True)
    assert run(slot, seen, ("d",), ("e",)) is None
    assert seen.values() == ["a", "write", "d", "e"]
    assert not list(slot.scratch.rglob("left.txt"))


def test_call_that_closes_all_descriptors_keeps_the_others_apart(slot: SlotHarness) -> None:
    """As programs do that become daemons. Nothing is lost."""
    seen = CallEnds()
    over = run(slot, seen, ("a",), ("close",), ("b",), ("c",))
    assert seen.values()[0] == "a"
    assert len(seen.ends) + seen.unbegun + (over is not None) == 4


def test_call_that_kills_the_process_loses_no_other(slot: SlotHarness) -> None:
    """Those before it have ended, it has failed, and those behind it go back."""
    seen = CallEnds()
    over = run(slot, seen, ("print", "x"), ("die",), ("b",), ("c",))
    assert seen.values() == ["print"]
    assert over is not None
    assert (over.outcome, over.error_class) == (FAILED, "signal-SIGKILL")
    assert seen.unbegun == 2
    assert run(slot, seen, ("d",), ("e",)) is None
    assert seen.values() == ["print", "d", "e"]


def test_stop_ends_the_call_at_work(slot: SlotHarness, tmp_path: Path) -> None:
    """It goes back with those behind it."""
    seen = CallEnds(slot.runner.stop)
    over = run(slot, seen, ("a",), ("wait", str(tmp_path / "never")), ("b",))
    assert seen.values() == ["a"]
    assert over is not None
    assert over.outcome == RELEASED
    assert seen.unbegun == 1
