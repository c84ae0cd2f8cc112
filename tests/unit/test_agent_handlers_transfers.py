"""Inputs before a task, large results after it, in one slot."""

from __future__ import annotations

import fcntl
import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from taskq_agent.handlers import Ended
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.helpers.blob_server import BlobSource
from tests.helpers.meanwhile import meanwhile
from tests.helpers.slot_harness import (
    PAYLOADS,
    SlotHarness,
    command,
    python,
    shell,
    slot_in,
    talker,
)
from tests.helpers.waiting import wait_until


@pytest.fixture
def slot(tmp_path: Path, source: BlobSource) -> Iterator[SlotHarness]:
    with slot_in(tmp_path, grace_s=1, blobs=source) as harness:
        yield harness


def test_command_finds_inputs_by_placeholder_and_environment(
    slot: SlotHarness, source: BlobSource
) -> None:
    """The file has the input's name, so that programs which look at suffixes are content."""
    inputs = {"a.txt": source.add(b"first"), "b": source.add(b"second")}
    ended = slot.run(command("cat", "{inputs.a.txt}", "{inputs.b}"), inputs=inputs)
    assert ended.result == {"stdout": "firstsecond"}
    assert "fetch_s" in ended.phases
    ended = slot.run(shell('echo "$1"; echo "$TASKQ_INPUTS"', "{inputs.a.txt}"), inputs=inputs)
    assert ended.result is not None
    assert Path(ended.result["a.txt"]).name == "a.txt"
    assert set(ended.result) == {"a.txt", "b"}
    assert source.moved() == 11


def test_python_finds_inputs_by_their_names(slot: SlotHarness, source: BlobSource) -> None:
    """By a function of ours, or in the environment."""
    inputs = {"a": source.add(b"first")}
    ended = slot.run(python("read_input"), {"name": "a"}, inputs=inputs)
    assert ended.result == {"text": "first", "names": ["a"]}
    ended = slot.run(python("read_input"), {"name": "b"}, inputs=inputs)
    assert ended.error == "the campaign has no input 'b'; it has ['a']"


def test_process_gets_the_paths_of_its_inputs(slot: SlotHarness, source: BlobSource) -> None:
    """In its first message, and in its arguments."""
    handler = {"kind": "process", "argv": [sys.executable, str(PAYLOADS / "talker.py")]}
    handler["argv"].append("{inputs.a}")  # type: ignore[attr-defined]  # it is the list
    ended = slot.run(handler, inputs={"a": source.add(b"first")})
    assert ended.result is not None
    assert Path(ended.result["prepared"]["inputs"]["a"]).read_text() == "first"
    for record in (handler, command("cat", "{inputs.a}")):
        ended = slot.run(record)
        assert (ended.outcome, ended.refused, ended.error_class) == (
            RELEASED,
            True,
            "no-such-input",
        )
        assert "taskq input add" in str(ended.error)


def test_inputs_are_fetched_once_and_stay_while_the_campaign_lasts(
    slot: SlotHarness, source: BlobSource
) -> None:
    """Later tasks of the campaign wait for nothing."""
    inputs = {"a": source.add(b"first")}
    assert "fetch_s" in slot.run(python("read_input"), {"name": "a"}, inputs=inputs).phases
    assert "fetch_s" not in slot.run(python("read_input"), {"name": "a"}, inputs=inputs).phases
    changed = {"a": source.add(b"other")}
    ended = slot.run(python("read_input"), {"name": "a"}, inputs=changed)
    assert ended.result == {"text": "other", "names": ["a"]}


def test_missing_input_refuses_the_campaign(slot: SlotHarness, source: BlobSource) -> None:
    """It is no fault of the task, nor of this node; when it can be had, work goes on."""
    wanted = source.add(b"first")
    stored = next((source.folder / "store").glob("??/*"))
    stored.rename(stored.with_name("hidden"))
    ended = slot.run(command("cat", "{inputs.a}"), inputs={"a": wanted})
    assert (ended.outcome, ended.refused, ended.node_broken) == (RELEASED, True, False)
    assert ended.error_class == "inputs-missing"
    assert "has no blob" in str(ended.error)
    stored.with_name("hidden").rename(stored)
    assert slot.run(command("cat", "{inputs.a}"), inputs={"a": wanted}).outcome == DONE


