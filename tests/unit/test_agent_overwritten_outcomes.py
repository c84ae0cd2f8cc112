"""Outcomes that a program writes over each other: those that are left count, and it is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq_agent.handlers.batch import Outcomes
from taskq_agent.handlers.batch_kinds import AppendedLines
from taskq_agent.protocol import DONE, FAILED, Task
from tests.helpers.simulated_program import terms_of
from tests.helpers.slot_harness import SlotHarness, shell, slot_in


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[SlotHarness]:
    with slot_in(tmp_path, grace_s=1) as harness:
        yield harness


def test_failure_names_that_outcomes_are_overwritten(slot: SlotHarness) -> None:
    """The last one is always seen, those before it only if the agent was quick."""
    line = r"""printf '{"id":%d,"result":{}}\n' $n > $TASKQ_OUTCOMES"""
    handler = {**shell(f"for n in 1 2 3; do {line}; done"), "batch": 10}
    ends, _ = slot.run_batch(handler, [{}] * 4)
    assert [end.outcome for end in ends[2:]] == [DONE, FAILED]
    failed = [end for end in ends if end.outcome == FAILED]
    assert {end.error_class for end in failed} == {"no-outcome"}
    assert all(">>" in (end.error or "") for end in failed)


def test_failure_says_nothing_of_overwriting_where_lines_are_appended(slot: SlotHarness) -> None:
    handler = {**shell("""echo '{"id":1,"result":{}}' >> $TASKQ_OUTCOMES"""), "batch": 10}
    ends, _ = slot.run_batch(handler, [{}] * 2)
    assert [end.error_class for end in ends] == [None, "no-outcome"]
    assert ">>" not in (ends[1].error or "")


@pytest.mark.parametrize("pad", [0, 10_000], ids=["short", "longer than the head"])
def test_outcomes_between_two_looks_count_however_they_are_written(
    tmp_path: Path, pad: int
) -> None:
    """Longer, as long as, or shorter than what they replace."""
    answered: list[int] = []
    sizes = (20, 20, 30, 10, 10)
    said = Outcomes(
        dict.fromkeys(range(1, len(sizes) + 1), Task(1, 1, 1, "k", 1, "lease", {})),
        terms_of(len(sizes)),
        None,
        str(tmp_path),
        lambda ends, _: answered.extend(number for number, _ in ends),
    )
    lines = AppendedLines(str(tmp_path / "outcomes"))
    for number, size in enumerate(sizes, 1):
        line = json.dumps({"id": number, "result": {"x": "x" * (size + pad)}})
        Path(lines.path).write_text(f"{line}\n")
        lines.give_some(said)
        assert (answered, said.overwritten) == ([*range(1, number + 1)], True)
    lines.close()
    assert said.ignored == 0


def test_outcomes_of_a_file_that_is_opened_once_for_writing_all_count(slot: SlotHarness) -> None:
    line = r"""printf '{"id":%d,"result":{}}\n' $n"""
    handler = {**shell(f"for n in 1 2 3; do {line}; sleep 0.2; done > $TASKQ_OUTCOMES")}
    ends, _ = slot.run_batch({**handler, "batch": 10}, [{}] * 3)
    assert [end.outcome for end in ends] == [DONE] * 3
