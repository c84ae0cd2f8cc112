"""Many tasks by one start: its time limits exclude what the agent does with its outputs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq_agent.protocol import DONE
from taskq_agent.try_command import LocalBlobs
from tests.helpers.slot_harness import SlotHarness, slot_in

LIMIT_S = 2.0

#: Answers the first task and begins the second at once, which ends after the upload for the first.
PROGRAM = """
import json, pathlib, sys, time
messages = map(json.loads, iter(sys.stdin.readline, ""))
tasks = (message for message in messages if "task" in message)
first, second = next(tasks), next(tasks)
pathlib.Path(first["task"]["out"], "pose").write_text("x")
lines = [{"id": first["id"], "result": {}}, {"id": second["id"], "begun": True}]
sys.stdout.write("".join(json.dumps(line) + chr(10) for line in lines))
sys.stdout.flush()
time.sleep(3.5)
print(json.dumps({"id": second["id"], "result": {}}), flush=True)
sys.stdin.read()
"""


class SlowBlobs(LocalBlobs):
    """A store for which each upload takes longer than a task may."""

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store it late."""
        time.sleep(1.5 * LIMIT_S)
        super().write_blob(digest, data)


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[SlotHarness]:
    with slot_in(tmp_path, grace_s=1, blobs=SlowBlobs()) as harness:
        yield harness


def test_upload_of_outputs_counts_for_no_limit_of_a_start(
    slot: SlotHarness, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    handler = {
        "kind": "process",
        "argv": [sys.executable, "-S", "-E", str(program)],
        "batch": 10,
        "batch_limit_s": LIMIT_S,
        "batch_silence_s": LIMIT_S,
    }
    ends, too_large_as = slot.run_batch(handler, [{}, {}], limit_s=LIMIT_S, output_bytes=100_000)
    assert [end.outcome for end in ends] == [DONE, DONE], [end.error for end in ends]
    assert None not in slot.begun  # nothing has started again
    assert too_large_as == ""