@pytest.mark.thorough
def test_transfer_that_breaks_is_tried_again_for_a_while(
    slot: SlotHarness, source: BlobSource
) -> None:
    """Then the task goes back."""
    data = b"x" * 50_000
    wanted = source.add(data)
    source.break_at = 20_000
    ended = slot.run(command("wc", "-c", "{inputs.a}"), inputs={"a": wanted})
    assert (ended.outcome, ended.started, ended.error_class) == (RELEASED, False, "inputs-missing")
    mend = threading.Timer(0.3, setattr, (source, "break_at", None))
    mend.start()
    assert slot.run(command("wc", "-c", "{inputs.a}"), inputs={"a": wanted}).outcome == DONE
    mend.join()
    assert source.moved() == len(data)


def test_stop_ends_a_transfer(slot: SlotHarness, source: BlobSource) -> None:
    """The task goes back, unbegun."""
    wanted = source.add(b"x" * 50_000)
    source.break_at = 20_000
    with slot.stopped_once(lambda: source.moved() == 20_000):
        ended = slot.run(command("true"), inputs={"a": wanted})
    assert (ended.outcome, ended.started, ended.error_class) == (RELEASED, False, "stopped")


@pytest.mark.thorough
def test_lock_that_a_payload_keeps_holds_nobody_up(
    slot: SlotHarness, source: BlobSource, tmp_path: Path
) -> None:
    """A container may lock what it may read: the input that it shares with other campaigns."""
    inputs = {"a": source.add(b"first")}
    assert slot.run(command("true"), inputs=inputs).outcome == DONE
    with (tmp_path / "cache" / inputs["a"].digest).open("rb") as file:
        slot.run(command("true"))  # which releases the input
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ended = slot.run(command("cat", "{inputs.a}"), inputs=inputs)
    assert (ended.outcome, ended.result) == (DONE, {"stdout": "first"})


