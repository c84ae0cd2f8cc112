"""Outcomes that a program overwrites or replaces: those that are left count, and it is named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq_agent.handlers.batch_kinds import AppendedLines
from taskq_agent.handlers.outcomes import Outcomes
from taskq_agent.protocol import DONE, FAILED, Task
from tests.helpers.simulated_program import terms_of
from tests.helpers.slot_harness import SlotHarness, shell, slot_in


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[SlotHarness]:
    with slot_in(tmp_path, grace_s=1) as harness:
        yield harness


def outcomes_of(tasks: int, folder: Path) -> tuple[Outcomes, list[int]]:
    """Return the outcomes of a start of so many tasks, and those that it has answered."""
    answered: list[int] = []
    said = Outcomes(
        dict.fromkeys(range(1, tasks + 1), Task(1, 1, 1, "k", 1, "lease", {})),
        terms_of(tasks),
        None,
        str(folder),
        lambda ends, _: answered.extend(number for number, _ in ends),
    )
    return said, answered


def line_of(number: int) -> str:
    return json.dumps({"id": number, "result": {}}) + "\n"


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[AppendedLines]:
    found = AppendedLines(str(tmp_path / "outcomes"))
    yield found
    found.close()


def replace_by(lines: AppendedLines, text: str) -> None:
    """Move a new file over that of the outcomes, as careful programs do."""
    new = Path(f"{lines.path}.new")
    new.write_text(text)
    new.replace(lines.path)


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
    sizes = (20, 20, 30, 10, 10)
    said, answered = outcomes_of(len(sizes), tmp_path)
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


def test_outcomes_count_in_files_that_are_moved_over_each_other(
    tmp_path: Path, lines: AppendedLines
) -> None:
    """Also what is still appended to the one before, and to the last one."""
    said, answered = outcomes_of(5, tmp_path)
    with Path(lines.path).open("a") as first:
        first.write(line_of(1))
        first.flush()
        lines.give_some(said)
        assert (answered, said.overwritten) == ([1], False)
        first.write(line_of(2))
        first.flush()
        replace_by(lines, line_of(3) + line_of(1))
        lines.give_some(said)
        assert (answered, said.overwritten) == ([1, 2, 3], True)
    with Path(lines.path).open("a") as last:
        last.write(line_of(4))
    lines.give_some(said)
    replace_by(lines, line_of(5))
    lines.give_some(said)
    assert (answered, said.ignored) == ([1, 2, 3, 4, 5], 0)


def test_program_may_move_all_its_outcomes_over_the_file_each_time(
    tmp_path: Path, lines: AppendedLines
) -> None:
    """What it repeats is not counted as ignored, or it would be ended for that."""
    tasks = 40
    said, answered = outcomes_of(tasks, tmp_path)
    for number in range(1, tasks + 1):
        begun = json.dumps({"id": number, "begun": True}) + "\n"
        replace_by(lines, "".join(map(line_of, range(1, number))) + begun + line_of(number))
        lines.give_some(said)
    assert (answered, said.ignored) == ([*range(1, tasks + 1)], 0)
    with Path(lines.path).open("a") as file:
        file.write(line_of(1) * (3 * tasks))
    lines.give_some(said)
    assert said.ignored == 3 * tasks - (tasks - 1), "their number is bounded"


@pytest.mark.parametrize("what", ["nothing", "a link", "a fifo", "a folder"])
def test_file_of_outcomes_that_is_no_file_any_more_is_not_read(
    tmp_path: Path, lines: AppendedLines, what: str
) -> None:
    """What its program still appends to the file that is gone counts; a new one is read again."""
    said, answered = outcomes_of(3, tmp_path)
    foreign = tmp_path / "foreign"
    foreign.write_text(line_of(3))
    with Path(lines.path).open("a") as first:
        Path(lines.path).unlink()
        if what == "a link":
            Path(lines.path).symlink_to(foreign)
        elif what == "a fifo":
            os.mkfifo(lines.path)
        elif what == "a folder":
            Path(lines.path).mkdir()
        lines.give_some(said)
        first.write(line_of(1))
        first.flush()
        lines.give_some(said)
    assert answered == [1]
    if what == "a folder":
        Path(lines.path).rmdir()
    replace_by(lines, line_of(2))
    lines.give_some(said)
    assert answered == [1, 2]


def test_failure_names_that_outcomes_are_replaced(slot: SlotHarness) -> None:
    line = r"""printf '{"id":%d,"result":{}}\n' $n > new; mv new $TASKQ_OUTCOMES"""
    handler = {**shell(f"for n in 1 2 3; do {line}; done"), "batch": 10}
    ends, _ = slot.run_batch(handler, [{}] * 4)
    assert [end.outcome for end in ends[2:]] == [DONE, FAILED]
    assert ">>" in (ends[3].error or "")
