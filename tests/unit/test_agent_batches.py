"""Many tasks by one start: an outcome for each, and those found that make the program fail."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from taskq_agent.handlers import Ended
from taskq_agent.handlers.batch_kinds import AppendedLines
from taskq_agent.handlers.outcomes import Outcomes
from taskq_agent.handlers.processes import MAX_LINE_BYTES
from taskq_agent.protocol import DONE, FAILED, RELEASED, Task
from tests.helpers.paths import PAYLOADS
from tests.helpers.simulated_program import terms_of
from tests.helpers.slot_harness import SlotHarness, slot_in
from tests.helpers.waiting import wait_until

PROGRAM = str(PAYLOADS / "batcher.py")
KINDS = ("command", "process", "list", "generator")


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[SlotHarness]:
    with slot_in(tmp_path, grace_s=1) as harness:
        yield harness


def handler(kind: str, **more: Any) -> dict[str, Any]:
    """Return a handler that does what its tasks say, up to 100 of them by one start."""
    if kind == "command":
        its: dict[str, Any] = {"argv": [sys.executable, PROGRAM, "file", "{tasks}"]}
    elif kind == "process":
        its = {"argv": [sys.executable, PROGRAM, "lines", "1"]}
    else:
        target = "batcher:together" if kind == "list" else "batcher:one_by_one"
        kind, its = "python", {"target": target}
    return {"kind": kind, **its, "batch": 100, **more}


def payloads(folder: Path, *what: str, **more: Any) -> list[dict[str, Any]]:
    """Return a payload for each word."""
    log = str(folder / "starts")
    return [{"n": n, "do": do, "log": log, **more} for n, do in enumerate(what, 1)]


def starts(folder: Path) -> list[list[int]]:
    """Return the tasks of each start so far."""
    return [json.loads(line) for line in (folder / "starts").read_text().splitlines()]


def outcomes(ends: Sequence[Ended]) -> list[str]:
    return [end.outcome for end in ends]


def guilty(ends: Sequence[Ended]) -> list[int]:
    """Return the tasks that have failed, all others having succeeded."""
    assert {*outcomes(ends)} <= {DONE, FAILED}, ends
    return [number for number, end in enumerate(ends, 1) if end.outcome == FAILED]


@pytest.mark.parametrize("kind", KINDS)
def test_each_task_of_a_start_has_its_own_outcome(
    slot: SlotHarness, tmp_path: Path, kind: str
) -> None:
    ends, too_large_as = slot.run_batch(handler(kind), payloads(tmp_path, "well", "fail", "well"))
    assert outcomes(ends) == [DONE, FAILED, DONE]
    assert [end.result for end in ends[::2]] == [{"n": 1}, {"n": 3}]
    assert (ends[1].error, ends[1].error_class) in (("bad", "Odd"), ("bad", "ValueError"))
    assert all("run_s" in end.phases for end in ends)
    assert too_large_as == ""
    if kind != "process":  # this one takes its tasks one by one
        assert starts(tmp_path) == [[1, 2, 3]]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_task_that_kills_its_program_is_found_and_the_others_are_done(
    slot: SlotHarness, tmp_path: Path, kind: str
) -> None:
    what = ["well"] * 20
    what[6] = "die"
    ends, too_large_as = slot.run_batch(handler(kind), payloads(tmp_path, *what))
    assert guilty(ends) == [7]
    assert ends[6].error_class == "signal-SIGSEGV"
    assert ends[6].raised  # it says nothing about the host
    assert "dying of 7" in (ends[6].tail or "")
    assert too_large_as == ""


@pytest.mark.thorough
@pytest.mark.parametrize("number", [2, 8])
def test_several_tasks_that_kill_their_program_are_found(
    slot: SlotHarness, tmp_path: Path, number: int
) -> None:
    what = ["well"] * 40
    for count in range(number):
        what[3 * count + 1] = "die"
    ends, _ = slot.run_batch(handler("command", ordered=True), payloads(tmp_path, *what))
    assert guilty(ends) == [3 * count + 2 for count in range(number)]
    assert len(starts(tmp_path)) <= 2 * number + 1


def test_task_that_had_begun_is_the_only_suspect(slot: SlotHarness, tmp_path: Path) -> None:
    what = ["well"] * 60
    what[41] = "die"
    ends, _ = slot.run_batch(handler("command"), payloads(tmp_path, *what, marks=True))
    assert guilty(ends) == [42]
    assert starts(tmp_path) == [[*range(1, 61)], [42], [*range(43, 61)]]


def test_search_without_marks_takes_few_starts(slot: SlotHarness, tmp_path: Path) -> None:
    """Also if the program answers in another order."""
    argv = [sys.executable, PROGRAM, "file", "backwards", "{tasks}"]
    what = ["well"] * 64
    what[63] = "die"  # the first that it takes
    ends, _ = slot.run_batch(handler("command", argv=argv), payloads(tmp_path, *what))
    assert guilty(ends) == [64]
    assert len(starts(tmp_path)) <= math.log2(64) + 3


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["command", "list"])
def test_nobody_is_at_fault_if_tasks_fail_in_company_only(
    slot: SlotHarness, tmp_path: Path, kind: str
) -> None:
    tasks = payloads(tmp_path, *["well"] * 16, company=5)
    ends, too_large_as = slot.run_batch(handler(kind), tasks)
    assert outcomes(ends) == [DONE] * 16
    assert too_large_as == "signal-SIGKILL"


def test_task_without_outcome_after_a_good_end_fails_as_no_outcome(
    slot: SlotHarness, tmp_path: Path
) -> None:
    ends, _ = slot.run_batch(handler("command"), payloads(tmp_path, "well", "skip", "well"))
    assert guilty(ends) == [2]
    assert ends[1].error_class == "no-outcome"


def test_results_that_are_not_as_many_as_the_tasks_belong_to_none(
    slot: SlotHarness, tmp_path: Path
) -> None:
    tasks = payloads(tmp_path, *["well"] * 3)
    ends, _ = slot.run_batch(handler("list", target="batcher:too_few"), tasks)
    assert [end.error_class for end in ends] == ["no-outcome"] * 3
    assert "2 results for 3 tasks" in (ends[0].tail or "")


@pytest.mark.parametrize("kind", ["command", "process"])
def test_first_outcome_of_a_task_counts_and_foreign_lines_are_ignored(
    slot: SlotHarness, tmp_path: Path, kind: str
) -> None:
    ends, _ = slot.run_batch(handler(kind), payloads(tmp_path, "twice", "well"))
    assert [end.result for end in ends] == [{"n": 1}, {"n": 2}]


def test_torn_line_is_no_outcome(slot: SlotHarness, tmp_path: Path) -> None:
    ends, _ = slot.run_batch(handler("command"), payloads(tmp_path, "well", "torn", "well"))
    assert guilty(ends) == [2]
    assert (ends[1].error_class, ends[1].exit_code) == ("exit-3", 3)


def test_line_counts_once_its_end_is_written(tmp_path: Path) -> None:
    answered: list[int] = []
    said = Outcomes(
        dict.fromkeys((1, 2, 3), Task(1, 1, 1, "k", 1, "lease", {})),
        terms_of(3),
        None,
        str(tmp_path),
        lambda ends, _: answered.extend(number for number, _ in ends),
    )
    lines = AppendedLines(str(tmp_path / "outcomes"))
    with open(lines.path, "ab", buffering=0) as file:  # noqa: PTH123
        file.write(b'{"id": 1, "result": {}}\n{"id"')
        assert not lines.give_some(said)
        assert (answered, said.ignored) == ([1], 0)
        file.write(b': 2, "result": {}}\n' + b"x" * (MAX_LINE_BYTES + 1))
        while lines.give_some(said):
            pass
        assert answered == [1, 2]
        file.write(b'y\n{"id": 3, "result": {}}\n')
        assert not lines.give_some(said)
        assert (answered, said.ignored) == ([1, 2, 3], 1)
    lines.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("marks", "kind"), [(True, "command"), (False, "command"), (True, "process")]
)
def test_endless_task_is_found_by_its_time_limit(
    slot: SlotHarness, tmp_path: Path, kind: str, marks: bool
) -> None:
    its = handler(kind) if marks else handler(kind, batch_silence_s=1.5, ordered=True)
    tasks = payloads(tmp_path, "well", "hang", "well", marks=marks)
    ends, _ = slot.run_batch(its, tasks, limit_s=1.0 if marks else None)
    assert guilty(ends) == [2]
    assert ends[1].error_class == ("time-limit" if marks else "batch-silence")


@pytest.mark.parametrize("code", [69, 75])
def test_start_that_refuses_or_asks_for_another_try_is_not_divided(
    slot: SlotHarness, tmp_path: Path, code: int
) -> None:
    its = handler("command", argv=["sh", "-c", f"echo no GPU here; exit {code}"])
    ends, too_large_as = slot.run_batch(its, payloads(tmp_path, *["well"] * 9))
    assert outcomes(ends) == [RELEASED] * 9
    assert [end.refused for end in ends] == [True, *[False] * 8]
    assert not any(end.started for end in ends[1:])
    assert "no GPU here" in (ends[0].tail or "")  # the reason, for people
    assert too_large_as is None


def test_stopped_start_hands_back_what_has_no_outcome(slot: SlotHarness, tmp_path: Path) -> None:
    tasks = payloads(tmp_path, "well", "hang", "well", marks=True)
    with slot.stopped_once((tmp_path / "starts").exists):
        ends, _ = slot.run_batch(handler("command"), tasks)
    assert [end.outcome for end in ends[1:]] == [RELEASED, RELEASED]
    assert not ends[2].started


def test_lines_of_the_list_are_numbered(slot: SlotHarness) -> None:
    answer = '{{"id":%d,"result":{{"s":"%s"}}}}\\n'
    script = f'while read -r s n; do printf \'{answer}\' $n $s; done < "$1" >> "$TASKQ_OUTCOMES"'
    argv = ["sh", "-c", script, "sh", "{list}"]
    its = handler("command", argv=argv, line="{smiles} {task.n}")
    tasks = [{"smiles": "CCO"}, {}, {"smiles": "C\nC"}, {"smiles": "N"}]
    ends, _ = slot.run_batch(its, tasks)
    assert [end.result for end in (ends[0], ends[3])] == [{"s": "CCO"}, {"s": "N"}]
    assert [end.error_class for end in ends[1:3]] == ["placeholder-missing", "bad-argument"]


def test_program_that_is_not_there_refuses_the_campaign(slot: SlotHarness, tmp_path: Path) -> None:
    ends, _ = slot.run_batch(
        handler("command", argv=["no-such-program"]), payloads(tmp_path, "well", "well")
    )
    assert [(end.outcome, end.refused, end.error_class) for end in ends] == [
        (RELEASED, True, "command-not-found"),
        (RELEASED, False, None),
    ]


def test_resident_program_stays_for_the_next_batch(slot: SlotHarness, tmp_path: Path) -> None:
    for _ in range(3):
        ends, _ = slot.run_batch(handler("process"), payloads(tmp_path, *["well"] * 5))
        assert [end.result for end in ends] == [{"n": n} for n in range(1, 6)]
        found = slot.processes()
    assert len(found) == 1
    os.kill(found[0], 9)
    wait_until(lambda: not slot.processes())
    ends, _ = slot.run_batch(handler("process"), payloads(tmp_path, "well"))
    assert outcomes(ends) == [DONE]
