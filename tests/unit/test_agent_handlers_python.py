from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.helpers.slot_harness import SlotHarness, python, slot_in, wait_for_exit
from tests.helpers.variants import rest_thorough


def test_child_prepares_once_for_a_revision(slot: SlotHarness, tmp_path: Path) -> None:
    """A receptor is loaded once, not per task; a changed campaign gets a child of its own."""
    journal = tmp_path / "journal"
    params = {"journal": str(journal)}
    sums, pids = [], set()
    for x in range(5):
        ended = slot.run(python("add", "prepare"), {"x": x}, params=params)
        assert ended.result is not None
        sums.append(ended.result["sum"])
        pids.add(ended.result["pid"])
        assert ("prepare_s" in ended.phases) == (x == 0)
        assert ended.phases["run_s"] >= 0
    assert sums == [100, 101, 102, 103, 104]
    assert journal.read_text() == f"{pids.pop()}\n"
    assert not pids
    slot.run(python("add", "prepare"), {"x": 1}, params={**params, "more": 1})
    assert len(set(journal.read_text().splitlines())) == 2


def test_folder_of_what_was_prepared_goes_with_it(slot: SlotHarness, tmp_path: Path) -> None:
    """Revisions must not add up on the disk."""
    for number in range(3):
        params = {"journal": str(tmp_path / "journal"), "number": number}
        result = slot.run(python("shared_is", "prepare"), params=params).result
        assert result is not None
        Path(result["folder"], "unpacked").write_text("a receptor")
        assert len(list(slot.scratch.rglob("unpacked"))) == 1


def test_parameters_are_shared_when_nothing_is_prepared(slot: SlotHarness) -> None:
    params = {"a": [1, None, "\u00e4"]}
    assert slot.run(python("shared_is"), params=params).result == params


def test_values_arrive_and_come_back_unchanged(slot: SlotHarness) -> None:
    payload = {"text": "\u00e4\n\u2028\U0001f600 \\u0000", "n": 2**70, "f": 0.1, "none": None}
    for value in (payload, {"large": "y" * 200_000}):
        assert slot.run(python("echo"), value).result == value


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("how", "outcome", "retry", "refused"),
    [
        ("Retry", FAILED, True, False),
        ("FailForGood", FAILED, False, False),
        ("jobs.Unlucky", FAILED, False, False),
        ("NodeBroken", RELEASED, True, True),
        ("ValueError", FAILED, True, False),
        ("SystemExit", FAILED, True, False),
        ("KeyboardInterrupt", FAILED, True, False),
    ],
)
def test_exception_says_what_follows(
    slot: SlotHarness, how: str, outcome: str, retry: bool, refused: bool
) -> None:
    """The child survives all of them; only for those that are no verdict there is a trace."""
    ended = slot.run(python("fail"), {"how": how})
    assert (ended.outcome, ended.retry, ended.refused) == (outcome, retry, refused)
    assert ended.error_class == how
    if how == "ValueError":
        assert ended.error == "bad value"
        assert "Traceback" in str(ended.tail)
        assert "jobs.py" in str(ended.tail)
    if retry is False:
        assert ended.tail is None
    assert "prepare_s" not in slot.run(python("fail"), {"how": how}).phases


@pytest.mark.parametrize(
    "what", rest_thorough(["list", "nan", "set", "huge", "reserved", "nul", "surrogate"], 2)
)
def test_result_that_cannot_be_stored_fails_for_good(slot: SlotHarness, what: str) -> None:
    ended = slot.run(python("answer"), {"what": what})
    assert (ended.outcome, ended.retry, ended.error_class) == (FAILED, False, "bad-result")


def test_nothing_returned_is_an_empty_result(slot: SlotHarness) -> None:
    assert slot.run(python("nothing")).result == {}


def test_escaped_text_is_no_nul(slot: SlotHarness) -> None:
    assert slot.run(python("answer"), {"what": "escaped"}).result == {"x": "\\u0000"}


def test_output_belongs_to_its_attempt(slot: SlotHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python, compiled code and grandchildren write arrives in order, and is no answer."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    for word in ("one", "two"):
        ended = slot.run(python("say"), {"word": word})
        assert ended.outcome == DONE
        assert ended.tail == f"python {word}\nc {word}\ngrandchild {word}\nno line end"


def test_crash_fails_the_task_and_the_next_gets_a_new_child(slot: SlotHarness) -> None:
    """The tail shows what was written last and where the interpreter was."""
    ended = slot.run(python("crash"))
    assert (ended.outcome, ended.retry, ended.error_class) == (FAILED, True, "signal-SIGSEGV")
    assert str(ended.tail).startswith("about to crash\nFatal Python error: Segmentation fault")
    assert "in crash" in str(ended.tail)
    assert slot.run(python("crash"), {}).phases["prepare_s"] > 0


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, (FAILED, True, False, "no-answer")),
        (1, (FAILED, True, False, "exit-1")),
        (65, (FAILED, False, False, "exit-65")),
        (69, (RELEASED, True, True, "exit-69")),
    ],
)
def test_exit_instead_of_an_answer_has_the_meaning_of_its_code(
    slot: SlotHarness, code: int, expected: tuple[Any, ...]
) -> None:
    ended = slot.run(python("leave"), {"code": code})
    assert (ended.outcome, ended.retry, ended.refused, ended.error_class) == expected


