"""Programs for many tasks that misbehave: what they have said counts, whatever else they do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskq_agent.handlers import Ended
from taskq_agent.protocol import DONE, FAILED
from tests.helpers.slot_harness import SlotHarness, shell, slot_in


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[SlotHarness]:
    with slot_in(tmp_path, grace_s=1) as harness:
        yield harness


def script(text: str, **more: Any) -> dict[str, Any]:
    """Return a shell script that gets up to 100 tasks; `say N` appends the outcome of one."""
    say = """say() { printf '{"id":%s,"result":{"n":%s}}\\n' $1 $1 >> $TASKQ_OUTCOMES; }; """
    return {**shell(say + text), "batch": 100, **more}


def resident(code: str, **more: Any) -> dict[str, Any]:
    """Return a resident program in Python that gets up to 100 tasks."""
    argv = [sys.executable, "-c", code.replace("{", "{{").replace("}", "}}")]
    return {"kind": "process", "argv": argv, "batch": 100, **more}


def classes(ends: list[Ended]) -> list[str | None]:
    return [None if end.outcome == DONE else end.error_class for end in ends]


def test_children_that_hold_the_outcomes_open_are_ended_with_the_start(slot: SlotHarness) -> None:
    text = """exec 3>>$TASKQ_OUTCOMES; say 1; (sleep 600; say 2) &
    (setsid sh -c 'sleep 600; say 2' &); exit 0"""
    ends, _ = slot.run_batch(script(text), [{}] * 2)
    assert classes(ends) == [None, "no-outcome"]
    slot.wait_until_alone()


def test_program_that_closes_its_streams_is_heard(slot: SlotHarness) -> None:
    ends, _ = slot.run_batch(script("exec <&- >&- 2>&-; say 1; say 2"), [{}] * 2)
    assert classes(ends) == [None, None]


@pytest.mark.thorough
@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_resident_program_that_closes_a_stream_fails_its_tasks(
    slot: SlotHarness, stream: str
) -> None:
    """It can be asked nothing more, or answer nothing."""
    code = f"""
import os, sys, time
sys.stdin.readline()
os.close(sys.{stream}.fileno())
time.sleep(30)
"""
    big = {"x": "y" * 200_000}  # more than a pipe holds
    ends, _ = slot.run_batch(resident(code), [big] * 2)
    assert {end.error_class for end in ends if end.outcome == FAILED} == {"bad-answer"}


def test_program_that_does_not_end_after_all_outcomes_is_ended(
    slot: SlotHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskq_agent.handlers.outcomes.LINGER_S", 0.3)
    late = tmp_path / "late"
    ends, too_large_as = slot.run_batch(script(f"say 1; say 2; sleep 30; touch {late}"), [{}] * 2)
    assert (classes(ends), too_large_as) == ([None, None], "")
    assert not late.exists()


def test_ordered_program_that_answers_in_another_order_charges_the_guilty_only(
    slot: SlotHarness,
) -> None:
    text = """
    for n in $(tac "$1"); do test $n = 3 && kill -SEGV $$; say $n; done"""
    its = {**script(text, ordered=True, line="{task.n}")}
    its["argv"].append("{list}")
    ends, _ = slot.run_batch(its, [{}] * 6)
    assert classes(ends) == [None, None, "signal-SIGSEGV", None, None, None]


@pytest.mark.parametrize("number", ["1.0", "1e0"])
def test_number_that_is_written_as_a_float_is_that_task(slot: SlotHarness, number: str) -> None:
    """As libraries of JSON do that know no whole numbers."""
    ends, _ = slot.run_batch(script(f"say {number}"), [{}])
    assert classes(ends) == [None]


@pytest.mark.parametrize("number", ["true", '"1"', "1.5", "null", "1e999", "-1", "[1]"])
def test_failure_shows_a_line_that_was_ignored(slot: SlotHarness, number: str) -> None:
    """A program in the making says something, and is not understood."""
    text = f"""printf '%s\\n' '{{"id": {number}, "result": {{}}}}' >> $TASKQ_OUTCOMES"""
    ends, _ = slot.run_batch(script(text), [{}])
    assert classes(ends) == ["no-outcome"]
    assert f'"id": {number}' in (ends[0].error or "")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("only root mounts a disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


#: Says outcomes that are longer than a block of a disk, and overlooks whether that succeeds.
BOLD = """pad=$(printf %5000s x)
for n in $(cat "$1"); do
    test $n = 3 && dd if=/dev/zero of=$FILL bs=64k count=100
    printf '{"id":%s,"result":{"x":"%s"}}\\n' $n "$pad" >> $TASKQ_OUTCOMES
done; exit 0"""


def bold(fill: str) -> dict[str, Any]:
    """Return the bold script, whose third task fills the disk by this file."""
    handler = script(BOLD.replace("$FILL", fill), ordered=True, line="{task.n}")
    handler["argv"].append("{list}")
    return handler


def test_full_disk_is_the_fault_of_the_task_that_fills_it(small_disk: Path) -> None:
    with slot_in(small_disk, grace_s=1) as slot:
        ends, _ = slot.run_batch(bold("log"), [{}] * 20)
    assert classes(ends) == [None if number != 3 else "disk-full" for number in range(1, 21)]


def test_full_disk_of_others_charges_no_task(small_disk: Path) -> None:
    """Those without an outcome start again elsewhere, or go back."""
    with slot_in(small_disk, grace_s=1) as slot:
        ends, _ = slot.run_batch(bold(f"{small_disk}/others"), [{}] * 20)
    assert FAILED not in {end.outcome for end in ends}


def test_continuing_is_refused_where_there_is_no_checkpoint(slot: SlotHarness) -> None:
    answer = """'{"id":1,"error":"half","error_class":"part","verdict":"continue"}'"""
    ends, _ = slot.run_batch(script(f"echo {answer} >> $TASKQ_OUTCOMES"), [{}])
    assert classes(ends) == ["no-checkpoint"]
    assert not ends[0].continues


def test_task_that_the_kernel_kills_for_its_memory_is_named_so(slot: SlotHarness) -> None:
    """As when it has a start of its own: then the next attempt may have more."""
    text = """for n in $(cat "$1"); do test $n = 2 && kill -KILL $$; say $n; done"""
    its = script(text, line="{task.n}")
    its["argv"].append("{list}")
    ends, _ = slot.run_batch(its, [{}] * 3, memory=(1 << 30,))
    assert classes(ends) == [None, "out-of-memory", None]


def test_answers_to_an_earlier_start_count_for_no_task(slot: SlotHarness) -> None:
    """As of an engine that goes on with what it had when the start before failed."""
    code = """
import json, sys
sys.stdin.readline()
for line in sys.stdin:
    number = json.loads(line)["id"]
    for late in range(1, number):
        print(json.dumps({"id": late, "result": {"n": "late"}}))
    print(json.dumps({"id": number, "result": {"n": number}}), flush=True)
"""
    for first in (1, 4, 7):
        ends, _ = slot.run_batch(resident(code), [{}] * 3)
        assert [end.result for end in ends] == [{"n": first + at} for at in range(3)]
