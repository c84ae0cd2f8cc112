from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskq_agent.handlers.limits import ChildWatch
from taskq_agent.handlers.processes import MAX_LINE_BYTES, Channel
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.helpers.slot_harness import SlotHarness, slot_in, talker, wait_for_exit
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import wait_until


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[SlotHarness]:
    with slot_in(tmp_path, grace_s=1) as harness:
        yield harness


def test_resident_process_gets_the_parameters_once_and_then_tasks(slot: SlotHarness) -> None:
    pids = set()
    for number in (1, 2, 3):
        ended = slot.run(talker(), {"x": "\u00e4"}, params={"p": 1}, key=f"k{number}")
        assert ended.result is not None
        prepared = {"prepare": {"p": 1}, "campaign": "/tests", "inputs": {}}
        assert ended.result["prepared"] == prepared
        message = ended.result["message"]
        for place in ("scratch", "progress"):
            assert Path(message["task"].pop(place)).is_relative_to(slot.scratch)
        assert message == {
            "id": number,
            "task": {"key": f"k{number}", "attempt": 1, "campaign": "/tests"},
            "payload": {"x": "\u00e4"},
        }
        assert ended.tail == f"working on k{number}\n"
        pids.add(ended.result["pid"])
    assert len(pids) == 1


def test_large_messages_pass_in_both_directions(slot: SlotHarness) -> None:
    """More than a pipe holds must not lock the two against each other."""
    payload = {"x": "y" * 200_000}
    ended = slot.run(talker(), payload, params={"p": "z" * 200_000})
    assert ended.result is not None
    assert ended.result["message"]["payload"] == payload
    assert slot.run(talker(), payload, params={}).outcome == DONE


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"error": "a", "error_class": "Odd"}, (FAILED, True, False, "Odd")),
        ({"error": "a", "verdict": "retry"}, (FAILED, True, False, "error")),
        ({"error": "a", "verdict": "fail"}, (FAILED, False, False, "error")),
        ({"error": "a", "verdict": "node-broken"}, (RELEASED, True, True, "error")),
        ({"result": [1]}, (FAILED, False, False, "bad-result")),
    ],
)
def test_answer_says_what_follows(
    slot: SlotHarness, answer: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    ended = slot.run(talker(), {"lines": [answer]})
    assert (ended.outcome, ended.retry, ended.refused, ended.error_class) == expected
    assert "prepare_s" not in slot.run(talker()).phases, "it may go on"


@pytest.mark.parametrize(
    ("payload", "text"),
    rest_thorough(
        [
            ({"lines": ["ready when you are"]}, "'ready when you are'"),
            ({"lines": ["[1]"]}, "'[1]'"),
            ({"lines": ["[" * 100_000]}, "JSON object"),
            ({"lines": [{"neither": 1}]}, "neither result nor error"),
            ({"lines": ['{"result": {}}']}, "with id None"),
            ({"lines": [{"error": "a", "verdict": "maybe"}]}, "maybe"),
            ({"lines": [{"id": 99, "result": {}}]}, "with id 99"),
            ({"flood": True}, f"more than {MAX_LINE_BYTES} bytes"),
            ({"mute": True}, "closed its standard output"),
        ],
        2,
    ),
)
def test_broken_protocol_fails_clearly_and_the_next_gets_a_new_process(
    slot: SlotHarness, payload: dict[str, Any], text: str
) -> None:
    ended = slot.run(talker(), payload)
    assert (ended.outcome, ended.retry, ended.error_class) == (FAILED, True, "bad-answer")
    assert text in str(ended.error)
    again = slot.run(talker())
    assert again.outcome == DONE
    assert "prepare_s" in again.phases


def test_line_that_nobody_asked_for_is_not_the_next_answer(slot: SlotHarness) -> None:
    """A result must never end up with another task."""
    for _ in range(5):  # the line may arrive before the next task begins, or after
        ended = slot.run(talker(), {"lines": [{"result": {}}, {"result": {"x": 1}}]})
        assert ended.result == {}
        ended = slot.run(talker())
        assert (ended.outcome, ended.error_class) == (FAILED, "bad-answer")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, (FAILED, True, False, "no-answer")),
        (3, (FAILED, True, False, "exit-3")),
        (65, (FAILED, False, False, "exit-65")),
        (69, (RELEASED, True, True, "exit-69")),
    ],
)
def test_exit_instead_of_an_answer_has_the_meaning_of_its_code(
    slot: SlotHarness, code: int, expected: tuple[Any, ...]
) -> None:
    ended = slot.run(talker(), {"exit": code})
    assert (ended.outcome, ended.retry, ended.refused, ended.error_class) == expected
    assert ended.tail == "working on key\n"


def test_exit_between_two_tasks_costs_nothing(slot: SlotHarness) -> None:
    for _ in range(3):
        ended = slot.run(talker(), {"exit_after": True})
        assert ended.result is not None
        wait_for_exit(ended.result["pid"])


def test_time_limit_ends_the_process_but_lets_it_clear_up(
    slot: SlotHarness, tmp_path: Path
) -> None:
    ready, polite = tmp_path / "ready", tmp_path / "polite"
    payload = {"sleep": 600, "ready": str(ready), "polite": str(polite)}
    ended, _ = slot.run_into_limit(talker(), payload, ready)
    assert (ended.outcome, ended.retry, ended.error_class) == (FAILED, True, "time-limit")
    assert polite.exists()
    slot.wait_until_alone()


def test_flood_while_waiting_for_the_end_takes_no_memory(tmp_path: Path) -> None:
    """A program that ignores SIGTERM may write without end during the grace."""
    watch = ChildWatch()
    script = "while True: print('x' * 65_536, end='')"
    channel = Channel([sys.executable, "-c", script], cwd=str(tmp_path), env={}, watch=watch)
    received = channel._received  # noqa: SLF001 - memory is the point
    wait_until(lambda: channel.group.read_available() or len(received) > MAX_LINE_BYTES)
    channel.group.wait_for_exit(0.2)
    assert len(received) <= MAX_LINE_BYTES + 65_536
    channel.group.end()
    watch.close()


def test_stopped_attempt_is_released(slot: SlotHarness) -> None:
    with slot.stopped_once(slot.processes):
        ended = slot.run(talker(), {"sleep": 600})
    assert (ended.outcome, ended.error_class) == (RELEASED, "stopped")


def test_missing_program_refuses_the_campaign(slot: SlotHarness) -> None:
    ended = slot.run({"kind": "process", "argv": ["no-such-program"]})
    assert (ended.refused, ended.error_class) == (True, "command-not-found")
