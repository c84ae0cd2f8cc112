"""No call spoils its process for the calls behind it, whatever it leaves there."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from taskq_agent import buffers, typed
from taskq_agent.handlers.base import Ended
from taskq_agent.handlers.calls import RAISED
from taskq_agent.protocol import DONE, FAILED, CampaignTerms, Task
from taskq_agent.try_command import LocalBlobs
from tests.helpers.open_files import room_for
from tests.helpers.slot_harness import SlotHarness, process, slot_in
from tests.helpers.variants import rest_thorough
from tests.payloads.spoiling import ALARMS, SPOILERS

PYTHON = {"kind": "python", "target": "spoiling:call"}
FUNCTION = {"kind": "function", "name": "spoiling.act", "target": "spoiling:act"}
TERMS = CampaignTerms(1, 1, "/calls", FUNCTION, {}, None)
#: These end the process, and so all calls of their chunk.
DEADLY = ("the end of the process", "a crash", "close all files", "all built-in names")
#: These stay until the chunk has ended: only another process is without them.
STAYING = ("a thread", "a thread that keeps the process")
ALL = list(SPOILERS)


def python(slot: SlotHarness, *acts: str, attempt: int = 1, **handler: Any) -> list[Ended]:
    """Run calls one by one, as a handler of the kind `python`."""
    return [slot.run({**PYTHON, **handler}, {"what": act}, attempt=attempt) for act in acts]


def tasks_of(*acts: str) -> list[Task]:
    return [
        Task(1, 1, number, f"key {number}", 1, "lease", typed.encode_call((name,), {}, None))
        for number, name in enumerate(acts, 1)
    ]


def together(slot: SlotHarness, *acts: str) -> list[Ended]:
    """Run calls with one message for as many as go together; what goes back is run again."""
    ends: list[Ended] = []
    tasks = tasks_of(*acts)
    while tasks:
        if len(tasks) == 1:
            ends.append(slot.runner.run(tasks[0], TERMS))
            break
        over = slot.runner.run_several(tasks, TERMS, lambda its, _, __: ends.extend(its))
        if over is not None:
            ends.append(over)
        tasks = tasks[len(ends) - len(acts) + len(tasks) :]
    return ends


def chunk(slot: SlotHarness, *acts: str) -> list[Any]:
    """Run calls as one task; return the values."""
    calls = [typed.encode_call((act,), {}, None) for act in acts]
    task = Task(1, 1, 1, "chunk", 1, "lease", {"args": [{"$calls": calls}]})
    ended = slot.runner.run(task, TERMS)
    assert ended.outcome == DONE, ended
    assert ended.result is not None
    values: list[Any] = ended.result["value"]["$calls"]
    return values


def values(ends: Sequence[Ended]) -> list[Any]:
    return [None if end.result is None else end.result.get("value") for end in ends]


@pytest.mark.thorough
@pytest.mark.parametrize("spoiler", rest_thorough(ALL, 12))
def test_call_spoils_nothing_for_the_next(slot: SlotHarness, spoiler: str) -> None:
    """Neither if it is the first one of its process."""
    before, _, after, again = python(slot, "look", spoiler, "look", "look")
    assert before.outcome == DONE, before
    assert values([after, again]) == values([before, before])
    assert [after.tail, again.tail] == ["looking\n", "looking\n"]


@pytest.mark.thorough
@pytest.mark.parametrize("spoiler", rest_thorough(ALL, 12))
def test_first_call_spoils_nothing_for_the_next(slot: SlotHarness, spoiler: str) -> None:
    _, after = python(slot, spoiler, "look")
    (fresh,) = python(slot, "look", tasks_per_child=1)
    assert values([after]) == values([fresh])


@pytest.mark.thorough
@pytest.mark.parametrize("spoiler", rest_thorough(ALL, 12))
def test_call_spoils_nothing_for_those_of_the_same_message(slot: SlotHarness, spoiler: str) -> None:
    """Behind one that takes long enough for a look on a busy machine."""
    ends = together(slot, "nothing", "look", "pause", spoiler, "look", "look")
    assert len(ends) == 6
    assert ends[1].outcome == DONE
    assert values(ends[4:]) == [values(ends)[1]] * 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    "spoiler", rest_thorough([name for name in ALL if name not in (*DEADLY, *STAYING)], 12)
)
def test_call_spoils_nothing_for_those_of_its_chunk(slot: SlotHarness, spoiler: str) -> None:
    """Behind one that takes long enough for a look on a busy machine."""
    ends = chunk(slot, "nothing", "look", "pause", spoiler, "look", "look")
    assert len(ends) == 6
    assert ends[4:] == [ends[1]] * 2


def test_no_call_fails_by_a_short_one_before_it(slot: SlotHarness) -> None:
    """Such are too short for a look after each: what fails behind them runs again."""
    acts = ["nothing", "a built-in function", "say and choose"] * 200
    ends = together(slot, *acts)
    assert [end.outcome for end in ends] == [DONE] * len(acts)
    assert {str(end.tail).count("said") for end in ends[2::3]} == {1}
    assert {str(end.tail).count("said") for end in [*ends[::3], *ends[1::3]]} == {0}
    assert chunk(slot, *acts) == [None, "done", 3] * 200


@pytest.mark.parametrize("spoiler", rest_thorough([name for name in ALL if name not in DEADLY], 6))
def test_no_call_fails_by_what_a_short_one_has_changed(slot: SlotHarness, spoiler: str) -> None:
    """In whatever way; but it may see the change, if it works nevertheless."""
    acts = [*["nothing"] * 40, spoiler, "look"] * 3
    ends = together(slot, *acts)
    failed = {act for act, end in zip(acts, ends, strict=True) if end.outcome != DONE}
    assert failed <= {spoiler}
    if spoiler not in STAYING:
        pairs = zip(acts, chunk(slot, *acts), strict=True)
        assert {act for act, pair in pairs if isinstance(pair, dict) and RAISED in pair} <= {
            spoiler
        }


@pytest.mark.parametrize("spoiler", ["alarm", "an end that comes later"])
def test_no_call_is_ended_by_a_short_one_before_it(slot: SlotHarness, spoiler: str) -> None:
    ends = together(slot, *["nothing"] * 200, spoiler, "sleep")
    assert {end.outcome for end in ends} == {DONE}


def test_no_call_fails_by_the_alarm_of_another(slot: SlotHarness) -> None:
    """At whatever moment it raises: neither what runs between calls, nor calls of a chunk."""
    acts = [act for alarm in ALARMS for act in (*["nothing"] * 5, alarm, "look")]
    ends = together(slot, *acts)
    failed = {act for act, end in zip(acts, ends, strict=True) if end.outcome != DONE}
    assert failed <= ALARMS.keys()
    pairs = zip(acts, chunk(slot, *acts), strict=True)
    assert {
        act for act, pair in pairs if isinstance(pair, dict) and RAISED in pair
    } <= ALARMS.keys()


def test_files_that_calls_leave_open_fail_no_other(slot: SlotHarness) -> None:
    """Neither one by one, nor together, nor in a chunk that leaves more than a process may have."""
    many = 1_100
    for what in ("leak", "leak behind another"):
        ends = together(slot, *[what] * many)
        assert [end for end in ends if end.outcome != DONE] == []
        assert chunk(slot, *[what] * many) == [None] * many


@pytest.mark.parametrize("what", ["leak", "leak behind another"])
def test_files_that_calls_leave_open_fail_no_other_where_few_may_be_open(
    slot: SlotHarness, what: str
) -> None:
    """The last free number is gone before anybody has counted; the process still writes."""
    many = 100
    with room_for(70):
        ends = together(slot, *[what] * many)
        assert [end for end in ends if end.outcome != DONE] == []
        assert chunk(slot, *[what] * many) == [None] * many


@pytest.mark.thorough
def test_processes_that_calls_leave_end_with_their_own(slot: SlotHarness) -> None:
    """Also if they have ended and nobody has waited for them: a node has room for so many."""
    ends = together(slot, "pid", *["leave a process"] * 2_000, "pid")
    assert {end.outcome for end in ends} == {DONE}
    assert values(ends)[0] != values(ends)[-1]


def test_large_values_of_a_chunk_outlive_its_process(tmp_path: Path) -> None:
    """The next process goes on with the values that the first has left, as they are."""
    blobs = LocalBlobs()
    acts = ["large", "large", "open 600 files", "large", "pid"]
    with slot_in(tmp_path, blobs=blobs) as slot:
        calls = [typed.encode_call((act,), {}, None) for act in acts]
        task = Task(1, 1, 1, "chunk", 1, "lease", {"args": [{"$calls": calls}]})
        ended = slot.runner.run(task, TERMS)
    assert ended.outcome == DONE, ended
    assert "open files" in str(ended.tail)
    assert ended.result is not None
    (data,) = [blobs.written[record["digest"]] for record in ended.result.values()]
    held = buffers.json_of(bytearray(data), buffers.as_view)["value"]["$calls"]
    assert [typed.decode(attempt) for attempt in held][:4] == [b"x" * 600_000] * 2 + [
        "done",
        b"x" * 600_000,
    ]


def test_cache_of_a_child_survives_calls_whose_changes_are_undone(slot: SlotHarness) -> None:
    """A cache outlives calls that change their process in ways that are put back."""
    mild = ["umask", "alarm", "close stdout", "close 1", "set a variable", "sys.path", "chdir"]
    acts = [act for name in mild for act in (name, "receptor")]
    first, *others = python(slot, "receptor", *acts)
    assert values(others)[1::2] == values([first]) * len(mild)


def test_changes_that_each_call_makes_do_not_end_the_process(slot: SlotHarness) -> None:
    """The first child ends, since its first call may have spoilt it; the next one is kept."""
    ends = python(slot, *["need"] * 20)
    assert values(ends) == ["here:/opt/tools"] * 20
    assert ["prepare_s" in end.phases for end in ends] == [True, True] + [False] * 18
    assert "the next task gets a new process" in str(ends[0].tail)
    assert {end.tail for end in ends[1:]} == {None}


def test_calls_that_fail_in_a_row_get_a_new_process(slot: SlotHarness) -> None:
    """Nobody sees what has broken a module; that few calls fail which did not before is enough."""
    ends = python(slot, *["nothing"] * 10, "break", *["fail if broken"] * 100)
    failed = [end for end in ends if end.outcome == FAILED]
    assert len(failed) == 3
    assert "3 failures in a row" in str(failed[-1].tail)


def test_calls_of_a_message_that_fail_in_a_row_go_back(slot: SlotHarness) -> None:
    ends = together(slot, *["nothing"] * 10, "break", *["fail if broken"] * 200)
    assert sum(end.outcome == FAILED for end in ends) == 3


def test_calls_of_a_chunk_that_fail_in_a_row_run_again_in_a_new_process(slot: SlotHarness) -> None:
    ends = chunk(slot, *["nothing"] * 10, "break", *["fail if broken"] * 100)
    assert ends[11:] == ["whole"] * 100
    at_fault = chunk(slot, *["nothing"] * 10, *["fail"] * 100, "nothing")
    assert [isinstance(value, dict) for value in at_fault] == [False] * 10 + [True] * 100 + [False]


def test_functions_that_always_fail_keep_their_process(slot: SlotHarness) -> None:
    """A new one would fail as well: only one is tried, or two."""
    ends = python(slot, *["fail"] * 60)
    assert sum("prepare_s" in end.phases for end in ends) <= 3


def test_retry_gets_a_new_process(slot: SlotHarness) -> None:
    before, _, failed = python(slot, "pid", "break", "fail if broken")
    (again,) = python(slot, "fail if broken", attempt=2)
    assert (failed.outcome, again.outcome) == (FAILED, DONE)
    assert before.outcome == DONE


def test_process_ends_after_as_many_tasks_as_it_may_run(slot: SlotHarness) -> None:
    """Also in one message."""
    ends = python(slot, *["pid"] * 7, tasks_per_child=3)
    pids = values(ends)
    assert [pids.count(fromkey) for fromkey in dict.fromkeys(pids)] == [3, 3, 1]


def test_program_that_only_fails_is_replaced(slot: SlotHarness, tmp_path: Path) -> None:
    """As `python`: after a few errors in a row, for a retry, after `tasks_per_child`."""
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys\n"
        "broken = False\n"
        "next(sys.stdin)\n"
        "for line in sys.stdin:\n"
        "    about = json.loads(line)\n"
        "    broken = broken or 'break' in about['payload']\n"
        "    end = {'error': 'broken'} if broken else {'result': {'pid': os.getpid()}}\n"
        "    print(json.dumps({'id': about['id'], **end}), flush=True)\n"
    )
    handler = process(program)
    outcomes = [slot.run(handler, {"break": 1} if n == 5 else {}).outcome for n in range(40)]
    assert outcomes.count(FAILED) <= 5
    assert outcomes[-30:] == [DONE] * 30
    assert slot.run(handler, {"break": 1}).outcome == FAILED
    assert slot.run(handler, attempt=2).outcome == DONE
    few = {**handler, "tasks_per_child": 2}
    pids = [(slot.run(few).result or {})["pid"] for _ in range(4)]
    assert (pids[0], pids[2]) == (pids[1], pids[3])
    assert pids[1] != pids[2]


def test_users_and_admins_see_why_a_process_was_replaced(
    slot: SlotHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log of the call that caused it, and in the agent's; no failure blames the host."""
    caplog.set_level(logging.INFO)
    _, left, put_back = python(slot, "nothing", "open 600 files", "umask")
    assert left.outcome == DONE
    assert " open files" in str(left.tail)
    assert "the process of /tests ends" in caplog.text
    (_, put_back) = python(slot, "nothing", "umask")
    assert put_back.tail == "taskq: put back after this call: the file mode mask\n"
