"""Output files in one slot: what a payload leaves goes with its result, or the attempt says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskq_agent.archive import MAX_ENTRIES, OUTPUT, heading, members
from taskq_agent.errors import Refused, TransportFailed
from taskq_agent.handlers import Ended
from taskq_agent.handlers.kept_files import with_output_files
from taskq_agent.protocol import DONE, FAILED, RELEASED, Held, Input, Task
from taskq_agent.scratch import OUTPUT_FOLDER
from taskq_agent.try_command import LocalBlobs
from tests.helpers.open_files import room_for
from tests.helpers.slot_harness import SlotHarness, python, shell, slot_in, talker

MOST = 100_000


class FrailOutputs(LocalBlobs):
    """A store that is out of reach so many times, or has no room."""

    away = 0
    full = False

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store, if it can be reached."""
        if self.away:
            self.away -= 1
            raise TransportFailed("away")
        super().write_blob(digest, data)

    def save_output(self, held: Held, saved: Input) -> bool:
        """Save, if there is room."""
        if self.full:
            raise Refused("no room")
        return super().save_output(held, saved)


@pytest.fixture
def blobs() -> FrailOutputs:
    """Give a store."""
    return FrailOutputs()


@pytest.fixture
def slot(tmp_path: Path, blobs: FrailOutputs) -> Iterator[SlotHarness]:
    """Give a slot."""
    with slot_in(tmp_path, grace_s=1, blobs=blobs) as harness:
        yield harness


def run(slot: SlotHarness, handler: dict[str, Any], **more: Any) -> Ended:
    """Run an attempt of a campaign that keeps output files."""
    return slot.run(handler, **{"output_bytes": MOST, **more})


def files(blobs: LocalBlobs) -> dict[str, bytes | None]:
    """Return the output files of the task."""
    listed = members(blobs.outputs[7], heading(OUTPUT, 1, 7), MOST)
    return {"/".join(member.parts): member.content for member in listed}


def test_files_of_a_command_are_kept(slot: SlotHarness, blobs: FrailOutputs) -> None:
    """With those in folders; not those whose names begin with a dot, nor what links lead to."""
    script = (
        'cd "$TASKQ_OUT"; mkdir a; echo 1 > a/pose; echo 2 > b; echo 3 > .c;'
        " ln -s /etc/passwd d; mkfifo e; ln -s / f"
    )
    ended = run(slot, shell(f"{script}; echo '{{\"n\": 1}}'"))
    assert (ended.outcome, ended.result, ended.output) == (DONE, {"n": 1}, None)
    assert "upload_s" in ended.phases
    assert files(blobs) == {"a": None, "a/pose": b"1\n", "b": b"2\n"}


def test_python_and_process_learn_the_folder(slot: SlotHarness, blobs: FrailOutputs) -> None:
    """By a function, and in the message about the task."""
    ended = run(slot, python("leave_files"), payload={"files": {"x": "y"}})
    assert ended.result == {"kept": True}
    assert files(blobs) == {"x": b"y"}
    ended = run(slot, talker())
    assert ended.result is not None
    assert ended.result["message"]["task"]["out"].endswith("/taskq-out")


def test_campaign_without_output_files_has_no_folder(
    slot: SlotHarness, blobs: FrailOutputs
) -> None:
    """And nothing is uploaded."""
    ended = run(slot, shell('echo "${TASKQ_OUT-none}"'), output_bytes=None)
    assert ended.result == {"stdout": "none"}
    assert run(slot, python("leave_files"), output_bytes=None).result == {"kept": False}
    assert (blobs.written, blobs.outputs) == ({}, {})


def test_attempt_that_fails_or_leaves_nothing_uploads_nothing(
    slot: SlotHarness, blobs: FrailOutputs
) -> None:
    """Only results have files."""
    assert run(slot, shell('echo x > "$TASKQ_OUT/x"; exit 3')).outcome == FAILED
    assert run(slot, shell('rm -r "$TASKQ_OUT"; echo done')).outcome == DONE
    assert run(slot, shell("true")).outcome == DONE
    assert blobs.written == {}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("head -c 200000 /dev/zero > x", "larger than"),
        ("for i in $(seq 150); do echo > $i; done", "larger than"),
        (f"seq {MAX_ENTRIES + 1} | xargs touch", f"more than {MAX_ENTRIES} files"),
        ("i=0; while [ $i -le 25 ]; do mkdir d; cd d; i=$((i+1)); done; touch x", "nested more"),
        ("touch \"$(printf 'a\\033[2Jb')\"", "holds the name 'a\\x1b[2Jb'"),
        ("touch \"$(printf 'a\\nb')\"", "holds the name"),
        ("touch \"$(printf 'a\\377b')\"", "holds the name"),
    ],
)
def test_files_that_are_refused_fail_the_attempt_for_good(
    script: str, why: str, slot: SlotHarness, blobs: FrailOutputs
) -> None:
    """A result without them would look complete."""
    ended = run(slot, shell(f'cd "$TASKQ_OUT"; {script}'))
    error_class = "output-too-large" if why == "larger than" else "output-refused"
    assert (ended.outcome, ended.error_class, ended.retry) == (FAILED, error_class, False)
    assert ended.error is not None
    assert why in ended.error
    assert blobs.written == {}


