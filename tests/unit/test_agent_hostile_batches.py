"""What a payload of many tasks can write to its agent: bounded in memory and time, and ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskq_agent import procfs
from taskq_agent.handlers import Ended
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.helpers.blob_server import BlobSource
from tests.helpers.slot_harness import SlotHarness, shell, slot_in

MIB = 1 << 20
#: More than an agent needs to read, and less than any of these would take without a bound.
ROOM_BYTES = 150 * MIB


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[SlotHarness]:
    with slot_in(tmp_path, grace_s=1) as harness:
        yield harness


def batch(handler: dict[str, Any]) -> dict[str, Any]:
    """Return a handler that gets up to 1,000 tasks by one start."""
    return {**handler, "batch": 1_000}


def script(text: str) -> dict[str, Any]:
    """Return a shell script that gets up to 1,000 tasks; $O is its file of outcomes."""
    return batch(shell(f"O=$TASKQ_OUTCOMES; {text}"))


def resident(code: str) -> dict[str, Any]:
    """Return a resident program that gets up to 1,000 tasks."""
    argv = [sys.executable, "-c", code.replace("{", "{{").replace("}", "}}")]
    return batch({"kind": "process", "argv": argv})


def grown(peak_before: int) -> int:
    return procfs.peak_bytes(os.getpid()) - peak_before


def size_now() -> int:
    """Return the memory of this process, and let its peak begin there."""
    procfs.forget_peak(os.getpid())
    return procfs.peak_bytes(os.getpid())


def the_end(ends: list[Ended]) -> tuple[str, str | None]:
    (end,) = ends
    return end.outcome, end.error_class


FLOODS = {
    "line ends": r"head -c 400000000 /dev/zero | tr '\0' '\n' >> $O",
    "one line": "head -c 400000000 /dev/zero >> $O",
    "lines that are no answers": "yes x | head -c 400000000 >> $O",
    "one begin again and again": """yes '{"id":1,"begun":true}' | head -c 400000000 >> $O""",
    "hole of terabytes": "truncate -s 4T $O",
    "without end": "yes x >> $O",
}


@pytest.mark.thorough
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
def test_flood_of_lines_ends_the_start_and_costs_little_memory(
    slot: SlotHarness, flood: str
) -> None:
    """It is read a piece at a time, and given up where the pieces say too little."""
    before = size_now()
    ends, _ = slot.run_batch(script(flood), [{}])
    assert the_end(ends) == (FAILED, "bad-answer")
    assert grown(before) < ROOM_BYTES


def test_outcomes_within_much_else_count(slot: SlotHarness) -> None:
    """A program that also says other things is not punished for some of it."""
    talk = r"""yes another-line | head -n 50000 >> $O; printf '{"id":1,"result":{"n":1}}\n' >> $O"""
    ends, _ = slot.run_batch(script(talk), [{}])
    assert the_end(ends) == (DONE, None)


@pytest.mark.parametrize("said", ["no answer", '{"id": 1, "begun": true}'])
def test_resident_program_that_talks_without_end_can_be_stopped(
    slot: SlotHarness, tmp_path: Path, said: str
) -> None:
    """However busy it keeps its slot."""
    ready = tmp_path / "ready"
    line = f"{said}\n" * 100
    code = (
        "import sys, pathlib, time\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "while True:\n"
        f"    sys.stdout.write({line!r}); sys.stdout.flush(); time.sleep(0.0005)\n"
    )
    with slot.stopped_once(ready.exists):
        ends, _ = slot.run_batch(resident(code), [{}, {}])
    assert [end.outcome for end in ends] == [RELEASED, RELEASED]


def test_resident_program_that_says_nothing_of_use_is_given_up(slot: SlotHarness) -> None:
    before = size_now()
    code = "import sys\nwhile True: sys.stdout.write('x\\n' * 100_000)"
    ends, _ = slot.run_batch(resident(code), [{}])
    assert the_end(ends) == (FAILED, "bad-answer")
    assert grown(before) < ROOM_BYTES


@pytest.mark.thorough
def test_large_results_that_come_together_are_in_memory_one_after_the_other(
    tmp_path: Path,
) -> None:
    """50 of 8 MiB each, said in one breath."""
    count, size = 50, 8 * MIB
    text = f"""printf '{{"x":"' > r; head -c {size} /dev/zero | tr '\\0' a >> r; printf '"}}' >> r
    for n in $(seq {count}); do
        ln r $n/taskq-result.json; echo '{{"id":'$n',"result_file":true}}'
    done > said; cat said >> $O"""
    with slot_in(tmp_path, grace_s=1, blobs=BlobSource(tmp_path)) as slot:
        before = size_now()
        ends, _ = slot.run_batch(script(text), [{}] * count)
    assert [end.outcome for end in ends] == [DONE] * count
    assert grown(before) < ROOM_BYTES