def test_child_that_died_between_two_tasks_is_replaced(slot: SlotHarness) -> None:
    for _ in range(2):
        ended = slot.run(python("add", "prepare"), {"x": 1}, params={"journal": "journal"})
        assert ended.result is not None
        assert "prepare_s" in ended.phases
        os.kill(ended.result["pid"], signal.SIGKILL)
        wait_for_exit(ended.result["pid"])


def test_copy_of_the_child_cannot_answer(slot: SlotHarness) -> None:
    """A fork that returns from the task would else answer a second time, for the next one."""
    for _ in range(3):
        assert slot.run(python("fork")).result == {"copy": False}
    assert slot.run(python("fork")).phases.keys() == {"run_s", "cpu_s", "peak_bytes"}


@pytest.mark.parametrize(
    ("handler", "text"),
    rest_thorough(
        [
            ({"target": "no_such_module:f"}, "named 'no_such_module'; `--path` of the agent names"),
            ({"target": "jobs:no_such_function"}, "no_such_function"),
            ({"target": "jobs:not_callable"}, "not callable"),
            ({"target": "jobs:add", "prepare": "jobs:no_such_function"}, "no_such_function"),
            ({"target": "broken_import:f"}, "a_library_that_is_not_installed"),
        ],
        2,
    ),
)
def test_missing_function_refuses_the_campaign(
    slot: SlotHarness, handler: dict[str, str], text: str
) -> None:
    """A wrong installation uses up no attempts, and says nothing about other campaigns."""
    ended = slot.run({"kind": "python", **handler})
    assert (ended.outcome, ended.refused, ended.node_broken) == (RELEASED, True, False)
    assert ended.error_class == "handler-not-found"
    assert text in str(ended.error)


@pytest.mark.parametrize(
    ("prepare", "how", "expected"),
    [
        ("prepare_badly", "ValueError", (RELEASED, True, "prepare-failed")),
        ("prepare_badly", "NodeBroken", (RELEASED, True, "NodeBroken")),
        ("prepare_badly", "Retry", (FAILED, False, "Retry")),
        ("prepare_badly", "FailForGood", (FAILED, False, "FailForGood")),
        ("prepare_crashing", "", (RELEASED, True, "prepare-failed")),
    ],
)
def test_failure_to_prepare_uses_up_no_attempts_of_tasks(
    slot: SlotHarness, prepare: str, how: str, expected: tuple[Any, ...]
) -> None:
    ended = slot.run(python("add", prepare), params={"how": how})
    assert (ended.outcome, ended.refused, ended.error_class) == expected
    if expected[-1] == "prepare-failed":
        assert "Traceback" in str(ended.tail) or "Fatal Python error" in str(ended.tail)


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["hold", "ignore_sigterm"])
def test_time_limit_holds_for_code_that_keeps_the_interpreters_lock(
    tmp_path: Path, target: str
) -> None:
    """Docking does so for minutes. The next task gets a new child."""
    ready = tmp_path / "ready"
    with slot_in(tmp_path, grace_s=0.3) as slot:
        ended, limit_s = slot.run_into_limit(python(target), {"ready": str(ready)}, ready)
        assert (ended.outcome, ended.error_class) == (FAILED, "time-limit")
        assert ended.phases["run_s"] < limit_s + 5
        slot.wait_until_alone()
        assert slot.run(python("nothing"), limit_s=60).outcome == DONE


def test_stopped_attempt_is_released(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with slot_in(tmp_path) as slot:
        with slot.stopped_once(ready.exists):
            ended = slot.run(python("hold"), {"ready": str(ready)})
        assert (ended.outcome, ended.error_class) == (RELEASED, "stopped")


def test_each_task_has_its_own_place(slot: SlotHarness) -> None:
    """Working folder, temporary files and variables are those of the task, not of the child."""
    seen = set()
    for number in range(3):
        result = slot.run(python("places"), key=f"k{number}", attempt=number).result
        assert result is not None
        environment = result["environment"]
        assert environment["TASKQ_SCRATCH"] == result["cwd"]
        assert (environment["TASKQ_KEY"], environment["TASKQ_ATTEMPT"]) == (
            f"k{number}",
            str(number),
        )
        assert Path(result["temporary"]).parent == Path(result["cwd"])
        assert not Path(result["cwd"]).exists()
        seen.add(result["cwd"])
    assert len(seen) == 3


def test_preparation_may_leave_files_for_all_tasks(slot: SlotHarness, tmp_path: Path) -> None:
    handler = python("shared_is", "prepare")
    for _ in range(2):
        result = slot.run(handler, params={"journal": str(tmp_path / "journal")}).result
        assert result is not None
        assert result["folder"] == result["temporary"]
        assert Path(result["folder"]).is_dir()


def test_working_folder_is_not_searched_for_modules(slot: SlotHarness) -> None:
    """What a payload leaves in its folder must not become the standard library of the next."""
    handler = {"kind": "python", "target": "sys:path.append"}
    assert slot.run(handler).error_class == "TypeError"
    ended = slot.run({"kind": "python", "target": "jobs:search_path"})
    assert ended.result is not None
    path = ended.result["path"]
    assert "" not in path
    assert not [entry for entry in path if str(slot.scratch) in entry]