def test_unfinished_file_that_somebody_keeps_holds_nobody_up(
    slot: SlotHarness, source: BlobSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner may be a payload, or an agent that is frozen: this slot fetches for itself."""
    monkeypatch.setattr("taskq_agent.inputs._STALLED_S", 0.3)
    given = source.add(b"first")
    (tmp_path / "cache").mkdir(0o700)
    with (tmp_path / "cache" / f"{given.digest}.part").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ended = slot.run(command("cat", "{inputs.a}"), inputs={"a": given})
    assert (ended.outcome, ended.result) == (DONE, {"stdout": "first"})


@pytest.mark.parametrize("harm", ["rm {0}", "rm {0}; echo x > {0}", "rm -rf $(dirname {0})"])
def test_input_that_a_payload_or_a_cleaner_removes_is_there_for_the_next_task(
    slot: SlotHarness, source: BlobSource, tmp_path: Path, harm: str
) -> None:
    """By its link, or in the cache: each attempt gets what was fetched."""
    given = source.add(b"first")
    for target in ("$1", '"$(readlink "$1")"'):
        script = harm.replace("{0}", target) + "; exit 0"
        handler = command("sh", "-c", 'cat "$1"; eval "$2"', "sh", "{inputs.a}", "{script}")
        for todo in (script, "exit 0"):
            ended = slot.run(handler, {"script": todo}, inputs={"a": given})
            assert (ended.outcome, ended.result) == (DONE, {"stdout": "first"})
    assert tmp_path.exists()


def test_cache_that_cannot_be_used_is_replaced_by_one_of_the_slot(
    slot: SlotHarness, source: BlobSource, tmp_path: Path
) -> None:
    """A payload may have spoilt the one that all agents of its user share."""
    (tmp_path / "cache").write_text("in the way")
    ended = slot.run(command("cat", "{inputs.a}"), inputs={"a": source.add(b"first")})
    assert (ended.outcome, ended.result) == (DONE, {"stdout": "first"})


@pytest.mark.parametrize("name", ["../a", "/etc/a", "..", ""])
def test_name_that_leads_elsewhere_is_refused(
    slot: SlotHarness, source: BlobSource, name: str
) -> None:
    """The server does not allow such names; the agent does not rely on that."""
    ended = slot.run(command("true"), inputs={name: source.add(b"first")})
    assert (ended.outcome, ended.error_class) == (RELEASED, "inputs-missing")


@pytest.mark.thorough
def test_time_for_transfers_is_not_the_tasks(slot: SlotHarness, source: BlobSource) -> None:
    """Its limit is for what the handler does."""
    source.delay_s = 3.1
    ended = slot.run(command("true"), inputs={"a": source.add(b"first")}, limit_s=3)
    assert ended.outcome == DONE
    assert ended.phases["fetch_s"] > 3


def uploaded(source: BlobSource, ended: Ended) -> Any:
    """Return the result that was uploaded, as the reference in a result says."""
    assert ended.outcome == DONE, ended
    assert ended.large is None
    assert ended.result is not None
    digest, size = ended.result["taskq_blob"]["digest"], ended.result["taskq_blob"]["size"]
    data = b"".join(source.store.read(digest))
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (digest, size)
    return json.loads(data)


def test_large_result_of_python_is_uploaded(slot: SlotHarness, source: BlobSource) -> None:
    """The limit is one of bytes: 262,144 as compact UTF-8, no more."""
    inline = (262_144 - len('{"x":""}')) // 2
    ended = slot.run(python("large"), {"length": inline})
    assert ended.result == {"x": "\u00e4" * inline}
    ended = slot.run(python("large"), {"length": inline + 1})
    assert uploaded(source, ended) == {"x": "\u00e4" * (inline + 1)}
    assert "upload_s" in ended.phases


def test_large_result_of_a_command_is_uploaded(slot: SlotHarness, source: BlobSource) -> None:
    """From its result file."""
    write = f'{sys.executable} -c \'print("[" + "1," * 500_000 + "1]")\''
    script = f'(printf \'{{"x": \'; {write}; echo "}}") > "$TASKQ_RESULT"; echo words'
    ended = slot.run(shell(script))
    assert uploaded(source, ended) == {"x": [1] * 500_001}
    assert ended.tail == "words\n"


def test_large_result_of_a_process_is_uploaded(slot: SlotHarness, source: BlobSource) -> None:
    """In its answer up to the limit of a line, else from its result file."""
    result = {"x": "y" * 300_000}
    assert uploaded(source, slot.run(talker(), {"lines": [{"result": result}]})) == result
    large = {"x": "y" * 3_000_000}
    payload = {"write_result": json.dumps(large), "lines": [{"result_file": True}]}
    assert uploaded(source, slot.run(talker(), payload)) == large
    ended = slot.run(talker(), {"lines": [{"result_file": True}]})
    assert (ended.outcome, ended.error_class) == (FAILED, "bad-result")


@pytest.mark.thorough
def test_upload_that_breaks_is_tried_again_without_end(tmp_path: Path, source: BlobSource) -> None:
    """What was computed is not thrown away: the patience for fetches has ended long before."""
    source.broken_writes = 1_000_000

    def mend(_: Event) -> None:
        wait_until(lambda: source.broken_writes < 1_000_000 - 3)
        source.broken_writes = 0

    with slot_in(tmp_path, blobs=source, patience_s=0.0) as slot, meanwhile(mend):
        assert uploaded(source, slot.run(python("large"), {"length": 200_000}))


def test_stop_ends_an_upload(slot: SlotHarness, source: BlobSource) -> None:
    """The attempt is handed back; until then the slot says since when the upload fails."""
    source.broken_writes = 1_000_000
    with slot.stopped_once(lambda: slot.runner.transfer_failure is not None):
        ended = slot.run(python("large"), {"length": 200_000})
    assert (ended.outcome, ended.started, ended.error_class) == (RELEASED, True, "stopped")
    assert slot.runner.transfer_failure is None


def test_without_a_queue_large_results_stay(tmp_path: Path) -> None:
    """As with `taskq-agent try`."""
    with slot_in(tmp_path) as slot:
        ended = slot.run(python("large"), {"length": 200_000})
        assert ended.result == {"x": "\u00e4" * 200_000}
        assert ended.large is None