def test_folder_with_names_without_end_costs_its_attempt_only(
    slot: SlotHarness, blobs: FrailOutputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not read to the end: the agent's memory is not limited like a task's."""
    monkeypatch.setattr("taskq_agent.archive.MOST_NAMES", 50)
    script = 'for n in $(seq 60); do ln -s x "$TASKQ_OUT/.$n"; done; touch "$TASKQ_OUT/pose"'
    ended = run(slot, shell(script))
    assert (ended.outcome, ended.error_class) == (FAILED, "output-refused")
    assert blobs.written == {}


def test_node_that_is_out_of_files_costs_an_attempt_at_most(tmp_path: Path) -> None:
    """Another one may find the files."""
    (tmp_path / OUTPUT_FOLDER).mkdir()
    (tmp_path / OUTPUT_FOLDER / "pose").touch()
    with room_for(0):
        ended = with_output_files(
            Ended(DONE, result={}), str(tmp_path), Task(1, 1, 7, "a", 1, "b", {}), MOST
        )
    assert (ended.outcome, ended.error_class, ended.retry) == (FAILED, "output-refused", True)


def test_folder_that_became_a_file_fails_the_attempt_only(slot: SlotHarness) -> None:
    """The agent goes on with the next one."""
    ended = run(slot, shell('rmdir "$TASKQ_OUT"; echo x > "$TASKQ_OUT"'))
    assert (ended.outcome, ended.error_class, ended.retry) == (FAILED, "output-refused", False)
    assert "it cannot be read" in str(ended.error)


@pytest.mark.parametrize(
    "script",
    [
        'rmdir "$TASKQ_OUT"; ln -s "$1" "$TASKQ_OUT"',
        'rm -r "$TASKQ_SCRATCH"; ln -s "${1%/*}" "$TASKQ_SCRATCH"',
    ],
)
def test_link_in_place_of_the_folder_is_not_followed(
    script: str, slot: SlotHarness, blobs: FrailOutputs, tmp_path: Path
) -> None:
    """It may lead to what the payload could not read itself."""
    secret = tmp_path / "node" / OUTPUT_FOLDER
    secret.mkdir(parents=True)
    (secret / "secret").write_text("x")
    ended = run(slot, shell(f'echo "{{}}"; {script}', str(secret)))
    assert (ended.outcome, blobs.written) == (FAILED, {})
    assert "is no folder, but a file or a link" in str(ended.error)


@pytest.mark.thorough
def test_store_that_is_away_is_waited_for(slot: SlotHarness, blobs: FrailOutputs) -> None:
    """The attempt is not made again."""
    blobs.away = 2
    leaves = shell('echo x > "$TASKQ_OUT/x"')
    assert run(slot, leaves).outcome == DONE
    assert files(blobs) == {"x": b"x\n"}


def test_without_room_the_task_goes_back(slot: SlotHarness, blobs: FrailOutputs) -> None:
    """It is not the task's fault: it costs no attempt, and this node takes others."""
    blobs.full = True
    ended = run(slot, shell('echo x > "$TASKQ_OUT/x"'))
    assert (ended.outcome, ended.error_class, ended.refused) == (RELEASED, "output-full", True)
    assert ended.error == "the output files are not kept: no room"
    assert not ended.node_broken


def test_large_result_has_files_too(slot: SlotHarness, blobs: FrailOutputs) -> None:
    """Both are uploaded."""
    script = 'echo x > "$TASKQ_OUT/x"; printf \'{"a": "\' > "$TASKQ_RESULT"'
    script += '; head -c 300000 /dev/zero | tr "\\0" b >> "$TASKQ_RESULT"'
    ended = run(slot, shell(script + '; printf \'"}\' >> "$TASKQ_RESULT"'))
    assert ended.result is not None
    assert ended.result["taskq_blob"]["size"] > 300_000
    assert files(blobs) == {"x": b"x\n"}
    assert len(blobs.written) == 2
