"""What many tasks of one start have used, and the output that they keep."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskq_agent.protocol import DONE, FAILED
from tests.helpers.slot_harness import SlotHarness, slot_in

#: Takes half a second of a processor, and 64 MiB, then answers all tasks at once; the second fails.
PROGRAM = """
import json, os, sys, time
kept = bytearray(64 << 20)
print("reading the model", flush=True)
while time.process_time() < 0.5:
    pass
tasks = [json.loads(line) for line in open(sys.argv[1])]
lines = [json.dumps({"id": one["id"], **(
    {"error": "bad", "verdict": "fail"} if one["id"] == 2 else {"result": {}})}) for one in tasks]
with open(os.environ["TASKQ_OUTCOMES"], "a") as outcomes:
    outcomes.write("".join(line + chr(10) for line in lines[:4]))
time.sleep(0.6)
with open(os.environ["TASKQ_OUTCOMES"], "a") as outcomes:
    outcomes.write("".join(line + chr(10) for line in lines[4:]))
"""


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[SlotHarness]:
    with slot_in(tmp_path, grace_s=1) as harness:
        yield harness


def handler(tmp_path: Path) -> dict[str, Any]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    return {"kind": "command", "argv": [sys.executable, str(program), "{tasks}"], "batch": 100}


def test_processor_time_is_shared_and_memory_is_that_of_the_start(
    slot: SlotHarness, tmp_path: Path
) -> None:
    ends, _ = slot.run_batch(handler(tmp_path), [{}] * 8)
    phases = [end.phases for end in ends]
    assert sum(phase["cpu_s"] for phase in phases) == pytest.approx(0.5, abs=0.4)
    for together in (phases[:4], phases[4:]):
        assert len({(record["cpu_s"], record["run_s"]) for record in together}) == 1
    assert phases[0]["cpu_s"] > phases[4]["cpu_s"]
    assert all(phase["peak_bytes"] > 64 << 20 for phase in phases)


@pytest.mark.thorough
def test_failed_tasks_keep_the_output_of_their_start_and_others_none(
    slot: SlotHarness, tmp_path: Path
) -> None:
    ends, _ = slot.run_batch(handler(tmp_path), [{}] * 8)
    assert [end.outcome for end in ends] == [DONE, FAILED, *[DONE] * 6]
    assert ends[1].tail == "reading the model\n"
    assert {end.tail for end in ends if end.outcome == DONE} == {None}
